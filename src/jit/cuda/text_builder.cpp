#include "smolder/jit/cuda/text_builder.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <utility>

namespace smolder::jit::cuda {

static_assert(ir::scalar::RuntimeBuilder<TextBuilder>);

namespace {

using V = Text;

std::string hex(uint64_t bits) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "0x%llx", static_cast<unsigned long long>(bits));
  return buffer;
}

/// Exactly, as hexadecimal digits unless it is a short decimal number.
std::string float_literal(double v, bool single) {
  if (!std::isfinite(v)) {
    return single ? "__uint_as_float(" + hex(std::bit_cast<uint32_t>(static_cast<float>(v))) + "u)"
                  : "__longlong_as_double(" + hex(std::bit_cast<uint64_t>(v)) + "ll)";
  }
  char buffer[64];
  const bool is_short = std::fabs(v) < 1e6 && v * 64 == std::floor(v * 64);
  std::snprintf(buffer, sizeof buffer, is_short ? "%.17g" : "%a", v);
  std::string text = buffer;
  if (is_short && text.find('.') == std::string::npos) text += ".0";
  if (single) text += "f";
  return text[0] == '-' ? "(" + text + ")" : text;
}

}  // namespace

const char* type_name(LaneType t) {
  constexpr const char* kNames[] = {"bool", "u8", "u16", "u32", "u64", "f32", "f64"};
  return kNames[static_cast<int>(t)];
}

std::string literal(LaneType t, uint64_t bits) {
  switch (t) {
    case LaneType::kI1:
      return (bits & 1) != 0 ? "true" : "false";
    case LaneType::kF32:
      return float_literal(std::bit_cast<float>(static_cast<uint32_t>(bits)), true);
    case LaneType::kF64:
      return float_literal(std::bit_cast<double>(bits), false);
    case LaneType::kI64:
      return bits < 1000000 ? std::to_string(bits) + "ull" : hex(bits) + "ull";
    case LaneType::kI32:
      bits &= 0xffffffff;
      return bits < 1000000 ? std::to_string(bits) + "u" : hex(bits) + "u";
    case LaneType::kI16:
      return "static_cast<u16>(" + std::to_string(bits & 0xffff) + ")";
    case LaneType::kI8:
      return "static_cast<u8>(" + std::to_string(bits & 0xff) + ")";
  }
  return "";
}

V TextBuilder::named(LaneType t, std::string name) {
  expressions_.push_back(std::move(name));
  return {t, static_cast<int>(expressions_.size()) - 1};
}

V TextBuilder::constant(LaneType t, double v) {
  return named(t, t == LaneType::kF32 ? float_literal(static_cast<float>(v), true) : float_literal(v, false));
}

void TextBuilder::line(const std::string& statement) {
  if (statement.front() == '}') --depth_;
  text.append(static_cast<size_t>(depth_) * 2, ' ');
  text += statement;
  text += '\n';
  if (statement.back() == '{') ++depth_;
  ++statements;
}

V TextBuilder::define(LaneType t, const std::string& expression) {
  const V v = named(t, "t" + std::to_string(names_++));
  line(std::string("const ") + type_name(t) + " " + name(v) + " = " + expression + ";");
  return v;
}

V TextBuilder::variable(LaneType t, V initial) {
  const V v = named(t, "t" + std::to_string(names_++));
  line(std::string(type_name(t)) + " " + name(v) + " = " + name(initial) + ";");
  return v;
}

V TextBuilder::convert(const std::string& expression, LaneType to) {
  return define(to, std::string("static_cast<") + type_name(to) + ">(" + expression + ")");
}

std::string TextBuilder::as_signed(V x) const {
  constexpr const char* kSigned[] = {"bool", "i8", "i16", "i32", "i64"};
  return std::string("static_cast<") + kSigned[static_cast<int>(x.type)] + ">(" + name(x) + ")";
}

// Narrow integers are computed as int, and bools by the logical forms of the same bits.
V TextBuilder::infix(V x, const char* op, V y) {
  const std::string expression = name(x) + " " + op + " " + name(y);
  const bool narrow = x.type == LaneType::kI8 || x.type == LaneType::kI16;
  return narrow ? convert(expression, x.type) : define(x.type, expression);
}
V TextBuilder::compare(V x, const char* op, V y) { return define(LaneType::kI1, name(x) + " " + op + " " + name(y)); }
V TextBuilder::compare_signed(V x, const char* op, V y) {
  return define(LaneType::kI1, as_signed(x) + " " + op + " " + as_signed(y));
}
V TextBuilder::ashr(V x, V n) { return convert(as_signed(x) + " >> " + name(n), x.type); }
V TextBuilder::not_(V x) {
  return x.type == LaneType::kI1 ? define(x.type, "!" + name(x)) : convert("~" + name(x), x.type);
}

V TextBuilder::call(const char* function, V x) {
  return define(x.type, std::string(function) + (x.type == LaneType::kF32 ? "f(" : "(") + name(x) + ")");
}
// Quotients and roots of float32 have rare cases of their own: numbers so small or large that a step is inexact.
V TextBuilder::fdiv(V x, V y) {
  if (x.type != LaneType::kF32) return infix(x, "/", y);
  has_rare = true;
  if (!leaves_rare) return infix(x, "/", y);
  const std::string inverse = "inverse_common(" + name(y), quotient = "div_common(" + name(x) + ", " + name(y);
  return define(x.type, (name(x) == "1.0f" ? inverse : quotient) + ", rare)");
}
V TextBuilder::sqrt(V x) {
  if (x.type == LaneType::kF32) has_rare = true;
  if (x.type == LaneType::kF32 && leaves_rare) return define(x.type, "sqrt_common(" + name(x) + ", rare)");
  return define(x.type, (x.type == LaneType::kF32 ? "__fsqrt_rn(" : "__dsqrt_rn(") + name(x) + ")");
}
V TextBuilder::fma(V x, V y, V z) {
  return define(x.type, (x.type == LaneType::kF32 ? "__fmaf_rn(" : "__fma_rn(") + name(x) + ", " + name(y) + ", " +
                            name(z) + ")");
}

V TextBuilder::bitcast(V x, LaneType to) {
  if (x.type == to) return x;
  switch (to) {
    case LaneType::kF32:
      return define(to, "__uint_as_float(" + name(x) + ")");
    case LaneType::kF64:
      return define(to, "__longlong_as_double(" + as_signed(x) + ")");
    case LaneType::kI32:
      return define(to, "__float_as_uint(" + name(x) + ")");
    default:
      return convert("__double_as_longlong(" + name(x) + ")", to);
  }
}

// The instruction saturates; of nan it makes 0 or the smallest number, by type.
V TextBuilder::fptosi(V x, LaneType to, bool checked) {
  const bool single = x.type == LaneType::kF32;
  std::string number = to == LaneType::kI32 ? (single ? "__float2int_rz(" : "__double2int_rz(")
                                            : (single ? "__float2ll_rz(" : "__double2ll_rz(");
  number += name(x) + ")";
  return checked ? convert(name(x) + " == " + name(x) + " ? " + number + " : 0", to) : convert(number, to);
}

}  // namespace smolder::jit::cuda
