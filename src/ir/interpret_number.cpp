#include "smolder/ir/interpret_number.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "smolder/core/error.h"
#include "smolder/core/half.h"

namespace smolder::ir::reference {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// Integers wrap: arithmetic is on uint64, then cut to the dtype.
uint64_t word(int64_t v) { return static_cast<uint64_t>(v); }

int64_t wrap(uint64_t v, DType t) {
  switch (t) {
    case DType::kBool:
      return v != 0;
    case DType::kUInt8:
      return static_cast<uint8_t>(v);
    case DType::kInt8:
      return static_cast<int8_t>(v);
    case DType::kInt16:
      return static_cast<int16_t>(v);
    case DType::kInt32:
      return static_cast<int32_t>(static_cast<uint32_t>(v));
    default:
      return static_cast<int64_t>(v);
  }
}

/// Truncates; nan is 0, what int64 can't hold the nearest end of its range.
int64_t saturate(double v) {
  if (std::isnan(v)) return 0;
  if (v >= 0x1p63) return std::numeric_limits<int64_t>::max();
  if (v < -0x1p63) return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(v);
}

int64_t float_to_int(double v, DType t) {
  if (itemsize(t) < 4) return std::abs(v) < 0x1p63 ? wrap(word(saturate(v)), t) : 0;
  const int64_t whole = saturate(v);
  if (t != DType::kInt32) return whole;
  return std::clamp<int64_t>(whole, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
}

// -- integer primitives

int64_t floor_div(int64_t x, int64_t y) {
  if (y == 0) return 0;
  if (y == -1) return static_cast<int64_t>(-word(x));
  const int64_t q = x / y;
  return q - (x % y != 0 && (x < 0) != (y < 0));
}
int64_t fmod(int64_t x, int64_t y) { return y == 0 || y == -1 ? 0 : x % y; }
int64_t remainder(int64_t x, int64_t y) {
  const int64_t r = fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
uint64_t power(int64_t x, int64_t n) {
  if (n < 0) return x == 1 ? 1 : x == -1 ? (n % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1, square = word(x);
  for (; n > 0; n >>= 1, square *= square) {
    if (n & 1) result *= square;
  }
  return result;
}
int bits_of(DType t) { return static_cast<int>(8 * itemsize(t)); }

int64_t integer_unary(Primitive p, DType t, int64_t x) {
  switch (p) {
    case Primitive::kNeg:
      return wrap(-word(x), t);
    case Primitive::kAbs:
      return wrap(x < 0 ? -word(x) : word(x), t);
    case Primitive::kSign:
      return (x > 0) - (x < 0);
    case Primitive::kFloor:
    case Primitive::kCeil:
    case Primitive::kRound:
    case Primitive::kTrunc:
      return x;
    case Primitive::kRelu:
      return std::max<int64_t>(x, 0);
    case Primitive::kLogicalNot:
      return x == 0;
    case Primitive::kBitwiseNot:
      return t == DType::kBool ? x == 0 : wrap(~word(x), t);
    case Primitive::kIsnan:
    case Primitive::kIsinf:
      return 0;
    case Primitive::kIsfinite:
      return 1;
    default:
      raise<NotImplementedError>("the interpreter has no ", scalar::info(p).name, " of ", name(t));
  }
}

int64_t integer_binary(Primitive p, DType t, int64_t x, int64_t y) {
  const bool in_width = y >= 0 && y < bits_of(t);
  switch (p) {
    case Primitive::kAdd:
      return wrap(word(x) + word(y), t);
    case Primitive::kSub:
      return wrap(word(x) - word(y), t);
    case Primitive::kMul:
      return wrap(word(x) * word(y), t);
    case Primitive::kFloorDiv:
      return wrap(word(floor_div(x, y)), t);
    case Primitive::kRemainder:
      return remainder(x, y);
    case Primitive::kFmod:
      return fmod(x, y);
    case Primitive::kPow:
      return wrap(power(x, y), t);
    case Primitive::kMaximum:
      return std::max(x, y);
    case Primitive::kMinimum:
      return std::min(x, y);
    case Primitive::kBitwiseAnd:
      return x & y;
    case Primitive::kBitwiseOr:
      return x | y;
    case Primitive::kBitwiseXor:
      return x ^ y;
    case Primitive::kShl:
      return in_width ? wrap(word(x) << y, t) : 0;
    case Primitive::kShr:
      return in_width ? x >> y : x < 0 ? -1 : 0;
    default:
      raise<NotImplementedError>("the interpreter has no ", scalar::info(p).name, " of ", name(t));
  }
}

// -- float primitives

double sign(double x) { return x > 0 ? 1 : x < 0 ? -1 : 0; }

double sigmoid(double x) {
  if (x >= 0) return 1 / (1 + std::exp(-x));
  const double e = std::exp(x);
  return e / (1 + e);
}

double float_remainder(double x, double y) {
  const double r = std::fmod(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

/// Python's float floor division.
double float_floor_div(double x, double y) {
  if (y == 0) return x / y;
  const double r = std::fmod(x, y);
  double q = (x - r) / y;
  if (r != 0 && (r < 0) != (y < 0)) q -= 1;
  if (q == 0) return std::copysign(0.0, x / y);
  const double down = std::floor(q);
  return q - down > 0.5 ? down + 1 : down;
}

double float_unary(Primitive p, double x) {
  switch (p) {
    case Primitive::kNeg:
      return -x;
    case Primitive::kAbs:
      return std::fabs(x);
    case Primitive::kSign:
      return sign(x);
    case Primitive::kFloor:
      return std::floor(x);
    case Primitive::kCeil:
      return std::ceil(x);
    case Primitive::kRound:
      return std::nearbyint(x);
    case Primitive::kTrunc:
      return std::trunc(x);
    case Primitive::kSqrt:
      return std::sqrt(x);
    case Primitive::kRsqrt:
      return 1 / std::sqrt(x);
    case Primitive::kReciprocal:
      return 1 / x;
    case Primitive::kExp:
      return std::exp(x);
    case Primitive::kExp2:
      return std::exp2(x);
    case Primitive::kExpm1:
      return std::expm1(x);
    case Primitive::kLog:
      return std::log(x);
    case Primitive::kLog2:
      return std::log2(x);
    case Primitive::kLog10:
      return std::log10(x);
    case Primitive::kLog1p:
      return std::log1p(x);
    case Primitive::kSin:
      return std::sin(x);
    case Primitive::kCos:
      return std::cos(x);
    case Primitive::kTan:
      return std::tan(x);
    case Primitive::kAsin:
      return std::asin(x);
    case Primitive::kAcos:
      return std::acos(x);
    case Primitive::kAtan:
      return std::atan(x);
    case Primitive::kSinh:
      return std::sinh(x);
    case Primitive::kCosh:
      return std::cosh(x);
    case Primitive::kTanh:
      return std::tanh(x);
    case Primitive::kAsinh:
      return std::asinh(x);
    case Primitive::kAcosh:
      return std::acosh(x);
    case Primitive::kAtanh:
      return std::atanh(x);
    case Primitive::kSigmoid:
      return sigmoid(x);
    case Primitive::kErf:
      return std::erf(x);
    case Primitive::kErfc:
      return std::erfc(x);
    case Primitive::kRelu:
      return x < 0 ? 0 : x;  // keeps nan and -0
    default:
      raise<NotImplementedError>("the interpreter has no ", scalar::info(p).name, " of floats");
  }
}

double float_binary(Primitive p, double x, double y) {
  const bool nan = std::isnan(x) || std::isnan(y);
  switch (p) {
    case Primitive::kAdd:
      return x + y;
    case Primitive::kSub:
      return x - y;
    case Primitive::kMul:
      return x * y;
    case Primitive::kDiv:
      return x / y;
    case Primitive::kFloorDiv:
      return float_floor_div(x, y);
    case Primitive::kRemainder:
      return float_remainder(x, y);
    case Primitive::kFmod:
      return std::fmod(x, y);
    case Primitive::kPow:
      return std::pow(x, y);
    case Primitive::kAtan2:
      return std::atan2(x, y);
    case Primitive::kCopysign:
      return std::copysign(x, y);
    case Primitive::kMaximum:
      return nan ? x + y : std::max(x, y);
    case Primitive::kMinimum:
      return nan ? x + y : std::min(x, y);
    default:
      raise<NotImplementedError>("the interpreter has no ", scalar::info(p).name, " of floats");
  }
}

/// x * y + z rounded once to the compute type of `t`, then to `t`.
double float_fma(DType t, double x, double y, double z) {
  if (t == DType::kFloat64) return std::fma(x, y, z);
  return std::fma(static_cast<float>(x), static_cast<float>(y), static_cast<float>(z));
}

// -- primitives with a bool result, of any category

template <class T>
bool compare(Primitive p, T x, T y) {
  switch (p) {
    case Primitive::kEq:
      return x == y;
    case Primitive::kNe:
      return x != y;
    case Primitive::kLt:
      return x < y;
    case Primitive::kLe:
      return x <= y;
    case Primitive::kGt:
      return x > y;
    case Primitive::kGe:
      return x >= y;
    case Primitive::kLogicalAnd:
      return x != 0 && y != 0;
    case Primitive::kLogicalOr:
      return x != 0 || y != 0;
    case Primitive::kLogicalXor:
      return (x != 0) != (y != 0);
    default:
      raise<NotImplementedError>("the interpreter has no ", scalar::info(p).name);
  }
}

bool float_predicate(Primitive p, double x) {
  switch (p) {
    case Primitive::kLogicalNot:
      return x == 0;
    case Primitive::kIsnan:
      return std::isnan(x);
    case Primitive::kIsinf:
      return std::isinf(x);
    case Primitive::kIsfinite:
      return std::isfinite(x);
    default:
      raise<NotImplementedError>("the interpreter has no ", scalar::info(p).name, " of floats");
  }
}

Scalar of_category(int64_t v, DType t) { return t == DType::kBool ? Scalar(v != 0) : Scalar(v); }

}  // namespace

double round_to(double v, DType t) {
  switch (t) {
    case DType::kFloat16:
      return to_float(to_float16(static_cast<float>(v)));
    case DType::kBFloat16:
      return to_float(to_bfloat16(static_cast<float>(v)));
    case DType::kFloat32:
      return static_cast<float>(v);
    default:
      return v;
  }
}

Scalar convert(Scalar v, DType t) {
  const bool from_float = v.category() == Category::kFloat;
  if (t == DType::kBool) return v.to_bool();
  if (!is_floating(t)) return from_float ? float_to_int(v.to_double(), t) : wrap(word(v.to_int()), t);
  // An integer is rounded straight to float32: by way of double it would be rounded twice.
  if (!from_float && t != DType::kFloat64) return round_to(static_cast<float>(v.to_int()), t);
  return round_to(v.to_double(), t);
}

Scalar evaluate(Primitive p, DType t, std::span<const Scalar> operands) {
  const PrimitiveInfo& primitive = scalar::info(p);
  SMOLDER_CHECK(static_cast<int>(operands.size()) == primitive.arity, InternalError, primitive.name, " takes ",
                primitive.arity, " operands, got ", operands.size());
  const Scalar x = operands[0], y = operands[operands.size() > 1], z = operands[operands.size() - 1];
  if (p == Primitive::kWhere) return convert(x.to_bool() ? y : z, t);
  if (!is_floating(t)) {
    if (p == Primitive::kFma) return of_category(wrap(word(x.to_int()) * word(y.to_int()) + word(z.to_int()), t), t);
    if (primitive.arity == 1) return of_category(integer_unary(p, t, x.to_int()), primitive.result_dtype(t));
    if (primitive.result == PrimitiveInfo::kBool) return compare(p, x.to_int(), y.to_int());
    return of_category(integer_binary(p, t, x.to_int(), y.to_int()), t);
  }
  const double a = x.to_double(), b = y.to_double();
  if (p == Primitive::kFma) return round_to(float_fma(t, a, b, z.to_double()), t);
  if (primitive.result == PrimitiveInfo::kBool) return primitive.arity == 1 ? float_predicate(p, a) : compare(p, a, b);
  return round_to(primitive.arity == 1 ? float_unary(p, a) : float_binary(p, a, b), t);
}

Scalar identity(ReduceKind kind, DType t) {
  const bool floating = is_floating(t);
  switch (kind) {
    case ReduceKind::kSum:
      return floating ? Scalar(0.0) : Scalar(0);
    case ReduceKind::kProd:
      return floating ? Scalar(1.0) : Scalar(1);
    case ReduceKind::kMax:
      if (floating) return -kInf;
      return lowest_integer(t);
    case ReduceKind::kMin:
      if (floating) return kInf;
      return highest_integer(t);
    case ReduceKind::kAny:
      return false;
    case ReduceKind::kAll:
      return true;
  }
  return 0;
}

Scalar accumulate(ReduceKind kind, Scalar sum, Scalar v) {
  const bool floating = v.category() == Category::kFloat;
  const DType t = floating ? DType::kFloat64 : DType::kInt64;
  const auto step = [&](Primitive p) { return evaluate(p, t, std::array{sum, v}); };
  switch (kind) {
    case ReduceKind::kSum:
      return step(Primitive::kAdd);
    case ReduceKind::kProd:
      return step(Primitive::kMul);
    case ReduceKind::kMax:
      return step(Primitive::kMaximum);
    case ReduceKind::kMin:
      return step(Primitive::kMinimum);
    case ReduceKind::kAny:
      return sum.to_bool() || v.to_bool();
    case ReduceKind::kAll:
      return sum.to_bool() && v.to_bool();
  }
  return sum;
}

Philox philox(uint64_t counter_low, uint64_t counter_high, uint64_t key) {
  uint32_t c[4] = {static_cast<uint32_t>(counter_low), static_cast<uint32_t>(counter_low >> 32),
                   static_cast<uint32_t>(counter_high), static_cast<uint32_t>(counter_high >> 32)};
  uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = uint64_t{0xD2511F53} * c[0], b = uint64_t{0xCD9E8D57} * c[2];
    const uint32_t next[4] = {static_cast<uint32_t>(b >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(b),
                              static_cast<uint32_t>(a >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(a)};
    std::copy(next, next + 4, c);
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  return {{c[0], c[1], c[2], c[3]}};
}

}  // namespace smolder::ir::reference
