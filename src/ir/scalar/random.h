// Random numbers as a function of (seed, offset, element index) alone: Philox4x32-10, the counter-based generator of
// Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011). The mapping:
//
//   key      the 64-bit seed: low word, high word
//   counter  offset + index / 4 modulo 2^64 in the two low words, 0 in the two high ones
//   bits     word index % 4 of the output, 32 bits an element
//
// So n elements use up ceil(n / 4) counters: `offset` grows by that from one tensor to the next. What needs 64 bits
// an element (uniform and normal float64) has offset + index / 2 for a counter and takes words 0, 1 for even and 2, 3
// for odd elements, the first word high; n elements use up ceil(n / 2).
//
// Normal numbers are Box and Muller's, in pairs: elements 2k and 2k + 1 share their radius and angle, which come from
// the uniform numbers of elements 2k and 2k + 1.
#pragma once

#include <array>
#include <numbers>

#include "smolder/ir/scalar/convert.h"
#include "smolder/ir/scalar/emit.h"

namespace smolder::ir::scalar {

namespace detail {
inline constexpr int64_t kPhiloxM0 = 0xd2511f53, kPhiloxM1 = 0xcd9e8d57;  ///< multipliers
inline constexpr int64_t kPhiloxW0 = 0x9e3779b9, kPhiloxW1 = 0xbb67ae85;  ///< key increments
inline constexpr int kPhiloxRounds = 10;

/// `state` after n times `state = round(state)`. A code generator may have `repeat_i32`, which makes a loop of it: ten
/// rounds written out take it ten times as long.
template <class B, size_t N, class Round>
inline std::array<I32<B>, N> repeat(B& b, int n, std::array<I32<B>, N> state, Round&& round) {
  using Raw = std::array<Value<B, LaneType::kI32>, N>;
  const auto wrapped = [&](const Raw& raw) {
    std::array<I32<B>, N> s{};
    for (size_t i = 0; i < N; ++i) s[i] = {&b, raw[i]};
    return s;
  };
  const auto raw = [](const std::array<I32<B>, N>& s) {
    Raw r{};
    for (size_t i = 0; i < N; ++i) r[i] = s[i].v;
    return r;
  };
  if constexpr (requires(Raw r, Raw (*f)(Raw)) { b.repeat_i32(n, r, f); }) {
    return wrapped(b.repeat_i32(n, raw(state), [&](const Raw& r) { return raw(round(wrapped(r))); }));
  } else {
    for (int i = 0; i < n; ++i) state = round(state);
    return state;
  }
}
}  // namespace detail

/// The four words of Philox4x32-10 at a counter, under a key.
template <class B>
inline std::array<I32<B>, 4> philox(std::array<I32<B>, 4> counter, std::array<I32<B>, 2> key) {
  auto high = [](I32<B> x, int64_t multiplier) { return I32<B>{x.b, x.b->umulhi(x.v, like(x, multiplier).v)}; };
  std::array<I32<B>, 6> state{counter[0], counter[1], counter[2], counter[3], key[0], key[1]};
  state = detail::repeat(*key[0].b, detail::kPhiloxRounds, state, [&](const std::array<I32<B>, 6>& s) {
    auto [c0, c1, c2, c3, k0, k1] = s;
    return std::array<I32<B>, 6>{high(c2, detail::kPhiloxM1) ^ c1 ^ k0,
                                 c2 * detail::kPhiloxM1,
                                 high(c0, detail::kPhiloxM0) ^ c3 ^ k1,
                                 c0 * detail::kPhiloxM0,
                                 k0 + detail::kPhiloxW0,
                                 k1 + detail::kPhiloxW1};
  });
  return {state[0], state[1], state[2], state[3]};
}

/// The words at counter `counter` of the stream `seed`.
template <class B>
inline std::array<I32<B>, 4> random_words(I64<B> seed, I64<B> counter) {
  auto low = [](I64<B> x) { return itrunc<LaneType::kI32>(x); };
  auto high = [](I64<B> x) { return itrunc<LaneType::kI32>(lshr(x, 32)); };
  auto zero = constant<LaneType::kI32>(*seed.b, 0);
  return philox<B>({low(counter), high(counter), zero, zero}, {low(seed), high(seed)});
}

/// The 32 random bits of element `index`.
template <class B>
inline I32<B> random_bits(I64<B> seed, I64<B> offset, I64<B> index) {
  auto w = random_words(seed, offset + lshr(index, 2));
  auto position = itrunc<LaneType::kI32>(index);
  auto odd = (position & 1) != 0;
  return select((position & 2) != 0, select(odd, w[3], w[2]), select(odd, w[1], w[0]));
}

/// A builder whose lanes can be told apart in aligned fours, which is what makes consecutive elements cheap: one
/// generator for four lanes instead of one a lane. On kI32 lanes 4k, 4k + 1, 4k + 2, 4k + 3:
///   fours_constant({a, b, c, d})  these numbers, in every four
///   fours_reverse(x)              x3, x2, x1, x0
///   fours_multiply(x, y)          low and high word of x0 * y0, low and high word of x2 * y2 (unsigned)
///   fours_odd(x)                  x1, 0, x3, 0
template <class B>
concept FourLaneBuilder = ScalarBuilder<B> && requires(B& b, Value<B, LaneType::kI32> x, std::array<int64_t, 4> c) {
  { b.fours_constant(c) } -> std::same_as<Value<B, LaneType::kI32>>;
  { b.fours_reverse(x) } -> std::same_as<Value<B, LaneType::kI32>>;
  { b.fours_multiply(x, x) } -> std::same_as<Value<B, LaneType::kI32>>;
  { b.fours_odd(x) } -> std::same_as<Value<B, LaneType::kI32>>;
};

/// As `random_bits`, where the lanes of every aligned four hold indices 4k, 4k + 1, 4k + 2, 4k + 3 and one seed and
/// offset: a quarter of the work on a `FourLaneBuilder`.
template <class B>
inline I32<B> random_bits_aligned(I64<B> seed, I64<B> offset, I64<B> index) {
  if constexpr (FourLaneBuilder<B>) {
    B& b = *seed.b;
    I32<B> first_two{&b, b.fours_constant({-1, -1, 0, 0})}, even{&b, b.fours_constant({-1, 0, -1, 0})};
    I32<B> multiplier{&b, b.fours_constant({detail::kPhiloxM0, 0, detail::kPhiloxM1, 0})};
    I32<B> increment{&b, b.fours_constant({detail::kPhiloxW0, 0, detail::kPhiloxW1, 0})};
    auto counter = offset + lshr(index, 2);
    auto low = itrunc<LaneType::kI32>(counter), high = itrunc<LaneType::kI32>(lshr(counter, 32));
    auto state = ((low & even) | (high & ~even)) & first_two;
    auto key_low = itrunc<LaneType::kI32>(seed), key_high = itrunc<LaneType::kI32>(lshr(seed, 32));
    auto key = ((key_low & first_two) | (key_high & ~first_two)) & even;
    auto round = [&](const std::array<I32<B>, 2>& s) {
      I32<B> products{&b, b.fours_multiply(s[0].v, multiplier.v)};
      return std::array<I32<B>, 2>{I32<B>{&b, b.fours_reverse(products.v)} ^ I32<B>{&b, b.fours_odd(s[0].v)} ^ s[1],
                                   s[1] + increment};
    };
    return detail::repeat(b, detail::kPhiloxRounds, std::array{state, key}, round)[0];
  } else {
    return random_bits(seed, offset, index);
  }
}

/// The 64 random bits of element `index`; `offset` counts counters of two elements.
template <class B>
inline I64<B> random_bits64(I64<B> seed, I64<B> offset, I64<B> index) {
  auto w = random_words(seed, offset + lshr(index, 1));
  auto odd = (index & 1) != 0;
  auto join = [](I32<B> high, I32<B> low) { return (zext<LaneType::kI64>(high) << 32) | zext<LaneType::kI64>(low); };
  return select(odd, join(w[2], w[3]), join(w[0], w[1]));
}

/// Uniform in [0, 1) from random bits: as many leading bits as the dtype holds, so that none rounds up to 1.
template <DType D, class B>
SMOLDER_INLINE F32<B> uniform_from_bits(I32<B> bits)
  requires(compute_type(D) == DType::kFloat32)
{
  constexpr int kBits = D == DType::kFloat16 ? 11 : D == DType::kBFloat16 ? 8 : 24;
  return sitofp<LaneType::kF32>(lshr(bits, 32 - kBits)) * (1.0 / (1 << kBits));
}
template <DType D, class B>
SMOLDER_INLINE F64<B> uniform_from_bits(I64<B> bits)
  requires(D == DType::kFloat64)
{
  return sitofp<LaneType::kF64>(lshr(bits, 11)) * 0x1p-53;
}

/// A standard normal number from the uniform numbers of a pair: the first of the two for an even element, the second
/// for an odd one. 1 - u is in (0, 1], so the radius is finite: at most 5.77 from 24 bits, 8.58 from 53.
template <class B, LaneType L>
SMOLDER_INLINE Num<B, L> normal_from_uniform(Num<B, L> first, Num<B, L> second, I1<B> odd) {
  auto radius = sqrt(log(1.0 - first) * -2.0);
  auto angle = second * (2 * std::numbers::pi);
  return radius * select(odd, sin(angle), cos(angle));
}

/// Uniform in [0, 1) for element `index` of dtype `D`.
template <DType D, class B>
inline Reg<B, D> random_uniform(I64<B> seed, I64<B> offset, I64<B> index) {
  if constexpr (D == DType::kFloat64) {
    return uniform_from_bits<D>(random_bits64(seed, offset, index));
  } else {
    return uniform_from_bits<D>(random_bits(seed, offset, index));
  }
}

/// Standard normal for element `index`; for the halves the float32 number, rounded.
template <DType D, class B>
inline Reg<B, D> random_normal(I64<B> seed, I64<B> offset, I64<B> index) {
  auto odd = (index & 1) != 0;
  if constexpr (D == DType::kFloat64) {
    auto w = random_words(seed, offset + lshr(index, 1));
    auto join = [](I32<B> high, I32<B> low) { return (zext<LaneType::kI64>(high) << 32) | zext<LaneType::kI64>(low); };
    return normal_from_uniform(uniform_from_bits<D>(join(w[0], w[1])), uniform_from_bits<D>(join(w[2], w[3])), odd);
  } else {
    auto w = random_words(seed, offset + lshr(index, 2));
    auto upper = (index & 2) != 0;
    auto first = uniform_from_bits<DType::kFloat32>(select(upper, w[2], w[0]));
    auto second = uniform_from_bits<DType::kFloat32>(select(upper, w[3], w[1]));
    return round_to<D>(normal_from_uniform(first, second, odd));
  }
}

}  // namespace smolder::ir::scalar
