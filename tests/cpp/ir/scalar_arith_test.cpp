// Arithmetic that is not a series: integers at their edges, division of every kind, order, casts, halves. Judged by
// C++ written here or by the interpreter's own arithmetic, which shares nothing with ir/scalar.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "smolder/core/half.h"
#include "smolder/ir/interpret_number.h"
#include "smolder/ir/scalar/emit.h"
#include "smolder/ir/scalar/evaluate.h"

namespace smolder::ir::scalar {
namespace {

using H = HostBuilder;
constexpr DType kAllDTypes[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                                DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr DType kIntegers[] = {DType::kUInt8, DType::kInt8, DType::kInt16, DType::kInt32, DType::kInt64};

/// A number in a register of dtype `t`, and back. The number must be one of the dtype.
H::V reg(DType t, Scalar v) {
  switch (register_lane(t)) {
    case LaneType::kI1:
      return H::wrap<LaneType::kI1>(v.to_bool());
    case LaneType::kI8:
      return H::wrap<LaneType::kI8>(static_cast<uint8_t>(v.to_int()));
    case LaneType::kI32:
      return H::wrap<LaneType::kI32>(static_cast<int32_t>(v.to_int()));
    case LaneType::kI64:
      return H::wrap<LaneType::kI64>(v.to_int());
    case LaneType::kF32:
      return H::wrap<LaneType::kF32>(static_cast<float>(v.to_double()));
    default:
      return H::wrap<LaneType::kF64>(v.to_double());
  }
}
Scalar number(DType t, H::V v) {
  switch (register_lane(t)) {
    case LaneType::kI1:
      return H::unwrap<LaneType::kI1>(v);
    case LaneType::kI8:
      return int64_t{H::unwrap<LaneType::kI8>(v)};
    case LaneType::kI32:
      return int64_t{H::unwrap<LaneType::kI32>(v)};
    case LaneType::kI64:
      return H::unwrap<LaneType::kI64>(v);
    case LaneType::kF32:
      return H::unwrap<LaneType::kF32>(v);
    default:
      return H::unwrap<LaneType::kF64>(v);
  }
}

Scalar evaluate(Primitive p, DType t, std::vector<Scalar> args) {
  H host;
  std::vector<H::V> values;
  for (size_t i = 0; i < args.size(); ++i) {
    values.push_back(reg(p == Primitive::kWhere && i == 0 ? DType::kBool : t, args[i]));
  }
  return number(info(p).result_dtype(t), emit_primitive<H>(host, p, t, values));
}
double evaluate_float(Primitive p, DType t, std::vector<Scalar> args) {
  return evaluate(p, t, std::move(args)).to_double();
}
int64_t evaluate_int(Primitive p, DType t, std::vector<Scalar> args) {
  return evaluate(p, t, std::move(args)).to_int();
}

Scalar convert(DType from, DType to, Scalar v) {
  H host;
  return number(to, emit_cast(host, from, to, reg(from, v)));
}

/// Equal, or both nan.
void expect_same(Scalar got, Scalar want, const std::string& what) {
  if (got.category() == Category::kFloat) {
    const double g = got.to_double(), w = want.to_double();
    EXPECT_TRUE(g == w || (std::isnan(g) && std::isnan(w))) << what << ": got " << g << ", want " << w;
  } else {
    EXPECT_EQ(got.to_int(), want.to_int()) << what;
  }
}
std::string describe(Primitive p, DType t, const std::vector<Scalar>& args) {
  std::string s(info(p).name);
  s += " " + std::string(name(t));
  for (const Scalar& a : args) {
    s += " " + (a.category() == Category::kFloat ? std::to_string(a.to_double()) : std::to_string(a.to_int()));
  }
  return s;
}

/// Numbers of dtype `t` where arithmetic goes wrong.
std::vector<Scalar> edges(DType t) {
  std::vector<Scalar> out;
  if (t == DType::kBool) return {Scalar(false), Scalar(true)};
  if (!is_floating(t)) {
    using L = std::numeric_limits<int64_t>;
    for (int64_t v : {int64_t{0},
                      int64_t{1},
                      int64_t{-1},
                      int64_t{2},
                      int64_t{-2},
                      int64_t{3},
                      int64_t{7},
                      int64_t{-7},
                      int64_t{10},
                      int64_t{31},
                      int64_t{32},
                      int64_t{63},
                      int64_t{64},
                      int64_t{100},
                      int64_t{-100},
                      int64_t{127},
                      int64_t{128},
                      int64_t{255},
                      int64_t{46341},
                      int64_t{0x7fffffff},
                      -int64_t{0x7fffffff},
                      -int64_t{0x80000000},
                      int64_t{1} << 40,
                      (int64_t{1} << 53) + 1,
                      L::max(),
                      L::max() - 1,
                      L::min(),
                      L::min() + 1}) {
      const Scalar own = reference::convert(v, t);
      if (own.to_int() == v) out.push_back(own);
    }
    return out;
  }
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (double v : {0.0,   0.5,     1.0, 1.5, 2.0,  2.5,     3.0,      7.0,      0.1,    1e-3,  1e-7, 100.0,
                   255.0, 65504.0, 1e5, 1e9, 3e38, 0x1p-24, 0x1p-126, 0x1p-149, 5e-324, 1e300, kInf}) {
    for (double s : {v, -v}) out.push_back(reference::round_to(s, t));
  }
  out.push_back(std::numeric_limits<double>::quiet_NaN());
  return out;
}

/// Primitives that the interpreter computes exactly, so that every bit can be asked for.
bool is_exact(Primitive p, DType t) {
  if (!is_floating(t)) return true;
  switch (p) {
    case Primitive::kNeg:
    case Primitive::kAbs:
    case Primitive::kSign:
    case Primitive::kFloor:
    case Primitive::kCeil:
    case Primitive::kRound:
    case Primitive::kTrunc:
    case Primitive::kRelu:
    case Primitive::kSqrt:
    case Primitive::kReciprocal:
    case Primitive::kAdd:
    case Primitive::kSub:
    case Primitive::kMul:
    case Primitive::kDiv:
    case Primitive::kFmod:
    case Primitive::kMaximum:
    case Primitive::kMinimum:
    case Primitive::kWhere:
      return true;
    default:
      return info(p).result == PrimitiveInfo::kBool;
  }
}

TEST(ScalarArithmetic, AgreesWithTheInterpreterAtTheEdges) {
  for (int i = 0; i < kNumPrimitives; ++i) {
    const auto p = static_cast<Primitive>(i);
    for (DType t : kAllDTypes) {
      if (!info(p).takes(t) || !is_exact(p, t)) continue;
      const std::vector<Scalar> values = edges(t);
      auto check = [&](std::vector<Scalar> args) {
        expect_same(evaluate(p, t, args), reference::evaluate(p, t, args), describe(p, t, args));
      };
      for (Scalar x : values) {
        if (info(p).arity == 1) check({x});
        for (Scalar y : values) {
          if (info(p).arity == 2) check({x, y});
          if (info(p).arity == 3) {
            for (Scalar z : {values[1], values[values.size() / 2]}) {
              check(p == Primitive::kWhere ? std::vector<Scalar>{Scalar(x.to_bool()), y, z}
                                           : std::vector<Scalar>{x, y, z});
            }
          }
        }
      }
    }
  }
}

TEST(ScalarArithmetic, RandomIntegersAgreeWithTheInterpreter) {
  std::mt19937_64 random(3);
  for (int i = 0; i < kNumPrimitives; ++i) {
    const auto p = static_cast<Primitive>(i);
    for (DType t : kIntegers) {
      if (!info(p).takes(t) || p == Primitive::kWhere) continue;
      for (int k = 0; k < 300; ++k) {
        std::vector<Scalar> args;
        for (int j = 0; j < info(p).arity; ++j) {
          const int64_t wide = static_cast<int64_t>(random());
          args.push_back(reference::convert(wide >> random() % 64, t));
        }
        expect_same(evaluate(p, t, args), reference::evaluate(p, t, args), describe(p, t, args));
      }
    }
  }
}

TEST(ScalarArithmetic, IntegerDivisionByZeroAndOverflowDoNotTrap) {
  for (DType t : kIntegers) {
    for (Primitive p : {Primitive::kFloorDiv, Primitive::kRemainder, Primitive::kFmod}) {
      EXPECT_EQ(evaluate_int(p, t, {int64_t{7}, int64_t{0}}), 0);
      EXPECT_EQ(evaluate_int(p, t, {int64_t{0}, int64_t{0}}), 0);
    }
  }
  const int64_t least32 = std::numeric_limits<int32_t>::min(), least64 = std::numeric_limits<int64_t>::min();
  EXPECT_EQ(evaluate_int(Primitive::kFloorDiv, DType::kInt32, {least32, int64_t{-1}}), least32);
  EXPECT_EQ(evaluate_int(Primitive::kFloorDiv, DType::kInt64, {least64, int64_t{-1}}), least64);
  EXPECT_EQ(evaluate_int(Primitive::kFloorDiv, DType::kInt8, {int64_t{-128}, int64_t{-1}}), -128);
  EXPECT_EQ(evaluate_int(Primitive::kAbs, DType::kInt16, {int64_t{-32768}}), -32768);
  EXPECT_EQ(evaluate_int(Primitive::kRemainder, DType::kInt64, {least64, int64_t{-1}}), 0);
  EXPECT_EQ(evaluate_int(Primitive::kAbs, DType::kInt64, {least64}), least64);
  EXPECT_EQ(evaluate_int(Primitive::kFloorDiv, DType::kInt32, {int64_t{-7}, int64_t{2}}), -4);
  EXPECT_EQ(evaluate_int(Primitive::kRemainder, DType::kInt32, {int64_t{-7}, int64_t{2}}), 1);
  EXPECT_EQ(evaluate_int(Primitive::kFmod, DType::kInt32, {int64_t{-7}, int64_t{2}}), -1);
}

TEST(ScalarArithmetic, IntegerPowersWrapAndTakeNegativeExponents) {
  auto power = [](DType t, int64_t x, int64_t n) { return evaluate_int(Primitive::kPow, t, {x, n}); };
  EXPECT_EQ(power(DType::kInt64, 3, 39), 4052555153018976267);
  EXPECT_EQ(power(DType::kInt64, 3, 41), static_cast<int64_t>(4052555153018976267u * 9));
  EXPECT_EQ(power(DType::kInt64, 0, 0), 1);
  EXPECT_EQ(power(DType::kInt32, 2, 31), std::numeric_limits<int32_t>::min());
  EXPECT_EQ(power(DType::kInt32, 2, 200), 0);
  EXPECT_EQ(power(DType::kUInt8, 3, 255), 171);
  EXPECT_EQ(power(DType::kInt8, 3, 5), -13);
  EXPECT_EQ(power(DType::kInt8, -1, -5), -1);
  EXPECT_EQ(power(DType::kInt16, 2, 15), -32768);
  EXPECT_EQ(power(DType::kInt64, -1, (int64_t{1} << 62) + 1), -1);
  EXPECT_EQ(power(DType::kInt64, 1, -5), 1);
  EXPECT_EQ(power(DType::kInt64, -1, -5), -1);
  EXPECT_EQ(power(DType::kInt64, -1, -4), 1);
  EXPECT_EQ(power(DType::kInt64, 2, -1), 0);
  EXPECT_EQ(power(DType::kInt64, 0, -1), 0);
}

TEST(ScalarArithmetic, ShiftsByAnyAmountAreDefined) {
  for (DType t : kIntegers) {
    const int64_t width = 8 * static_cast<int64_t>(itemsize(t));
    for (int64_t n : {width, width + 1, int64_t{127}, t == DType::kUInt8 ? int64_t{255} : int64_t{-1}}) {
      EXPECT_EQ(evaluate_int(Primitive::kShl, t, {int64_t{5}, n}), 0) << name(t) << " " << n;
      EXPECT_EQ(evaluate_int(Primitive::kShr, t, {int64_t{5}, n}), 0) << name(t) << " " << n;
      if (t == DType::kUInt8) continue;
      EXPECT_EQ(evaluate_int(Primitive::kShr, t, {int64_t{-5}, n}), -1) << name(t) << " " << n;
    }
  }
  EXPECT_EQ(evaluate_int(Primitive::kShr, DType::kUInt8, {int64_t{200}, int64_t{3}}), 25);
}

// fmod, remainder and floor_div must be exact for every quotient: the long division is for the large ones.
template <class T>
void check_float_division() {
  constexpr DType kType = sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64;
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  std::mt19937_64 random(4);
  for (int i = 0; i < 50000; ++i) {
    const T x = std::bit_cast<T>(static_cast<Bits>(random())), y = std::bit_cast<T>(static_cast<Bits>(random()));
    if (std::isnan(x) || std::isnan(y)) continue;
    const double r = std::fmod(x, y);
    expect_same(evaluate_float(Primitive::kFmod, kType, {x, y}), r, describe(Primitive::kFmod, kType, {x, y}));
    for (Primitive p : {Primitive::kRemainder, Primitive::kFloorDiv}) {
      // The interpreter computes in float64, so only float64 can be asked for the last bit.
      if (sizeof(T) == 8)
        expect_same(evaluate(p, kType, {x, y}), reference::evaluate(p, kType, std::vector<Scalar>{x, y}),
                    describe(p, kType, {x, y}));
    }
  }
}
TEST(ScalarArithmetic, FloatRemainderIsExactForAnyQuotient) {
  check_float_division<float>();
  check_float_division<double>();
  EXPECT_EQ(evaluate_float(Primitive::kFmod, DType::kFloat32, {3e38f, 1e-45f}), std::fmod(3e38f, 1e-45f));
  EXPECT_EQ(evaluate_float(Primitive::kFmod, DType::kFloat64, {1.7e308, 5e-324}), 0.0);
  EXPECT_EQ(evaluate_float(Primitive::kFmod, DType::kFloat64, {1.7e308, 3 * 5e-324}), std::fmod(1.7e308, 3 * 5e-324));
}

TEST(ScalarArithmetic, FloatDivisionFollowsPython) {
  auto f = [](Primitive p, double x, double y) { return evaluate_float(p, DType::kFloat32, {x, y}); };
  EXPECT_EQ(f(Primitive::kFloorDiv, -7, 2), -4);
  EXPECT_EQ(f(Primitive::kRemainder, -7, 2), 1);
  EXPECT_EQ(f(Primitive::kRemainder, 7, -2), -1);
  EXPECT_EQ(f(Primitive::kFmod, -7, 2), -1);
  EXPECT_EQ(f(Primitive::kFloorDiv, 7, 0), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(f(Primitive::kFloorDiv, 0, 0)));
  EXPECT_TRUE(std::isnan(f(Primitive::kRemainder, 7, 0)));
  EXPECT_TRUE(std::isnan(f(Primitive::kFmod, std::numeric_limits<double>::infinity(), 2)));
  EXPECT_EQ(f(Primitive::kFmod, 2, std::numeric_limits<double>::infinity()), 2);
  EXPECT_EQ(f(Primitive::kFmod, -2, std::numeric_limits<double>::infinity()), -2);
  EXPECT_TRUE(std::signbit(f(Primitive::kFloorDiv, -0.0, 3)));
  EXPECT_TRUE(std::signbit(f(Primitive::kFmod, -6, 3)));
  EXPECT_EQ(f(Primitive::kFloorDiv, 0.3f, 0.1f), std::floor(0.3f / 0.1f));
}

TEST(ScalarArithmetic, NanGoesThroughOrderAndSignsOfZeroAreKept) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (DType t : {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64}) {
    for (Primitive p : {Primitive::kMaximum, Primitive::kMinimum}) {
      EXPECT_TRUE(std::isnan(evaluate_float(p, t, {nan, 1.0})));
      EXPECT_TRUE(std::isnan(evaluate_float(p, t, {1.0, nan})));
    }
    EXPECT_TRUE(std::isnan(evaluate_float(Primitive::kRelu, t, {nan})));
    EXPECT_TRUE(evaluate(Primitive::kNe, t, {nan, nan}).to_bool());
    EXPECT_FALSE(evaluate(Primitive::kEq, t, {nan, nan}).to_bool());
    EXPECT_FALSE(evaluate(Primitive::kGe, t, {nan, 0.0}).to_bool());
    EXPECT_EQ(evaluate_float(Primitive::kSign, t, {nan}), 0);
    EXPECT_TRUE(std::signbit(evaluate_float(Primitive::kNeg, t, {0.0})));
    EXPECT_TRUE(std::signbit(evaluate_float(Primitive::kRound, t, {-0.25})));
    EXPECT_TRUE(std::signbit(evaluate_float(Primitive::kCeil, t, {-0.5})));
    EXPECT_EQ(evaluate_float(Primitive::kRound, t, {2.5}), 2);
    EXPECT_EQ(evaluate_float(Primitive::kRound, t, {3.5}), 4);
  }
}

TEST(ScalarArithmetic, FmaRoundsOnce) {
  const float x = 1 + 0x1p-12f, y = 1 - 0x1p-12f;
  EXPECT_EQ(evaluate_float(Primitive::kFma, DType::kFloat32, {x, y, -1.0f}), -0x1p-24);
  const double a = 1 + 0x1p-30, b = 1 - 0x1p-30;
  EXPECT_EQ(evaluate_float(Primitive::kFma, DType::kFloat64, {a, b, -1.0}), -0x1p-60);
  EXPECT_EQ(evaluate_int(Primitive::kFma, DType::kInt32, {int64_t{7}, int64_t{6}, int64_t{-2}}), 40);
}

// -- halves: every one of the 65,536

TEST(ScalarHalf, LoadsAndStoresEveryHalf) {
  H host;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const H::V stored = H::wrap<LaneType::kI16>(static_cast<uint16_t>(bits));
    for (DType t : {DType::kFloat16, DType::kBFloat16}) {
      const float want = t == DType::kFloat16 ? to_float(Float16{static_cast<uint16_t>(bits)})
                                              : to_float(BFloat16{static_cast<uint16_t>(bits)});
      const H::V loaded = emit_load(host, t, stored);
      const float got = H::unwrap<LaneType::kF32>(loaded);
      if (std::isnan(want)) {
        ASSERT_TRUE(std::isnan(got)) << name(t) << " " << bits;
        continue;
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(got), std::bit_cast<uint32_t>(want)) << name(t) << " " << bits;
      ASSERT_EQ(H::unwrap<LaneType::kI16>(emit_store(host, t, loaded)), bits) << name(t);
    }
  }
}

TEST(ScalarHalf, RoundsLikeTheCoreLayer) {
  H host;
  auto check = [&](uint32_t bits) {
    const float x = std::bit_cast<float>(bits);
    if (std::isnan(x)) return;
    const H::V v = H::wrap<LaneType::kF32>(x);
    const float half = H::unwrap<LaneType::kF32>(emit_cast(host, DType::kFloat32, DType::kFloat16, v));
    ASSERT_EQ(std::bit_cast<uint32_t>(half), std::bit_cast<uint32_t>(to_float(to_float16(x)))) << x;
    const float brain = H::unwrap<LaneType::kF32>(emit_cast(host, DType::kFloat32, DType::kBFloat16, v));
    ASSERT_EQ(std::bit_cast<uint32_t>(brain), std::bit_cast<uint32_t>(to_float(to_bfloat16(x)))) << x;
  };
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 4093) check(static_cast<uint32_t>(bits));
  for (uint32_t high = 0; high < 0x10000; ++high) {  // about every tie
    for (uint32_t low : {0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u}) check(high << 16 | low);
  }
}

