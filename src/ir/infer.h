// Shape and dtype rules that rows of the op table name. Each throws what the user should see, with the
// op's name, shapes and dtypes; messages follow torch's words where torch has them.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "smolder/core/dims.h"
#include "smolder/core/dtype.h"
#include "smolder/ir/op.h"

namespace smolder::ir {

/// "[2, 3] float32", for messages.
std::string to_string(const Meta& m);

// -- dtypes

/// torch.result_type: tensors with dimensions, zero-dim tensors and Python numbers are promoted apart,
/// and a lower class counts only when its category is higher. Null entries are skipped.
DType result_type(std::span<const Meta* const> operands);
/// `t`, or the default float type when `t` is an integer or bool.
constexpr DType as_float(DType t) { return is_floating(t) ? t : DType::kFloat32; }
/// The dtype of sums and products of `t`: int64 for integers and bools.
constexpr DType sum_dtype(DType t) { return is_floating(t) ? t : DType::kInt64; }

/// Dtype that an elementwise op computes in, and that of its result.
struct ElementwiseTypes {
  DType compute;
  DType result;
  bool weak;  ///< all operands are Python numbers, so the result is one: float64, int64 or bool
};
/// The condition of `where` does not count. Throws RuntimeError when `op` is a primitive that does not
/// take the promoted dtype.
ElementwiseTypes elementwise_types(Op op, std::span<const Meta* const> operands);

// -- shapes

/// numpy broadcasting of all operands but null ones.
Dims broadcast(std::string_view op, std::span<const Meta* const> operands);
/// Shape and dtype of an elementwise op.
Meta infer_elementwise(Op op, const Call& call);
/// Axes in [0, rank), ascending; an empty list means all. Throws IndexError when out of range,
/// RuntimeError when one is named twice.
Dims reduction_axes(std::string_view op, const Dims& axes, int rank);
/// Shape after reducing `axes` (empty: all).
Dims reduced_shape(std::string_view op, const Dims& shape, const Dims& axes, bool keepdim);
/// Throws IndexError unless every reduced extent is positive: for reductions without an identity.
void check_nonempty(std::string_view op, const Dims& shape, const Dims& axes);
/// `axis` in [0, rank); names `op` in the error.
int check_axis(std::string_view op, int64_t axis, int rank);
/// Axes in [0, rank), in the order given.
Dims check_axes(std::string_view op, const Dims& axes, int rank);
/// Replaces a -1 by what makes the number of elements right. Throws RuntimeError in torch's words.
Dims resolve_reshape(const Dims& from, const Dims& shape);
/// Replaces -1 by the extent there is; checks that `from` broadcasts to `shape`.
Dims resolve_expand(const Dims& from, const Dims& shape);
/// Throws RuntimeError where an extent is negative: a shape made of sizes that the user gave.
void check_sizes(const Dims& shape);
void check_sizes(std::span<const Meta> results);
/// Shape of torch.matmul.
Dims matmul_shape(std::string_view op, const Meta& a, const Meta& b);

/// Dtype that numbers beside tensors of dtype `t` are converted to by an elementwise primitive: its compute type, but
/// `t` itself where nothing is rounded after: a half equals no number that it does not hold, and selects none.
DType number_type(Op op, DType t);

// -- checks

/// Throws RuntimeError when a factor of category `alpha` is none for values of dtype `result`.
void check_alpha(std::string_view op, Category alpha, DType result);
/// Throws RuntimeError for bool tensors, and numbers, in torch's words.
void check_subtraction(const Meta& self, const Meta& other);

/// Throws RuntimeError unless `m` has `rank` dimensions.
void check_rank(std::string_view op, std::string_view name, const Meta& m, int rank);
/// Throws NotImplementedError unless `m` has a dtype of the set (float, number, int, integral, bool, all).
void check_dtype(std::string_view op, std::string_view name, const Meta& m, std::string_view set);
/// Throws RuntimeError unless both have one dtype.
void check_same_dtype(std::string_view op, std::string_view a_name, const Meta& a, std::string_view b_name,
                      const Meta& b);
/// Throws RuntimeError unless both have one shape.
void check_same_shape(std::string_view op, std::string_view a_name, const Meta& a, std::string_view b_name,
                      const Meta& b);
/// Throws RuntimeError unless `m` is an int32 or int64 tensor.
void check_index(std::string_view op, std::string_view name, const Meta& m);
/// Throws RuntimeError unless index and src fit self for a scatter along `dim`, and IndexError as check_extent does.
void check_scatter(std::string_view op, const Meta& self, int64_t dim, const Meta& index, const Meta& src);
/// Throws unless `source` has a slice of self's along `dim` for each element of the vector `index`.
void check_rows(std::string_view op, const Meta& self, int64_t dim, const Meta& index, const Meta& source);
/// Throws IndexError when there are indices and nothing along `axis` that they could mean.
void check_extent(std::string_view op, const Meta& m, int axis, const Meta& index);

}  // namespace smolder::ir
