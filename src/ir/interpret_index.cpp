#include "smolder/ir/interpret_index.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "smolder/ir/attrs.h"
#include "smolder/ir/interpret_number.h"

namespace smolder::ir::reference {
namespace {

using scalar::Primitive;

int64_t clamp_index(const Scalar& index, int64_t n) { return std::clamp<int64_t>(index.to_int(), 0, n - 1); }

/// Where in `index.shape` an index of take's result points, and the rest of it.
std::pair<Dims, Dims> split_take(const Dims& at, int axis, int index_rank) {
  Dims inner, outer;
  for (int a = 0; a < at.size(); ++a) (a >= axis && a < axis + index_rank ? inner : outer).push_back(at[a]);
  return {inner, outer};
}

/// The element at an index of a copy of the first operand, where elements of the source are written.
using Write = Scalar (*)(const Step& s, const Scalar& there, const Scalar& x);

Scalar sum_of(const Step& s, const Scalar& there, const Scalar& x) {
  return evaluate(Primitive::kAdd, s.operand(0).dtype, std::array{there, x});
}
Scalar last_of(const Step&, const Scalar&, const Scalar& x) { return x; }
Scalar combined(const Step& s, const Scalar& there, const Scalar& x) {
  const auto kind = static_cast<ScatterKind>(s.attrs[0]);
  if (kind == ScatterKind::kSet) return x;
  if (kind == ScatterKind::kProd) return evaluate(Primitive::kMul, s.operand(0).dtype, std::array{there, x});
  return extreme(there, x, kind == ScatterKind::kMax);
}

/// Writes whole slices of the source along an axis, in the order of the index, so that the last of equal ones counts.
PlainTensor write_slices(const Step& s, Write write) {
  const PlainTensor &index = s.operand(1), &source = s.operand(2);
  PlainTensor out = s.operand(0);
  const int axis = normalize_axis(s.attrs[0], out.shape.size());
  for_each_index(source.shape, [&](const Dims& at, int64_t p) {
    auto [inner, to] = split_take(at, axis, index.shape.size());
    const int64_t i = index.elements[position(inner, index.shape)].to_int();
    if (i < 0 || i >= out.shape[axis]) return;
    to.insert(axis, i);
    Scalar& there = out.elements[position(to, out.shape)];
    there = write(s, there, source.elements[p]);
  });
  return out;
}

/// The same for single elements.
PlainTensor write_elements(const Step& s, int64_t given_axis, Write write) {
  const PlainTensor &index = s.operand(1), &source = s.operand(2);
  PlainTensor out = s.operand(0);
  const int axis = normalize_axis(given_axis, out.shape.size());
  for_each_index(index.shape, [&](Dims at, int64_t p) {
    const Scalar& x = source.elements[position(at, source.shape)];
    const int64_t n = out.shape.empty() ? 1 : out.shape[axis], i = index.elements[p].to_int();
    if (i < 0 || i >= n) return;
    if (!out.shape.empty()) at[axis] = i;
    Scalar& there = out.elements[position(at, out.shape)];
    there = write(s, there, x);
  });
  return out;
}

}  // namespace

Scalar extreme(const Scalar& there, const Scalar& x, bool largest) {
  const double a = there.to_double(), b = x.to_double();
  if (there.category() != Category::kFloat) {
    return (largest ? there.to_int() < x.to_int() : x.to_int() < there.to_int()) ? x : there;
  }
  return !std::isnan(a) && ((largest ? a < b : b < a) || std::isnan(b)) ? x : there;
}

PlainTensor run_take(const Step& s) {
  const PlainTensor &x = s.operand(0), &index = s.operand(1);
  const int axis = normalize_axis(s.attrs[0], x.shape.size());
  return make(s.out[0], [&](const Dims& at, int64_t) {
    if (x.shape[axis] == 0) return convert(0, x.dtype);
    auto [inner, from] = split_take(at, axis, index.shape.size());
    from.insert(axis, clamp_index(index.elements[position(inner, index.shape)], x.shape[axis]));
    return x.elements[position(from, x.shape)];
  });
}

PlainTensor run_gather(const Step& s) {
  const PlainTensor &x = s.operand(0), &index = s.operand(1);
  if (x.shape.empty()) return {x.dtype, index.shape, x.elements};
  const int axis = normalize_axis(s.attrs[0], x.shape.size());
  return make(s.out[0], [&](Dims at, int64_t p) {
    if (x.shape[axis] == 0) return convert(0, x.dtype);
    at[axis] = clamp_index(index.elements[p], x.shape[axis]);
    return x.elements[position(at, x.shape)];
  });
}

PlainTensor run_index_add(const Step& s) { return write_slices(s, sum_of); }
PlainTensor run_index_set(const Step& s) { return write_slices(s, last_of); }
PlainTensor run_scatter_add(const Step& s) { return write_elements(s, s.attrs[0], sum_of); }
PlainTensor run_scatter_into(const Step& s) { return write_elements(s, s.attrs[1], combined); }

PlainTensor run_slice_write(const Step& s) {
  const PlainTensor& source = s.operand(1);
  AttrReader attrs(s.attrs);
  const Dims starts = attrs.sizes(), steps = attrs.integers();
  PlainTensor out = s.operand(0);
  for_each_index(source.shape, [&](Dims at, int64_t p) {
    for (int a = 0; a < at.size(); ++a) at[a] = starts[a] + at[a] * steps[a];
    out.elements[position(at, out.shape)] = source.elements[p];
  });
  return out;
}

}  // namespace smolder::ir::reference
