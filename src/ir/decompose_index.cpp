// Reads and writes at indices. An index of an element each that repeats a vector, as index.unsqueeze(1).expand(...)
// does, is one of rows: it is read once a row, and rows are what memory, and sorts of indices, have to do with.
#include "smolder/ir/decompose.h"
#include "smolder/ir/producers.h"

namespace smolder::ir {
namespace {

/// The first elements of an axis; x where these are all of them, which is a guard.
Value first_of(Value x, int axis, Dim extent) {
  return x.b->sym().equal(extent, x.shape()[axis]) ? x : x.b->slice(x, axis, 0, extent);
}

/// The vector that an index repeats along all axes but `axis`; nothing where it is no such, or has one row alone.
Value vector_of(Value index, int axis) {
  Builder& b = *index.b;
  bool is_vector = true;
  for (int i = 0; i < index.rank(); ++i) {
    // Who has no elements has no index that is out of range.
    if (index.shape()[i] == Dim(0) || (i != axis && !repeats(index, i))) return {};
    is_vector = is_vector && (i == axis || index.shape()[i] == Dim(1));
  }
  if (is_vector) return {};
  for (int i = 0; i < index.rank(); ++i) {
    if (i != axis) index = b.slice(index, i, 0, 1);
  }
  return b.reshape(index, {index.shape()[axis]});
}

/// A number that is written at many places is in memory once, and not as often as it is written.
Value held_once(Value src) {
  if (producer(src).op != Op::kExpand) return src;
  const Value number = operand(src, 0);
  if (number.rank() > 0 || number.weak()) return src;
  Builder& b = *src.b;
  SymDims ones;
  while (ones.size() < src.rank()) ones.push_back(1);
  return b.expand(b.barrier(b.expand(number, ones)), src.shape());
}

}  // namespace

Value gather_along(Value x, Value index, int axis) {
  axis = normalize_axis(axis, x.rank());
  if (x.rank() == 0) return x.b->reshape(x.b->take_along(x.b->reshape(x, {1}), x.b->reshape(index, {1}), 0), {});
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) x = first_of(x, i, index.shape()[i]);
  }
  const Value rows = vector_of(index, axis);
  return rows.defined() ? x.b->take(x, rows, axis) : x.b->take_along(x, index, axis);
}

Value scatter_add_at(Value x, Value index, Value src, int axis) {
  Builder& b = *x.b;
  axis = normalize_axis(axis, x.rank());
  if (x.rank() == 0) {
    return b.reshape(b.scatter_add_along(b.reshape(x, {1}), b.reshape(index, {1}), b.reshape(src, {1}), 0), {});
  }
  src = held_once(src);
  SymDims low, high;
  bool reaches_all = true;
  for (int i = 0; i < x.rank(); ++i) {
    src = first_of(src, i, index.shape()[i]);
    const bool whole = i == axis || b.sym().equal(index.shape()[i], x.shape()[i]);
    low.push_back(0);
    high.push_back(whole ? Dim(0) : b.sym().sub(x.shape()[i], index.shape()[i]));
    reaches_all = reaches_all && whole;
  }
  if (reaches_all) {
    const Value rows = vector_of(index, axis);
    return rows.defined() ? b.scatter_add(x, rows, src, axis) : b.scatter_add_along(x, index, src, axis);
  }
  // Where index does not reach, -0 is added at 0: that changes no bits.
  const Scalar nothing = is_floating(x.dtype()) ? Scalar(-0.0) : Scalar(0);
  return b.scatter_add_along(x, b.pad(index, low, high, 0), b.pad(src, low, high, nothing), axis);
}

Value take_rows(Value x, Value index, int64_t axis) {
  Builder& b = *x.b;
  const Value rows = index.rank() == 0 ? b.reshape(index, {1}) : index;
  if (x.rank() == 0) return b.reshape(b.take(b.reshape(x, {1}), rows, 0), {});
  return b.take(x, rows, normalize_axis(axis, x.rank()));
}

Value add_rows(Value x, Value index, Value src, int64_t axis) {
  Builder& b = *x.b;
  const Value rows = index.rank() == 0 ? b.reshape(index, {1}) : index;
  if (x.rank() == 0) return b.reshape(b.scatter_add(b.reshape(x, {1}), rows, b.reshape(src, {1}), 0), {});
  return b.scatter_add(x, rows, held_once(src), normalize_axis(axis, x.rank()));
}

Value set_rows(Value x, Value index, Value src, int64_t axis) {
  Builder& b = *x.b;
  const Value rows = index.rank() == 0 ? b.reshape(index, {1}) : index;
  if (x.rank() == 0) return b.reshape(b.index_set(b.reshape(x, {1}), rows, b.reshape(src, {1}), 0), {});
  axis = normalize_axis(axis, x.rank());
  if (src.rank() < x.rank()) src = b.unsqueeze(src, static_cast<int>(axis));
  return b.index_set(x, rows, held_once(src), static_cast<int>(axis));
}

Value scatter_at(ScatterKind kind, Value x, Value index, Value src, int axis) {
  Builder& b = *x.b;
  if (x.rank() == 0) {
    const Value y = b.scatter_into(kind, b.reshape(x, {1}), b.reshape(index, {1}), b.reshape(src, {1}), 0);
    return b.reshape(y, {});
  }
  if (x.rank() == 1 && index.rank() == 0) index = b.reshape(index, {1});
  if (x.rank() == 1 && src.rank() == 0) src = b.reshape(src, {1});
  if (index.rank() != x.rank()) return x;  // which only an index without elements is let do
  axis = normalize_axis(axis, x.rank());
  src = held_once(src);
  if (kind != ScatterKind::kSet) return b.scatter_into(kind, x, index, src, axis);
  for (int i = 0; i < x.rank(); ++i) {
    const bool whole = i == axis || b.sym().equal(index.shape()[i], x.shape()[i]);
    if (!whole) return b.scatter_into(kind, x, index, src, axis);
  }
  const Value rows = vector_of(index, axis);
  if (!rows.defined()) return b.scatter_into(kind, x, index, src, axis);
  for (int i = 0; i < x.rank(); ++i) src = first_of(src, i, index.shape()[i]);
  return b.index_set(x, rows, src, axis);
}

}  // namespace smolder::ir
