#include "smolder/autograd/hooks.h"

#include <atomic>

#include "smolder/autograd/node.h"
#include "smolder/lazy/view.h"

namespace smolder::autograd {
namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

const std::shared_ptr<Hooks>& hooks_of(Node& node) {
  NodeExtra& extra = node.extra();
  if (!extra.hooks) extra.hooks = std::make_shared<Hooks>();
  if (node.leaf.defined()) meta_of(node.leaf.impl()).leaf_hooks = extra.hooks;
  return extra.hooks;
}

template <class F>
HookHandle add(std::vector<Hooks::Registered<F>> Hooks::* kind, const std::shared_ptr<Hooks>& hooks, uint32_t output,
               F hook) {
  const uint64_t id = next_id();
  ((*hooks).*kind).push_back({id, output, std::move(hook)});
  return {hooks, id};
}

/// The edge of a tensor that can have hooks.
Edge hooked_edge(const Tensor& t) {
  lazy::refresh(t.impl());
  SMOLDER_CHECK(t.requires_grad(), RuntimeError, "cannot register a hook on a tensor that doesn't require gradient");
  return gradient_edge(t);
}

}  // namespace

bool Hooks::remove(uint64_t id) {
  const auto from = [id](auto& kind) { return std::erase_if(kind, [id](const auto& h) { return h.id == id; }) > 0; };
  return from(tensor) || from(before) || from(after) || from(accumulated);
}

void HookHandle::remove() {
  if (const auto hooks = hooks_.lock()) hooks->remove(id_);
}

HookHandle register_hook(const Tensor& t, TensorHook hook) {
  const Edge edge = hooked_edge(t);
  return add(&Hooks::tensor, hooks_of(*edge.node), edge.output, std::move(hook));
}

HookHandle register_post_accumulate_grad_hook(const Tensor& t, LeafHook hook) {
  const Edge edge = hooked_edge(t);
  SMOLDER_CHECK(edge.node->leaf.defined(), RuntimeError,
                "post accumulate grad hooks cannot be registered on non-leaf tensors");
  return add(&Hooks::accumulated, hooks_of(*edge.node), 0, std::move(hook));
}

HookHandle register_hook(const std::shared_ptr<Node>& node, NodePostHook hook) {
  return add(&Hooks::after, hooks_of(*node), 0, std::move(hook));
}

HookHandle register_prehook(const std::shared_ptr<Node>& node, NodePreHook hook) {
  return add(&Hooks::before, hooks_of(*node), 0, std::move(hook));
}

void retain_grad(const Tensor& t) {
  lazy::refresh(t.impl());
  SMOLDER_CHECK(t.requires_grad(), RuntimeError, "can't retain_grad on Tensor that has requires_grad=False");
  TensorMeta& meta = meta_of(t.impl());
  if (!meta.grad_fn.node || meta.retained) return;
  meta.retained = std::make_shared<Tensor>(meta.grad);
  meta.grad = Tensor();
  move_retained(meta, {});
}

bool retains_grad(const Tensor& t) {
  lazy::refresh(t.impl());
  return !t.is_leaf() && meta_of(t.impl()).retained;
}

void move_retained(TensorMeta& meta, const Edge& before) {
  if (!meta.retained) return;
  if (before.node && before.node->has_extra() && before.node->extra().hooks) {
    std::erase_if(before.node->extra().hooks->retained,
                  [&](const Hooks::Retained& r) { return r.slot.lock() == meta.retained; });
  }
  if (meta.grad_fn.node) hooks_of(*meta.grad_fn.node)->retained.push_back({meta.grad_fn.output, meta.retained});
}

}  // namespace smolder::autograd
