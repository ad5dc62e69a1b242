// Builds primitive graphs. Decompositions are written with `Value`, which reads like the formula:
//   Value y = x * 0.5 * (1.0 + erf(x * kSqrtHalf));
// Every function below appends at most a few primitive nodes, folds what is free to fold (a cast to
// the same type, a reshape to the same shape) and nothing else.
#pragma once

#include <array>
#include <initializer_list>
#include <optional>
#include <unordered_map>
#include <vector>

#include "smolder/core/scalar.h"
#include "smolder/ir/graph.h"

namespace smolder::ir {

enum class ReduceKind : uint8_t { kSum, kProd, kMax, kMin, kAny, kAll };
enum class ScanKind : uint8_t { kSum, kProd, kMax, kMin };
/// How scatter_into combines what is there with what is written.
enum class ScatterKind : uint8_t { kSet, kProd, kMax, kMin };

class Builder;

/// A value of a graph under construction.
struct Value {
  Builder* b = nullptr;
  ValueId id = kNone;

  Value() = default;
  Value(Builder* builder, ValueId v) : b(builder), id(v) {}
  bool defined() const { return id != kNone; }
  /// A copy: what is in the graph moves when nodes are added, as in `expand(cast(x, t), y.shape())`.
  SymDims shape() const;
  int rank() const { return shape().size(); }
  /// Extent of an axis, which may be negative.
  Dim size(int axis) const;
  DType dtype() const;
  bool weak() const;
};

/// Appends primitives to a graph.
class Builder {
 public:
  explicit Builder(Graph& g) : g_(g) {}
  Graph& graph() { return g_; }
  SymTable& sym() { return g_.sym; }
  /// Source token given to the nodes appended from now on.
  void set_origin(Origin origin) { origin_ = origin; }
  /// From now on long columns are reduced in chunks for the many threads of a device.
  void set_device(DeviceType device) { device_ = device; }
  DeviceType device() const { return device_; }

  Value wrap(ValueId v) { return {this, v}; }

  // -- leaves and constants
  /// An input buffer. `strides` empty means row-major contiguous; attrs hold the leaf's number.
  Value leaf(int number, DType dtype, SymDims shape, SymDims strides = {}, Dim offset = 0);
  /// A run-time number: slot `number` of the parameter block (float64 for floats, int64 otherwise).
  Value parameter(int number, Category category);
  /// A number known at compile time; weak. Equal ones are one node.
  Value constant(Scalar v);
  /// Strong constant of a dtype, shape [].
  Value constant(Scalar v, DType dtype);
  /// A size as a weak int64 number: the n that a mean divides by.
  Value number(Dim size);
  Value full(SymDims shape, Value fill, DType dtype);
  /// int64 positions 0..n-1 along `axis` of `shape`.
  Value iota(SymDims shape, int axis);
  /// Uniform random bits (uint32 as int64 in [0, 2^32)), one per element of `shape`, from
  /// Philox4x32-10 at (seed, offset), both zero-dim int64.
  Value random_bits(SymDims shape, Value seed, Value offset);

  // -- elementwise: promotes by torch's rules (weak numbers by category), broadcasts, then appends
  Value elementwise(Op op, std::initializer_list<Value> args);
  /// As `elementwise` with the arithmetic dtype given.
  Value elementwise_as(Op op, DType dtype, std::initializer_list<Value> args);
  Value elementwise(Op op, std::span<const Value> args);
  Value cast(Value x, DType dtype);
  Value where(Value condition, Value a, Value b);

