// One arithmetic, every builder: one that checks lane types as a code generator's would, and takes no branch, gives
// the bits of plain evaluation. Random numbers.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "ir/scalar_operands.h"
#include "smolder/ir/scalar/emit.h"
#include "smolder/ir/scalar/evaluate.h"
#include "smolder/ir/scalar/random.h"

namespace smolder::ir::scalar {
namespace {

using H = HostBuilder;

/// As a code generator sees it: one type for every value, which knows its lane type at run time. Each operation
/// checks the lane types of its operands, then computes; `select_rare` takes both sides.
class CheckedBuilder {
 public:
  struct V {
    LaneType lane;
    uint64_t bits;
  };
  template <LaneType>
  using Value = V;

  int operations = 0;
  int mismatches = 0;

  template <LaneType L>
  V constant(Literal<L> c) {
    return make<L>(H::constant<L>(c));
  }

#define OPERATION(name, lanes)                                                                       \
  V name(V x, V y) {                                                                                 \
    return dispatch<lanes>(x, [&]<LaneType L>() { return make<L>(H::name(get<L>(x), get<L>(y))); }); \
  }
  OPERATION(fadd, kFloats)
  OPERATION(fsub, kFloats)
  OPERATION(fmul, kFloats)
  OPERATION(fdiv, kFloats)
  OPERATION(iadd, kIntegers)
  OPERATION(isub, kIntegers)
  OPERATION(imul, kIntegers)
  OPERATION(shl, kIntegers)
  OPERATION(lshr, kIntegers)
  OPERATION(ashr, kIntegers)
  OPERATION(and_, kBits)
  OPERATION(or_, kBits)
  OPERATION(xor_, kBits)
#undef OPERATION
#define OPERATION(name, lanes)                                                            \
  V name(V x) {                                                                           \
    return dispatch<lanes>(x, [&]<LaneType L>() { return make<L>(H::name(get<L>(x))); }); \
  }
  OPERATION(fneg, kFloats)
  OPERATION(fabs, kFloats)
  OPERATION(sqrt, kFloats)
  OPERATION(rint, kFloats)
  OPERATION(floor, kFloats)
  OPERATION(ceil, kFloats)
  OPERATION(trunc, kFloats)
  OPERATION(not_, kBits)
#undef OPERATION
#define OPERATION(name, lanes)                                                                                   \
  V name(V x, V y) {                                                                                             \
    return dispatch<lanes>(x, [&]<LaneType L>() { return make<LaneType::kI1>(H::name(get<L>(x), get<L>(y))); }); \
  }
  OPERATION(feq, kFloats)
  OPERATION(fne, kFloats)
  OPERATION(flt, kFloats)
  OPERATION(fle, kFloats)
  OPERATION(ieq, kIntegers)
  OPERATION(ine, kIntegers)
  OPERATION(slt, kIntegers)
  OPERATION(sle, kIntegers)
  OPERATION(ult, kIntegers)
  OPERATION(ule, kIntegers)
#undef OPERATION
#define OPERATION(name)                                                \
  V name(V x, int n) {                                                 \
    return dispatch<kIntegers>(x, [&]<LaneType L>() {                  \
      mismatches += n < 0 || n >= lane_bits(L);                        \
      return make<L>(H::name(get<L>(x), static_cast<H::Value<L>>(n))); \
    });                                                                \
  }
  OPERATION(shl)
  OPERATION(lshr)
  OPERATION(ashr)
#undef OPERATION

  V fma(V x, V y, V z) {
    return dispatch<kFloats>(x, [&]<LaneType L>() { return make<L>(H::fma(get<L>(x), get<L>(y), get<L>(z))); });
  }
  V umulhi(V x, V y) { return make<LaneType::kI32>(H::umulhi(get<LaneType::kI32>(x), get<LaneType::kI32>(y))); }
  V sdiv(V x, V y) {
    check_divisor(x, y);
    return make<LaneType::kI64>(H::sdiv(get<LaneType::kI64>(x), get<LaneType::kI64>(y)));
  }
  V srem(V x, V y) {
    check_divisor(x, y);
    return make<LaneType::kI64>(H::srem(get<LaneType::kI64>(x), get<LaneType::kI64>(y)));
  }

