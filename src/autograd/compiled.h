// Compiled functions: what a captured step does besides computing. It reads inputs, writes some of them, sets
// gradients, returns tensors, and a gradient goes back through it by a step of its own, recorded when the function was.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "smolder/autograd/node.h"
#include "smolder/jit/run/run_mode.h"
#include "smolder/lazy/capture.h"
#include "smolder/lazy/tensor.h"

namespace smolder::autograd {

/// The graph of what a step computes: tensors and numbers in, wanted results out.
class StepGraph {
 public:
  explicit StepGraph(lazy::StepRecord record) : record_(std::move(record)) {}
  /// As text.
  std::string text() const;
  /// Runs it by its plan. Throws TypeError when operands are not those that it was recorded for.
  std::vector<Tensor> run(const std::vector<Tensor>& leaves, const std::vector<Scalar>& numbers) const;
  /// The metadata of its leaves and results.
  std::vector<ir::Meta> leaves() const;
  std::vector<ir::Meta> results() const;

 private:
  void check_known() const;
  lazy::StepRecord record_;
};

/// Computes the results of a graph in the place of its plan.
using StepRunner = std::function<std::vector<Tensor>(const std::vector<Tensor>& leaves, const std::vector<Scalar>&)>;

/// A function's effects, to be had again for other inputs of the same metadata. Immutable once made.
class CompiledStep : public std::enable_shared_from_this<CompiledStep> {
 public:
  /// Runs it: `inputs` as `used()` says, and numbers for those that the program keeps. Returns the tensors it makes.
  std::vector<Tensor> run(const std::vector<Tensor>& inputs, std::vector<uint64_t> run_time) const;
  /// Which of the tensors that the capture was told of are its inputs.
  const std::vector<uint32_t>& used() const { return used_; }
  /// False once the traces it is made of were forgotten.
  bool known() const { return forward_.known(); }  // all are of one age
  /// The numbers that it makes out of `outputs`, as given to finish(): the place among what `run` returns, or, of an
  /// input, -1 - its place among `used()`.
  const std::vector<int>& places() const { return places_; }
  bool has_backward() const { return !outputs_.empty(); }
  StepGraph graph() const { return StepGraph(forward_); }
  /// Before the first run: what computes the results from now on, but for gradients.
  void set_runner(StepRunner runner) { runner_ = std::move(runner); }
  /// Likewise: how it runs on a device, and its gradients.
  void set_mode(const jit::RunMode& mode) { mode_ = mode; }
  size_t ops() const { return forward_.tape ? forward_.trace->instrs.size() : 0; }

 private:
  friend class StepCapture;
  friend class CompiledNode;

  /// A tensor that the function makes; if a view, of another such (`of_made`) or of an input (`of_input`).
  struct Made {
    lazy::ValueSource value;
    int of_made = -1, of_input = -1;
    std::shared_ptr<const lazy::ViewStep> steps;
    Dims order;  ///< of its dimensions in memory; none where that is row-major
    lazy::ViewOrigin origin = lazy::ViewOrigin::kOrdinary;
    bool detached = false, inference = false;
    int output = -1;  ///< of the node in the history; none when it requires no gradient
  };
  struct Write {
    uint32_t input;
    lazy::ValueSource value;
    uint32_t times;                   ///< as versions count
    std::vector<uint32_t> followers;  ///< inputs that are other names of it, as a parameter is of its data
  };
  /// An input that is found by another: its gradient, or who holds its storage.
  struct Relative {
    uint32_t of;
    bool gradient;
    Tensor find(const std::vector<Tensor>& inputs) const;
  };
  struct NewGrad {
    uint32_t input;
    int made = -1, of_input = -1;  ///< neither: there is none afterwards
  };
  /// The step of gradients: where all results have one, or one of them alone.
  struct Backward {
    lazy::StepRecord step;
    std::vector<uint32_t> to;                  ///< places among the inputs that gradients go to
    std::vector<lazy::ValueSource> gradients;  ///< of these
  };
  struct Call;

