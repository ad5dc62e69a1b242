// Graphs that users hold: a function captured once, to be looked at, changed, differentiated, saved, and run without
// the program that it was captured from.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "smolder/ir/user_op.h"
#include "smolder/lazy/call.h"
#include "smolder/nn/module.h"

namespace smolder {

class Graph;
namespace graph {
struct State;
}

/// The description of a value of a graph. Extents are text: "64", or of the names of dynamic sizes, as "2*batch".
struct GraphValue {
  std::string name;  ///< "%3", as printed
  DType dtype = DType::kFloat32;
  bool is_number = false;
  std::vector<std::string> shape;
};

/// A node of a graph as it was when asked for.
struct GraphNode {
  std::string op;
  std::vector<std::string> inputs;  ///< "%3"; "_" where an optional operand is absent
  std::vector<GraphValue> outputs;
  std::vector<std::pair<std::string, std::string>> attributes;  ///< by name, as printed: {"dim", "[1]"}
  std::string source;                                           ///< "model.py:12 in forward"; empty when unknown

  /// The first result's name, by which edits name the node.
  const std::string& name() const { return outputs.at(0).name; }
};

/// An argument of a node to be made: a value of the graph by its name, a list of these, or a number or attribute as
/// OpHandle takes it.
class NodeArgument {
 public:
  struct ValueName {
    std::string name;
  };
  /// Left out: the default.
  NodeArgument() : left_out_(true) {}
  NodeArgument(ValueName value) : values_{std::move(value.name)} {}
  NodeArgument(std::vector<ValueName> list) : is_list_(true) {
    for (ValueName& v : list) values_.push_back(std::move(v.name));
  }
  NodeArgument(lazy::CallArgument argument) : other_(std::move(argument)) {}
  template <class T>
    requires std::convertible_to<T, lazy::CallArgument> && (!std::convertible_to<T, Tensor>)
  NodeArgument(const T& argument) : other_(lazy::CallArgument(argument)) {}

  const std::vector<std::string>& values() const { return values_; }
  bool is_list() const { return is_list_; }
  bool left_out() const { return left_out_; }
  const std::optional<lazy::CallArgument>& other() const { return other_; }

 private:
  std::vector<std::string> values_;
  bool is_list_ = false, left_out_ = false;
  std::optional<lazy::CallArgument> other_;
};
/// `value("%3")` as an argument.
inline NodeArgument::ValueName value(std::string name) { return {std::move(name)}; }

/// How a graph is saved.
struct SaveOptions {
  bool weights = true;  ///< false: the file has the graph alone, and weights are bound when it is loaded
};

/// A captured function: ops over inputs and named weights. A value: copies are cheap, and an edit of one is not seen by
/// another. Weights are shared tensors. Used by one thread at a time.
class Graph {
 public:
  /// A graph that takes and gives nothing.
  Graph();

  // -- what it is

  /// Names of what run() takes and returns, in order.
  const std::vector<std::string>& input_names() const;
  const std::vector<std::string>& output_names() const;
  /// Weights by name, undefined where none is bound.
  nn::Named<Tensor> weights() const;
  /// Names of dynamic sizes.
  std::vector<std::string> dynamic_sizes() const;
  std::vector<GraphValue> inputs() const;
  std::vector<GraphValue> outputs() const;
  /// Ops in order; inputs, weights and numbers are not among them.
  std::vector<GraphNode> nodes() const;
  /// The text form, which `parse` reads; docs/graph.md says what is in it.
  std::string to_string() const;
  /// Throws ValueError with line and column. Weights are not bound.
  static Graph parse(std::string_view text);
  /// Throws ValueError naming the node that is not as its op's rule says, at the sizes captured and at others.
  void verify() const;
  /// Text that the face keeps with the graph, as how Python's arguments are nested.
  const std::string& structure() const;
  /// Throws ValueError when they are not as many as there are, or an input has the name of a weight.
  void rename(std::vector<std::string> inputs, std::vector<std::string> outputs);
  void set_structure(std::string text);

