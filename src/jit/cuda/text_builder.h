// The machine of scalar arithmetic (ir/scalar/builder.h) that writes CUDA C++: each operation is a statement that names
// its result. Integer lanes are unsigned, so that they wrap; comparisons and shifts that mean a sign say so. Built with
// --fmad=false, --ftz=false, --prec-div=true and --prec-sqrt=true, each operation is what builder.h says it is.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "smolder/ir/scalar/builder.h"

namespace smolder::jit::cuda {

using ir::scalar::is_float;
using ir::scalar::LaneType;

/// C++ name of a lane type: bool, u8, u16, u32, u64, f32, f64 (prelude.h).
const char* type_name(LaneType t);
/// A number of a lane type from its bits, as an expression.
std::string literal(LaneType t, uint64_t bits);

/// A value: the number of an expression that costs nothing to write again.
struct Text {
  LaneType type = LaneType::kF32;
  int expression = -1;
};

class TextBuilder {
 public:
  template <LaneType>
  using Value = Text;
  using V = Text;

  /// Statements so far, and how many.
  std::string text;
  int statements = 0;
  bool has_rare = false;     ///< whether there was a `select_rare`, or a float32 quotient or root
  bool leaves_rare = false;  ///< of which only the common case is written

  /// A value from outside, as a parameter.
  V named(LaneType t, std::string name);
  const std::string& name(V x) const { return expressions_[static_cast<size_t>(x.expression)]; }

  template <LaneType L>
  V constant(std::conditional_t<is_float(L), double, int64_t> v) {
    return constant(L, v);
  }

  V fadd(V x, V y) { return infix(x, "+", y); }
  V fsub(V x, V y) { return infix(x, "-", y); }
  V fmul(V x, V y) { return infix(x, "*", y); }
  V fdiv(V x, V y);
  V fma(V x, V y, V z);
  V fneg(V x) { return define(x.type, "-" + name(x)); }
  V fabs(V x) { return call("fabs", x); }
  V sqrt(V x);
  V rint(V x) { return call("rint", x); }
  V floor(V x) { return call("floor", x); }
  V ceil(V x) { return call("ceil", x); }
  V trunc(V x) { return call("trunc", x); }
  V feq(V x, V y) { return compare(x, "==", y); }
  V fne(V x, V y) { return compare(x, "!=", y); }
  V flt(V x, V y) { return compare(x, "<", y); }
  V fle(V x, V y) { return compare(x, "<=", y); }

  V and_(V x, V y) { return infix(x, "&", y); }
  V or_(V x, V y) { return infix(x, "|", y); }
  V xor_(V x, V y) { return infix(x, "^", y); }
  V not_(V x);
  V iadd(V x, V y) { return infix(x, "+", y); }
  V isub(V x, V y) { return infix(x, "-", y); }
  V imul(V x, V y) { return infix(x, "*", y); }
  V shl(V x, V n) { return infix(x, "<<", n); }
  V lshr(V x, V n) { return infix(x, ">>", n); }
  V ashr(V x, V n);
  V shl(V x, int n) { return shl(x, amount(n)); }
  V lshr(V x, int n) { return lshr(x, amount(n)); }
  V ashr(V x, int n) { return ashr(x, amount(n)); }
  V ieq(V x, V y) { return compare(x, "==", y); }
  V ine(V x, V y) { return compare(x, "!=", y); }
  V slt(V x, V y) { return compare_signed(x, "<", y); }
  V sle(V x, V y) { return compare_signed(x, "<=", y); }
  V ult(V x, V y) { return compare(x, "<", y); }
  V ule(V x, V y) { return compare(x, "<=", y); }
  V umulhi(V x, V y) { return define(x.type, "__umulhi(" + name(x) + ", " + name(y) + ")"); }
  V sdiv(V x, V y) { return define(x.type, "divide_i64(" + name(x) + ", " + name(y) + ")"); }
  V srem(V x, V y) { return isub(x, imul(sdiv(x, y), y)); }

  template <LaneType L>
  V select(V c, V x, V y) {
    return define(L, name(c) + " ? " + name(x) + " : " + name(y));
  }
  /// Branches around `rare`, or leaves it out and says so in a variable of that name.
  template <LaneType L, class Rare>
  std::array<V, 2> select_rare(V c, const std::array<V, 2>& common, Rare&& rare) {
    has_rare = true;
    if (leaves_rare) {
      line("rare |= " + name(c) + ";");
      return common;
    }
    const std::array<V, 2> chosen{variable(L, common[0]), variable(L, common[1])};
    line("if (" + name(c) + ") {");
    const std::array<V, 2> r = rare();
    for (int i = 0; i < 2; ++i) assign(chosen[i], r[i]);
    line("}");
    return chosen;
  }
  /// As that, for what is computed in any case.
  template <LaneType L>
  V select_seldom(V c, V rare, V common) {
    has_rare = true;
    if (!leaves_rare) return select<L>(c, rare, common);
    line("rare |= " + name(c) + ";");
    return common;
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
  V bitcast(V x) {
    return bitcast(x, To);
  }
  template <LaneType To>
  V sitofp(V x) {
    return define(To, "static_cast<" + std::string(type_name(To)) + ">(" + as_signed(x) + ")");
  }
  template <LaneType To>
  V fptosi(V x) {
    return fptosi(x, To, true);
  }
  template <LaneType To>
  V fptosi_in_range(V x) {
    return fptosi(x, To, false);
  }
  template <LaneType To>
  V zext(V x) {
    return convert(name(x), To);
  }
  template <LaneType To>
  V sext(V x) {
    return x.type == LaneType::kI1 ? convert("-static_cast<int>(" + name(x) + ")", To) : convert(as_signed(x), To);
  }
  template <LaneType To>
  V itrunc(V x) {
    return To == LaneType::kI1 ? define(To, "(" + name(x) + " & 1) != 0") : convert(name(x), To);
  }
  template <LaneType To>
  V fpext(V x) {
    return convert(name(x), To);
  }
  template <LaneType To>
  V fptrunc(V x) {
    return define(To, "__double2float_rn(" + name(x) + ")");
  }
  V half_to_f32(V x) { return define(LaneType::kF32, "f16_to_f32(" + name(x) + ")"); }
  V f32_to_half(V x) { return define(LaneType::kI16, "f32_to_f16(" + name(x) + ")"); }

 private:
  V constant(LaneType t, double v);
  V constant(LaneType t, int64_t v) { return named(t, literal(t, static_cast<uint64_t>(v))); }
  V amount(int n) { return named(LaneType::kI32, std::to_string(n)); }
  void line(const std::string& statement);
  /// A new name for an expression.
  V define(LaneType t, const std::string& expression);
  V variable(LaneType t, V initial);
  void assign(V variable, V value) { line(name(variable) + " = " + name(value) + ";"); }
  V infix(V x, const char* op, V y);
  V compare(V x, const char* op, V y);
  V compare_signed(V x, const char* op, V y);
  V call(const char* function, V x);
  V convert(const std::string& expression, LaneType to);
  V bitcast(V x, LaneType to);
  V fptosi(V x, LaneType to, bool checked);
  std::string as_signed(V x) const;

  std::vector<std::string> expressions_;
  int names_ = 0, depth_ = 1;
};

}  // namespace smolder::jit::cuda
