#include "smolder/lazy/complex_parts.h"

#include <numbers>

#include "smolder/ir/infer.h"
#include "smolder/lazy/default_dtype.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/strides.h"

namespace smolder::lazy {

void check_pairs(const Tensor& t) {
  const Layout l = layout(t);
  const int last = t.dim() - 1;
  SMOLDER_CHECK(l.strides[last] == 1, RuntimeError, "Tensor must have a last dimension with stride 1");
  for (int i = 0; i < last; ++i) {
    SMOLDER_CHECK(l.strides[i] % 2 == 0, RuntimeError,
                  "Tensor must have a stride divisible by 2 for all but last dimension");
  }
  SMOLDER_CHECK(l.offset % 2 == 0, RuntimeError, "Tensor must have a storage_offset divisible by 2");
}

std::pair<Tensor, Tensor> parts_of(const Tensor& t) {
  if (!is_complex(t.dtype())) return {t, {}};
  const Tensor pairs = view_as_real(t);
  return {select(pairs, -1, 0), select(pairs, -1, 1)};
}

Tensor complex_of(const Tensor& re, const Tensor& im) {
  const DType parts = part_type(complex_type(promote(re.dtype(), im.dtype())));
  const Tensor a = re.to(parts), b = im.to(parts);
  if (a.shape() == b.shape()) return view_as_complex(stack({a, b}, -1));
  const ir::Meta* const metas[] = {&a.meta(), &b.meta()};
  const Dims shape = ir::broadcast("complex", metas);
  return view_as_complex(stack({expand(a, shape), expand(b, shape)}, -1));
}

Tensor safe_hypot(const Tensor& x, const Tensor& y) {
  const Tensor zero = logical_and(eq(x.detach(), Scalar(0.0)), eq(y.detach(), Scalar(0.0)));
  const Tensor size = hypot(where(zero, Operand(Scalar(1.0)), Operand(x)), y);
  return where(zero, Operand(Scalar(0.0)), Operand(size));
}

Tensor magnitude(const Tensor& t) {
  const auto [re, im] = parts_of(t);
  if (!im.defined()) return abs(t);
  return safe_hypot(re, im);
}

Tensor argument(const Tensor& t) {
  const auto [re, im] = parts_of(t);
  if (!im.defined()) {
    const Tensor real = is_floating(t.dtype()) ? t : t.to(default_dtype());
    const Tensor of_sign = where(real < Scalar(0.0), Scalar(std::numbers::pi), Scalar(0.0)).to(real.dtype());
    return where(isnan(real), Operand(real), Operand(of_sign));
  }
  const Tensor none = logical_and(eq(re, Scalar(0.0)), eq(im, Scalar(0.0)));
  const Tensor there = where(none, Operand(Scalar(1.0)), Operand(re));
  return where(none, Operand(atan2(im, re).detach()), Operand(atan2(im, there)));
}

}  // namespace smolder::lazy
