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

/// Output `output` of `node`: where a gradient flows to.
struct Edge {
  std::shared_ptr<Node> node;
  uint32_t output = 0;
};

/// What autograd keeps for a tensor that requires grad.
struct TensorMeta : lazy::AutogradMeta {
  Edge grad_fn;                     ///< where it came from; null for a leaf
  std::weak_ptr<Node> accumulator;  ///< of a leaf: adds to `grad`
  Tensor grad;
};

/// A value kept for backward: immutable, so an in-place write never reaches it.
struct SavedTensor {
  lazy::ValueRef value;
  Edge edge;  ///< null when it needs no gradient, or is the node's own output (then `own_output`)
  int own_output = -1;
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
  bool released = false;                   ///< of values it had saved; who saved none can run again

  /// torch's name: "AddBackward0", "AccumulateGrad".
  std::string name() const;
  /// Gradients of the inputs from those of the outputs (undefined means zero).
  std::vector<Tensor> apply(const std::shared_ptr<Node>& self, std::span<const Tensor> grads);
  /// Lets go of saved values.
  void release();
};

/// The edge a gradient of `t` flows to; null node when t requires none.
Edge gradient_edge(const Tensor& t);
/// A tensor on a saved value with the history it had.
Tensor unpack(const SavedTensor& saved, const std::shared_ptr<Node>& owner);

}  // namespace smolder::autograd
