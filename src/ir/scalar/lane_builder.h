// The host's vector registers as the machine of scalar arithmetic: N lanes at a time, on the compiler's vector
// extension, for the instruction set that the including file is built for.
#pragma once

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "smolder/ir/scalar/evaluate.h"
#include "smolder/ir/scalar/num.h"

namespace smolder::ir::scalar {

#if defined(__AVX512F__)
inline namespace host_avx512 {
inline constexpr int kVectorBytes = 64;
#elif defined(__FMA__)
inline namespace host_fma {
inline constexpr int kVectorBytes = 32;
#else
inline namespace host_base {
inline constexpr int kVectorBytes = 16;
#endif

namespace host_detail {

/// N lanes of T in as few registers as hold them.
template <class T, int N>
struct Pack {
  static constexpr int kPerChunk = N * sizeof(T) < kVectorBytes ? N : kVectorBytes / static_cast<int>(sizeof(T));
  static constexpr int kChunks = N / kPerChunk;
  typedef T Chunk __attribute__((vector_size(kPerChunk * sizeof(T))));
  Chunk c[kChunks];
};

/// A condition: all bits or none, in integers of type T.
template <class T, int N>
struct Mask {
  Pack<T, N> bits;
};

template <LaneType L>
using SignedLane = std::conditional_t<L == LaneType::kI8, int8_t,
                                      std::conditional_t<L == LaneType::kI16, int16_t, HostType<int_lane(L)>>>;
template <class T>
using UnsignedOf = std::make_unsigned_t<T>;

// Parts of registers by shuffles: through memory they would stall on store forwarding.
template <class V, size_t... I>
SMOLDER_INLINE auto shuffle(V a, V b, std::index_sequence<I...>) {
  return __builtin_shufflevector(a, b, I...);
}
template <int kFirst, int kStep, size_t... I>
constexpr auto stride(std::index_sequence<I...>) {
  return std::index_sequence<(kFirst + kStep * I)...>();
}
/// Lanes kFirst, kFirst + kStep, ... of a and b laid end to end, kCount of them.
template <int kCount, int kFirst, int kStep, class V>
SMOLDER_INLINE auto pick(V a, V b) {
  return shuffle(a, b, stride<kFirst, kStep>(std::make_index_sequence<kCount>()));
}

template <class T>
using HalfWidth = std::conditional_t<sizeof(T) == 8, int32_t, std::conditional_t<sizeof(T) == 4, uint16_t, uint8_t>>;
template <class T>  // keeps the sign or its absence
using DoubleWidth = std::conditional_t<
    std::is_signed_v<T>,
    std::conditional_t<sizeof(T) == 1, int16_t, std::conditional_t<sizeof(T) == 2, int32_t, int64_t>>,
    std::conditional_t<sizeof(T) == 1, uint16_t, std::conditional_t<sizeof(T) == 2, uint32_t, uint64_t>>>;

/// Lanes of T as numbers of type U. Integers change width by halving and doubling.
template <class U, class T, int N>
SMOLDER_INLINE Pack<U, N> convert_lanes(const Pack<T, N>& x) {
  using From = Pack<T, N>;
  using To = Pack<U, N>;
  constexpr bool kIntegers = std::is_integral_v<T> && std::is_integral_v<U>;
  To r;
  if constexpr (kIntegers && sizeof(U) > 2 * sizeof(T)) {
    return convert_lanes<U>(convert_lanes<DoubleWidth<T>>(x));
  } else if constexpr (kIntegers && 2 * sizeof(U) < sizeof(T)) {
    return convert_lanes<U>(convert_lanes<HalfWidth<T>>(x));
  } else if constexpr (kIntegers && 2 * sizeof(U) == sizeof(T)) {
    typedef U Narrow __attribute__((vector_size(sizeof(typename From::Chunk))));
    for (int k = 0; k < To::kChunks; ++k) {
      constexpr int kPerTo = From::kChunks / To::kChunks;
      const auto a = (Narrow)x.c[k * kPerTo], b = (Narrow)x.c[k * kPerTo + kPerTo - 1];
      r.c[k] = pick<To::kPerChunk, 0, 2>(a, b);
    }
  } else if constexpr (From::kChunks == To::kChunks) {
    for (int k = 0; k < To::kChunks; ++k) r.c[k] = __builtin_convertvector(x.c[k], typename To::Chunk);
  } else if constexpr (From::kChunks < To::kChunks) {
    static_assert(2 * From::kChunks == To::kChunks);
    for (int k = 0; k < From::kChunks; ++k) {
      const auto low = pick<To::kPerChunk, 0, 1>(x.c[k], x.c[k]);
      const auto high = pick<To::kPerChunk, To::kPerChunk, 1>(x.c[k], x.c[k]);
      r.c[2 * k] = __builtin_convertvector(low, typename To::Chunk);
      r.c[2 * k + 1] = __builtin_convertvector(high, typename To::Chunk);
    }
  } else {
    static_assert(From::kChunks == 2 * To::kChunks);
    typedef U Half __attribute__((vector_size(From::kPerChunk * sizeof(U))));
    for (int k = 0; k < To::kChunks; ++k) {
      r.c[k] = pick<To::kPerChunk, 0, 1>(__builtin_convertvector(x.c[2 * k], Half),
                                         __builtin_convertvector(x.c[2 * k + 1], Half));
    }
  }
  return r;
}

}  // namespace host_detail

/// Evaluates N lanes at a time. `kMask` is the lane type whose width conditions are kept in: the width of what
/// is mostly compared and selected. Needs `-ffp-contract=off`.
template <int N, LaneType kMask = LaneType::kI32>
class LaneBuilder {
  template <class T>
  using Pack = host_detail::Pack<T, N>;
  using MaskInt = host_detail::SignedLane<kMask>;
  using Cond = host_detail::Mask<MaskInt, N>;

 public:
  static constexpr int kLanes = N;
  template <LaneType L>
  using Value = std::conditional_t<L == LaneType::kI1, Cond, Pack<host_detail::HostType<L>>>;

  /// Lanes from and to memory of any alignment. One register at a time: GCC leaves a copy of several in memory,
  /// 16 bytes each, and the arithmetic on them stalls on store forwarding.
  template <LaneType L>
  SMOLDER_INLINE static Value<L> load(const void* from) {
    Value<L> r;
    for (int k = 0; k < Value<L>::kChunks; ++k) {
      std::memcpy(&r.c[k], static_cast<const char*>(from) + k * sizeof(r.c[k]), sizeof(r.c[k]));
    }
    return r;
  }
  template <LaneType L>
  SMOLDER_INLINE static void store(void* to, const Value<L>& x) {
    for (int k = 0; k < Value<L>::kChunks; ++k) {
      std::memcpy(static_cast<char*>(to) + k * sizeof(x.c[k]), &x.c[k], sizeof(x.c[k]));
    }
  }

  template <LaneType L>
  SMOLDER_INLINE static Value<L> constant(Literal<L> v) {
    if constexpr (L == LaneType::kI1) {
      return {splat<MaskInt>(v & 1 ? -1 : 0)};
    } else {
      return splat<host_detail::HostType<L>>(static_cast<host_detail::HostType<L>>(v));
    }
  }

  /// first, first + 1, ..., first + N - 1.
  SMOLDER_INLINE static Value<LaneType::kI64> iota(int64_t first) {
    using P = Pack<int64_t>;
    P r;
    for (int k = 0; k < P::kChunks; ++k) {
      typename P::Chunk lanes{};
      for (int i = 0; i < P::kPerChunk; ++i) lanes[i] = k * P::kPerChunk + i;
      r.c[k] = lanes + first;
    }
    return r;
  }

#define SMOLDER_LANEWISE(name, expression)                                 \
  template <class T>                                                       \
  SMOLDER_INLINE static Pack<T> name(const Pack<T>& x, const Pack<T>& y) { \
    Pack<T> r;                                                             \
    for (int k = 0; k < Pack<T>::kChunks; ++k) {                           \
      const auto a = x.c[k], b = y.c[k];                                   \
      r.c[k] = expression;                                                 \
    }                                                                      \
    return r;                                                              \
  }
  SMOLDER_LANEWISE(fadd, a + b)
  SMOLDER_LANEWISE(fsub, a - b)
  SMOLDER_LANEWISE(fmul, a* b)
  SMOLDER_LANEWISE(fdiv, a / b)
  SMOLDER_LANEWISE(and_, a& b)
  SMOLDER_LANEWISE(or_, a | b)
  SMOLDER_LANEWISE(xor_, a ^ b)
  // Integer arithmetic is done unsigned: C++ leaves signed overflow undefined.
  SMOLDER_LANEWISE(iadd, (as<T>(as_unsigned<T>(a) + as_unsigned<T>(b))))
  SMOLDER_LANEWISE(isub, (as<T>(as_unsigned<T>(a) - as_unsigned<T>(b))))
  SMOLDER_LANEWISE(imul, (as<T>(as_unsigned<T>(a) * as_unsigned<T>(b))))
  SMOLDER_LANEWISE(shl, (as<T>(as_unsigned<T>(a) << as_unsigned<T>(b))))
  SMOLDER_LANEWISE(lshr, (as<T>(as_unsigned<T>(a) >> as_unsigned<T>(b))))
  SMOLDER_LANEWISE(ashr, (as<T>(as_signed<T>(a) >> as_signed<T>(b))))
#undef SMOLDER_LANEWISE

  SMOLDER_INLINE static Cond and_(const Cond& x, const Cond& y) { return {and_(x.bits, y.bits)}; }
  SMOLDER_INLINE static Cond or_(const Cond& x, const Cond& y) { return {or_(x.bits, y.bits)}; }
  SMOLDER_INLINE static Cond xor_(const Cond& x, const Cond& y) { return {xor_(x.bits, y.bits)}; }
  SMOLDER_INLINE static Cond not_(const Cond& x) { return {not_(x.bits)}; }

#define SMOLDER_LANEWISE(name, parameter, expression)              \
  template <class T>                                               \
  SMOLDER_INLINE static Pack<T> name(const Pack<T>& x parameter) { \
    Pack<T> r;                                                     \
    for (int k = 0; k < Pack<T>::kChunks; ++k) {                   \
      const auto a = x.c[k];                                       \
      r.c[k] = expression;                                         \
    }                                                              \
    return r;                                                      \
  }
#define SMOLDER_AMOUNT , int n
  SMOLDER_LANEWISE(not_, , ~a)
  SMOLDER_LANEWISE(shl, SMOLDER_AMOUNT, (as<T>(as_unsigned<T>(a) << n)))
  SMOLDER_LANEWISE(lshr, SMOLDER_AMOUNT, (as<T>(as_unsigned<T>(a) >> n)))
  SMOLDER_LANEWISE(ashr, SMOLDER_AMOUNT, (as<T>(as_signed<T>(a) >> n)))
  SMOLDER_LANEWISE(fneg, , -a)
  SMOLDER_LANEWISE(fabs, , (as<T>(as_bits<T>(a) & ~sign_bit<T>())))
  SMOLDER_LANEWISE(sqrt, , sqrt_chunk(a))
  SMOLDER_LANEWISE(rint, , (round_chunk<kNearest>(a)))
  SMOLDER_LANEWISE(floor, , (round_chunk<kDown>(a)))
  SMOLDER_LANEWISE(ceil, , (round_chunk<kUp>(a)))
  SMOLDER_LANEWISE(trunc, , (round_chunk<kZero>(a)))
#undef SMOLDER_AMOUNT
#undef SMOLDER_LANEWISE

  template <class T>
  SMOLDER_INLINE static Pack<T> fma(const Pack<T>& x, const Pack<T>& y, const Pack<T>& z) {
    Pack<T> r;
    for (int k = 0; k < Pack<T>::kChunks; ++k) r.c[k] = fma_chunk(x.c[k], y.c[k], z.c[k]);
    return r;
  }

#define SMOLDER_COMPARE(name, expression)                               \
  template <class T>                                                    \
  SMOLDER_INLINE static Cond name(const Pack<T>& x, const Pack<T>& y) { \
    using I = host_detail::SignedLane<kIntLane<T>>;                     \
    Pack<I> r;                                                          \
    for (int k = 0; k < Pack<T>::kChunks; ++k) {                        \
      const auto a = x.c[k], b = y.c[k];                                \
      r.c[k] = (typename Pack<I>::Chunk)(expression);                   \
    }                                                                   \
    return {resize<MaskInt>(r)};                                        \
  }
  SMOLDER_COMPARE(feq, a == b)
  SMOLDER_COMPARE(fne, a != b)
  SMOLDER_COMPARE(flt, a < b)
  SMOLDER_COMPARE(fle, a <= b)
  SMOLDER_COMPARE(ieq, a == b)
  SMOLDER_COMPARE(ine, a != b)
  SMOLDER_COMPARE(slt, as_signed<T>(a) < as_signed<T>(b))
  SMOLDER_COMPARE(sle, as_signed<T>(a) <= as_signed<T>(b))
  SMOLDER_COMPARE(ult, as_unsigned<T>(a) < as_unsigned<T>(b))
  SMOLDER_COMPARE(ule, as_unsigned<T>(a) <= as_unsigned<T>(b))
#undef SMOLDER_COMPARE

  template <LaneType L>
  SMOLDER_INLINE static Value<L> select(const Cond& c, const Value<L>& x, const Value<L>& y) {
    if constexpr (L == LaneType::kI1) {
      return or_(and_(c, x), and_(not_(c), y));
    } else {
      using T = host_detail::HostType<L>;
      const auto mask = resize<host_detail::SignedLane<int_lane(L)>>(c.bits);
      Value<L> r;
      for (int k = 0; k < Pack<T>::kChunks; ++k) r.c[k] = mask.c[k] ? x.c[k] : y.c[k];
      return r;
    }
  }
  template <LaneType L, class Rare>
  SMOLDER_INLINE static std::array<Value<L>, 2> select_rare(const Cond& c, const std::array<Value<L>, 2>& common,
                                                            Rare&& rare) {
    if (!any(c)) [[likely]]
      return common;
    const std::array<Value<L>, 2> r = rare();
    return {select<L>(c, r[0], common[0]), select<L>(c, r[1], common[1])};
  }
  /// Whether the condition holds in any lane.
  SMOLDER_INLINE static bool any(const Cond& c) {
    typename Pack<MaskInt>::Chunk all = c.bits.c[0];
    for (int k = 1; k < Pack<MaskInt>::kChunks; ++k) all |= c.bits.c[k];
#if defined(__AVX__)
    if constexpr (sizeof(all) == 32) return !_mm256_testz_si256((__m256i)all, (__m256i)all);
#endif
    uint64_t words[(sizeof(all) + 7) / 8] = {};
    std::memcpy(words, &all, sizeof(all));
    uint64_t some = 0;
    for (uint64_t w : words) some |= w;
    return some != 0;
  }

  template <LaneType To, class T>
  SMOLDER_INLINE static Value<To> bitcast(const Pack<T>& x) {
    return cast_pack<host_detail::HostType<To>>(x);
  }
  template <LaneType To, class T>
  SMOLDER_INLINE static Value<To> sitofp(const Pack<T>& x) {
    return host_detail::convert_lanes<host_detail::HostType<To>>(x);
  }
  template <LaneType To, class T>
  SMOLDER_INLINE static Value<To> fptosi_in_range(const Pack<T>& x) {
    return host_detail::convert_lanes<host_detail::HostType<To>>(x);
  }
  template <LaneType To, class T>
  SMOLDER_INLINE static Value<To> fptosi(const Pack<T>& x) {
    using I = host_detail::HostType<To>;
    constexpr double kEnd = To == LaneType::kI32 ? 0x1p31 : 0x1p63;
    const auto end = splat<T>(static_cast<T>(kEnd)), minus_end = splat<T>(static_cast<T>(-kEnd));
    const auto high = fle(end, x), low = flt(x, minus_end), nan = fne(x, x);
    // A cast out of range is undefined in C++: such lanes convert 0.
    const auto safe = select<kFloatLane<T>>(or_(or_(high, low), nan), splat<T>(0), x);
    auto r = host_detail::convert_lanes<I>(safe);
    r = select<To>(high, splat<I>(std::numeric_limits<I>::max()), r);
    return select<To>(low, splat<I>(std::numeric_limits<I>::min()), r);
  }
  template <LaneType To, class T>
  SMOLDER_INLINE static Value<To> zext(const Pack<T>& x) {
    using U = host_detail::HostType<To>;
    return cast_pack<U>(
        host_detail::convert_lanes<host_detail::UnsignedOf<U>>(cast_pack<host_detail::UnsignedOf<T>>(x)));
  }
  template <LaneType To, class T>
  SMOLDER_INLINE static Value<To> sext(const Pack<T>& x) {
    using U = host_detail::SignedLane<To>;
    return cast_pack<host_detail::HostType<To>>(host_detail::convert_lanes<U>(cast_pack<std::make_signed_t<T>>(x)));
  }
  template <LaneType To>
  SMOLDER_INLINE static Value<To> sext(const Cond& x) {
    return cast_pack<host_detail::HostType<To>>(resize<host_detail::SignedLane<To>>(x.bits));
  }
  template <LaneType To>
  SMOLDER_INLINE static Value<To> zext(const Cond& x) {
    return and_(sext<To>(x), constant<To>(1));
  }
  template <LaneType To, class T>
  SMOLDER_INLINE static Value<To> itrunc(const Pack<T>& x) {
    if constexpr (To == LaneType::kI1) {
      return ine(and_(x, splat<T>(1)), splat<T>(0));
    } else {
      return host_detail::convert_lanes<host_detail::HostType<To>>(x);
    }
  }
  template <LaneType To>
  SMOLDER_INLINE static Value<To> fpext(const Pack<float>& x) {
    return host_detail::convert_lanes<double>(x);
  }
  template <LaneType To>
  SMOLDER_INLINE static Value<To> fptrunc(const Pack<double>& x) {
    return host_detail::convert_lanes<float>(x);
  }

  SMOLDER_INLINE static Pack<int32_t> umulhi(const Pack<int32_t>& x, const Pack<int32_t>& y) {
    Pack<int32_t> r;
    for (int k = 0; k < Pack<int32_t>::kChunks; ++k) r.c[k] = umulhi_chunk(x.c[k], y.c[k]);
    return r;
  }
  SMOLDER_INLINE static Pack<int64_t> sdiv(const Pack<int64_t>& x, const Pack<int64_t>& y) {
    Pack<int64_t> r;
    for (int k = 0; k < Pack<int64_t>::kChunks; ++k) r.c[k] = x.c[k] / y.c[k];
    return r;
  }
  SMOLDER_INLINE static Pack<int64_t> srem(const Pack<int64_t>& x, const Pack<int64_t>& y) {
    Pack<int64_t> r;
    for (int k = 0; k < Pack<int64_t>::kChunks; ++k) r.c[k] = x.c[k] % y.c[k];
    return r;
  }

  // FourLaneBuilder (random.h)
  SMOLDER_INLINE static Pack<int32_t> fours_constant(const std::array<int64_t, 4>& c)
    requires(N % 4 == 0)
  {
    Pack<int32_t> r;
    for (int k = 0; k < Pack<int32_t>::kChunks; ++k) {
      for (int i = 0; i < Pack<int32_t>::kPerChunk; ++i) r.c[k][i] = static_cast<int32_t>(c[i % 4]);
    }
    return r;
  }
  SMOLDER_INLINE static Pack<int32_t> fours_reverse(const Pack<int32_t>& x)
    requires(N % 4 == 0)
  {
    Pack<int32_t> r;
    for (int k = 0; k < Pack<int32_t>::kChunks; ++k) r.c[k] = reverse_chunk(x.c[k]);
    return r;
  }
  SMOLDER_INLINE static Pack<int32_t> fours_multiply(const Pack<int32_t>& x, const Pack<int32_t>& y)
    requires(N % 4 == 0)
  {
    Pack<int32_t> r;
    for (int k = 0; k < Pack<int32_t>::kChunks; ++k) r.c[k] = multiply_even_chunk(x.c[k], y.c[k]);
    return r;
  }
  SMOLDER_INLINE static Pack<int32_t> fours_odd(const Pack<int32_t>& x)
    requires(N % 4 == 0)
  {
    Pack<int32_t> r;
    for (int k = 0; k < Pack<int32_t>::kChunks; ++k) {
      typedef uint64_t Wide __attribute__((vector_size(sizeof(x.c[k]))));
      r.c[k] = (typename Pack<int32_t>::Chunk)((Wide)x.c[k] >> 32);
    }
    return r;
  }

#if defined(__F16C__)
  SMOLDER_INLINE static Pack<float> half_to_f32(const Pack<uint16_t>& x)
    requires(N % 8 == 0)
  {
    return half_to_f32(x, std::make_index_sequence<N / 8>());
  }
  SMOLDER_INLINE static Pack<uint16_t> f32_to_half(const Pack<float>& x)
    requires(N % 8 == 0)
  {
    constexpr int kPerChunk = Pack<uint16_t>::kPerChunk;
    Pack<uint16_t> r;
    for (int k = 0; k < Pack<uint16_t>::kChunks; ++k) r.c[k] = join_halves<kPerChunk>(x, k * kPerChunk / 8);
    return r;
  }
#endif

 private:
  template <class T>
  static constexpr LaneType kIntLane = sizeof(T) == 1   ? LaneType::kI8
                                       : sizeof(T) == 2 ? LaneType::kI16
                                       : sizeof(T) == 4 ? LaneType::kI32
                                                        : LaneType::kI64;
  template <class T>
  static constexpr LaneType kFloatLane = sizeof(T) == 4 ? LaneType::kF32 : LaneType::kF64;

  template <class T>
  SMOLDER_INLINE static Pack<T> splat(T v) {
    Pack<T> r;
    for (int k = 0; k < Pack<T>::kChunks; ++k) r.c[k] = typename Pack<T>::Chunk{} + v;
    return r;
  }
  template <class U, class T>
  SMOLDER_INLINE static Pack<U> cast_pack(const Pack<T>& x) {
    Pack<U> r;
    static_assert(Pack<U>::kChunks == Pack<T>::kChunks);
    for (int k = 0; k < Pack<U>::kChunks; ++k) r.c[k] = (typename Pack<U>::Chunk)x.c[k];
    return r;
  }
  /// A mask of lanes of T as lanes of U.
  template <class U, class T>
  SMOLDER_INLINE static Pack<U> resize(const Pack<T>& x) {
    if constexpr (sizeof(U) == sizeof(T)) {
      return cast_pack<U>(x);
    } else {
      return host_detail::convert_lanes<U>(x);
    }
  }

#if defined(__F16C__)
  /// Lanes 8 i to 8 i + 7 of x.
  SMOLDER_INLINE static __m256 eight(const Pack<float>& x, int i) {
    if constexpr (Pack<float>::kPerChunk == 8) {
      return (__m256)x.c[i];
    } else {
      __m256 r;
      std::memcpy(&r, reinterpret_cast<const char*>(&x) + i * sizeof(r), sizeof(r));
      return r;
    }
  }
  typedef uint16_t Half8 __attribute__((vector_size(16)));
  template <int kCount>
  SMOLDER_INLINE static auto join_halves(const Pack<float>& x, int i) {
    if constexpr (kCount == 8) {
      return (Half8)_mm256_cvtps_ph(eight(x, i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    } else {
      return host_detail::pick<kCount, 0, 1>(join_halves<kCount / 2>(x, i),
                                             join_halves<kCount / 2>(x, i + kCount / 16));
    }
  }
  template <size_t... I>
  SMOLDER_INLINE static Pack<float> half_to_f32(const Pack<uint16_t>& x, std::index_sequence<I...>) {
    Pack<float> r;
    constexpr int kPerChunk = Pack<uint16_t>::kPerChunk;
    const auto put = [&r](int i, __m256 eight) {
      if constexpr (Pack<float>::kPerChunk == 8) {
        r.c[i] = (typename Pack<float>::Chunk)eight;
      } else {
        std::memcpy(reinterpret_cast<char*>(&r) + i * sizeof(eight), &eight, sizeof(eight));
      }
    };
    (put(I, _mm256_cvtph_ps(
                (__m128i)host_detail::pick<8, 8 * I % kPerChunk, 1>(x.c[8 * I / kPerChunk], x.c[8 * I / kPerChunk]))),
     ...);
    return r;
  }
#endif

  template <class T, class C>
  SMOLDER_INLINE static auto as(C chunk) {
    return (typename Pack<T>::Chunk)chunk;
  }
  template <class T, class C>
  SMOLDER_INLINE static auto as_unsigned(C chunk) {
    return (typename Pack<std::make_unsigned_t<T>>::Chunk)chunk;
  }
  template <class T, class C>
  SMOLDER_INLINE static auto as_signed(C chunk) {
    return (typename Pack<std::make_signed_t<T>>::Chunk)chunk;
  }
  template <class T, class C>
  SMOLDER_INLINE static auto as_bits(C chunk) {
    return (typename Pack<host_detail::SignedLane<kIntLane<T>>>::Chunk)chunk;
  }
  template <class T>
  static constexpr auto sign_bit() {
    return std::numeric_limits<host_detail::SignedLane<kIntLane<T>>>::min();
  }

  // One register: the instruction where there is one, else lane by lane, which compilers put back together.
  enum Direction { kNearest, kDown, kUp, kZero };
  template <class C, class F>
  SMOLDER_INLINE static C each(C a, F f) {
    C r;
    for (size_t i = 0; i < sizeof(C) / sizeof(a[0]); ++i) r[i] = f(i);
    return r;
  }
  template <class C>
  SMOLDER_INLINE static C fma_chunk(C a, C b, C c) {
#if defined(__FMA__)
    constexpr bool kSingle = sizeof(a[0]) == 4;
#if defined(__AVX512F__)
    if constexpr (sizeof(C) == 64 && kSingle) return (C)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
    if constexpr (sizeof(C) == 64 && !kSingle) return (C)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#endif
    if constexpr (sizeof(C) == 32 && kSingle) return (C)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
    if constexpr (sizeof(C) == 32 && !kSingle) return (C)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
    if constexpr (sizeof(C) == 16 && kSingle) return (C)_mm_fmadd_ps((__m128)a, (__m128)b, (__m128)c);
    if constexpr (sizeof(C) == 16 && !kSingle) return (C)_mm_fmadd_pd((__m128d)a, (__m128d)b, (__m128d)c);
#endif
    return each(a, [&](size_t i) { return std::fma(a[i], b[i], c[i]); });
  }
  template <class C>
  SMOLDER_INLINE static C sqrt_chunk(C a) {
#if defined(__AVX__)
    constexpr bool kSingle = sizeof(a[0]) == 4;
#if defined(__AVX512F__)
    if constexpr (sizeof(C) == 64 && kSingle) return (C)_mm512_sqrt_ps((__m512)a);
    if constexpr (sizeof(C) == 64 && !kSingle) return (C)_mm512_sqrt_pd((__m512d)a);
#endif
    if constexpr (sizeof(C) == 32 && kSingle) return (C)_mm256_sqrt_ps((__m256)a);
    if constexpr (sizeof(C) == 32 && !kSingle) return (C)_mm256_sqrt_pd((__m256d)a);
#endif
    return each(a, [&](size_t i) { return std::sqrt(a[i]); });
  }
  template <Direction kDirection, class C>
  SMOLDER_INLINE static C round_chunk(C a) {
#if defined(__AVX__)
    constexpr bool kSingle = sizeof(a[0]) == 4;
    constexpr int kMode = kDirection | _MM_FROUND_NO_EXC;  // the encoding of the instruction
#if defined(__AVX512F__)
    if constexpr (sizeof(C) == 64 && kSingle) return (C)_mm512_roundscale_ps((__m512)a, kMode);
    if constexpr (sizeof(C) == 64 && !kSingle) return (C)_mm512_roundscale_pd((__m512d)a, kMode);
#endif
    if constexpr (sizeof(C) == 32 && kSingle) return (C)_mm256_round_ps((__m256)a, kMode);
    if constexpr (sizeof(C) == 32 && !kSingle) return (C)_mm256_round_pd((__m256d)a, kMode);
#endif
    return each(a, [&](size_t i) {
      if constexpr (kDirection == kNearest) return std::nearbyint(a[i]);
      if constexpr (kDirection == kDown) return std::floor(a[i]);
      if constexpr (kDirection == kUp) return std::ceil(a[i]);
      if constexpr (kDirection == kZero) return std::trunc(a[i]);
    });
  }
  template <class C>
  SMOLDER_INLINE static C reverse_chunk(C a) {
#if defined(__AVX512F__)
    if constexpr (sizeof(C) == 64) return (C)_mm512_shuffle_epi32((__m512i)a, _MM_PERM_ABCD);
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(C) == 32) return (C)_mm256_shuffle_epi32((__m256i)a, 0x1b);
#endif
    return each(a, [&](size_t i) { return a[i ^ 3]; });
  }
  template <class C>
  SMOLDER_INLINE static C multiply_even_chunk(C a, C b) {
#if defined(__AVX512F__)
    if constexpr (sizeof(C) == 64) return (C)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(C) == 32) return (C)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#endif
    return each(a, [&](size_t i) {
      const uint64_t product =
          static_cast<uint64_t>(static_cast<uint32_t>(a[i & ~size_t{1}])) * static_cast<uint32_t>(b[i & ~size_t{1}]);
      return static_cast<int32_t>(i % 2 == 0 ? product : product >> 32);
    });
  }
  template <class C>
  SMOLDER_INLINE static C umulhi_chunk(C a, C b) {
#if defined(__AVX2__)
    if constexpr (sizeof(C) == 32) {
      const __m256i x = (__m256i)a, y = (__m256i)b;
      const __m256i even = _mm256_srli_epi64(_mm256_mul_epu32(x, y), 32);
      const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(x, 32), _mm256_srli_epi64(y, 32));
      return (C)_mm256_blend_epi32(even, odd, 0xaa);
    }
#endif
#if defined(__AVX512F__)
    if constexpr (sizeof(C) == 64) {
      const __m512i x = (__m512i)a, y = (__m512i)b;
      const __m512i even = _mm512_srli_epi64(_mm512_mul_epu32(x, y), 32);
      const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(y, 32));
      return (C)_mm512_mask_mov_epi32(even, 0xaaaa, odd);
    }
#endif
    return each(a, [&](size_t i) { return HostBuilder::umulhi(a[i], b[i]); });
  }
};

}  // namespace host_*
static_assert(ScalarBuilder<LaneBuilder<8>>);
static_assert(ScalarBuilder<LaneBuilder<16, LaneType::kI8>>);

}  // namespace smolder::ir::scalar
