#include "smolder/lazy/wrapper.h"

#include <algorithm>
#include <numeric>

#include "smolder/core/error.h"
#include "smolder/lazy/batch_access.h"
#include "smolder/lazy/modes.h"
#include "smolder/lazy/result_layout.h"

namespace smolder::lazy {
namespace {

/// The dimensions of a tensor from the outermost in memory on.
Dims order_of(const Dims& shape, const Dims& strides) {
  std::vector<int64_t> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, [&](int64_t a, int64_t b) { return strides[a] > strides[b]; });
  int64_t expected = 1;
  for (auto axis = order.rbegin(); axis != order.rend(); ++axis) {
    SMOLDER_CHECK(shape[*axis] <= 1 || strides[*axis] == expected, NotImplementedError,
                  "_make_wrapper_subclass: strides ", strides, " of the sizes ", shape,
                  " leave gaps or overlap, which is not supported: give those of a tensor whose elements are one after "
                  "the other in some order of its dimensions");
    expected *= shape[*axis];
  }
  return Dims(std::span<const int64_t>(order));
}

}  // namespace

Tensor make_wrapper(const ir::Meta& meta, const Dims& strides, Device device, std::shared_ptr<void> content,
                    std::string class_name) {
  SMOLDER_CHECK(strides.size() == meta.shape.size(), ValueError, "_make_wrapper_subclass: ", strides.size(),
                " strides of ", meta.shape.size(), " sizes");
  const Dims order = smolder::numel(meta.shape) > 0 ? order_of(meta.shape, strides) : Dims();
  auto* const v = new WrapperValue;
  v->meta = intern(meta);
  v->device = device;
  v->wrapper = true;
  v->content = std::move(content);
  v->class_name = std::move(class_name);
  Tensor out(new TensorImpl(ValueRef::first(v)));
  out.impl()->inference = inference_mode_enabled();
  if (!order.empty()) set_order(out, order);
  return out;
}

void check_write(std::string_view function, const Tensor& self, const Tensor& source) {
  const auto kind = [](const Tensor& t) {
    const WrapperValue* const w = wrapper(t.impl());
    return w ? std::string_view(w->class_name) : "Tensor";
  };
  SMOLDER_CHECK(self.impl()->value->wrapper == source.impl()->value->wrapper, NotImplementedError, function,
                ": a write in place of a ", kind(source), " to a ", kind(self),
                " is not supported, where the __torch_dispatch__ of that class did not answer with a tensor of the "
                "kind that is written to: use the function that is not in place");
}

void delete_wrapper(Value* value) noexcept { delete static_cast<WrapperValue*>(value); }

void refuse_wrapper(std::string_view reason) {
  raise<RuntimeError>(reason,
                      ": Cannot access data pointer of Tensor that doesn't have storage: it is of a class with a "
                      "__torch_dispatch__, which did not answer for this");
}

}  // namespace smolder::lazy
