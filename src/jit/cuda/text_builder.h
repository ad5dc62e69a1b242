// The machine of scalar arithmetic (ir/scalar/builder.h) that writes CUDA C++: each operation is a statement that names
// its result. Integer lanes are unsigned, so that they wrap; comparisons and shifts that mean a sign say so. Built with
// --fmad=false, --ftz=false, --prec-div=true and --prec-sqrt=true, each operation is what builder.h says it is.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "smolder/ir/scalar/builder.h"

namespace smolder::jit::cuda {

using ir::scalar::is_float;
using ir::scalar::LaneType;

/// C++ name of a lane type: bool, u8, u16, u32, u64, f32, f64 (prelude.h).
const char* type_name(LaneType t);
/// A number of a lane type from its bits, as an expression.
std::string literal(LaneType t, uint64_t bits);

/// A value: an expression that costs nothing to write again.
struct Text {
  LaneType type = LaneType::kF32;
  std::string name;
};

class TextBuilder {
 public:
  template <LaneType>
  using Value = Text;
  using V = Text;

  /// Statements so far, and how many.
  std::string text;
  int statements = 0;

  template <LaneType L>
  V constant(std::conditional_t<is_float(L), double, int64_t> v) {
    return constant(L, v);
  }

  V fadd(const V& x, const V& y) { return infix(x, "+", y); }
  V fsub(const V& x, const V& y) { return infix(x, "-", y); }
  V fmul(const V& x, const V& y) { return infix(x, "*", y); }
  V fdiv(const V& x, const V& y) { return infix(x, "/", y); }
  V fma(const V& x, const V& y, const V& z);
  V fneg(const V& x) { return define(x.type, "-" + x.name); }
  V fabs(const V& x) { return call("fabs", x); }
  V sqrt(const V& x);
  V rint(const V& x) { return call("rint", x); }
  V floor(const V& x) { return call("floor", x); }
  V ceil(const V& x) { return call("ceil", x); }
  V trunc(const V& x) { return call("trunc", x); }
  V feq(const V& x, const V& y) { return compare(x, "==", y); }
  V fne(const V& x, const V& y) { return compare(x, "!=", y); }
  V flt(const V& x, const V& y) { return compare(x, "<", y); }
  V fle(const V& x, const V& y) { return compare(x, "<=", y); }

  V and_(const V& x, const V& y) { return infix(x, "&", y); }
  V or_(const V& x, const V& y) { return infix(x, "|", y); }
  V xor_(const V& x, const V& y) { return infix(x, "^", y); }
  V not_(const V& x);
  V iadd(const V& x, const V& y) { return infix(x, "+", y); }
  V isub(const V& x, const V& y) { return infix(x, "-", y); }
  V imul(const V& x, const V& y) { return infix(x, "*", y); }
  V shl(const V& x, const V& n) { return infix(x, "<<", n); }
  V lshr(const V& x, const V& n) { return infix(x, ">>", n); }
  V ashr(const V& x, const V& n);
  V shl(const V& x, int n) { return shl(x, amount(n)); }
  V lshr(const V& x, int n) { return lshr(x, amount(n)); }
  V ashr(const V& x, int n) { return ashr(x, amount(n)); }
  V ieq(const V& x, const V& y) { return compare(x, "==", y); }
  V ine(const V& x, const V& y) { return compare(x, "!=", y); }
  V slt(const V& x, const V& y) { return compare_signed(x, "<", y); }
  V sle(const V& x, const V& y) { return compare_signed(x, "<=", y); }
  V ult(const V& x, const V& y) { return compare(x, "<", y); }
  V ule(const V& x, const V& y) { return compare(x, "<=", y); }
  V umulhi(const V& x, const V& y) { return define(x.type, "__umulhi(" + x.name + ", " + y.name + ")"); }
  V sdiv(const V& x, const V& y) { return define(x.type, "divide_i64(" + x.name + ", " + y.name + ")"); }
  V srem(const V& x, const V& y) { return isub(x, imul(sdiv(x, y), y)); }

  template <LaneType L>
  V select(const V& c, const V& x, const V& y) {
    return define(L, c.name + " ? " + x.name + " : " + y.name);
  }
  /// Branches around `rare`.
  template <LaneType L, class Rare>
  std::array<V, 2> select_rare(const V& c, const std::array<V, 2>& common, Rare&& rare) {
    const std::array<V, 2> chosen{variable(L, common[0]), variable(L, common[1])};
    line("if (" + c.name + ") {");
    const std::array<V, 2> r = rare();
    for (int i = 0; i < 2; ++i) assign(chosen[i], r[i]);
    line("}");
    return chosen;
  }
  /// A loop around `round`.
  template <size_t N, class Round>
  std::array<V, N> repeat_i32(int n, const std::array<V, N>& state, Round&& round) {
    std::array<V, N> at;
    for (size_t i = 0; i < N; ++i) at[i] = variable(LaneType::kI32, state[i]);
    line("for (int round = 0; round < " + std::to_string(n) + "; ++round) {");
    const std::array<V, N> next = round(at);
    for (size_t i = 0; i < N; ++i) assign(at[i], next[i]);
    line("}");
    return at;
  }

  template <LaneType To>
  V bitcast(const V& x) {
    return bitcast(x, To);
  }
  template <LaneType To>
  V sitofp(const V& x) {
    return define(To, "static_cast<" + std::string(type_name(To)) + ">(" + as_signed(x) + ")");
  }
  template <LaneType To>
  V fptosi(const V& x) {
    return fptosi(x, To, true);
  }
  template <LaneType To>
  V fptosi_in_range(const V& x) {
    return fptosi(x, To, false);
  }
  template <LaneType To>
  V zext(const V& x) {
    return convert(x.name, To);
  }
  template <LaneType To>
  V sext(const V& x) {
    return x.type == LaneType::kI1 ? convert("-static_cast<int>(" + x.name + ")", To) : convert(as_signed(x), To);
  }
  template <LaneType To>
  V itrunc(const V& x) {
    return To == LaneType::kI1 ? define(To, "(" + x.name + " & 1) != 0") : convert(x.name, To);
  }
  template <LaneType To>
  V fpext(const V& x) {
    return convert(x.name, To);
  }
  template <LaneType To>
  V fptrunc(const V& x) {
    return define(To, "__double2float_rn(" + x.name + ")");
  }
  V half_to_f32(const V& x) { return define(LaneType::kF32, "f16_to_f32(" + x.name + ")"); }
  V f32_to_half(const V& x) { return define(LaneType::kI16, "f32_to_f16(" + x.name + ")"); }

 private:
  V constant(LaneType t, double v);
  V constant(LaneType t, int64_t v) { return {t, literal(t, static_cast<uint64_t>(v))}; }
  static V amount(int n) { return {LaneType::kI32, std::to_string(n)}; }
  void line(const std::string& statement);
  /// A new name for an expression.
  V define(LaneType t, const std::string& expression);
  V variable(LaneType t, const V& initial);
  void assign(const V& variable, const V& value) { line(variable.name + " = " + value.name + ";"); }
  V infix(const V& x, const char* op, const V& y);
  V compare(const V& x, const char* op, const V& y);
  V compare_signed(const V& x, const char* op, const V& y);
  V call(const char* function, const V& x);
  V convert(const std::string& expression, LaneType to);
  V bitcast(const V& x, LaneType to);
  V fptosi(const V& x, LaneType to, bool checked);
  static std::string as_signed(const V& x);

  int names_ = 0, depth_ = 1;
};

}  // namespace smolder::jit::cuda
