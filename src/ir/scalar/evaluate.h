// The host as the machine of scalar arithmetic: one value at a time, in plain C++.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <tuple>
#include <type_traits>

#include "smolder/ir/scalar/builder.h"

namespace smolder::ir::scalar {

// One name per instruction set: a template instantiated in a file built for a newer machine must not be the
// copy that the linker keeps for all.
#if defined(__AVX512F__)
inline namespace host_avx512 {
#elif defined(__FMA__)
inline namespace host_fma {
#else
inline namespace host_base {
#endif

namespace host_detail {
template <LaneType L>
using HostType =
    std::tuple_element_t<static_cast<size_t>(L), std::tuple<bool, uint8_t, uint16_t, int32_t, int64_t, float, double>>;
// C++ leaves signed overflow undefined and computes narrow types as int: arithmetic goes through these.
template <std::integral T>
constexpr auto wide(T v) {
  return static_cast<std::conditional_t<std::is_same_v<T, int64_t>, uint64_t, uint32_t>>(v);
}
template <std::integral T>
constexpr auto as_signed(T v) {
  return static_cast<std::make_signed_t<T>>(v);
}
}  // namespace host_detail

/// Evaluates as it is called: a value is a C++ number. Needs `-ffp-contract=off`.
class HostBuilder {
 public:
  template <LaneType L>
  using Value = host_detail::HostType<L>;

  /// A value of any lane type: its bits, in the low end of eight bytes.
  struct V {
    uint64_t bits;
  };
  template <LaneType L>
  static Value<L> unwrap(V v) {
    if constexpr (L == LaneType::kI1) {
      return (v.bits & 1) != 0;
    } else if constexpr (L == LaneType::kF32) {
      return std::bit_cast<float>(static_cast<uint32_t>(v.bits));
    } else if constexpr (L == LaneType::kF64) {
      return std::bit_cast<double>(v.bits);
    } else {
      return static_cast<Value<L>>(v.bits);
    }
  }
  template <LaneType L>
  static V wrap(Value<L> v) {
    if constexpr (is_float(L)) {
      return {std::bit_cast<std::make_unsigned_t<Value<int_lane(L)>>>(v)};
    } else if constexpr (L == LaneType::kI32) {
      return {static_cast<uint32_t>(v)};
    } else {
      return {static_cast<uint64_t>(v)};
    }
  }

  template <LaneType L>
  static constexpr Value<L> constant(std::conditional_t<is_float(L), double, int64_t> v) {
    return static_cast<Value<L>>(v);
  }

  static auto fadd(std::floating_point auto a, decltype(a) b) { return a + b; }
  static auto fsub(std::floating_point auto a, decltype(a) b) { return a - b; }
  static auto fmul(std::floating_point auto a, decltype(a) b) { return a * b; }
  static auto fdiv(std::floating_point auto a, decltype(a) b) { return a / b; }
  static auto fma(std::floating_point auto a, decltype(a) b, decltype(a) c) { return std::fma(a, b, c); }
  static auto fneg(std::floating_point auto a) { return -a; }
  static auto fabs(std::floating_point auto a) { return std::fabs(a); }
  static auto sqrt(std::floating_point auto a) { return std::sqrt(a); }
  static auto rint(std::floating_point auto a) { return std::nearbyint(a); }
  static auto floor(std::floating_point auto a) { return std::floor(a); }
  static auto ceil(std::floating_point auto a) { return std::ceil(a); }
  static auto trunc(std::floating_point auto a) { return std::trunc(a); }
  static bool feq(std::floating_point auto a, decltype(a) b) { return a == b; }
  static bool fne(std::floating_point auto a, decltype(a) b) { return a != b; }
  static bool flt(std::floating_point auto a, decltype(a) b) { return a < b; }
  static bool fle(std::floating_point auto a, decltype(a) b) { return a <= b; }

  static auto iadd(std::integral auto a, decltype(a) b) {
    return static_cast<decltype(a)>(host_detail::wide(a) + host_detail::wide(b));
  }
  static auto isub(std::integral auto a, decltype(a) b) {
    return static_cast<decltype(a)>(host_detail::wide(a) - host_detail::wide(b));
  }
  static auto imul(std::integral auto a, decltype(a) b) {
    return static_cast<decltype(a)>(host_detail::wide(a) * host_detail::wide(b));
  }
  static auto and_(std::integral auto a, decltype(a) b) { return static_cast<decltype(a)>(a & b); }
  static auto or_(std::integral auto a, decltype(a) b) { return static_cast<decltype(a)>(a | b); }
  static auto xor_(std::integral auto a, decltype(a) b) { return static_cast<decltype(a)>(a ^ b); }
  template <std::integral T>
  static T not_(T a) {
    if constexpr (std::is_same_v<T, bool>) {
      return !a;
    } else {
      return static_cast<T>(~a);
    }
  }
  template <std::integral T>
  static T shl(T a, T n) {
    return static_cast<T>(host_detail::wide(a) << n);
  }
  template <std::integral T>
  static T lshr(T a, T n) {
    return static_cast<T>(host_detail::wide(a) >> n);
  }
  template <std::integral T>
  static T ashr(T a, T n) {
    return static_cast<T>(host_detail::as_signed(a) >> n);
  }
  template <std::integral T>
  static T shl(T a, int n)
    requires(!std::same_as<T, int>)
  {
    return shl(a, static_cast<T>(n));
  }
  template <std::integral T>
  static T lshr(T a, int n)
    requires(!std::same_as<T, int>)
  {
    return lshr(a, static_cast<T>(n));
  }
  template <std::integral T>
  static T ashr(T a, int n)
    requires(!std::same_as<T, int>)
  {
    return ashr(a, static_cast<T>(n));
  }
  static bool ieq(std::integral auto a, decltype(a) b) { return a == b; }
  static bool ine(std::integral auto a, decltype(a) b) { return a != b; }
  static bool slt(std::integral auto a, decltype(a) b) { return host_detail::as_signed(a) < host_detail::as_signed(b); }
  static bool sle(std::integral auto a, decltype(a) b) {
    return host_detail::as_signed(a) <= host_detail::as_signed(b);
  }
  static bool ult(std::integral auto a, decltype(a) b) { return host_detail::wide(a) < host_detail::wide(b); }
  static bool ule(std::integral auto a, decltype(a) b) { return host_detail::wide(a) <= host_detail::wide(b); }
  static int32_t umulhi(int32_t a, int32_t b) {
    return static_cast<int32_t>(static_cast<uint64_t>(host_detail::wide(a)) * host_detail::wide(b) >> 32);
  }
  static int64_t sdiv(int64_t a, int64_t b) { return a / b; }
  static int64_t srem(int64_t a, int64_t b) { return a % b; }

  template <LaneType L>
  static Value<L> select(bool c, Value<L> a, Value<L> b) {
    return c ? a : b;
  }
  template <LaneType L, class Rare>
  static std::array<Value<L>, 2> select_rare(bool c, std::array<Value<L>, 2> common, Rare&& rare) {
    if (c) [[unlikely]]
      return rare();
    return common;
  }

  template <LaneType To, class T>
  static Value<To> bitcast(T v) {
    return std::bit_cast<Value<To>>(v);
  }
  template <LaneType To, std::integral T>
  static Value<To> sitofp(T v) {
    return static_cast<Value<To>>(v);
  }
  template <LaneType To, std::floating_point T>
  static Value<To> fptosi(T v) {
    using I = Value<To>;
    constexpr T kEnd = static_cast<T>(std::make_unsigned_t<I>{1} << (sizeof(I) * 8 - 1));  // 2^31 or 2^63, exact
    if (v != v) return 0;
    if (v >= kEnd) return std::numeric_limits<I>::max();
    if (v < -kEnd) return std::numeric_limits<I>::min();
    return static_cast<I>(v);
  }
  template <LaneType To, std::floating_point T>
  static Value<To> fptosi_in_range(T v) {
    return fptosi<To>(v);  // a cast out of range is undefined in C++
  }
  template <LaneType To, std::integral T>
  static Value<To> zext(T v) {
    return static_cast<Value<To>>(host_detail::wide(v));
  }
  template <LaneType To, std::integral T>
  static Value<To> sext(T v) {
    if constexpr (std::is_same_v<T, bool>) {
      return static_cast<Value<To>>(v ? -1 : 0);
    } else {
      return static_cast<Value<To>>(host_detail::as_signed(v));
    }
  }
  template <LaneType To, std::integral T>
  static Value<To> itrunc(T v) {
    if constexpr (To == LaneType::kI1) {
      return (v & 1) != 0;
    } else {
      return static_cast<Value<To>>(v);
    }
  }
  template <LaneType To>
  static double fpext(float v) {
    return v;
  }
  template <LaneType To>
  static float fptrunc(double v) {
    return static_cast<float>(v);
  }
};

}  // namespace host_*
static_assert(RuntimeBuilder<HostBuilder>);

}  // namespace smolder::ir::scalar
