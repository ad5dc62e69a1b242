// The machine of scalar arithmetic (ir/scalar/builder.h) that writes LLVM IR: a value is a register of one
// lane, or of `lanes` lanes. No fast-math flag is ever set, so each operation is what builder.h says it is.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>

#include "smolder/ir/scalar/builder.h"

namespace llvm {
class BasicBlock;
class IRBuilderBase;
class Type;
class Value;
}  // namespace llvm

namespace smolder::jit::cpu {

using ir::scalar::LaneType;

/// Lanes of the vectors in generated code, whatever the machine's registers hold.
inline constexpr int kLanes = 16;

class Builder {
 public:
  template <LaneType>
  using Value = llvm::Value*;
  using V = llvm::Value*;

  explicit Builder(llvm::IRBuilderBase& ir) : ir_(ir) {}

  /// Lanes of the constants written from now on: 1 (plain scalars) or a power of two.
  int lanes = 1;
  /// The type of a register of `lanes` lanes.
  llvm::Type* type(LaneType t) { return type(t, lanes); }
  llvm::Type* type(LaneType t, int n);
  llvm::IRBuilderBase& ir() { return ir_; }

  /// A constant from the bits that a lane holds.
  V constant_bits(LaneType t, uint64_t bits);
  template <LaneType L>
  V constant(std::conditional_t<is_float(L), double, int64_t> v) {
    if constexpr (is_float(L)) {
      return constant_float(L, v);
    } else {
      return constant_bits(L, static_cast<uint64_t>(v));
    }
  }

  V fadd(V x, V y);
  V fsub(V x, V y);
  V fmul(V x, V y);
  V fdiv(V x, V y);
  V fma(V x, V y, V z);
  V fneg(V x);
  V fabs(V x);
  V sqrt(V x);
  V rint(V x);
  V floor(V x);
  V ceil(V x);
  V trunc(V x);
  V feq(V x, V y);
  V fne(V x, V y);
  V flt(V x, V y);
  V fle(V x, V y);

  V and_(V x, V y);
  V or_(V x, V y);
  V xor_(V x, V y);
  V not_(V x);
  V iadd(V x, V y);
  V isub(V x, V y);
  V imul(V x, V y);
  V shl(V x, V n);
  V lshr(V x, V n);
  V ashr(V x, V n);
  V shl(V x, int n) { return shl(x, amount(x, n)); }
  V lshr(V x, int n) { return lshr(x, amount(x, n)); }
  V ashr(V x, int n) { return ashr(x, amount(x, n)); }
  V ieq(V x, V y);
  V ine(V x, V y);
  V slt(V x, V y);
  V sle(V x, V y);
  V ult(V x, V y);
  V ule(V x, V y);
  V umulhi(V x, V y);
  V sdiv(V x, V y);
  V srem(V x, V y);

  template <LaneType>
  V select(V c, V x, V y) {
    return choose(c, x, y);
  }
  V choose(V c, V x, V y);
  /// Branches around `rare` unless a lane wants it.
  template <LaneType, class Rare>
  std::array<V, 2> select_rare(V c, std::array<V, 2> common, Rare&& rare) {
    const Branch branch = begin_rare(c);
    const std::array<V, 2> r = rare();
    return end_rare(branch, c, common, r);
  }

  template <LaneType To>
  V bitcast(V x) {
    return bitcast(x, To);
  }
  template <LaneType To>
  V sitofp(V x) {
    return sitofp(x, To);
  }
  template <LaneType To>
  V fptosi(V x) {
    return fptosi_saturating(x, To);
  }
  template <LaneType To>
  V fptosi_in_range(V x) {
    return fptosi_in_range(x, To);
  }
  template <LaneType To>
  V zext(V x) {
    return zext(x, To);
  }
  template <LaneType To>
  V sext(V x) {
    return sext(x, To);
  }
  template <LaneType To>
  V itrunc(V x) {
    return itrunc(x, To);
  }
  template <LaneType To>
  V fpext(V x) {
    return fpext(x, To);
  }
  template <LaneType To>
  V fptrunc(V x) {
    return fptrunc(x, To);
  }
  // Lanes in fours (ir/scalar/random.h).
  V fours_constant(std::array<int64_t, 4> c);
  V fours_reverse(V x);
  V fours_multiply(V x, V y);
  V fours_odd(V x);

  /// A loop around `round`.
  template <size_t N, class Round>
  std::array<V, N> repeat_i32(int n, std::array<V, N> state, Round&& round) {
    begin_repeat(state);
    const std::array<V, N> phis = state;
    const std::array<V, N> next = round(state);
    end_repeat(n, phis, next);
    return next;
  }

  V half_to_f32(V x);
  V f32_to_half(V x);

  // Forms that take the lane type at run time.
  V bitcast(V x, LaneType to);
  V sitofp(V x, LaneType to);
  V fptosi_saturating(V x, LaneType to);
  V fptosi_in_range(V x, LaneType to);
  V zext(V x, LaneType to);
  V sext(V x, LaneType to);
  V itrunc(V x, LaneType to);
  V fpext(V x, LaneType to);
  V fptrunc(V x, LaneType to);

 private:
  struct Branch {
    llvm::BasicBlock *from, *after;
  };
  Branch begin_rare(V c);
  std::array<V, 2> end_rare(Branch branch, V c, std::array<V, 2> common, std::array<V, 2> rare);
  void begin_repeat(std::span<V> state);
  void end_repeat(int n, std::span<const V> phis, std::span<const V> next);
  V constant_float(LaneType t, double v);
  V amount(V x, int n);
  V words_product(V x, V y);
  llvm::Type* like(V x, LaneType t);

  llvm::IRBuilderBase& ir_;
};

}  // namespace smolder::jit::cpu