  template <LaneType L>
  V select(V c, V x, V y) {
    return make<L>(H::select<L>(get<LaneType::kI1>(c), get<L>(x), get<L>(y)));
  }
  template <LaneType L, class Rare>
  std::array<V, 2> select_rare(V c, std::array<V, 2> common, Rare&& rare) {
    const std::array<V, 2> r = rare();
    return {select<L>(c, r[0], common[0]), select<L>(c, r[1], common[1])};
  }

  template <LaneType To>
  V bitcast(V x) {
    mismatches += lane_bits(To) != lane_bits(x.lane) || is_float(To) == is_float(x.lane);
    return {To, x.bits};
  }
  template <LaneType To>
  V sitofp(V x) {
    return dispatch<kWideIntegers>(x, [&]<LaneType L>() { return make<To>(H::sitofp<To>(get<L>(x))); });
  }
  template <LaneType To>
  V fptosi(V x) {
    return dispatch<kFloats>(x, [&]<LaneType L>() { return make<To>(H::fptosi<To>(get<L>(x))); });
  }
  /// Out of range, any number may come out: here a conspicuous one.
  template <LaneType To>
  V fptosi_in_range(V x) {
    return dispatch<kFloats>(x, [&]<LaneType L>() {
      const double v = get<L>(x), end = To == LaneType::kI32 ? 0x1p31 : 0x1p63;
      return make<To>(v >= -end && v < end ? H::fptosi<To>(get<L>(x)) : H::constant<To>(0x5a5a5a5a));
    });
  }
  template <LaneType To>
  V zext(V x) {
    return dispatch<kBits>(x, [&]<LaneType L>() { return make<To>(H::zext<To>(get<L>(x))); });
  }
  template <LaneType To>
  V sext(V x) {
    return dispatch<kBits>(x, [&]<LaneType L>() { return make<To>(H::sext<To>(get<L>(x))); });
  }
  template <LaneType To>
  V itrunc(V x) {
    return dispatch<kIntegers>(x, [&]<LaneType L>() {
      mismatches += lane_bits(To) >= lane_bits(L);
      return make<To>(H::itrunc<To>(get<L>(x)));
    });
  }
  template <LaneType To>
  V fpext(V x) {
    return make<To>(H::fpext<To>(get<LaneType::kF32>(x)));
  }
  template <LaneType To>
  V fptrunc(V x) {
    return make<To>(H::fptrunc<To>(get<LaneType::kF64>(x)));
  }

 private:
  enum Lanes { kFloats, kIntegers, kBits, kWideIntegers };

