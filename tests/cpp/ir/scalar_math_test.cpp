// Elementary functions against the C library one precision up, in units in the last place. Prints the largest error
// found; docs/math.md holds the bounds asserted here.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "smolder/ir/scalar/emit.h"
#include "smolder/ir/scalar/evaluate.h"

namespace smolder::ir::scalar {
namespace {

using H = HostBuilder;
using Wide = long double;
HostBuilder host;

template <class T>
constexpr int kPrecision = std::numeric_limits<T>::digits;

/// |got - want| in ulps of T at `want`; infinity where one is nan or infinite and the other is not. A result that
/// overflows counts by its distance from 2^emax, as IEEE rounding sees it.
template <class T>
double ulps(T got, Wide want) {
  constexpr double kWrong = std::numeric_limits<double>::infinity();
  if (std::isnan(want) || std::isnan(got)) return std::isnan(want) && std::isnan(got) ? 0 : kWrong;
  constexpr int kMaxExponent = std::numeric_limits<T>::max_exponent;
  const Wide limit = std::ldexp(Wide{1}, kMaxExponent);
  if (std::isinf(want)) return std::isinf(got) && (got > 0) == (want > 0) ? 0 : kWrong;
  const Wide value = std::isinf(got) ? std::copysign(limit, static_cast<Wide>(got)) : static_cast<Wide>(got);
  int exponent = 0;
  std::frexp(std::fabs(want), &exponent);
  if (exponent > kMaxExponent) return std::isinf(got) && (got > 0) == (want > 0) ? 0 : kWrong;
  exponent = std::max(exponent, std::numeric_limits<T>::min_exponent);
  return static_cast<double>(std::fabs(value - want) / std::ldexp(Wide{1}, exponent - kPrecision<T>));
}

/// One function of one argument, its reference, the bounds that docs/math.md states and where it is interesting.
struct Function {
  const char* name;
  std::function<float(float)> f32;
  std::function<double(double)> f64;
  std::function<double(double)> narrow_reference;  ///< accurate enough to judge float32
  std::function<Wide(Wide)> reference;
  double bound32, bound64;
  double low, high;  ///< interval sampled densely in float64
};

void PrintTo(const Function& f, std::ostream* out) { *out << f.name; }

#define FUNCTION(name, reference, bound32, bound64, low, high)                                                  \
  Function {                                                                                                    \
    #name, [](float x) { return name(F32<H>{&host, x}).v; }, [](double x) { return name(F64<H>{&host, x}).v; }, \
        [](double x) { return reference; }, [](Wide x) { return reference; }, bound32, bound64, low, high       \
  }

const std::vector<Function>& functions() {
  static const std::vector<Function> all = {
      FUNCTION(exp, std::exp(x), 0.9, 1.0, -746, 710),    FUNCTION(exp2, std::exp2(x), 0.8, 0.8, -1076, 1025),
      FUNCTION(expm1, std::expm1(x), 1.4, 1.6, -40, 710), FUNCTION(log, std::log(x), 0.9, 0.8, 0.2, 5),
      FUNCTION(log2, std::log2(x), 1.5, 0.8, 0.2, 5),     FUNCTION(log10, std::log10(x), 0.9, 0.8, 0.2, 5),
      FUNCTION(log1p, std::log1p(x), 1.5, 0.8, -1, 3),    FUNCTION(sin, std::sin(x), 1.5, 0.8, -100, 100),
      FUNCTION(cos, std::cos(x), 1.5, 0.8, -100, 100),    FUNCTION(tan, std::tan(x), 0.6, 1.0, -100, 100),
      FUNCTION(asin, std::asin(x), 1.7, 1.6, -1, 1),      FUNCTION(acos, std::acos(x), 1.1, 1.1, -1, 1),
      FUNCTION(atan, std::atan(x), 1.3, 1.5, -3, 3),      FUNCTION(sinh, std::sinh(x), 0.7, 1.6, -711, 711),
      FUNCTION(cosh, std::cosh(x), 0.6, 1.4, -711, 711),  FUNCTION(tanh, std::tanh(x), 1.8, 1.4, -20, 20),
      FUNCTION(asinh, std::asinh(x), 0.6, 1.1, -10, 10),  FUNCTION(acosh, std::acosh(x), 0.6, 1.5, 1, 10),
      FUNCTION(atanh, std::atanh(x), 0.6, 1.2, -1, 1),    FUNCTION(sigmoid, 1 / (1 + std::exp(-x)), 1.6, 1.6, -740, 40),
      FUNCTION(erf, std::erf(x), 1.4, 1.0, -6, 6),        FUNCTION(erfc, std::erfc(x), 0.6, 1.7, -6, 28),
  };
  return all;
}

/// Keeps the largest error and where it is.
struct Worst {
  double error = 0;
  Wide at = 0;
  void add(double e, Wide x) {
    if (!(e <= error)) error = e, at = x;
  }
};

constexpr double kSpecials[] = {0.0,
                                -0.0,
                                1.0,
                                -1.0,
                                0.5,
                                -0.5,
                                2.0,
                                -2.0,
                                10.0,
                                1e22,
                                std::numeric_limits<double>::infinity(),
                                -std::numeric_limits<double>::infinity(),
                                std::numeric_limits<double>::quiet_NaN()};

class Elementary : public testing::TestWithParam<Function> {};

TEST_P(Elementary, Float32StaysWithinItsBound) {
  const Function& f = GetParam();
  Worst worst;
  auto check = [&](uint32_t bits) {
    const float x = std::bit_cast<float>(bits);
    worst.add(ulps(f.f32(x), f.narrow_reference(x)), x);
  };
  constexpr uint64_t kStride = 8191;  // half a million numbers, every exponent and sign
  for (uint64_t bits = 0; bits <= 0xffffffff; bits += kStride) check(static_cast<uint32_t>(bits));
  for (uint32_t exponent = 0; exponent < 512; ++exponent) {
    for (uint32_t fraction : {0u, 1u, 0x400000u, 0x7fffffu}) check(exponent << 23 | fraction);
  }
  std::printf("%-8s float32 %.3f ulp at %a\n", f.name, worst.error, static_cast<double>(worst.at));
  EXPECT_LE(worst.error, f.bound32) << "at " << static_cast<double>(worst.at);
}

TEST_P(Elementary, Float64StaysWithinItsBound) {
  const Function& f = GetParam();
  Worst worst;
  auto check = [&](double x) { worst.add(ulps(f.f64(x), f.reference(x)), x); };
  std::mt19937_64 random(1);
  auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const double span = std::max(std::fabs(f.low), std::fabs(f.high));
  for (int i = 0; i < 40000; ++i) {
    const double x = f.low + (f.high - f.low) * unit();
    check(x);
    check(x * (x / span) * (x / span));      // denser about zero
    check(std::bit_cast<double>(random()));  // any number at all
    check(std::ldexp(1 + unit(), static_cast<int>(random() % 120) - 60) * (i % 2 ? 1 : -1));
  }
  for (uint64_t exponent = 0; exponent < 4096; ++exponent) {
    for (uint64_t fraction : {uint64_t{0}, uint64_t{1}, (uint64_t{1} << 52) - 1}) {
      check(std::bit_cast<double>(exponent << 52 | fraction));
    }
  }
  std::printf("%-8s float64 %.3f ulp at %a\n", f.name, worst.error, static_cast<double>(worst.at));
  EXPECT_LE(worst.error, f.bound64) << "at " << static_cast<double>(worst.at);
}

TEST_P(Elementary, SpecialValuesKeepTheirSign) {
  const Function& f = GetParam();
  auto check = [&]<class T>(T x, T got, Wide want) {
    EXPECT_LE(ulps(got, want), 2) << f.name << "(" << x << ") = " << got;
    if (!std::isnan(want)) {
      EXPECT_EQ(std::signbit(got), std::signbit(want)) << f.name << "(" << x << ") = " << got;
    }
  };
  for (double x : kSpecials) {
    check(static_cast<float>(x), f.f32(static_cast<float>(x)), f.reference(static_cast<float>(x)));
    check(x, f.f64(x), f.reference(x));
  }
  for (int sign : {1, -1}) {
    for (float x : {std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::min(),
                    std::numeric_limits<float>::max()}) {
      check(sign * x, f.f32(sign * x), f.reference(sign * x));
    }
    for (double x : {std::numeric_limits<double>::denorm_min(), std::numeric_limits<double>::min(),
                     std::numeric_limits<double>::max()}) {
      check(sign * x, f.f64(sign * x), f.reference(sign * x));
    }
  }
  // A payload may not turn nan into a number on its way through exponent arithmetic.
  for (uint32_t payload : {1u, 2u, 0x155555u, 0x3fffffu}) {
    EXPECT_TRUE(std::isnan(f.f32(std::bit_cast<float>(0x7fc00000u | payload)))) << payload;
    EXPECT_TRUE(std::isnan(f.f32(std::bit_cast<float>(0xffc00000u | payload)))) << payload;
  }
  for (uint64_t payload : {uint64_t{1}, uint64_t{0xfff}, (uint64_t{1} << 51) - 1}) {
    EXPECT_TRUE(std::isnan(f.f64(std::bit_cast<double>(0x7ff8000000000000u | payload)))) << payload;
    EXPECT_TRUE(std::isnan(f.f64(std::bit_cast<double>(0xfff8000000000000u | payload)))) << payload;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Elementary, testing::ValuesIn(functions()),
                         [](const auto& info) { return std::string(info.param.name); });

// -- two arguments

template <class T>
T pow_of(T x, T y) {
  constexpr LaneType kLane = std::is_same_v<T, float> ? LaneType::kF32 : LaneType::kF64;
  return pow(Num<H, kLane>{&host, x}, Num<H, kLane>{&host, y}).v;
}
template <class T>
T atan2_of(T y, T x) {
  constexpr LaneType kLane = std::is_same_v<T, float> ? LaneType::kF32 : LaneType::kF64;
  return atan2(Num<H, kLane>{&host, y}, Num<H, kLane>{&host, x}).v;
}

template <class T>
void check_pow_and_atan2(double pow_bound, double atan2_bound) {
  std::mt19937_64 random(2);
  auto unit = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
  const double log_max = std::log(static_cast<double>(std::numeric_limits<T>::max()));
  Worst pow_worst, atan2_worst;
  for (int i = 0; i < 100000; ++i) {
    double x = 0, y = 0;
    switch (i % 4) {
      case 0:  // results all over the range
        x = std::exp((2 * unit() - 1) * log_max);
        y = (2 * unit() - 1) * log_max / std::log(x);
        break;
      case 1:  // near 1
        x = 1 + (unit() - 0.5) * 1e-3;
        y = (2 * unit() - 1) * 1e5;
        break;
      case 2:
        x = 3 * unit();
        y = 40 * unit() - 20;
        break;
      default:
        x = std::ldexp(1 + unit(), static_cast<int>(random() % 200) - 100);
        y = 2.4 * unit() - 1.2;
    }
    const T a = static_cast<T>(x), b = static_cast<T>(y), c = i & 4 ? a : -a;
    pow_worst.add(ulps(pow_of(a, b), std::pow(Wide{a}, Wide{b})), a);
    atan2_worst.add(ulps(atan2_of(b, c), std::atan2(Wide{b}, Wide{c})), c);
  }
  const char* type = sizeof(T) == 4 ? "float32" : "float64";
  std::printf("pow      %s %.3f ulp\natan2    %s %.3f ulp\n", type, pow_worst.error, type, atan2_worst.error);
  EXPECT_LE(pow_worst.error, pow_bound) << "at x = " << static_cast<double>(pow_worst.at);
  EXPECT_LE(atan2_worst.error, atan2_bound) << "at x = " << static_cast<double>(atan2_worst.at);
}

TEST(ElementaryBinary, PowAndAtan2StayWithinTheirBounds) {
  check_pow_and_atan2<float>(1.0, 1.5);
  check_pow_and_atan2<double>(1.2, 1.5);
}

TEST(ElementaryBinary, SpecialValuesAreTheLibrarys) {
  std::vector<double> values(std::begin(kSpecials), std::end(kSpecials));
  values.insert(values.end(), {3, -3, 2.5, -2.5, 1e300, -1e300, 1e-300, 16777217, 0x1p53 + 2, 4503599627370497.5});
  auto check = [](const char* name, auto x, auto y, auto got, auto want) {
    EXPECT_LE(ulps(got, want), 2) << name << "(" << x << ", " << y << ") = " << got << ", want " << want;
    if (!std::isnan(want)) {
      EXPECT_EQ(std::signbit(got), std::signbit(want)) << name << "(" << x << ", " << y << ") = " << got;
    }
  };
  for (double x : values) {
    for (double y : values) {
      const float fx = static_cast<float>(x), fy = static_cast<float>(y);
      check("pow", x, y, pow_of(x, y), std::pow(x, y));
      check("pow", fx, fy, pow_of(fx, fy), std::pow(fx, fy));
      check("atan2", x, y, atan2_of(x, y), std::atan2(x, y));
      check("atan2", fx, fy, atan2_of(fx, fy), std::atan2(fx, fy));
    }
  }
}

TEST(ElementaryReduction, AnglesNearMultiplesOfHalfPiAreExact) {
  // The hardest cases: among all float64 (Kahan's) and float32 numbers, those nearest a multiple of pi / 2.
  const double hardest = std::ldexp(6381956970095103.0, 797);
  EXPECT_LE(ulps(cos(F64<H>{&host, hardest}).v, -4.68716592425462761112e-19L), 1.0);
  for (uint32_t n = 1; n < 200000; n += 7) {
    const double x = static_cast<double>(n) * 0x1.921fb54442d18p0;
    ASSERT_LE(ulps(sin(F64<H>{&host, x}).v, std::sin(Wide{x})), 1.0) << x;
    ASSERT_LE(ulps(cos(F64<H>{&host, x}).v, std::cos(Wide{x})), 1.0) << x;
    const float f = static_cast<float>(x);
    ASSERT_LE(ulps(sin(F32<H>{&host, f}).v, std::sin(Wide{f})), 1.5) << f;
    ASSERT_LE(ulps(cos(F32<H>{&host, f}).v, std::cos(Wide{f})), 1.5) << f;
  }
}

}  // namespace
}  // namespace smolder::ir::scalar
