// The history of what is recorded: which node each op gets, what it keeps for backward, and how a node runs.
#include <algorithm>
#include <atomic>

#include "smolder/autograd/anomaly.h"
#include "smolder/autograd/hooks.h"
#include "smolder/autograd/node.h"
#include "smolder/autograd/saved.h"
#include "smolder/lazy/record.h"
#include "smolder/lazy/view.h"

namespace smolder::autograd {
namespace {

uint64_t next_sequence() {
  static std::atomic<uint64_t> counter{0};
  return counter.fetch_add(1, std::memory_order_relaxed);
}

/// Signature operand of flattened input `i`: a list is the last operand and takes all that remain.
uint32_t operand_bit(const ir::OpInfo& row, size_t i) { return 1u << std::min(i, row.operands.size() - 1); }

/// Records the history of a call; called by lazy::record.
void on_record(ir::Op op, std::span<const lazy::Operand> operands, std::span<const int64_t> attrs, Tensor* outputs) {
  const GradInfo* const grad = grad_info(op);
  const ir::OpInfo& row = ir::info(op);
  if (!grad || lazy::inference_mode_enabled()) return;  // there is none in it, where gradients are on, too
  uint32_t needed = 0;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].kind() == lazy::Operand::kTensor && operands[i].impl()->requires_grad) {
      needed |= operand_bit(row, i) & grad->differentiable_inputs;
    }
  }
  if (!needed) return;
  auto node = std::make_shared<Node>(op, next_sequence());
  node->called = lazy::HistoryName::current();
  const Saves saves = grad->saves_for(needed);
  const size_t n = operands.size();
  node->next.resize(n);
  node->inputs.resize(n);
  node->numbers.assign(n, Scalar(false));
  node->saved_inputs.resize(n);
  node->attrs.assign(attrs.begin(), attrs.end());
  for (size_t i = 0; i < n; ++i) {
    const lazy::Operand& o = operands[i];
    node->inputs[i] = o.meta();
    if (o.kind() == lazy::Operand::kNumber) {
      node->numbers[i] = o.number();
    } else if (o.kind() == lazy::Operand::kTensor) {
      const Tensor t(o.impl());
      const Edge edge = gradient_edge(t);
      const uint32_t bit = operand_bit(row, i);
      if (bit & grad->differentiable_inputs) node->next[i] = edge;
      if (bit & saves.inputs) node->saved_inputs[i] = save(o.impl(), edge);
    }
  }
  if (anomaly_mode()) [[unlikely]]
    note_anomaly(*node);
  node->saved_outputs.resize(row.num_outputs);
  for (uint32_t i = 0; i < row.num_outputs; ++i) {
    lazy::TensorImpl* const impl = outputs[i].impl();
    node->outputs.push_back(impl->value->meta);
    if (saves.outputs >> i & 1) node->saved_outputs[i] = save(impl, {}, static_cast<int>(i));
    if (!is_differentiable(outputs[i].dtype())) continue;
    impl->requires_grad = true;
    meta_of(impl).grad_fn = {node, i};
  }
}