TEST(ScalarHalf, ArithmeticRoundsOnceToTheHalf) {
  std::mt19937 random(5);
  for (int i = 0; i < 20000; ++i) {
    const Float16 a{static_cast<uint16_t>(random())}, b{static_cast<uint16_t>(random())};
    const double x = to_float(a), y = to_float(b);
    for (Primitive p : {Primitive::kAdd, Primitive::kSub, Primitive::kMul, Primitive::kDiv}) {
      // float64 holds sums and products of halves exactly: one rounding decides.
      expect_same(evaluate(p, DType::kFloat16, {x, y}),
                  reference::evaluate(p, DType::kFloat16, std::vector<Scalar>{x, y}),
                  describe(p, DType::kFloat16, {x, y}));
    }
  }
}

// -- casts

TEST(ScalarCast, EveryDTypeToEveryOtherAgreesWithTheInterpreter) {
  std::mt19937_64 random(6);
  for (DType from : kAllDTypes) {
    std::vector<Scalar> values = edges(from);
    if (!is_floating(from) && itemsize(from) == 1) {
      for (int64_t v = lowest_integer(from); v <= highest_integer(from); ++v)
        values.push_back(reference::convert(v, from));
    }
    if (is_half(from)) {
      for (uint32_t bits = 0; bits < 0x10000; bits += 3) {
        const auto half = static_cast<uint16_t>(bits);
        values.push_back(from == DType::kFloat16 ? to_float(Float16{half}) : to_float(BFloat16{half}));
      }
    }
    for (int i = 0; i < 2000; ++i) {
      const auto wide = static_cast<int64_t>(random());
      const double real = std::ldexp(static_cast<double>(wide), -static_cast<int>(random() % 90));
      values.push_back(is_floating(from) ? reference::convert(real, from)
                                         : reference::convert(wide >> random() % 64, from));
    }
    for (DType to : kAllDTypes) {
      for (Scalar v : values) {
        expect_same(convert(from, to, v), reference::convert(v, to),
                    std::string(name(from)) + " to " + describe(Primitive::kNeg, to, {v}));
      }
    }
  }
}