  template <LaneType L>
  V make(H::Value<L> v) {
    ++operations;
    return {L, H::wrap<L>(v).bits};
  }
  template <LaneType L>
  H::Value<L> get(V v) {
    mismatches += v.lane != L;
    return H::unwrap<L>({v.bits});
  }
  void check_divisor(V x, V y) {
    const int64_t a = get<LaneType::kI64>(x), b = get<LaneType::kI64>(y);
    mismatches += b == 0 || (b == -1 && a == std::numeric_limits<int64_t>::min());
  }
  template <Lanes kLanes, class F>
  V dispatch(V x, F f) {
    if constexpr (kLanes == kFloats) {
      if (x.lane == LaneType::kF32) return f.template operator()<LaneType::kF32>();
      if (x.lane == LaneType::kF64) return f.template operator()<LaneType::kF64>();
    } else {
      if constexpr (kLanes == kBits) {
        if (x.lane == LaneType::kI1) return f.template operator()<LaneType::kI1>();
      }
      if constexpr (kLanes != kWideIntegers) {
        if (x.lane == LaneType::kI8) return f.template operator()<LaneType::kI8>();
        if (x.lane == LaneType::kI16) return f.template operator()<LaneType::kI16>();
      }
      if (x.lane == LaneType::kI32) return f.template operator()<LaneType::kI32>();
      if (x.lane == LaneType::kI64) return f.template operator()<LaneType::kI64>();
    }
    ++mismatches;
    return x;
  }
};
static_assert(RuntimeBuilder<CheckedBuilder>);
static_assert(!FourLaneBuilder<CheckedBuilder>);

TEST(ScalarBuilder, StraightLineCodeIsWellTypedAndGivesTheSameBits) {
  std::mt19937_64 random(1);
  for_each_primitive([&](Primitive p, DType t) {
    const LaneType result = register_lane(info(p).result_dtype(t));
    for (int k = 0; k < 400; ++k) {
      H host;
      CheckedBuilder checked;
      std::vector<H::V> plain;
      std::vector<CheckedBuilder::V> typed;
      for (int i = 0; i < info(p).arity; ++i) {
        const DType own = p == Primitive::kWhere && i == 0 ? DType::kBool : t;
        plain.push_back(operand(own, random));
        typed.push_back({register_lane(own), plain.back().bits});
      }
      const uint64_t want = emit_primitive<H>(host, p, t, plain).bits;
      const CheckedBuilder::V got = emit_primitive<CheckedBuilder>(checked, p, t, typed);
      ASSERT_EQ(checked.mismatches, 0) << info(p).name << " " << name(t);
      ASSERT_EQ(got.lane, result) << info(p).name << " " << name(t);
      ASSERT_TRUE(same(result, got.bits, want)) << info(p).name << " " << name(t) << " " << got.bits << " " << want;
    }
  });
}

TEST(ScalarBuilder, CastsAreWellTypedAndGiveTheSameBits) {
  std::mt19937_64 random(2);
  for (int from = 0; from < kNumDTypes; ++from) {
    for (int to = 0; to < kNumDTypes; ++to) {
      const auto f = static_cast<DType>(from), t = static_cast<DType>(to);
      for (int k = 0; k < 200; ++k) {
        H host;
        CheckedBuilder checked;
        const H::V x = operand(f, random);
        const uint64_t want = emit_store(host, t, emit_cast(host, f, t, x)).bits;
        const CheckedBuilder::V got =
            emit_store(checked, t, emit_cast(checked, f, t, CheckedBuilder::V{register_lane(f), x.bits}));
        ASSERT_EQ(checked.mismatches, 0) << name(f) << " to " << name(t);
        ASSERT_EQ(got.lane, storage_lane(t));
        const bool nan = is_floating(t) && is_floating(f) && is_nan(register_lane(f), x.bits);
        ASSERT_TRUE(nan || got.bits == want) << name(f) << " to " << name(t);
      }
    }
  }
}

/// The cost of one element of a common activation to a code generator; a jump here is a slower kernel and compile.
TEST(ScalarBuilder, CommonFunctionsStayShort) {
  auto operations = [](Primitive p) {
    CheckedBuilder b;
    const std::array args{CheckedBuilder::V{LaneType::kF32, 0x3f000000}};
    emit_primitive<CheckedBuilder>(b, p, DType::kFloat32, args);
    return b.operations;
  };
  EXPECT_LE(operations(Primitive::kExp), 40);
  EXPECT_LE(operations(Primitive::kLog), 55);
  EXPECT_LE(operations(Primitive::kTanh), 60);
  EXPECT_LE(operations(Primitive::kErf), 60);
  EXPECT_LE(operations(Primitive::kSigmoid), 55);
}

// -- random numbers

TEST(ScalarRandom, PhiloxGivesTheKnownAnswers) {
  H host;
  auto words = [&](std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
    auto lane = [&](uint32_t v) { return I32<H>{&host, static_cast<int32_t>(v)}; };
    const auto w = philox<H>({lane(counter[0]), lane(counter[1]), lane(counter[2]), lane(counter[3])},
                             {lane(key[0]), lane(key[1])});
    return std::vector<uint32_t>{static_cast<uint32_t>(w[0].v), static_cast<uint32_t>(w[1].v),
                                 static_cast<uint32_t>(w[2].v), static_cast<uint32_t>(w[3].v)};
  };
  // Random123's kat_vectors, philox4x32 with 10 rounds.
  EXPECT_EQ(words({0, 0, 0, 0}, {0, 0}), (std::vector<uint32_t>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_EQ(words({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
            (std::vector<uint32_t>{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(words({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (std::vector<uint32_t>{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(ScalarRandom, BitsFollowTheWrittenMapping) {
  H host;
  auto i64 = [&](int64_t v) { return I64<H>{&host, v}; };
  const int64_t seed = 0x123456789abcdef0;
  for (int64_t offset : {int64_t{0}, int64_t{0xfffffffe}, int64_t{-1}}) {
    for (int64_t index = 0; index < 64; ++index) {
      const auto w = random_words(i64(seed), i64(offset + index / 4));
      EXPECT_EQ(random_bits(i64(seed), i64(offset), i64(index)).v, w[index % 4].v);
      EXPECT_EQ(random_bits_aligned(i64(seed), i64(offset), i64(index)).v, w[index % 4].v);
      const auto d = random_words(i64(seed), i64(offset + index / 2));
      const uint64_t high = static_cast<uint32_t>(d[index % 2 * 2].v),
                     low = static_cast<uint32_t>(d[index % 2 * 2 + 1].v);
      EXPECT_EQ(static_cast<uint64_t>(random_bits64(i64(seed), i64(offset), i64(index)).v), high << 32 | low);
    }
  }
}

template <DType D>
void check_distributions() {
  H host;
  const I64<H> seed{&host, 42}, offset{&host, 7};
  constexpr int kCount = 40000;
  double sum = 0, squares = 0, normal_sum = 0, normal_squares = 0, normal_fourths = 0, neighbours = 0, last = 0;
  for (int i = 0; i < kCount; ++i) {
    const double u = random_uniform<D, H>(seed, offset, I64<H>{&host, i}).v;
    ASSERT_GE(u, 0);
    ASSERT_LT(u, 1);
    sum += u;
    squares += u * u;
    const double z = random_normal<D, H>(seed, offset, I64<H>{&host, i}).v;
    ASSERT_TRUE(std::isfinite(z));
    normal_sum += z;
    normal_squares += z * z;
    normal_fourths += z * z * z * z;
    neighbours += z * last;
    last = z;
  }
  const double n = kCount;
  const double grain = D == DType::kBFloat16 ? 1.0 / 512 : 0;  // the mean of [0, 1) in steps of 1/256 is below 1/2
  EXPECT_NEAR(sum / n, 0.5 - grain, 5 * std::sqrt(1.0 / 12 / n));
  EXPECT_NEAR(squares / n, 1.0 / 3 - grain, 0.01);
  EXPECT_NEAR(normal_sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(normal_squares / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(normal_fourths / n, 3, 5 * std::sqrt(96 / n));
  EXPECT_NEAR(neighbours / n, 0, 5 / std::sqrt(n));
}
TEST(ScalarRandom, UniformAndNormalHaveTheirMoments) {
  check_distributions<DType::kFloat16>();
  check_distributions<DType::kBFloat16>();
  check_distributions<DType::kFloat32>();
  check_distributions<DType::kFloat64>();
}

TEST(ScalarRandom, NormalIsFiniteAtTheEndsOfTheInterval) {
  H host;
  auto f32 = [&](double v) { return F32<H>{&host, static_cast<float>(v)}; };
  EXPECT_EQ(normal_from_uniform(f32(0), f32(0), I1<H>{&host, false}).v, 0);
  EXPECT_LT(normal_from_uniform(f32(1 - 0x1p-24), f32(0), I1<H>{&host, false}).v, 5.8f);
  EXPECT_LT(normal_from_uniform(F64<H>{&host, 1 - 0x1p-53}, F64<H>{&host, 0.0}, I1<H>{&host, false}).v, 8.6);
}

}  // namespace
}  // namespace smolder::ir::scalar