  // -- reductions. Canonical order: docs/architecture/arithmetic.md. One axis; keeps it with extent ceil(n/chunk), or 1
  Value reduce_axis(ReduceKind kind, Value x, int axis, Dim chunk = 0);
  /// Any axes, in the canonical composition of single-axis reductions. Accumulates in the dtype of x:
  /// cast first. Empty `axes` means all.
  Value reduce(ReduceKind kind, Value x, const std::vector<int>& axes, bool keepdim);
  /// A shape whose reduced axes, where they are next to each other, are one: what `reduce` reshapes to, from the last
  /// of its axes to the first, and what the result's shape is with and without them. Empty `axes` means all.
  struct Merged {
    SymDims shape;
    std::vector<int> axes;  ///< in ascending order
    SymDims kept, dropped;
  };
  Merged merge_reduced(const SymDims& shape, const std::vector<int>& axes);
  /// In which chunks `reduce` reduces an axis of such a shape, or 0; `again`: of what that came to.
  int64_t reduce_chunk(const SymDims& shape, int axis, bool again = false);

  // -- movement
  Value reshape(Value x, SymDims shape);
  Value permute(Value x, const std::vector<int>& axes);
  Value transpose(Value x, int a, int b);
  /// numpy broadcasting to `shape` (aligned at the right).
  Value expand(Value x, SymDims shape);
  Value slice(Value x, int axis, Dim start, Dim stop, int64_t step = 1);
  /// Constant padding, low and high per axis.
  Value pad(Value x, SymDims low, SymDims high, Scalar fill);
  Value flip(Value x, const std::vector<int>& axes);
  Value cat(const std::vector<Value>& parts, int axis);
  Value unsqueeze(Value x, int axis);
  Value squeeze(Value x, int axis);

  // -- indexing. Indices are int64 or int32, none negative; out of range is reported, not trapped
  /// out.shape = x.shape[:axis] + index.shape + x.shape[axis+1:]
  Value take(Value x, Value index, int axis);
  /// torch.gather: out[i][j] = x[i][index[i][j]] for axis 1
  Value take_along(Value x, Value index, int axis);  // the primitive is called gather
  /// x with src added at rows `index` of `axis` (shapes as take); deterministic, in index order. The
  /// primitive is called index_add.
  Value scatter_add(Value x, Value index, Value src, int axis);
  /// torch.scatter_add, the transpose of take_along. The primitive is called scatter_add.
  Value scatter_add_along(Value x, Value index, Value src, int axis);

  /// x with src in place of the window that begins at `starts` and takes every `steps`th element, axis by axis.
  Value slice_write(Value x, Value src, const SymDims& starts, const Dims& steps);

  /// As scatter_add, but src takes the place of what is there. The primitive is called index_set.
  Value index_set(Value x, Value index, Value src, int axis);
  /// scatter_add_along with another way to combine; index may be smaller than x and src.
  Value scatter_into(ScatterKind kind, Value x, Value index, Value src, int axis);

  // -- scans and sorts
  /// Running reduction along `axis` in the dtype of x: cast first.
  Value scan(ScanKind kind, Value x, int axis);
  /// The first `limit` elements of `axis` in order, and where they were: a stable sort.
  std::array<Value, 2> sorted(Value x, int axis, bool descending, Dim limit);

  // -- products
  /// [batch..., m, k] x [batch..., k, n] -> [batch..., m, n], equal batch extents, result in `out`.
  /// Halves accumulate in float32.
  Value dot(Value a, Value b, DType out, Value bias = {});

  /// Opaque to CSE, fusion and scheduling.
  Value barrier(Value x);

  /// Appends any op or primitive node with the given results.
  Value append(Op op, const std::vector<Value>& inputs, std::vector<Dim> attrs, DType dtype, SymDims shape,
               bool weak = false);

 private:
  Value elementwise_in(Op op, std::span<const Value> args, DType compute, DType result, bool weak);
  SymDims broadcast_shape(Op op, std::span<const Value> args);
  Value reduce_canonical(ReduceKind kind, Value x, int axis);
  Value reshape_unchecked(Value x, SymDims shape);
  Graph& g_;
  Origin origin_;
  DeviceType device_ = DeviceType::kCPU;
  std::unordered_map<uint64_t, ValueId> constants_[3];  ///< weak constants made so far, by category and bits
};

// Free functions and operators over Value are generated for each elementwise primitive, with
// overloads that take numbers: exp(x), maximum(a, 0.0), a + b, 1.0 - a, a < b ...

}  // namespace smolder::ir