  // -- running

  /// Runs the graph: what the function returns for these inputs. Sizes that were marked dynamic may be others. Throws
  /// TypeError for another number of inputs or another dtype, RuntimeError for sizes that do not fit and weights that
  /// are not bound.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs) const;
  /// The graph with its weights on a device.
  Graph to(Device device) const;
  /// The graph with weights bound to these tensors. Throws RuntimeError naming those that are not the graph's or of
  /// another shape or dtype, or with `strict`, that are missing.
  Graph bind(const nn::Named<Tensor>& weights, bool strict = true) const;

  // -- files: docs/graph.md describes them

  void save(const std::string& path, const SaveOptions& options = {}) const;
  /// Throws RuntimeError when the file cannot be read, ValueError that says what is wrong with it.
  static Graph load(const std::string& path);

  // -- edits. Nodes and values are named as printed ("%3") and renumbered by each edit. An edit that throws changes
  // nothing. What follows is inferred anew, and the error names the node that no longer fits.

  /// Puts a node before another (or last, when that is empty), and returns its results' names.
  std::vector<std::string> insert(const std::string& before, std::string_view op,
                                  const std::vector<NodeArgument>& arguments);
  /// Reads of `old` become reads of `fresh`, which must be before them. Where `fresh` was made of `old`, that stays.
  void replace(const std::string& old, const std::string& fresh);
  /// Makes a node another op, whose results take the place of its results.
  void replace_node(const std::string& node, std::string_view op, const std::vector<NodeArgument>& arguments);
  /// Takes a node away. Throws ValueError naming who reads it.
  void erase(const std::string& node);
  /// Takes away all nodes that no output needs; says how many.
  int eliminate_dead();

  /// The graph of gradients: takes what this takes, and `grad_NAME` for each floating output unless there is one of
  /// one element; returns the gradient of their weighted sum for each of `wrt`, inputs or weights by name, zeros where
  /// there is none. Empty `wrt`: all floating inputs. With `outputs`, returns what this returns before.
  Graph differentiate(const std::vector<std::string>& wrt = {}, bool outputs = false) const;

  // -- for those that build graphs
  explicit Graph(std::shared_ptr<const graph::State> state) : state_(std::move(state)) {}
  const graph::State& state() const { return *state_; }

 private:
  std::shared_ptr<const graph::State> state_;
};

/// Options of a capture.
struct CaptureOptions {
  /// Tensors that the function reads besides its inputs, with names for them, as a module's state_dict(). Others that
  /// it reads are weights named constant_0 and so on.
  nn::Named<Tensor> weights = {};
  /// Names of inputs and outputs; input_0, output_0 and so on where there are none.
  std::vector<std::string> input_names = {}, output_names = {};
  /// Sizes that may be others in later runs, for each input by dimension: {{{0, "batch"}}, {}}. Equal names are equal
  /// sizes. All others are fixed.
  std::vector<std::map<int, std::string>> dynamic_shapes = {};
  /// The least and largest that dynamic sizes may be, for some, by name.
  std::map<std::string, std::pair<int64_t, int64_t>> ranges = {};
};

using CaptureFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;

/// Records what `fn` does with inputs like these, whose values it does not see. It is called once, and where there are
/// dynamic sizes, once more for each of a few other sizes, from which it is found how each size in the graph follows
/// from them. Throws RuntimeError when it reads values, writes to a tensor that it did not make, or takes another path
/// for another size.
Graph capture(const CaptureFunction& fn, const std::vector<Tensor>& example_inputs, const CaptureOptions& options = {});

/// Captures a module of one tensor: its parameters and buffers are weights by their names.
template <class M>
  requires requires(M& m, Tensor t) { Tensor(m(t)), m->state_dict(); }
Graph capture(M& module, const Tensor& example, CaptureOptions options = {}) {
  if (options.weights.empty()) options.weights = module->state_dict();
  return capture([&](const std::vector<Tensor>& in) { return std::vector<Tensor>{module(in[0])}; }, {example}, options);
}

}  // namespace smolder
