#include "smolder/lazy/view.h"

#include <mutex>

#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"
#include "smolder/lazy/tape.h"

namespace smolder::lazy {
namespace {

RebaseHook g_rebase = nullptr;

Tensor handle(TensorImpl* impl) { return Tensor(impl); }

Tensor apply(const ViewStep& step, const Tensor& input) {
  Tensor out;
  const Operand operand(input);
  record(step.op, {&operand, 1}, step.attrs, &out);
  return out;
}

/// The input of `step` as it is after its result was replaced by `result`.
Tensor undo(const ViewStep& step, const Tensor& input, const Tensor& result) {
  const Dims& shape = step.input->shape;
  switch (step.op) {
    case ir::Op::kReshape:
    case ir::Op::kUnsqueeze:
    case ir::Op::kSqueeze:
      return reshape(result, shape);
    case ir::Op::kTranspose:
      return apply(step, result);
    case ir::Op::kPermute: {
      Dims inverse = shape;
      for (int i = 0; i < shape.size(); ++i) inverse[normalize_axis(step.attrs[1 + i], shape.size())] = i;
      return permute(result, inverse);
    }
    case ir::Op::kSelect:
      return select_scatter(input, result, step.attrs[0], step.attrs[1]);
    case ir::Op::kSlice:  // dim, start, end, step
      return slice_scatter(input, result, step.attrs[0], step.attrs[1], step.attrs[2], step.attrs[3]);
    default:
      raise<NotImplementedError>("writing in place to the result of ", ir::name(step.op),
                                 " is not supported; write to its base, or clone() it first");
  }
}

/// Puts `source`'s value and history into a base.
void write_base(TensorImpl* base, const Tensor& source) {
  {
    Tape& tape = Tape::cpu();
    std::lock_guard hold(tape.mutex());
    tape.note_write(handle(base));
  }
  base->value = source.impl()->value;
  ++base->version;
  if (g_rebase) g_rebase(base, source.impl());
}

}  // namespace

void set_rebase_hook(RebaseHook hook) { g_rebase = hook; }

void link_view(TensorImpl* view, TensorImpl* input, ir::Op op, std::span<const int64_t> attrs) {
  TensorImpl* const base = input->base ? input->base : input;
  auto steps =
      input->steps ? std::make_shared<std::vector<ViewStep>>(*input->steps) : std::make_shared<std::vector<ViewStep>>();
  steps->push_back({op, {attrs.begin(), attrs.end()}, input->value->meta});
  base->refs.fetch_add(1, std::memory_order_relaxed);
  view->base = base;
  view->seen_version = base->version;
  view->steps = std::move(steps);
}

void read_again(TensorImpl* impl) {
  Tensor now = handle(impl->base);
  for (const ViewStep& step : *impl->steps) now = apply(step, now);
  impl->value = now.impl()->value;
  impl->seen_version = impl->base->version;
  if (g_rebase && !impl->steps->empty()) g_rebase(impl, now.impl());
}

Tensor alias(const Tensor& t) {
  TensorImpl* const impl = t.impl();
  refresh(impl);
  Tensor out(new TensorImpl(impl->value));
  TensorImpl* const base = impl->base ? impl->base : impl;
  base->refs.fetch_add(1, std::memory_order_relaxed);
  out.impl()->base = base;
  out.impl()->seen_version = base->version;
  out.impl()->steps = impl->steps ? impl->steps : std::make_shared<std::vector<ViewStep>>();
  return out;
}

void assign(const Tensor& self, const Tensor& source) {
  TensorImpl* const impl = self.impl();
  SMOLDER_CHECK(!(grad_enabled() && impl->requires_grad && self.is_leaf()), RuntimeError,
                "a leaf Variable that requires grad is being used in an in-place operation.");
  if (!impl->base) {
    write_base(impl, source);
    return;
  }
  const std::vector<ViewStep>& steps = *impl->steps;
  std::vector<Tensor> inputs{handle(impl->base)};
  SMOLDER_CHECK(!(grad_enabled() && inputs[0].impl()->requires_grad && inputs[0].is_leaf()), RuntimeError,
                "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  for (size_t i = 0; i + 1 < steps.size(); ++i) inputs.push_back(apply(steps[i], inputs.back()));
  Tensor now = source;
  for (size_t i = steps.size(); i-- > 0;) now = undo(steps[i], inputs[i], now);
  write_base(impl->base, now);
  // The same value under another handle, as a parameter is of its data: what it held must not outlive the write,
  // or the memory could not be written in place.
  if (steps.empty()) read_again(impl);
}

}  // namespace smolder::lazy
