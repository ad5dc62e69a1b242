#include "smolder/ir/infer.h"

#include <algorithm>
#include <limits>

#include "smolder/core/size.h"
#include "smolder/ir/scalar/primitive.h"

namespace smolder::ir {
namespace {

/// Combines two classes of operands, `high` before `low` (torch's combine_categories).
std::optional<DType> combine(std::optional<DType> high, std::optional<DType> low) {
  if (!high || !low) return high ? high : low;
  if (is_floating(*high)) return is_complex(*low) ? complex_type(*high) : *high;
  if (*high == DType::kBool || is_differentiable(*low)) return promote(*high, *low);
  return high;
}

void widen(std::optional<DType>& t, DType with) { t = t ? promote(*t, with) : with; }

bool in_set(DType t, std::string_view set) {
  const Category c = category(t);
  if (set == "all") return true;
  if (set == "float") return c == Category::kFloat;
  if (set == "number") return c != Category::kBool;
  if (set == "int") return c == Category::kInt;
  if (set == "integral") return c != Category::kFloat;
  SMOLDER_INVARIANT(set == "bool");
  return c == Category::kBool;
}

/// Widens `shape` to what it and `other` broadcast to; false when they do not.
bool broadcast_into(Dims& shape, const Dims& other) {
  while (shape.size() < other.size()) shape.insert(0, 1);
  const int lead = shape.size() - other.size();
  for (int i = 0; i < other.size(); ++i) {
    int64_t& n = shape[i + lead];
    if (n != other[i] && n != 1 && other[i] != 1) return false;
    if (n == 1) n = other[i];
  }
  return true;
}

/// Says which sizes of which two operands differ, and what all of them are.
[[noreturn]] void raise_not_broadcastable(std::string_view op, std::span<const Meta* const> operands) {
  std::string list, clash;
  Dims seen;
  for (const Meta* m : operands) {
    if (!m || m->weak) continue;
    list += (list.empty() ? "" : ", ") + to_string(*m);
    const Dims before = seen;
    if (!clash.empty() || broadcast_into(seen, m->shape)) continue;
    const int rank = std::max(before.size(), m->shape.size());
    for (int i = rank - 1; i >= 0 && clash.empty(); --i) {
      const int ia = i - rank + before.size(), ib = i - rank + m->shape.size();
      if (ia < 0 || ib < 0 || before[ia] == 1 || m->shape[ib] == 1 || before[ia] == m->shape[ib]) continue;
      clash = "The size of tensor a (" + std::to_string(before[ia]) + ") must match the size of tensor b (" +
              std::to_string(m->shape[ib]) + ") at non-singleton dimension " + std::to_string(i);
    }
  }
  raise<RuntimeError>(op, ": ", clash, "; the operands are ", list);
}

std::string_view describe_set(std::string_view set) {
  return set == "float"      ? "a floating-point dtype"
         : set == "number"   ? "a dtype other than bool"
         : set == "int"      ? "an integer dtype"
         : set == "integral" ? "an integer or bool dtype"
                             : "bool";
}

}  // namespace

std::string to_string(const Meta& m) { return smolder::to_string(m.shape) + " " + std::string(name(m.dtype)); }

DType result_type(std::span<const Meta* const> operands) {
  std::optional<DType> dims, zero, number;
  for (const Meta* m : operands) {
    if (!m) continue;
    if (m->weak) {
      widen(number, is_floating(m->dtype) ? DType::kFloat32 : m->dtype);
    } else {
      widen(m->shape.empty() ? zero : dims, m->dtype);
    }
  }
  const std::optional<DType> t = combine(dims, combine(zero, number));
  SMOLDER_INVARIANT(t.has_value());
  return *t;
}

ElementwiseTypes elementwise_types(Op op, std::span<const Meta* const> operands) {
  const OpInfo& row = info(op);
  const bool select = op == Op::kWhere;
  const auto chosen = operands.subspan(select ? 1 : 0);
  const auto is_weak = [](const Meta* m) { return !m || m->weak; };
  const bool weak = std::all_of(operands.begin(), operands.end(), is_weak);
  DType t = result_type(chosen);
  if (row.dtype_rule == DTypeRule::kFloat) t = as_float(t);
  if (weak && is_floating(t)) t = DType::kFloat64;  // Python numbers compute as Python does
  if (is_elementwise_primitive(op)) {
    const scalar::PrimitiveInfo& p = scalar::info(static_cast<scalar::Primitive>(op));
    SMOLDER_CHECK(op != Op::kNeg || t != DType::kBool, RuntimeError,
                  "neg: Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert a "
                  "mask, use the `~` or `logical_not()` operator instead.");
    SMOLDER_CHECK(p.takes(t), NotImplementedError, row.name, ": not implemented for ", name(t),
                  t == DType::kBool ? "; on bool tensors use logical_and, logical_or, logical_xor or logical_not" : "");
  }
  return {t, row.dtype_rule == DTypeRule::kBool ? DType::kBool : t, weak};
}

Dims broadcast(std::string_view op, std::span<const Meta* const> operands) {
  Dims out;
  for (const Meta* m : operands) {
    if (!m || m->shape.empty() || m->shape == out) continue;
    if (!broadcast_into(out, m->shape)) raise_not_broadcastable(op, operands);
  }
  return out;
}

Meta infer_elementwise(Op op, const Call& call) {
  SMOLDER_CHECK(op != Op::kWhere || call.inputs[0]->dtype == DType::kBool, RuntimeError,
                "where: expected condition to be a bool tensor, got ", to_string(*call.inputs[0]));
  const ElementwiseTypes types = elementwise_types(op, call.inputs);
  return {broadcast(info(op).name, call.inputs), types.result, types.weak};
}

int check_axis(std::string_view op, int64_t axis, int rank) {
  const int64_t n = std::max(rank, 1);
  SMOLDER_CHECK(axis >= -n && axis < n, IndexError, op, ": Dimension out of range (expected to be in range of [", -n,
                ", ", n - 1, "], but got ", axis, ")");
  return static_cast<int>(axis < 0 ? axis + n : axis);
}

Dims check_axes(std::string_view op, const Dims& axes, int rank) {
  Dims out;
  uint32_t seen = 0;
  for (int64_t a : axes) {
    const int axis = check_axis(op, a, rank);
    SMOLDER_CHECK(!(seen >> axis & 1), RuntimeError, op, ": dim ", axis, " appears multiple times in the list of dims ",
                  axes);
    seen |= 1u << axis;
    out.push_back(axis);
  }
  return out;
}

Dims reduction_axes(std::string_view op, const Dims& axes, int rank) {
  Dims out;
  if (axes.empty()) {
    for (int i = 0; i < rank; ++i) out.push_back(i);
    return out;
  }
  out = check_axes(op, axes, rank);
  std::sort(out.begin(), out.end());
  if (rank == 0) out = {};
  return out;
}

Dims reduced_shape(std::string_view op, const Dims& shape, const Dims& axes, bool keepdim) {
  const Dims reduced = reduction_axes(op, axes, shape.size());
  Dims out = shape;
  for (int i = reduced.size() - 1; i >= 0; --i) {
    if (keepdim) {
      out[static_cast<int>(reduced[i])] = 1;
    } else {
      out.erase(static_cast<int>(reduced[i]));
    }
  }
  return out;
}

void check_nonempty(std::string_view op, const Dims& shape, const Dims& axes) {
  if (axes.empty() && numel(shape) == 0) {
    SMOLDER_CHECK(!op.starts_with("arg"), IndexError, op,
                  "(): Expected reduction dim to be specified for input.numel() == 0.");
    raise<RuntimeError>(op,
                        "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                        "with the 'dim' argument.");
  }
  for (int64_t a : reduction_axes(op, axes, shape.size())) {
    SMOLDER_CHECK(shape[static_cast<int>(a)] != 0, IndexError, op, "(): Expected reduction dim ", a,
                  " to have non-zero size; the input has shape ", shape);
  }
}

Dims resolve_reshape(const Dims& from, const Dims& shape) {
  constexpr int64_t kTooMany = std::numeric_limits<int64_t>::max();
  const int64_t n = numel(from);
  Dims out = shape;
  int unknown = -1;
  int64_t known = 1;
  for (int i = 0; i < out.size(); ++i) {
    SMOLDER_CHECK(out[i] >= -1, RuntimeError, "reshape: invalid shape dimension ", out[i], " at index ", i,
                  " of shape ", shape);
    if (out[i] >= 0) {
      if (__builtin_mul_overflow(known, out[i], &known)) known = kTooMany;
      continue;
    }
    SMOLDER_CHECK(unknown < 0, RuntimeError, "reshape: only one dimension can be inferred, got shape ", shape);
    unknown = i;
  }
  if (unknown >= 0) {
    SMOLDER_CHECK(known != 0, RuntimeError, "reshape: cannot reshape tensor of ", n, " elements into shape ", shape,
                  " because the unspecified dimension size -1 can be any value and is ambiguous");
    out[unknown] = n / known;
    known *= out[unknown];
  }
  SMOLDER_CHECK(known == n, RuntimeError, "reshape: shape '", shape, "' is invalid for input of size ", n,
                " (its shape is ", from, ")");
  return out;
}

Dims resolve_expand(const Dims& from, const Dims& shape) {
  SMOLDER_CHECK(shape.size() >= from.size(), RuntimeError, "expand: the number of sizes provided (", shape.size(),
                ") must be greater or equal to the number of dimensions in the tensor (", from.size(), "); from ", from,
                " to ", shape);
  Dims out = shape;
  const int lead = shape.size() - from.size();
  for (int i = 0; i < out.size(); ++i) {
    const int64_t have = i < lead ? 1 : from[i - lead];
    if (out[i] == -1) {
      SMOLDER_CHECK(i >= lead, RuntimeError,
                    "expand: the expanded size of the tensor (-1) isn't allowed in a leading, ",
                    "non-existing dimension ", i);
      out[i] = have;
    }
    SMOLDER_CHECK(have == out[i] || have == 1, RuntimeError, "expand: The expanded size of the tensor (", out[i],
                  ") must match the existing size (", have, ") at non-singleton dimension ", i,
                  ".  Target sizes: ", shape, ".  Tensor sizes: ", from);
  }
  return out;
}

void check_sizes(const Dims& shape) {
  for (int64_t n : shape) {
    SMOLDER_CHECK(n >= 0, RuntimeError, "Trying to create tensor with negative dimension ", n, ": ", shape);
  }
  storage_bytes(shape, DType::kBool);
}

void check_sizes(std::span<const Meta> results) {
  for (const Meta& m : results) check_sizes(m.shape);
}

Dims matmul_shape(std::string_view op, const Meta& a, const Meta& b) {
  SMOLDER_CHECK(!a.shape.empty() && !b.shape.empty(), RuntimeError, op,
                ": both arguments need to be at least 1D, but they are ", a.shape.size(), "D and ", b.shape.size(),
                "D");
  const bool vector_a = a.shape.size() == 1, vector_b = b.shape.size() == 1;
  const int64_t inner_a = a.shape.back(), inner_b = b.shape[vector_b ? 0 : b.shape.size() - 2];
  SMOLDER_CHECK(inner_a == inner_b, RuntimeError, op, ": mat1 and mat2 shapes cannot be multiplied (", to_string(a),
                " and ", to_string(b), "): the inner sizes ", inner_a, " and ", inner_b, " differ");
  Dims batch_a = a.shape, batch_b = b.shape;
  for (int i = 0; i < (vector_a ? 1 : 2); ++i) batch_a.pop_back();
  for (int i = 0; i < (vector_b ? 1 : 2); ++i) batch_b.pop_back();
  Dims out = batch_a;
  SMOLDER_CHECK(broadcast_into(out, batch_b), RuntimeError, op, ": the batch dimensions ", batch_a, " and ", batch_b,
                " of ", to_string(a), " and ", to_string(b), " do not broadcast");
  if (!vector_a) out.push_back(a.shape[a.shape.size() - 2]);
  if (!vector_b) out.push_back(b.shape.back());
  return out;
}

void check_alpha(std::string_view op, Category alpha, DType result) {
  SMOLDER_CHECK(is_floating(result) || alpha != Category::kFloat, RuntimeError, op,
                ": For integral input tensors, argument alpha must not be a floating point number.");
  SMOLDER_CHECK(result == DType::kBool || alpha != Category::kBool, RuntimeError, op,
                ": Boolean alpha only supported for Boolean results.");
}

DType number_type(Op op, DType t) {
  const bool rounds = scalar::info(static_cast<scalar::Primitive>(op)).rounding == scalar::PrimitiveInfo::kRounded;
  return rounds && is_floating(t) ? compute_type(t) : t;
}

void check_subtraction(const Meta& self, const Meta& other) {
  const bool bools = self.dtype == DType::kBool, also = other.dtype == DType::kBool;
  if (self.weak && other.weak) return;
  SMOLDER_CHECK(!bools || !also, RuntimeError,
                "sub: Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
                "`logical_xor()` operator instead.");
  SMOLDER_CHECK(
      !bools && !also, RuntimeError,
      "sub: Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a "
      "mask, use the `~` or `logical_not()` operator instead.");
}

void check_rank(std::string_view op, std::string_view arg, const Meta& m, int rank) {
  SMOLDER_CHECK(m.shape.size() == rank, RuntimeError, op, ": ", arg, " must be ", rank, "-D, got ", to_string(m));
}

void check_dtype(std::string_view op, std::string_view arg, const Meta& m, std::string_view set) {
  SMOLDER_CHECK(in_set(m.dtype, set), NotImplementedError, op, ": expected ", arg, " to have ", describe_set(set),
                ", got ", to_string(m), "; convert it with to()");
}

void check_same_dtype(std::string_view op, std::string_view a_name, const Meta& a, std::string_view b_name,
                      const Meta& b) {
  SMOLDER_CHECK(a.dtype == b.dtype, RuntimeError, op, ": expected ", a_name, " and ", b_name,
                " to have the same dtype, but got ", to_string(a), " and ", to_string(b));
}

void check_same_shape(std::string_view op, std::string_view a_name, const Meta& a, std::string_view b_name,
                      const Meta& b) {
  SMOLDER_CHECK(a.shape == b.shape, RuntimeError, op, ": expected ", a_name, " and ", b_name,
                " to have the same shape, but got ", to_string(a), " and ", to_string(b));
}

void check_index(std::string_view op, std::string_view arg, const Meta& m) {
  SMOLDER_CHECK(m.dtype == DType::kInt64 || m.dtype == DType::kInt32, RuntimeError, op, ": expected ", arg,
                " to have dtype int64 or int32, got ", to_string(m));
}

void check_scatter(std::string_view op, const Meta& self, int64_t dim, const Meta& index, const Meta& src) {
  check_index(op, "index", index);
  check_same_dtype(op, "self", self, "src", src);
  const int rank = self.shape.size(), axis = check_axis(op, dim, rank);
  check_extent(op, self, axis, index);
  if (numel(index.shape) == 0) return;
  SMOLDER_CHECK(std::max(index.shape.size(), 1) == std::max(rank, 1), RuntimeError, op,
                "(): Index tensor must have the same number of dimensions as self tensor, got ", to_string(index),
                " and ", to_string(self));
  SMOLDER_CHECK(std::max(src.shape.size(), 1) == std::max(rank, 1), RuntimeError, op,
                "(): Index tensor must have the same number of dimensions as src tensor, got ", to_string(index),
                " and ", to_string(src));
  for (int i = 0; i < std::min(rank, index.shape.size()); ++i) {
    SMOLDER_CHECK(index.shape[i] <= src.shape[i] && (i == axis || index.shape[i] <= self.shape[i]), RuntimeError, op,
                  ": Expected index ", index.shape, " to be no larger than self ", self.shape, " apart from dimension ",
                  axis, " and to be no larger than src ", src.shape);
  }
}

void check_rows(std::string_view op, const Meta& self, int64_t dim, const Meta& index, const Meta& source) {
  check_index(op, "index", index);
  check_same_dtype(op, "self", self, "source", source);
  SMOLDER_CHECK(index.shape.size() <= 1, IndexError, op, "_(): Index should have dimension 1 or 0 (got ",
                index.shape.size(), ")");
  Dims rows = self.shape;
  const int axis = check_axis(op, dim, rows.size());
  check_extent(op, self, axis, index);
  if (!rows.empty()) rows[axis] = numel(index.shape);
  if (source.shape.empty() && !rows.empty()) {
    SMOLDER_CHECK(rows.size() == 1 && rows[0] == 1, IndexError, op,
                  "_(): When source is scalar, index should have one ", "element (got ", numel(index.shape),
                  ") and self one dimension, got ", to_string(self));
    return;
  }
  bool slices = source.shape.size() != rows.size();  // whether the slices fit, or could not be compared
  Dims one = source.shape;
  if (!slices) one[axis] = rows[axis], slices = one == rows;
  SMOLDER_CHECK(slices, RuntimeError, op,
                "_(): Source/destination tensor must have same slice shapes: expected source of shape ", rows,
                " for self ", self.shape, " and index ", index.shape, ", got ", source.shape);
  SMOLDER_CHECK(source.shape == rows, IndexError, op, "_(): expected source of shape ", rows, " for self ", self.shape,
                " and index ", index.shape, ", got ", source.shape);
}

void check_extent(std::string_view op, const Meta& m, int axis, const Meta& index) {
  SMOLDER_CHECK(m.shape.empty() || m.shape[axis] != 0 || numel(index.shape) == 0, IndexError, op,
                ": index out of range: dimension ", axis, " of ", to_string(m), " has no elements, and the index is ",
                to_string(index));
}

}  // namespace smolder::ir