TEST(ScalarCast, FloatToIntegerSaturatesAndToNarrowOnesWraps) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (DType from : {DType::kFloat32, DType::kFloat64}) {
    auto to = [from](DType t, double v) { return convert(from, t, v).to_int(); };
    EXPECT_EQ(to(DType::kInt32, nan), 0);
    EXPECT_EQ(to(DType::kInt32, kInf), std::numeric_limits<int32_t>::max());
    EXPECT_EQ(to(DType::kInt32, -kInf), std::numeric_limits<int32_t>::min());
    EXPECT_EQ(to(DType::kInt32, 0x1p31), std::numeric_limits<int32_t>::max());
    EXPECT_EQ(to(DType::kInt64, 0x1p63), std::numeric_limits<int64_t>::max());
    EXPECT_EQ(to(DType::kInt64, -0x1p63), std::numeric_limits<int64_t>::min());
    EXPECT_EQ(to(DType::kInt64, nan), 0);
    EXPECT_EQ(to(DType::kInt32, -1.9), -1);
    EXPECT_EQ(to(DType::kUInt8, -1.0), 255);
    EXPECT_EQ(to(DType::kUInt8, 257.9), 1);
    EXPECT_EQ(to(DType::kUInt8, -0.9), 0);
    EXPECT_EQ(to(DType::kUInt8, 0x1p40), 0);
    EXPECT_EQ(to(DType::kUInt8, nan), 0);
    EXPECT_EQ(to(DType::kUInt8, kInf), 0);
    EXPECT_EQ(to(DType::kInt8, 128.0), -128);
    EXPECT_EQ(to(DType::kInt8, -129.5), 127);
    EXPECT_EQ(to(DType::kInt8, nan), 0);
    EXPECT_EQ(to(DType::kInt16, -32769.0), 32767);
    EXPECT_EQ(to(DType::kInt16, -0.9), 0);
    EXPECT_EQ(to(DType::kInt16, kInf), 0);
    EXPECT_EQ(to(DType::kBool, nan), 1);
    EXPECT_EQ(to(DType::kBool, -0.0), 0);
  }
}

TEST(ScalarEmit, RefusesADTypeThatThePrimitiveDoesNotTake) {
  EXPECT_THROW(evaluate(Primitive::kExp, DType::kInt32, {int64_t{1}}), InternalError);
  EXPECT_THROW(evaluate(Primitive::kSub, DType::kBool, {true, true}), InternalError);
  EXPECT_THROW(evaluate(Primitive::kAdd, DType::kInt32, {int64_t{1}}), InternalError);
}

}  // namespace
}  // namespace smolder::ir::scalar
