#include "smolder/ir/builder.h"

#include <algorithm>
#include <array>
#include <bit>

#include "smolder/core/size.h"
#include "smolder/ir/infer.h"

namespace smolder::ir {
namespace {

// docs/architecture/arithmetic.md, "Canonical reductions": beyond these extents an axis is reduced in chunks.
constexpr int64_t kLongestRow = 131072, kRowChunk = 16384;
constexpr int64_t kLongestColumn = 128, kColumnChunk = 128;
// On CUDA: as many chunks as there are, about, of what computes side by side, if that leaves rows for each.
constexpr int64_t kShortestDeviceChunk = 16, kLongestDeviceChunk = 2048, kDeviceChunks = 128, kMostPartials = 512;
// Limits of reductions of all elements.
constexpr int64_t kLongestDeviceRow = 4096, kShortestDeviceRowChunk = 128, kDeviceRowChunks = 1024;

constexpr int kMaxElementwiseArity = 3;

Dim word(DType t) { return static_cast<int64_t>(t); }

std::vector<Dim> list_words(const SymDims& list) {
  std::vector<Dim> words{list.size()};
  words.insert(words.end(), list.begin(), list.end());
  return words;
}

std::vector<Dim> list_words(const std::vector<int>& list) {
  std::vector<Dim> words{static_cast<int64_t>(list.size())};
  words.insert(words.end(), list.begin(), list.end());
  return words;
}

Meta meta_of(const Value& v) { return {v.shape().values(), v.dtype(), v.weak()}; }

/// Relies on `d` being 1 when the sample says so. A "no" may prove wrong at other sizes: callers must
/// stay right then, or ask `is_structurally_one`.
bool is_one(SymTable& sym, const Dim& d) { return d.value == 1 && sym.equal(d, 1); }

/// The same with a guard whichever the answer. Symbols need none: extents of 0 and 1 never become one.
bool is_structurally_one(SymTable& sym, const Dim& d) {
  if (d.value == 1) return sym.equal(d, 1);
  const bool known = d.is_constant() || sym.exprs()[d.expr].op == SymOp::kSymbol;
  if (!known && !sym.less_equal(2, d)) sym.less_equal(d, 0);
  return false;
}

}  // namespace

SymDims Value::shape() const { return b->graph().shape(id); }
DType Value::dtype() const { return b->graph().dtype(id); }
bool Value::weak() const { return b->graph().info(id).weak; }
Dim Value::size(int axis) const { return shape()[normalize_axis(axis, rank())]; }

Value Builder::append(Op op, const std::vector<Value>& inputs, std::vector<Dim> attrs, DType dtype, SymDims shape,
                      bool weak) {
  std::vector<ValueId> ids;
  ids.reserve(inputs.size());
  for (const Value& v : inputs) ids.push_back(v.id);
  storage_bytes(shape.values(), dtype);
  const ValueInfo result{.node = kNone, .dtype = dtype, .weak = weak, .shape = shape};
  return wrap(g_.append(op, std::move(ids), std::move(attrs), {&result, 1}, origin_));
}

// -- leaves and constants

Value Builder::leaf(int number, DType dtype, SymDims shape, SymDims strides, Dim offset) {
  if (strides.empty()) strides = sym().contiguous_strides(shape);
  SMOLDER_INVARIANT(strides.size() == shape.size());
  std::vector<Dim> attrs{number, offset};
  for (const Dim& d : list_words(strides)) attrs.push_back(d);
  return append(Op::kLeaf, {}, std::move(attrs), dtype, shape);
}

Value Builder::parameter(int number, Category category) {
  const DType t = Scalar::from_bits(0, category).dtype(DType::kFloat64);
  return append(Op::kParameter, {}, {number, static_cast<int64_t>(category)}, t, {}, true);
}

Value Builder::constant(Scalar v) {
  const auto [it, fresh] = constants_[static_cast<int>(v.category())].try_emplace(v.bits(), kNone);
  if (fresh) {
    it->second = append(Op::kConstant, {}, {static_cast<int64_t>(v.category()), static_cast<int64_t>(v.bits())},
                        v.dtype(DType::kFloat64), {}, true)
                     .id;
  }
  return wrap(it->second);
}

Value Builder::constant(Scalar v, DType dtype) {
  return append(Op::kConstant, {}, {static_cast<int64_t>(v.category()), static_cast<int64_t>(v.bits())}, dtype, {});
}

Value Builder::number(Dim size) {
  if (size.is_constant()) return constant(Scalar(size.value));
  return append(Op::kExtent, {}, {size}, DType::kInt64, {}, true);
}

Value Builder::full(SymDims shape, Value fill, DType dtype) { return expand(cast(fill, dtype), shape); }

Value Builder::iota(SymDims shape, int axis) {
  std::vector<Dim> attrs = list_words(shape);
  attrs.push_back(normalize_axis(axis, shape.size()));
  return append(Op::kIota, {}, std::move(attrs), DType::kInt64, shape);
}

Value Builder::random_bits(SymDims shape, Value seed, Value offset) {
  SMOLDER_INVARIANT(seed.rank() == 0 && offset.rank() == 0);
  return append(Op::kRandomBits, {seed, offset}, list_words(shape), DType::kInt64, shape);
}

// -- elementwise

SymDims Builder::broadcast_shape(Op op, std::span<const Value> args) {
  int rank = 0;
  for (const Value& v : args) rank = std::max(rank, v.rank());
  SymDims out;
  for (int i = 0; i < rank; ++i) out.push_back(1);
  for (const Value& v : args) {
    for (int i = rank - v.rank(); i < rank; ++i) {
      const Dim d = v.shape()[i - (rank - v.rank())];
      if (d == out[i] || is_one(sym(), d)) continue;
      SMOLDER_CHECK(is_one(sym(), out[i]) || sym().equal(out[i], d), RuntimeError, name(op), ": The size of tensor a (",
                    out[i].value, ") must match the size of tensor b (", d.value, ") at non-singleton dimension ", i);
      if (out[i].value == 1) out[i] = d;
    }
  }
  return out;
}

Value Builder::elementwise_in(Op op, std::span<const Value> args, DType compute, DType result, bool weak) {
  if (weak) return append(op, {args.begin(), args.end()}, {}, result, {}, true);
  const SymDims shape = broadcast_shape(op, args);
  const bool rounds_numbers = number_type(op, compute) != compute_type(compute);
  std::vector<Value> operands(args.begin(), args.end());
  for (size_t i = 0; i < operands.size(); ++i) {
    Value& v = operands[i];
    const bool condition = op == Op::kWhere && i == 0;
    if (v.weak() && (condition || !rounds_numbers)) continue;
    v = expand(cast(v, condition ? DType::kBool : compute), shape);
  }
  return append(op, operands, {}, result, shape);
}

Value Builder::elementwise(Op op, std::span<const Value> args) {
  SMOLDER_INVARIANT(is_elementwise_primitive(op) && args.size() <= kMaxElementwiseArity);
  std::array<Meta, kMaxElementwiseArity> metas;
  std::array<const Meta*, kMaxElementwiseArity> pointers;
  for (size_t i = 0; i < args.size(); ++i) {
    metas[i] = meta_of(args[i]);
    pointers[i] = &metas[i];
  }
  const ElementwiseTypes t = elementwise_types(op, {pointers.data(), args.size()});
  return elementwise_in(op, args, t.compute, t.result, t.weak);
}

Value Builder::elementwise(Op op, std::initializer_list<Value> args) {
  return elementwise(op, std::span<const Value>(args.begin(), args.size()));
}

Value Builder::elementwise_as(Op op, DType dtype, std::initializer_list<Value> args) {
  SMOLDER_INVARIANT(is_elementwise_primitive(op));
  std::vector<Value> operands(args);
  const size_t first = op == Op::kWhere ? 1 : 0;
  for (size_t i = first; i < operands.size(); ++i) {
    Value& v = operands[i];
    if (v.weak() && category(v.dtype()) > category(dtype)) v = cast(v, dtype);  // it would promote
  }
  // A node's arithmetic dtype is that of its strong operands, so one of them must be strong.
  const auto weak = [](const Value& v) { return v.weak(); };
  if (std::all_of(operands.begin() + first, operands.end(), weak)) operands.back() = cast(operands.back(), dtype);
  return elementwise_in(op, operands, dtype, info(op).dtype_rule == DTypeRule::kBool ? DType::kBool : dtype, false);
}

Value Builder::cast(Value x, DType dtype) {
  if (x.dtype() == dtype && !x.weak()) return x;
  return append(Op::kCast, {x}, {word(dtype)}, dtype, x.shape());
}

Value Builder::where(Value condition, Value a, Value b) { return elementwise(Op::kWhere, {condition, a, b}); }

// -- reductions

Value Builder::reduce_axis(ReduceKind kind, Value x, int axis, Dim chunk) {
  SymDims shape = x.shape();
  shape[axis] = chunk == Dim(0) ? Dim(1) : sym().ceil_div(shape[axis], chunk);
  return append(Op::kReduce, {x}, {static_cast<int64_t>(kind), axis, chunk}, x.dtype(), shape);
}

int64_t Builder::reduce_chunk(const SymDims& shape, int axis, bool again) {
  bool row = true;
  for (int i = axis + 1; i < shape.size() && row; ++i) row = is_structurally_one(sym(), shape[i]);
  const bool on_device = device_ == DeviceType::kCUDA, all = on_device && shape.size() == 1;
  const auto fits = [&](int64_t extent) { return sym().less_equal(shape[axis], extent); };
  if (!on_device || (row && !all)) {
    return fits(row ? kLongestRow : kLongestColumn) ? 0 : row ? kRowChunk : kColumnChunk;
  }
  // One row has one group of threads.
  if (fits(all ? kLongestDeviceRow : again ? kMostPartials : kLongestColumn)) return 0;
  int64_t chunk = all ? kShortestDeviceRowChunk : kShortestDeviceChunk;
  while (chunk < (all ? kRowChunk : kLongestDeviceChunk) && !fits(chunk * (all ? kDeviceRowChunks : kDeviceChunks)))
    chunk *= 2;
  return chunk;
}

/// Reduces one axis to extent 1, in chunks while it is long.
Value Builder::reduce_canonical(ReduceKind kind, Value x, int axis) {
  for (bool again = false;; again = true) {
    const int64_t chunk = reduce_chunk(x.shape(), axis, again);
    x = reduce_axis(kind, x, axis, chunk);
    if (chunk == 0) return x;
  }
}

Builder::Merged Builder::merge_reduced(const SymDims& shape, const std::vector<int>& axes) {
  const int rank = shape.size();
  std::array<bool, kMaxRank> reduced{};
  for (int a : axes) reduced[normalize_axis(a, rank)] = true;
  if (axes.empty()) reduced.fill(true);
  Merged merged;
  for (int i = 0; i < rank; ++i) {
    if (reduced[i] && i > 0 && reduced[i - 1]) {
      Dim& last = merged.shape[merged.shape.size() - 1];
      last = sym().mul(last, shape[i]);
    } else {
      if (reduced[i]) merged.axes.push_back(merged.shape.size());
      merged.shape.push_back(shape[i]);
    }
    merged.kept.push_back(reduced[i] ? Dim(1) : shape[i]);
    if (!reduced[i]) merged.dropped.push_back(shape[i]);
  }
  return merged;
}

Value Builder::reduce(ReduceKind kind, Value x, const std::vector<int>& axes, bool keepdim) {
  if (x.rank() == 0) return x;
  const Merged merged = merge_reduced(x.shape(), axes);
  x = reshape_unchecked(x, merged.shape);
  for (auto a = merged.axes.rbegin(); a != merged.axes.rend(); ++a) x = reduce_canonical(kind, x, *a);
  return reshape_unchecked(x, keepdim ? merged.kept : merged.dropped);
}

// -- movement

Value Builder::reshape_unchecked(Value x, SymDims shape) {
  const SymDims from = x.shape();
  if (from.size() == shape.size() && std::equal(from.begin(), from.end(), shape.begin())) return x;
  return append(Op::kReshape, {x}, list_words(shape), x.dtype(), shape);
}

Value Builder::reshape(Value x, SymDims shape) {
  // A shape that is the same in the sample stays the same: two guards are better than a node.
  if (x.shape().values() == shape.values() && sym().equal(shape, x.shape())) return x;
  SMOLDER_CHECK(sym().equal(sym().numel(x.shape()), sym().numel(shape)), RuntimeError, "reshape: shape '",
                shape.values(), "' is invalid for input of shape ", x.shape().values());
  return reshape_unchecked(x, shape);
}

Value Builder::permute(Value x, const std::vector<int>& axes) {
  SMOLDER_INVARIANT(static_cast<int>(axes.size()) == x.rank());
  std::vector<int> order;
  SymDims shape;
  bool identity = true;
  for (int a : axes) {
    order.push_back(normalize_axis(a, x.rank()));
    identity = identity && order.back() == shape.size();
    shape.push_back(x.shape()[order.back()]);
  }
  return identity ? x : append(Op::kPermute, {x}, list_words(order), x.dtype(), shape);
}

Value Builder::transpose(Value x, int a, int b) {
  if (x.rank() == 0) return x;
  std::vector<int> axes;
  for (int i = 0; i < x.rank(); ++i) axes.push_back(i);
  std::swap(axes[normalize_axis(a, x.rank())], axes[normalize_axis(b, x.rank())]);
  return permute(x, axes);
}

Value Builder::expand(Value x, SymDims shape) {
  const SymDims from = x.shape();
  const int lead = shape.size() - from.size();
  SMOLDER_INVARIANT(lead >= 0);
  bool same = lead == 0;
  for (int i = 0; i < from.size(); ++i) {
    const Dim to = shape[i + lead];
    if (from[i] == to || sym().equal(to, from[i])) continue;
    SMOLDER_CHECK(is_one(sym(), from[i]), RuntimeError, "expand: The expanded size (", to.value,
                  ") must match the existing size (", from[i].value, ") at dimension ", i);
    same = false;
  }
  return same ? x : append(Op::kExpand, {x}, list_words(shape), x.dtype(), shape);
}

Value Builder::slice(Value x, int axis, Dim start, Dim stop, int64_t step) {
  SMOLDER_INVARIANT(step >= 1);
  axis = normalize_axis(axis, x.rank());
  SymDims shape = x.shape();
  if (start == Dim(0) && stop == shape[axis] && step == 1) return x;
  const bool is_one = stop.value - start.value == 1 && stop == sym().add(start, 1);
  shape[axis] = is_one ? Dim(1) : sym().ceil_div(sym().sub(stop, start), step);
  return append(Op::kSlice, {x}, {axis, start, stop, step}, x.dtype(), shape);
}

Value Builder::pad(Value x, SymDims low, SymDims high, Scalar fill) {
  SMOLDER_INVARIANT(low.size() == x.rank() && high.size() == x.rank());
  SMOLDER_CHECK(fill.category() == Category::kFloat || static_cast<int64_t>(fill.to_double()) == fill.to_int(),
                ValueError, "pad: fill ", fill.to_int(), " has more than 53 bits");
  SymDims shape = x.shape();
  bool none = true;
  for (int i = 0; i < shape.size(); ++i) {
    none = none && low[i] == Dim(0) && high[i] == Dim(0);
    shape[i] = sym().add(sym().add(low[i], shape[i]), high[i]);
  }
  if (none) return x;
  std::vector<Dim> attrs = list_words(low);
  for (const Dim& d : list_words(high)) attrs.push_back(d);
  attrs.push_back(std::bit_cast<int64_t>(fill.to_double()));
  return append(Op::kPad, {x}, std::move(attrs), x.dtype(), shape);
}

Value Builder::flip(Value x, const std::vector<int>& axes) {
  std::vector<int> order;
  for (int a : axes) order.push_back(normalize_axis(a, x.rank()));
  std::sort(order.begin(), order.end());
  if (order.empty() || x.rank() == 0) return x;
  return append(Op::kFlip, {x}, list_words(order), x.dtype(), x.shape());
}

Value Builder::cat(const std::vector<Value>& parts, int axis) {
  SMOLDER_INVARIANT(!parts.empty());
  if (parts.size() == 1) return parts[0];
  axis = normalize_axis(axis, parts[0].rank());
  SymDims shape = parts[0].shape();
  for (size_t p = 1; p < parts.size(); ++p) {
    SMOLDER_INVARIANT(parts[p].rank() == shape.size() && parts[p].dtype() == parts[0].dtype());
    for (int i = 0; i < shape.size(); ++i) {
      if (i == axis) {
        shape[i] = sym().add(shape[i], parts[p].shape()[i]);
      } else {
        SMOLDER_INVARIANT(sym().equal(shape[i], parts[p].shape()[i]));
      }
    }
  }
  return append(Op::kCat, parts, {axis}, parts[0].dtype(), shape);
}

Value Builder::unsqueeze(Value x, int axis) {
  SymDims shape = x.shape();
  shape.insert(normalize_axis(axis, x.rank() + 1), 1);
  return reshape_unchecked(x, shape);
}

Value Builder::squeeze(Value x, int axis) {
  SymDims shape = x.shape();
  if (shape.empty()) return x;
  axis = normalize_axis(axis, x.rank());
  if (!is_structurally_one(sym(), shape[axis])) return x;
  shape.erase(axis);
  return reshape_unchecked(x, shape);
}

// -- indexing

Value Builder::take(Value x, Value index, int axis) {
  axis = normalize_axis(axis, x.rank());
  SymDims shape;
  for (int i = 0; i < axis; ++i) shape.push_back(x.shape()[i]);
  for (const Dim& d : index.shape()) shape.push_back(d);
  for (int i = axis + 1; i < x.rank(); ++i) shape.push_back(x.shape()[i]);
  return append(Op::kTake, {x, index}, {axis}, x.dtype(), shape);
}

Value Builder::take_along(Value x, Value index, int axis) {
  axis = normalize_axis(axis, x.rank());
  SMOLDER_INVARIANT(index.rank() == x.rank());
  for (int i = 0; i < x.rank(); ++i) {
    SMOLDER_INVARIANT(i == axis || sym().equal(index.shape()[i], x.shape()[i]));
  }
  return append(Op::kGather, {x, index}, {axis}, x.dtype(), index.shape());
}

Value Builder::scatter_add(Value x, Value index, Value src, int axis) {
  SMOLDER_INVARIANT(x.dtype() == src.dtype() && src.rank() == x.rank() - 1 + index.rank());
  return append(Op::kIndexAdd, {x, index, src}, {normalize_axis(axis, x.rank())}, x.dtype(), x.shape());
}

Value Builder::scatter_add_along(Value x, Value index, Value src, int axis) {
  SMOLDER_INVARIANT(x.dtype() == src.dtype() && sym().equal(index.shape(), src.shape()) && index.rank() == x.rank());
  return append(Op::kScatterAdd, {x, index, src}, {normalize_axis(axis, x.rank())}, x.dtype(), x.shape());
}

Value Builder::index_set(Value x, Value index, Value src, int axis) {
  SMOLDER_INVARIANT(x.dtype() == src.dtype() && src.rank() == x.rank() - 1 + index.rank());
  return append(Op::kIndexSet, {x, index, src}, {normalize_axis(axis, x.rank())}, x.dtype(), x.shape());
}

Value Builder::slice_write(Value x, Value src, const SymDims& starts, const Dims& steps) {
  SMOLDER_INVARIANT(x.dtype() == src.dtype() && src.rank() == x.rank() && starts.size() == x.rank() &&
                    steps.size() == x.rank());
  std::vector<Dim> attrs = list_words(starts);
  attrs.push_back(steps.size());
  for (const int64_t step : steps) attrs.push_back(step);
  return append(Op::kSliceWrite, {x, src}, std::move(attrs), x.dtype(), x.shape());
}

Value Builder::scatter_into(ScatterKind kind, Value x, Value index, Value src, int axis) {
  SMOLDER_INVARIANT(x.dtype() == src.dtype() && index.rank() == x.rank() && src.rank() == x.rank());
  return append(Op::kScatterInto, {x, index, src}, {static_cast<int64_t>(kind), normalize_axis(axis, x.rank())},
                x.dtype(), x.shape());
}

// -- scans and sorts

Value Builder::scan(ScanKind kind, Value x, int axis) {
  return append(Op::kScan, {x}, {static_cast<int64_t>(kind), normalize_axis(axis, x.rank())}, x.dtype(), x.shape());
}

std::array<Value, 2> Builder::sorted(Value x, int axis, bool descending, Dim limit) {
  axis = normalize_axis(axis, x.rank());
  SymDims shape = x.shape();
  shape[axis] = limit;
  const ValueInfo results[] = {{.node = kNone, .dtype = x.dtype(), .weak = false, .shape = shape},
                               {.node = kNone, .dtype = DType::kInt64, .weak = false, .shape = shape}};
  const ValueId first = g_.append(Op::kSorted, {x.id}, {axis, descending, limit}, results, origin_);
  return {wrap(first), wrap(first + 1)};
}

// -- products

Value Builder::dot(Value a, Value b, DType out, Value bias) {
  const int rank = a.rank();
  SMOLDER_INVARIANT(rank >= 2 && b.rank() == rank && a.dtype() == b.dtype());
  SymDims shape = a.shape();
  for (int i = 0; i < rank - 2; ++i) SMOLDER_INVARIANT(sym().equal(a.shape()[i], b.shape()[i]));
  SMOLDER_INVARIANT(sym().equal(a.shape()[rank - 1], b.shape()[rank - 2]));
  shape[rank - 1] = b.shape()[rank - 1];
  if (bias.defined()) {
    SMOLDER_INVARIANT(is_floating(out) && bias.dtype() == out && bias.rank() == 1);
    SMOLDER_INVARIANT(sym().equal(bias.shape()[0], shape[rank - 1]));
  }
  return append(Op::kDot, {a, b, bias}, {word(out)}, out, shape);
}

Value Builder::barrier(Value x) { return append(Op::kBarrier, {x}, {}, x.dtype(), x.shape(), x.weak()); }

}  // namespace smolder::ir