  std::vector<Tensor> make(Call& call) const;
  std::vector<lazy::ValueRef> run_by_runner(const std::vector<Tensor>& leaves,
                                            const std::vector<Scalar>& numbers) const;

  std::vector<uint32_t> used_;
  std::vector<Relative> relatives_;  ///< inputs beyond the used ones
  StepRunner runner_;
  std::optional<jit::RunMode> mode_;  ///< nothing: that of the thread
  std::vector<lazy::ValueRef> constants_;
  std::vector<lazy::Draw> draws_;
  std::vector<lazy::GeneratorUse> generators_;
  lazy::StepRecord forward_;
  std::vector<Write> writes_;
  std::vector<NewGrad> grads_;
  std::vector<Made> made_;
  std::vector<int> places_;
  std::vector<const ir::Meta*> outputs_;  ///< of the node in the history
  std::vector<uint32_t> differentiable_;  ///< inputs that gradients go to
  std::vector<Backward> backwards_;       ///< of all results, then of each, where there are several
  std::vector<bool> freed_;               ///< by result: the function went backward itself and freed its history
};

/// Records a function. Made before it is called, in the thread that calls it.
class StepCapture {
 public:
  /// `known`: all tensors that the function may read or write from before. `whole`: see lazy::Capture. `pure`:
  /// gradients may be recorded by running code of the program once.
  StepCapture(const std::vector<Tensor>& known, bool whole, bool pure);

  /// After the function returned `outputs`: the step, or null, with `reason()`, when it cannot be run again. What the
  /// function did has been done either way.
  std::shared_ptr<CompiledStep> finish(const std::vector<Tensor>& outputs, const std::vector<Generator*>& generators);
  /// The metadata of the gradient that a known tensor had before; null where there was none.
  const ir::Meta* gradient_before(size_t known) const {
    const Tensor& g = inputs_[known].grad;
    return g.defined() ? &g.meta() : nullptr;
  }
  size_t known() const { return known_; }
  /// The tensors it made, for the call that was recorded.
  std::vector<Tensor> first_results();
  /// The inputs that the step's graph was given in that call.
  std::pair<std::vector<Tensor>, std::vector<Scalar>> example() const;
  /// Whether a value that the function computed lives on where no result of it is: somebody else holds it.
  bool leaks() const;

  lazy::Capture& capture() { return capture_; }

 private:
  struct Before {
    Tensor tensor;
    lazy::ValueRef value;
    Tensor grad;
    Node* grad_fn;
    uint32_t version;
    bool requires_grad;
  };
  void stop(std::string_view why);
  void add(const Tensor& t);
  int input_of(const lazy::TensorImpl* impl) const;
  int make(lazy::TensorImpl* impl);
  lazy::ValueSource source_of(const lazy::ValueRef& v);
  void find_effects(const std::vector<Tensor>& outputs);
  void find_writes();
  void record_backward();
  CompiledStep::Backward backward_of(const std::vector<Tensor>& from, const std::vector<Tensor>& to,
                                     const std::vector<Tensor>& given);
  std::vector<Tensor> gradients(const std::vector<Tensor>& from, const std::vector<Tensor>& to,
                                const std::vector<Tensor>& given);
  void forget_unused();
  const Before& input_at(uint32_t place) const;  ///< of the step

  lazy::Capture capture_;
  std::vector<Before> inputs_;  ///< tensors known, then their relatives
  std::vector<CompiledStep::Relative> relatives_;
  size_t known_;
  bool pure_;
  std::shared_ptr<CompiledStep> step_;
  std::vector<Tensor> made_;  ///< as the function made them
  lazy::Sources sources_;
  std::vector<std::pair<uint32_t, lazy::ValueRef>> alive_;
};

}  // namespace smolder::autograd
