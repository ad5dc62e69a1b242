// Reduction of an angle to [-pi/4, pi/4] and a quadrant, for every finite number.
//
// Angles of everyday size take off n times pi/2 in three parts by fma (Cody and Waite). Larger ones multiply the
// significand by the bits of 2/pi that matter at their exponent (Payne and Hanek), in integers: whole turns fall
// off at the top by themselves. That is the rare path, behind `select_rare`.
#pragma once

#include <array>
#include <iterator>
#include <limits>
#include <numbers>

#include "smolder/ir/scalar/math_common.h"

namespace smolder::ir::scalar::detail {

template <class B>
struct ReducedF32 {
  F32<B> r;
  I32<B> quadrant;  ///< counts modulo 4
};
/// The angle in two parts; `low` is at most about half an ulp of `high`, 0 where one number is enough.
template <class B>
struct ReducedF64 {
  F64<B> high, low;
  I64<B> quadrant;
};

/// table[word], ..., table[word + 3], where word < 2^kLevels; a binary tree of selects.
template <int kLevels, class B, LaneType L, size_t N>
inline std::array<Num<B, L>, 4> window(const int64_t (&table)[N], Num<B, L> word) {
  std::array<Num<B, L>, N> w;
  w.fill(word);
  for (size_t i = 0; i < N; ++i) w[i] = like(word, table[i]);
  for (int level = kLevels - 1; level >= 0; --level) {
    const size_t step = size_t{1} << level;
    auto bit = (word & static_cast<int64_t>(step)) != 0;
    // The words that the levels below may still reach; past the end of the table nothing is asked for.
    for (size_t i = 0; i < step + 3 && i + step < N; ++i) w[i] = select(bit, w[i + step], w[i]);
  }
  return {w[0], w[1], w[2], w[3]};
}

/// The quarter turns in |x| >= 1, as a signed fraction of one in units of 2^-64, and their number.
template <class B>
struct TurnsF32 {
  I64<B> fraction;
  I32<B> quadrant;
};
template <class B>
inline TurnsF32<B> turns_f32(F32<B> ax) {
  // 2/pi, 32 bits a word, after one word of zeros.
  constexpr int64_t kTwoOverPi[] = {0,          0xa2f9836e, 0x4e441529, 0xfc2757d1,
                                    0xf534ddc0, 0xdb629599, 0x3c439041, 0xfe5163ab};
  auto bits = as_int(ax);
  auto start = lshr(bits, 23) - 120;  // the first bit of weight below 4 turns: exponent - 150 + 30
  auto w = window<3>(kTwoOverPi, lshr(start, 5));
  auto shift = zext<LaneType::kI64>(start & 31);
  auto aligned = [&](int i) {  // 32 bits of w[i] and w[i + 1] from bit `shift` on
    return lshr(((zext<LaneType::kI64>(w[i]) << 32) | zext<LaneType::kI64>(w[i + 1])) << shift, 32);
  };
  auto m = zext<LaneType::kI64>((bits & 0x7fffff) | 0x800000);
  auto product = ((m * aligned(0)) << 32) + m * aligned(1) + lshr(m * aligned(2), 32);
  auto quadrant = lshr(product + (int64_t{1} << 61), 62);
  return {product << 2, itrunc<LaneType::kI32>(quadrant)};
}

inline constexpr double kQuarterTurn = std::numbers::pi / 2 * 0x1p-64;

template <class B>
SMOLDER_INLINE ReducedF32<B> reduce_pi_f32(F32<B> x) {
  constexpr double kRound = 0x1.8p23;
  auto t = fma(x, 2 * std::numbers::inv_pi, kRound);
  auto n = t - kRound;
  auto r = fma(n, -0x1.921fb6p0, x);  // exact
  r = fma(n, 0x1.777a5cp-25, r);
  r = fma(n, 0x1.ee59dap-50, r);
  auto ax = abs(x);
  auto common = std::array{r, t};  // the low bits of t are those of n
  auto chosen = select_rare(ax >= 0x1p17, common, [&] {
    auto turns = turns_f32(ax);
    auto large = narrow(sitofp<LaneType::kF64>(turns.fraction) * kQuarterTurn);
    large = select(ax < std::numeric_limits<double>::infinity(), large, std::numeric_limits<double>::quiet_NaN());
    auto negative = x < 0.0;
    return std::array{select(negative, -large, large), as_float(select(negative, -turns.quadrant, turns.quadrant))};
  });
  return {chosen[0], as_int(chosen[1])};
}

/// As `reduce_pi_f32` in float64, to 2^-40 of the angle.
template <class B>
SMOLDER_INLINE ReducedF64<B> reduce_pi_lite(F32<B> x) {
  constexpr double kRound = 0x1.8p52;
  auto wide = extend(x);
  auto t = fma(wide, 2 * std::numbers::inv_pi, kRound);
  auto n = t - kRound;
  auto r = fma(n, -0x1.1a62633145c07p-54, fma(n, -0x1.921fb54442d18p0, wide));
  auto common = std::array{r, t};
  auto ax = abs(x);
  auto chosen = select_rare(ax >= 0x1p17, common, [&] {
    auto turns = turns_f32(ax);
    auto large = sitofp<LaneType::kF64>(turns.fraction) * kQuarterTurn;
    auto finite = ax < std::numeric_limits<double>::infinity();
    large = select(finite, large, std::numeric_limits<double>::quiet_NaN());
    auto quadrant = sext<LaneType::kI64>(turns.quadrant);
    auto negative = x < 0.0;
    return std::array{select(negative, -large, large), as_float(select(negative, -quadrant, quadrant))};
  });
  return {chosen[0], like(chosen[0], 0.0), as_int(chosen[1])};
}

/// The high half of the 128-bit product, read as unsigned, from 32-bit pieces.
template <class B>
inline I64<B> umulhi64(I64<B> x, I64<B> y) {
  auto x0 = x & 0xffffffff, x1 = lshr(x, 32), y0 = y & 0xffffffff, y1 = lshr(y, 32);
  auto middle = x1 * y0 + lshr(x0 * y0, 32);
  auto other = x0 * y1 + (middle & 0xffffffff);
  return x1 * y1 + lshr(middle, 32) + lshr(other, 32);
}

/// As `TurnsF32`, the fraction in units of 2^-128 as two words.
template <class B>
struct TurnsF64 {
  I64<B> fraction_high, fraction_low, quadrant;
};
template <class B>
inline TurnsF64<B> turns_f64(F64<B> ax) {
  // 2/pi, 64 bits a word, after one word of zeros.
  constexpr uint64_t kTwoOverPi[] = {0,
                                     0xa2f9836e4e441529,
                                     0xfc2757d1f534ddc0,
                                     0xdb6295993c439041,
                                     0xfe5163abdebbc561,
                                     0xb7246e3a424dd2e0,
                                     0x06492eea09d1921c,
                                     0xfe1deb1cb129a73e,
                                     0xe88235f52ebb4484,
                                     0xe99c7026b45f7e41,
                                     0x3991d639835339f4,
                                     0x9c845f8bbdf9283b,
                                     0x1ff897ffde05980f,
                                     0xef2f118b5a0a6d1f,
                                     0x6d367ecf27cb09b7,
                                     0x4f463f669e5fea2d,
                                     0x7527bac7ebe5f17b,
                                     0x3d0739f78a5292ea,
                                     0x6bfb5fb11f8d5d08,
                                     0x56033046fc7b6bab};
  int64_t table[std::size(kTwoOverPi)];
  for (size_t i = 0; i < std::size(kTwoOverPi); ++i) table[i] = static_cast<int64_t>(kTwoOverPi[i]);
  auto bits = as_int(ax);
  auto start = lshr(bits, 52) - 1013;  // the first bit of weight below 4 turns: exponent - 1075 + 62
  auto w = window<5>(table, lshr(start, 6));
  auto shift = start & 63;
  auto aligned = [&](int i) {  // 64 bits of w[i] and w[i + 1] from bit `shift` on
    return (w[i] << shift) | lshr(lshr(w[i + 1], 63 - shift), 1);
  };
  auto m = (bits & 0xfffffffffffff) | 0x10000000000000;
  auto w1 = aligned(1);
  auto low = m * w1, carry_in = umulhi64(m, aligned(2));
  auto sum = low + carry_in;
  auto high = m * aligned(0) + umulhi64(m, w1) + zext<LaneType::kI64>(ult(sum, low));
  return {(high << 2) | lshr(sum, 62), sum << 2, lshr(high + (int64_t{1} << 61), 62)};
}

/// The fraction of a quarter turn as an angle in two parts.
template <class B>
inline std::array<F64<B>, 2> quarter_turns(TurnsF64<B> turns) {
  // Exact thirds of the fraction: 53, 53 and 22 bits.
  auto top = sitofp<LaneType::kF64>(ashr(turns.fraction_high, 11)) * 0x1p-53;
  auto middle_bits = ((turns.fraction_high & 0x7ff) << 42) | lshr(turns.fraction_low, 22);
  auto middle = sitofp<LaneType::kF64>(middle_bits) * 0x1p-106;
  auto bottom = sitofp<LaneType::kF64>(turns.fraction_low & 0x3fffff) * 0x1p-128;
  auto high = top + middle;
  auto low = ((top - high) + middle) + bottom;
  constexpr double kHalfPi = 0x1.921fb54442d18p0, kHalfPiLow = 0x1.1a62633145c07p-54;
  auto angle = high * kHalfPi;
  return {angle, fma(high, kHalfPi, -angle) + fma(high, kHalfPiLow, low * kHalfPi)};
}

template <class B>
SMOLDER_INLINE ReducedF64<B> reduce_pi_f64(F64<B> x) {
  constexpr double kRound = 0x1.8p52, kMiddle = 0x1.1a62633145c07p-54, kLast = -0x1.f1976b7ed8fbcp-110;
  auto t = fma(x, 2 * std::numbers::inv_pi, kRound);
  auto n = t - kRound;
  auto first = fma(n, -0x1.921fb54442d18p0, x);  // exact
  auto middle = n * -kMiddle, middle_low = fma(n, -kMiddle, -middle);
  auto high = first + middle;
  auto low = sum_error(first, middle, high) + fma(n, -kLast, middle_low);
  // The quadrant travels in the two lowest bits of the low part, which can spare them.
  auto pack = [](F64<B> part, I64<B> quadrant) { return as_float((as_int(part) & ~int64_t{3}) | (quadrant & 3)); };
  auto common = std::array{high, pack(low, as_int(t))};
  auto ax = abs(x);
  auto chosen = select_rare(ax >= 0x1p27, common, [&] {
    auto turns = turns_f64(ax);
    auto angle = quarter_turns(turns);
    auto finite = ax < std::numeric_limits<double>::infinity();
    auto large = select(finite, angle[0], std::numeric_limits<double>::quiet_NaN());
    auto negative = x < 0.0;
    return std::array{select(negative, -large, large),
                      pack(select(negative, -angle[1], angle[1]), select(negative, -turns.quadrant, turns.quadrant))};
  });
  return {chosen[0], chosen[1], as_int(chosen[1]) & 3};
}

}  // namespace smolder::ir::scalar::detail
