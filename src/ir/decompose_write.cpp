// Writes to slices. What a program writes through views of views arrives as a slice written into a slice written
// into memory; it becomes one write to a window of that memory, which a plan does in place.
#include <algorithm>

#include "smolder/ir/attrs.h"
#include "smolder/ir/decompose.h"
#include "smolder/ir/producers.h"

namespace smolder::ir {
namespace {

/// Elements starts[i], starts[i] + steps[i], ... of each axis.
struct Window {
  SymDims starts;
  Dims steps;

  static Window slice(int rank, int axis, Dim start, int64_t step) {
    Window w;
    for (int i = 0; i < rank; ++i) {
      w.starts.push_back(i == axis ? start : Dim(0));
      w.steps.push_back(i == axis ? step : 1);
    }
    return w;
  }
  /// The window `inner` of what this one takes.
  Window of(const Window& inner, SymTable& sym) const {
    Window w = *this;
    for (int i = 0; i < starts.size(); ++i) {
      w.starts[i] = sym.add(starts[i], sym.mul(inner.starts[i], steps[i]));
      w.steps[i] = steps[i] * inner.steps[i];
    }
    return w;
  }
};

bool same(const SymDims& a, const SymDims& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

/// Is every element of the result another one of the operand?
bool is_rearrangement(Op op) { return op == Op::kReshape || op == Op::kPermute || op == Op::kSlice; }
/// Whether x is memory, or a view of it that can be written.
bool is_memory(Value x) {
  while (is_rearrangement(producer(x).op)) x = operand(x, 0);
  return producer(x).op == Op::kLeaf || info(producer(x).op).flags.updates;
}
/// The value whose elements x has, perhaps in another order or repeated.
Value root_of(Value x) {
  for (;;) {
    const Op op = producer(x).op;
    if (!is_rearrangement(op) && op != Op::kExpand && op != Op::kFlip) return x;
    x = operand(x, 0);
  }
}

/// x without reshapes and permutations that undo each other.
Value undone(Value x) {
  for (bool again = true; again;) {
    again = false;
    for (Value v = x; producer(v).op == Op::kReshape;) {
      v = operand(v, 0);
      if (same(v.shape(), x.shape())) x = v, again = true;
    }
    if (producer(x).op != Op::kPermute) continue;
    const Value inner = operand(x, 0);
    if (producer(inner).op != Op::kPermute) continue;
    const std::vector<int> outer_axes = permuted_axes(x), axes = permuted_axes(inner);
    bool identity = true;
    for (int i = 0; i < x.rank(); ++i) identity = identity && axes[outer_axes[i]] == i;
    if (identity) x = operand(inner, 0), again = true;
  }
  return x;
}

/// Which axis of `to` each axis of `from` is when the shapes differ in axes of one element; -1: dropped. Empty when
/// they differ in more.
std::vector<int> unit_axes(SymTable& sym, const SymDims& from, const SymDims& to) {
  const auto is_unit = [&](const Dim& d) { return d.value == 1 && sym.equal(d, 1); };
  std::vector<int> out(from.size(), -1);
  int j = 0;
  for (int i = 0; i < from.size(); ++i) {
    while (j < to.size() && is_unit(to[j]) && !(from[i] == to[j])) ++j;
    if (j < to.size() && from[i] == to[j]) {
      out[i] = j++;
    } else if (!is_unit(from[i])) {
      return {};
    }
  }
  for (; j < to.size(); ++j) {
    if (!is_unit(to[j])) return {};
  }
  return out;
}

Value write(Value x, Value src, Window w);

/// The write to what `x` reshapes, where the reshape only adds and drops axes of one element; else nothing.
Value write_reshaped(Value x, Value src, const Window& w) {
  Builder& b = *x.b;
  const Value whole = operand(x, 0);
  const std::vector<int> axis_of = unit_axes(b.sym(), x.shape(), whole.shape());
  if (axis_of.empty()) return {};
  SymDims shape;
  for (int i = 0; i < whole.rank(); ++i) shape.push_back(1);
  Window to = Window::slice(whole.rank(), -1, 0, 1);
  for (int i = 0; i < x.rank(); ++i) {
    if (axis_of[i] < 0) {
      if (src.shape()[i].value != 1) return {};  // nothing is written
      continue;
    }
    shape[axis_of[i]] = src.shape()[i];
    to.starts[axis_of[i]] = w.starts[i];
    to.steps[axis_of[i]] = w.steps[i];
  }
  return b.reshape(write(whole, b.reshape(src, shape), to), x.shape());
}

Value write_permuted(Value x, Value src, const Window& w) {
  const std::vector<int> order = permuted_axes(x);
  std::vector<int> inverse(order.size());
  Window to = w;
  for (int i = 0; i < x.rank(); ++i) {
    inverse[order[i]] = i;
    to.starts[order[i]] = w.starts[i];
    to.steps[order[i]] = w.steps[i];
  }
  return x.b->permute(write(operand(x, 0), x.b->permute(src, inverse), to), order);
}

/// x with src in its window w; x is memory or a view of it.
Value write(Value x, Value src, Window w) {
  Builder& b = *x.b;
  for (src = undone(src); producer(src).op == Op::kSliceWrite; src = undone(src)) {
    // A slice of x with something written into it, written back: that is written into x.
    const Value part = operand(src, 0);
    if (producer(part).op != Op::kSlice || producer(part).inputs[0] != x.id) break;
    const std::vector<Dim>& s = producer(part).attrs;
    const Window taken = Window::slice(x.rank(), normalize_axis(s[0].value, x.rank()), s[1], s[3].value);
    // Recorded apart, they are other symbols: that they are equal is a guard.
    if (!(taken.starts.values() == w.starts.values()) || !(taken.steps == w.steps)) break;
    if (!b.sym().equal(taken.starts, w.starts)) break;
    NodeAttrReader attrs(producer(src).attrs);
    Window inner;
    inner.starts = attrs.sizes();
    inner.steps = attrs.integers();
    w = w.of(inner, b.sym());
    src = operand(src, 1);
  }
  if (same(src.shape(), x.shape())) return src;
  if (producer(x).op == Op::kPermute) return write_permuted(x, src, w);
  if (producer(x).op == Op::kReshape) {
    if (const Value y = write_reshaped(x, src, w); y.defined()) return y;
  }
  // A source that is other elements of the same memory is read before that is written.
  if (root_of(src).id == root_of(x).id) src = b.barrier(src);
  return b.slice_write(x, src, w.starts, w.steps);
}

}  // namespace

Value write_slice(Value x, Value src, int axis, Dim start, int64_t step) {
  Builder& b = *x.b;
  if (is_memory(x)) return write(x, src, Window::slice(x.rank(), axis, start, step));
  // Takes a value that the step computes, so that it need not be written to memory for this.
  const Dim length = x.shape()[axis], count = src.shape()[axis];
  const Value at = b.iota(x.shape(), axis);
  Value inside = logical_and(at >= start, at < b.sym().add(start, b.sym().mul(count, step)));
  if (step != 1) inside = logical_and(inside, remainder(at - start, step) == 0);
  return where(inside, unslice(src, axis, length, start, step), x);
}

}  // namespace smolder::ir
