// The gradient graph: one node per recorded op that something differentiable went into.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "smolder/autograd/formula.h"
#include "smolder/lazy/tensor.h"

namespace smolder::autograd {

class Node;
struct Hooks;
struct SparseParts;

/// Output `output` of `node`: where a gradient flows to.
struct Edge {
  std::shared_ptr<Node> node;
  uint32_t output = 0;
};

/// The state that autograd keeps for a tensor that requires grad.
struct TensorMeta : lazy::AutogradMeta {
  Edge grad_fn;                     ///< where it came from; null for a leaf
  std::weak_ptr<Node> accumulator;  ///< of a leaf: adds to `grad`
  Tensor grad;
  std::shared_ptr<Hooks> leaf_hooks;          ///< what an accumulator of it runs
  std::shared_ptr<Tensor> retained;           ///< where the gradient of no leaf is kept, if asked for
  std::shared_ptr<uint32_t> version;          ///< of who holds storage: how often it was written, where that is checked
  std::string forbidden_write;                ///< why it must not be written in place, if so
  std::shared_ptr<const SparseParts> sparse;  ///< of the values of a sparse tensor: see sparse.h
};

class SavedTensorHooks;

/// How a value kept for backward may be had by other means than keeping it: see saved.h.
struct SavedExtra {
  std::shared_ptr<const uint32_t> version_now;  ///< of its storage, where versions are checked
  uint32_t version = 0;                         ///< when it was saved
  std::shared_ptr<SavedTensorHooks> hooks;      ///< that packed it; then there is no value
  std::shared_ptr<void> packed;
  const ir::Meta* meta = nullptr;
};

/// A value kept for backward: immutable, so an in-place write never reaches it.
struct SavedTensor {
  lazy::ValueRef value;
  Edge edge;  ///< null when it needs no gradient, or is the node's own output (then `own_output`)
  int own_output = -1;
  std::shared_ptr<SavedExtra> extra;

  bool holds() const { return value || extra; }
};

/// The computation of a node that stands for no op of the table.
class CustomFunction {
 public:
  virtual ~CustomFunction() = default;
  virtual std::string name() const = 0;
  /// Gradients of the inputs from those of the outputs; undefined means zero, both ways.
  virtual std::vector<Tensor> backward(std::vector<Tensor> grads) = 0;
  /// Lets go of saved values.
  virtual void release() = 0;
  /// Whether the program's code computes the gradients.
  virtual bool is_program() const { return false; }
  /// Whether it stands for many ops: where one of them is not reached, hooks on its result are not called.
  virtual bool stands_for_many() const { return false; }
};

/// Where the op of a node was recorded, in anomaly mode.
struct Anomaly {
  std::string where;
  std::shared_ptr<Node> parent;  ///< whose gradient was being computed then
};

/// Members that few nodes have.
struct NodeExtra {
  std::shared_ptr<Hooks> hooks;
  std::shared_ptr<CustomFunction> custom;  ///< instead of an op
  std::unique_ptr<Anomaly> anomaly;
};

/// One differentiable call, or the place where a leaf's gradient is accumulated (`leaf` defined).
///
/// Written while the op is recorded and by the engine that consumes it; not shared between threads.
class Node {
 public:
  Node(ir::Op op, uint64_t sequence) : op(op), sequence(sequence) {}
  /// Unlinks its ancestors one by one: graphs are deeper than stacks.
  ~Node();

  ir::Op op;
  uint64_t sequence;  ///< order of recording: the engine runs the latest ready node first
  Tensor leaf;        ///< for an accumulator

  std::vector<Edge> next;               ///< of each input; null where no gradient is wanted
  std::vector<const ir::Meta*> inputs;  ///< null where an optional input was absent
  std::vector<const ir::Meta*> outputs;
  std::vector<Scalar> numbers;
  std::vector<int64_t> attrs;
  std::vector<SavedTensor> saved_inputs;   ///< one per input
  std::vector<SavedTensor> saved_outputs;  ///< one per output
  const char* called = nullptr;            ///< by the call that recorded it, if not by its op
  bool released = false;                   ///< of values it had saved; who saved none can run again

  bool has_extra() const { return extra_ != nullptr; }
  NodeExtra& extra() {
    if (!extra_) extra_ = std::make_unique<NodeExtra>();
    return *extra_;
  }
  Hooks* hooks() const { return extra_ ? extra_->hooks.get() : nullptr; }
  const Anomaly* anomaly() const { return extra_ ? extra_->anomaly.get() : nullptr; }
  CustomFunction* custom() const { return extra_ ? extra_->custom.get() : nullptr; }

  /// torch's name: "AddBackward0", "AccumulateGrad".
  std::string name() const;
  /// Gradients of the inputs from those of the outputs (undefined means zero).
  /// `needed` says, by input, which are wanted. Where `products` has a place for each input, a gradient that is a
  /// product of rows is put there instead, and not computed.
  std::vector<Tensor> apply(const std::shared_ptr<Node>& self, std::span<const Tensor> grads,
                            std::span<const bool> needed, std::span<RowProduct> products = {});
  /// Lets go of saved values.
  void release();

 private:
  std::unique_ptr<NodeExtra> extra_;
};

/// A node that is not in the table of formulas; it takes its place in the order of recording.
std::shared_ptr<Node> new_node(std::shared_ptr<CustomFunction> custom);
/// Throws RuntimeError when a node's saved values were freed.
void refuse_released(const Node& node);
/// The state that autograd keeps for a tensor, made when it is not there.
TensorMeta& meta_of(lazy::TensorImpl* impl);
/// After `meta.grad_fn` was `before`: the gradient it keeps is that of the new one.
void move_retained(TensorMeta& meta, const Edge& before);

/// The edge a gradient of `t` flows to; null node when t requires none.
Edge gradient_edge(const Tensor& t);

}  // namespace smolder::autograd
