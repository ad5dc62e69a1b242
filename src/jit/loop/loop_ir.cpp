#include "smolder/jit/loop/loop_ir.h"

#include <limits>

#include "smolder/core/error.h"
#include "smolder/ir/scalar/primitive.h"

namespace smolder::jit {

using ir::Op;
using ir::ReduceKind;

namespace {

/// The lowest or highest value of a dtype.
Scalar extreme(DType t, bool low) {
  if (t == DType::kBool) return !low;
  if (!is_floating(t)) return low ? lowest_integer(t) : highest_integer(t);
  return low ? -std::numeric_limits<double>::infinity() : std::numeric_limits<double>::infinity();
}

Scalar number(DType t, int v) {
  switch (category(t)) {
    case Category::kBool:
      return v != 0;
    case Category::kInt:
      return v;
    case Category::kFloat:
    case Category::kComplex:  // which kernels have none of
      break;
  }
  return static_cast<double>(v);
}

}  // namespace

Scalar reduce_identity(ReduceKind kind, DType t) {
  switch (kind) {
    case ReduceKind::kSum:
    case ReduceKind::kAny:
      return number(t, 0);
    case ReduceKind::kProd:
    case ReduceKind::kAll:
      return number(t, 1);
    case ReduceKind::kMax:
      return extreme(t, true);
    case ReduceKind::kMin:
      return extreme(t, false);
  }
  raise<InternalError>("internal error: bad reduction");
}

Op reduce_step(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::kSum:
      return Op::kAdd;
    case ReduceKind::kProd:
      return Op::kMul;
    case ReduceKind::kMax:
      return Op::kMaximum;
    case ReduceKind::kMin:
      return Op::kMinimum;
    case ReduceKind::kAny:
      return Op::kLogicalOr;
    case ReduceKind::kAll:
      return Op::kLogicalAnd;
  }
  raise<InternalError>("internal error: bad reduction");
}

Scalar step_identity(Op op, DType t) {
  using enum ReduceKind;
  for (const ReduceKind kind : {kSum, kProd, kMax, kMin, kAny, kAll}) {
    if (reduce_step(kind) == op) return reduce_identity(kind, t);
  }
  raise<InternalError>("internal error: no reduction has such a step");
}

DType result_dtype(const Stmt& s) {
  if (s.kind != StmtKind::kPrimitive || !ir::is_elementwise_primitive(s.op)) return s.dtype;
  return ir::scalar::info(static_cast<ir::scalar::Primitive>(s.op)).result_dtype(s.dtype);
}

}  // namespace smolder::jit
