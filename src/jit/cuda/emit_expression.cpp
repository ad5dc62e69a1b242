// Expressions: what a statement defines from its operands, conversions, addresses.
#include <algorithm>

#include "smolder/core/error.h"
#include "smolder/ir/scalar/primitive.h"
#include "smolder/jit/cuda/kernel_emitter.h"
#include "smolder/jit/cuda/reports.h"
#include "smolder/jit/cuda/text.h"
#include "smolder/jit/cuda/text_builder.h"

namespace smolder::jit::cuda {

std::string KernelEmitter::value(LocalId v) const { return locals_[v].name + (locals_[v].varies ? "[k]" : ""); }

std::string KernelEmitter::expression(const Stmt& s) {
  return rounds(s) ? rounded(s.dtype, unrounded(s)) : unrounded(s);
}

bool KernelEmitter::rounds(const Stmt& s) const {
  if (!is_half(s.dtype)) return false;
  if (s.kind == StmtKind::kResult || s.kind == StmtKind::kScalar) return true;
  if (s.kind != StmtKind::kPrimitive) return false;
  if (s.op == ir::Op::kCast) return locals_[s.args[0]].dtype != s.dtype;
  const auto& info = ir::scalar::info(static_cast<ir::scalar::Primitive>(s.op));
  return info.rounding == ir::scalar::PrimitiveInfo::kRounded;
}

std::string KernelEmitter::unrounded(const Stmt& s) {
  switch (s.kind) {
    case StmtKind::kLoad: {
      std::string x = loaded(s.dtype, buffer(s.address.buffer) + "[" + element(s.address) + "]");
      if (s.bounds.empty()) return x;
      return bounds(s) + " ? " + x + " : " + literal(register_lane(s.dtype), register_bits(s.constant, s.dtype));
    }
    case StmtKind::kPrimitive: {
      if (std::string x = divided(s); !x.empty()) return x;
      if (s.op == ir::Op::kCast) return cast(locals_[s.args[0]].dtype, s.dtype, value(s.args[0]));
      std::string args;
      for (const LocalId a : s.args) args += (args.empty() ? "" : ", ") + value(a);
      if (s.op == ir::Op::kRandomBits) return functions_.random_bits() + "(" + args + ")";
      return functions_.primitive(s.op, s.dtype) + "(" + args + ")";
    }
    case StmtKind::kConstant:
      return literal(register_lane(s.dtype), register_bits(s.constant, s.dtype));
    case StmtKind::kScalar: {
      const bool is_float = k_.scalars[s.slot] == Category::kFloat;
      const std::string word = "a.scalars[" + std::to_string(s.slot) + "]";
      return is_float ? cast(DType::kFloat64, s.dtype, "__longlong_as_double(static_cast<i64>(" + word + "))")
                      : cast(DType::kInt64, s.dtype, word);
    }
    case StmtKind::kIndex:
      return "static_cast<u64>(" + affine(s.map) + ")";
    case StmtKind::kCheckIndex:
      return "clamp_index(" + value(s.args[0]) + ", " + integer(s.limit) + ")";
    case StmtKind::kResult: {
      const Accumulator& acc = accs_[s.acc];
      const std::string type = type_name(register_lane(acc.dtype));
      const std::string kind = shape_.group_split ? "<true>" : has_two_rows() ? "<false, T>" : "";
      std::string x = cat({"combine", kind, "(", acc.name, ", parity, [](", type, " x, ", type, " y) { return ",
                           functions_.primitive(acc.step, acc.dtype), "(x, y); })"});
      return is_small_signed(s.dtype) ? cast(acc.dtype, s.dtype, x) : x;
    }
    default:
      raise<InternalError>("internal error: a statement without a value");
  }
}

std::string KernelEmitter::loaded(DType t, const std::string& raw) const {
  if (t == DType::kBool) return raw + " != 0";
  if (t == DType::kFloat16) return "f16_to_f32(" + raw + ")";
  if (t == DType::kBFloat16) return "bf16_to_f32(" + raw + ")";
  if (t == DType::kInt8) return "extend_i8(" + raw + ")";
  if (t == DType::kInt16) return "extend_i16(" + raw + ")";
  return raw;
}

std::string KernelEmitter::stored(DType t, const std::string& x) const {
  if (t == DType::kFloat16) return "f32_to_f16(" + x + ")";
  if (t == DType::kBFloat16) return "bf16_bits(" + x + ")";
  if (is_small_signed(t) || t == DType::kBool) {
    return std::string("static_cast<") + type_name(storage_lane(t)) + ">(" + x + ")";
  }
  return x;
}

std::string KernelEmitter::rounded(DType t, std::string x) const {
  if (t == DType::kFloat16) return "round_f16(" + x + ")";
  if (t == DType::kBFloat16) return "round_bf16(" + x + ")";
  return x;
}

std::string KernelEmitter::cast(DType from, DType to, const std::string& x) {
  if (is_half(from)) from = DType::kFloat32;
  if (is_half(to)) to = DType::kFloat32;
  return from == to ? x : functions_.cast(from, to) + "(" + x + ")";
}

std::string KernelEmitter::integer(IntRef r) const {
  if (!r.is_constant()) return "a.n" + std::to_string(r.slot);
  if (r.constant == INT64_MIN) return "(-9223372036854775807ll - 1)";
  return r.constant < 0 ? "(" + std::to_string(r.constant) + "ll)" : std::to_string(r.constant) + "ll";
}

std::string KernelEmitter::affine(const Affine& a, VarId skipped) const {
  std::string sum;
  const auto add = [&](const std::string& term) { sum += (sum.empty() ? "" : " + ") + term; };
  if (a.offset != IntRef{}) add(integer(a.offset));
  for (const auto& t : a.terms) {
    if (t.var == skipped || t.stride == IntRef{}) continue;
    add(t.stride == IntRef{1} ? vars_[t.var] : vars_[t.var] + " * " + integer(t.stride));
  }
  return sum.empty() ? "0ll" : sum;
}

std::string KernelEmitter::element(const Address& a, VarId skipped) const {
  std::string sum = affine(a.map, skipped);
  for (const auto& i : a.indirect) {
    sum += " + static_cast<i64>(" + value(i.index) + ")";
    if (i.stride != IntRef{1}) sum += " * " + integer(i.stride);
  }
  return sum;
}

/// Where what a check finds is told.
std::string KernelEmitter::error_slot(const Stmt& s) const {
  return s.slot == 0 ? "a.errors" : "a.errors + " + std::to_string(s.slot * kReportWords);
}

std::string KernelEmitter::bounds(const Stmt& s) const {
  std::string all;
  for (const Bound& b : s.bounds) {
    const std::string x = affine(b.map);
    all += cat({all.empty() ? "" : " && ", integer(b.lo), " <= ", x, " && ", x, " < ", integer(b.hi)});
  }
  return "(" + all + ")";
}

}  // namespace smolder::jit::cuda
