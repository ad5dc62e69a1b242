// Fourier transforms. A library transforms; what it does not do on a device, a scale and the conjugates of transforms
// of real numbers the other way, is elementwise there, and so a part of the kernels around it.
#include <algorithm>
#include <span>
#include <utility>

#include "smolder/ir/decompose.h"

namespace smolder::ir {
namespace {

/// How many of the n frequencies of real numbers stand for all.
int64_t half_of(int64_t n) { return n / 2 + 1; }

Op op_of(TransformKind kind) {
  return kind == TransformKind::kC2C ? Op::kFftC2c : kind == TransformKind::kR2C ? Op::kFftR2c : Op::kFftC2r;
}

Value append_transform(TransformKind kind, Value x, const Transform& t, Dim last) {
  SymTable& sym = x.b->sym();
  SymDims shape = x.shape();
  const auto axis = static_cast<int>(t.dim.back());
  std::vector<Dim> words{t.dim.size()};
  words.insert(words.end(), t.dim.begin(), t.dim.end());
  words.emplace_back(t.normalization);
  if (kind == TransformKind::kR2C) {
    shape[axis] = sym.add(sym.floor_div(shape[axis], 2), 1);
    shape.push_back(2);
  } else if (kind == TransformKind::kC2R) {
    shape.erase(shape.size() - 1);
    shape[axis] = last;
    words.push_back(last);
  }
  words.emplace_back(t.forward);
  return x.b->append(op_of(kind), {x}, words, x.dtype(), shape);
}

/// Pairs with the imaginary part's sign turned where `conjugates`.
Value with_imaginary(Value pairs, bool conjugates) {
  if (!conjugates) return pairs;
  const Value part = pairs.b->iota(pairs.shape(), pairs.rank() - 1);
  return where(part == 0, pairs, -pairs);
}

/// The half of a spectrum as a library of a device wants it: 0 where the numbers being real leaves no imaginary part.
Value of_real(Value half, int axis, Dim n) {
  Builder& b = *half.b;
  const Value part = b.iota(half.shape(), half.rank() - 1), k = b.iota(half.shape(), axis);
  const Value alone = logical_or(k == 0, k * 2 == b.number(n));
  return where(logical_and(part == 1, alone), 0.0, half);
}

/// Axes that a library of a device transforms at once.
constexpr int kMostAxes = 3;

/// The first `count` axes, if that is not negative, and the others.
std::pair<Dims, Dims> split_axes(const Dims& axes, int count) {
  const std::span<const int64_t> all = axes;
  const auto first = static_cast<size_t>(std::max(count, 0));
  return {Dims(all.first(first)), Dims(all.subspan(first))};
}

Value complex_transforms(Value x, const Dims& axes, bool forward) {
  for (Dims rest = axes; !rest.empty();) {
    const auto [others, together] = split_axes(rest, rest.size() - kMostAxes);
    x = append_transform(TransformKind::kC2C, x, {together, 0, forward}, 0);
    rest = others;
  }
  return x;
}

Value scaled(Value x, int64_t normalization, Dim count) {
  if (normalization == 0) return x;
  const Value n = x.b->number(count) * 1.0;
  return x * (1.0 / (normalization == 1 ? sqrt(n) : n));
}

}  // namespace

Dims transform_shape(TransformKind kind, std::string_view op, const Meta& self, const Dims& dim, int64_t normalization,
                     int64_t last) {
  const bool pairs = kind != TransformKind::kR2C;
  const int rank = self.shape.size() - (pairs ? 1 : 0);
  SMOLDER_CHECK(!pairs || (rank >= 0 && self.shape.back() == 2), RuntimeError, op,
                ": expected pairs along a last dimension of 2, got ", to_string(self));
  SMOLDER_CHECK(!dim.empty(), RuntimeError, op, " must transform at least one axis");
  SMOLDER_CHECK(normalization >= 0 && normalization <= 2, RuntimeError, op, ": normalization is 0, 1 or 2, got ",
                normalization);
  Dims seen;
  for (const int64_t a : dim) {
    SMOLDER_CHECK(a >= 0 && a < rank, IndexError, op, ": axis ", a, " is none of the ", rank, " of ", to_string(self));
    SMOLDER_CHECK(std::ranges::find(seen, a) == seen.end(), RuntimeError, "FFT dims must be unique");
    seen.push_back(a);
    SMOLDER_CHECK(self.shape[static_cast<int>(a)] > 0, RuntimeError, "Invalid number of data points (0) specified");
  }
  Dims shape = self.shape;
  int64_t& n = shape[static_cast<int>(dim.back())];
  if (kind == TransformKind::kR2C) {
    n = half_of(n);
    shape.push_back(2);
  } else if (kind == TransformKind::kC2R) {
    SMOLDER_CHECK(last > 0, RuntimeError, "Invalid number of data points (", last, ") specified");
    SMOLDER_CHECK(n == half_of(last), RuntimeError, op, ": ", last, " real numbers have ", half_of(last),
                  " frequencies, got ", n, " in ", to_string(self));
    n = last;
    shape.erase(shape.size() - 1);
  }
  return shape;
}

Value transform(TransformKind kind, Value x, const Transform& t, Dim last) {
  Builder& b = *x.b;
  if (b.device() == DeviceType::kCPU) return append_transform(kind, x, t, last);
  const auto axis = static_cast<int>(t.dim.back());
  Dim count = 1;
  for (const int64_t a : t.dim) {
    const bool restored = kind == TransformKind::kC2R && a == axis;
    count = b.sym().mul(count, restored ? last : x.size(static_cast<int>(a)));
  }
  Value out;
  if (kind == TransformKind::kC2C) {
    out = complex_transforms(x, t.dim, t.forward);
  } else if (kind == TransformKind::kR2C) {  // the other way: the conjugates
    const auto [others, together] = split_axes(t.dim, t.dim.size() - kMostAxes);
    out = append_transform(kind, x, {together, 0, true}, last);
    out = with_imaginary(complex_transforms(out, others, true), !t.forward);
  } else {
    const auto [others, alone] = split_axes(t.dim, t.dim.size() - 1);
    x = of_real(with_imaginary(complex_transforms(x, others, t.forward), t.forward), axis, last);
    out = append_transform(kind, x, {alone, 0, false}, last);
  }
  return scaled(out, t.normalization, count);
}

}  // namespace smolder::ir