/// The history of a tensor that a custom Function returned as a view, once its elements were written: its gradient is
/// not that of what it holds.
class LostHistory final : public CustomFunction {
 public:
  explicit LostHistory(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  std::vector<Tensor> backward(std::vector<Tensor>) override {
    raise<RuntimeError>("Output of ", name_,
                        " is a view and its base or another view of its base has been modified inplace. This view was "
                        "created inside a custom Function (or because an input was returned as-is) and the autograd "
                        "logic to handle view+inplace would override the custom backward associated with the custom "
                        "Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by "
                        "cloning the output of the custom Function.");
  }
  void release() override {}

 private:
  std::string name_;
};

/// Whether `impl` is a view that a custom Function returned; its elements were written, so it has no history any more.
bool lose_history(lazy::TensorImpl* impl) {
  if (!impl->autograd || !impl->requires_grad) return false;
  TensorMeta& meta = meta_of(impl);
  if (meta.forbidden_write.empty() || !meta.grad_fn.node) return false;
  const std::string name = meta.grad_fn.node->name();
  meta.grad_fn = {new_node(std::make_shared<LostHistory>(name)), 0};
  meta.grad_fn.node->outputs = {impl->value->meta};
  return true;
}

/// An in-place write replaced the value of `impl` by that of `from`; where they are one, somebody else wrote its
/// storage.
void on_rebase(lazy::TensorImpl* impl, lazy::TensorImpl* from) {
  if (lose_history(impl) || impl == from) return;
  if (!lazy::grad_enabled() || lazy::inference_mode_enabled()) return;
  impl->requires_grad = from->requires_grad;
  if (!from->requires_grad && !impl->autograd) return;
  TensorMeta& meta = meta_of(impl);
  const Edge before = std::exchange(meta.grad_fn, from->autograd ? meta_of(from).grad_fn : Edge{});
  if (meta.retained) [[unlikely]]
    move_retained(meta, before);
}

/// Why a view must not be written in place, in torch's words.
void refuse_write(const lazy::TensorImpl* view) {
  const auto* const meta = static_cast<const TensorMeta*>(view->autograd.get());
  const std::shared_ptr<Node> node = meta ? meta->grad_fn.node : nullptr;
  const std::string of = node ? "Output " + std::to_string(view->steps->number) + " of " +
                                    node->name().substr(0, node->name().rfind("Backward")) + " is a view"
                              : "";
  const bool several = view->origin == lazy::ViewOrigin::kOneOfSeveral;
  const std::string mode = view->origin == lazy::ViewOrigin::kInference ? "inference" : "no_grad";
  std::string why;
  if (node && several) {
    why = of + " and is being modified inplace.";
  } else {
    why = (node ? of + " of a view which was created in " : "A view was created in ") + mode +
          " mode and is being modified inplace " +
          (mode == "inference" ? "in normal mode." : "with grad mode enabled.");
  }
  if (several) {
    raise<RuntimeError>(why,
                        " This view is the output of a function that returns multiple views. Such functions do not "
                        "allow the output views to be modified inplace. You should replace the inplace operation by "
                        "an out-of-place one.");
  }
  raise<RuntimeError>(why,
                      " Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your "
                      "code by moving both the view and the inplace either both inside the ",
                      mode == "inference" ? "inference_mode" : mode,
                      " block (if you don't want the inplace to be tracked) or both outside (if you want the inplace "
                      "to be tracked).");
}

[[maybe_unused]] const bool g_installed = [] {
  lazy::set_grad_hook(&on_record);
  lazy::set_rebase_hook(&on_rebase);
  lazy::set_refuse_hook(&refuse_write);
  return true;
}();

}  // namespace

std::shared_ptr<Node> new_node(std::shared_ptr<CustomFunction> custom) {
  auto node = std::make_shared<Node>(ir::Op{}, next_sequence());
  node->extra().custom = std::move(custom);
  if (anomaly_mode()) note_anomaly(*node);
  return node;
}

std::vector<Tensor> Node::apply(const std::shared_ptr<Node>& self, std::span<const Tensor> grads,
                                std::span<const bool> needed, std::span<RowProduct> products) {
  const auto given = std::ranges::find_if(grads, [](const Tensor& g) { return g.defined(); });
  const lazy::DeviceMode on(given == grads.end() ? lazy::creation_mode() : given->device());
  if (custom()) return custom()->backward({grads.begin(), grads.end()});
  refuse_released(*this);
  std::vector<Tensor> saved_in, saved_out;
  for (const SavedTensor& s : saved_inputs) saved_in.push_back(unpack(s, self));
  for (const SavedTensor& s : saved_outputs) saved_out.push_back(unpack(s, self));
  std::vector<Tensor> results(next.size());
  FormulaContext context{inputs, saved_in, numbers, saved_out, attrs, grads, needed, results, products};
  grad_info(op)->formula(context);
  return results;
}

}  // namespace smolder::autograd
