// Special functions, in float64: what their decompositions are written with.
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "smolder/ir/decompose.h"

namespace smolder::ir {
namespace {

/// c[0] + c[1] x + c[2] x^2 ...
template <size_t N>
Value polynomial(Value x, const std::array<double, N>& c) {
  Value out = x * c[N - 1] + c[N - 2];
  for (size_t i = N - 2; i-- > 0;) out = out * x + c[i];
  return out;
}

constexpr int kShift = 10;  ///< from 0.5 to where the asymptotic series below have float64's precision

/// x to the nearest integer's distance: what functions of period 1 depend on, exact.
Value off_integer(Value x) { return x - round(x); }

}  // namespace

double largest(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 65504;
    case DType::kBFloat16:
      return 0x1.fep127;
    case DType::kFloat32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

Value checked(Value x, Value fine) {
  Builder& b = *x.b;
  // A failed check is out of range of a table of one element: that is reported when the step runs.
  const Value at = where(fine, b.constant(int64_t{0}, DType::kInt64), b.constant(int64_t{1}, DType::kInt64));
  return where(b.take(b.iota({1}, 0), at, 0) == 0, x, b.cast(b.number(int64_t{0}), x.dtype()));
}

Value hypotenuse(Value x, Value y, DType dtype) {
  const Value infinite = logical_or(isinf(x), isinf(y));
  if (dtype != DType::kFloat64) {  // squares of float32 neither overflow nor vanish in float64
    const Value wide = x.b->cast(x, DType::kFloat64), also = x.b->cast(y, DType::kFloat64);
    return where(infinite, kInfinity, x.b->cast(sqrt(wide * wide + also * also), DType::kFloat32));
  }
  const Value top = maximum(abs(x), abs(y)), a = x / top, c = y / top;
  return where(infinite, kInfinity, where(top == 0.0, 0.0, top * sqrt(a * a + c * c)));
}

/// A rational approximation, to 8e-6, then steps of Newton's method: one gives 9e-10, so that float32 is within 0.51
/// units in the last place.
Value erf_inverse(Value y, DType dtype) {
  const Value z = y * y, tail = sqrt(neg(log((1.0 - abs(y)) * 0.5)));
  const Value inner = y * polynomial(z, std::array{0.886226899, -1.645349621, 0.914624893, -0.140543331}) /
                      polynomial(z, std::array{1.0, -2.118377725, 1.442710462, -0.329097515, 0.012229801});
  const Value outer = copysign(polynomial(tail, std::array{-1.970840454, -1.624906493, 3.429567803, 1.641345311}), y) /
                      polynomial(tail, std::array{1.0, 3.543889200, 1.637067800});
  Value x = where(abs(y) <= 0.7, inner, outer);
  const int steps = dtype == DType::kFloat64 ? 2 : 1;
  for (int i = 0; i < steps; ++i) x = x - (erf(x) - y) / (1.12837916709551257390 * exp(neg(x * x)));
  return where(abs(y) == 1.0, copysign(y.b->constant(kInfinity), y), x);
}

/// Lanczos's approximation; below one half by reflection.
Value log_gamma(Value x) {
  constexpr std::array kTerms{676.5203681218851,  -1259.1392167224028,  771.32342877765313,    -176.61502916214059,
                              12.507343278686905, -0.13857109526572012, 9.9843695780195716e-6, 1.5056327351493116e-7};
  constexpr double kHalfLog2Pi = 0.91893853320467274178;
  const Value reflect = x < 0.5, z = where(reflect, neg(x), x - 1.0), t = z + 7.5;
  Value sum = 0.99999999999980993 + kTerms[0] / (z + 1.0);
  for (size_t i = 1; i < kTerms.size(); ++i) sum = sum + kTerms[i] / (z + static_cast<double>(i + 1));
  const Value direct = kHalfLog2Pi + (z + 0.5) * log(t) - t + log(sum);
  const Value mirrored = log(kPi / abs(sin(kPi * off_integer(x)))) - direct;
  return where(isinf(x), kInfinity, where(reflect, mirrored, direct));
}

Value digamma_of(Value x) {
  const Value reflect = x < 0.5;
  Value y = where(reflect, 1.0 - x, x), below = 1.0 / y;
  for (int i = 1; i < kShift; ++i) below = below + 1.0 / (y + static_cast<double>(i));
  y = y + static_cast<double>(kShift);
  const Value z = 1.0 / (y * y);
  const Value series =
      polynomial(z, std::array{1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12});
  const Value direct = log(y) - 0.5 / y - z * series - below;
  Value out = where(reflect, direct - kPi / tan(kPi * off_integer(x)), direct);
  out = where(logical_and(x < 0.0, x == trunc(x)), std::numeric_limits<double>::quiet_NaN(), out);
  return where(x == 0.0, copysign(x.b->constant(kInfinity), neg(x)), out);
}

namespace {

Value trigamma_of(Value x) {
  const Value reflect = x < 0.5;
  Value y = where(reflect, 1.0 - x, x), below = 1.0 / (y * y);
  for (int i = 1; i < kShift; ++i) {
    const Value next = y + static_cast<double>(i);
    below = below + 1.0 / (next * next);
  }
  y = y + static_cast<double>(kShift);
  const Value z = 1.0 / (y * y);
  const Value series =
      polynomial(z, std::array{1.0 / 6, -1.0 / 30, 1.0 / 42, -1.0 / 30, 5.0 / 66, -691.0 / 2730, 7.0 / 6});
  const Value direct = (1.0 + 0.5 / y + z * series) / y + below;
  const Value wave = kPi / sin(kPi * off_integer(x));
  return where(reflect, wave * wave - direct, direct);
}

/// Hurwitz's zeta, by Euler's and Maclaurin's formula after kShift terms of the sum; for s of 3 and more.
Value zeta(double s, Value x) {
  Value sum = pow(x, -s);
  for (int i = 1; i < kShift; ++i) sum = sum + pow(x + static_cast<double>(i), -s);
  const Value y = x + static_cast<double>(kShift);
  Value power = pow(y, -s);
  sum = sum + power * (y / (s - 1) + 0.5);
  // Bernoulli's numbers B(2j) / (2j)!, times s (s + 1) ... (s + 2j - 2) / y^(s + 2j - 1).
  constexpr std::array kTerms{
      1.0 / 12, -1.0 / 720, 1.0 / 30240, -1.0 / 1209600, 1.0 / 47900160, -691.0 / 1307674368000.0, 1.0 / 74724249600.0};
  double rising = s;
  for (size_t j = 0; j < kTerms.size(); ++j) {
    power = power / y;
    sum = sum + power * (kTerms[j] * rising);
    power = power / y;
    const double next = s + 2.0 * static_cast<double>(j) + 1;
    rising *= next * (next + 1);
  }
  const Value whole = x == trunc(x);
  return where(x > 0.0, sum, where(whole, kInfinity, std::numeric_limits<double>::quiet_NaN()));
}

/// The n-th derivative of cot where it is c: each is a polynomial in c, and -(1 + c^2) times the derivative of the
/// last.
Value cot_derivative(int64_t n, Value c) {
  std::vector<double> last{0.0, 1.0};  // by power
  for (int64_t i = 0; i < n; ++i) {
    std::vector<double> next(last.size() + 1, 0.0);
    for (size_t k = 1; k < last.size(); ++k) {
      next[k - 1] -= static_cast<double>(k) * last[k];
      next[k + 1] -= static_cast<double>(k) * last[k];
    }
    last = std::move(next);
  }
  Value out = c * last[last.size() - 1] + last[last.size() - 2];
  for (size_t k = last.size() - 2; k-- > 0;) out = out * c + last[k];
  return out;
}

}  // namespace

Value polygamma_of(int64_t n, Value x) {
  if (n == 0) return digamma_of(x);
  if (n == 1) return trigamma_of(x);
  constexpr int64_t kMost = 60;  // beyond it the coefficients of the reflection are no use: nan, where x is negative
  const bool even = n % 2 == 0;
  const double factorial = std::tgamma(static_cast<double>(n) + 1);
  const Value direct =
      zeta(static_cast<double>(n) + 1, n > kMost ? x : where(x < 0.0, 1.0 - x, x)) * (even ? -factorial : factorial);
  if (n > kMost) return direct;
  const Value waves = cot_derivative(n, 1.0 / tan(kPi * off_integer(x))) * std::pow(kPi, static_cast<double>(n) + 1);
  const Value out = where(x < 0.0, direct * (even ? 1.0 : -1.0) - waves, direct);
  return where(logical_and(x <= 0.0, x == trunc(x)), even ? -kInfinity : kInfinity, out);
}

}  // namespace smolder::ir
