// Hooks of users on the gradient graph: callbacks on tensors, on nodes and on leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "smolder/lazy/tensor.h"

namespace smolder::autograd {

class Node;

/// Gets the gradient of a tensor (undefined: zero); what it returns, unless undefined, takes its place.
using TensorHook = std::function<Tensor(const Tensor& grad)>;
/// Gets the gradients of a node's outputs before it runs; returns others, or nothing.
using NodePreHook = std::function<std::vector<Tensor>(const std::vector<Tensor>& grad_outputs)>;
/// Gets the gradients of a node's inputs and outputs after it ran; returns other gradients of inputs, or nothing.
using NodePostHook =
    std::function<std::vector<Tensor>(const std::vector<Tensor>& grad_inputs, const std::vector<Tensor>& grad_outputs)>;
/// Gets a leaf after its gradient was accumulated.
using LeafHook = std::function<void(const Tensor& leaf)>;

/// The hooks of a node; those of a leaf, whose node lives only as long as a graph leads to it, are its tensor's.
/// Each kind runs in order of registration.
struct Hooks {
  template <class F>
  struct Registered {
    uint64_t id;
    uint32_t output;  ///< of the node: which the gradient is of
    F call;
  };
  /// Where a tensor that retains its gradient keeps it, until it dies.
  struct Retained {
    uint32_t output;
    std::weak_ptr<Tensor> slot;
  };
  std::vector<Registered<TensorHook>> tensor;
  std::vector<Retained> retained;
  std::vector<Registered<NodePreHook>> before;
  std::vector<Registered<NodePostHook>> after;
  std::vector<Registered<LeafHook>> accumulated;

  /// False when there is no such hook (any more).
  bool remove(uint64_t id);
};

/// Takes a hook off again; outliving what it was registered on is harmless.
class HookHandle {
 public:
  HookHandle(std::weak_ptr<Hooks> hooks, uint64_t id) : hooks_(std::move(hooks)), id_(id) {}
  void remove();
  uint64_t id() const { return id_; }

 private:
  std::weak_ptr<Hooks> hooks_;
  uint64_t id_;
};

/// Throws RuntimeError when `t` requires no gradient. The hook stays with the value `t` has now: a later in-place
/// write makes another.
HookHandle register_hook(const Tensor& t, TensorHook hook);
/// Throws RuntimeError unless `t` is a leaf that requires a gradient.
HookHandle register_post_accumulate_grad_hook(const Tensor& t, LeafHook hook);
HookHandle register_hook(const std::shared_ptr<Node>& node, NodePostHook hook);
HookHandle register_prehook(const std::shared_ptr<Node>& node, NodePreHook hook);

/// Makes `t` keep the gradient that flows through it, as leaves do. Throws RuntimeError when it requires none.
void retain_grad(const Tensor& t);
/// Whether it is no leaf and keeps its gradient.
bool retains_grad(const Tensor& t);

}  // namespace smolder::autograd
