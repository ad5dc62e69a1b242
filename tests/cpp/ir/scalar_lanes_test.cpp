// Vectors of the host give the bits of one value at a time. Built for AVX2, as the eager kernels are.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "smolder/core/error.h"
#include "smolder/core/scalar.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

#include "ir/scalar_operands.h"
#include "smolder/ir/scalar/emit.h"
#include "smolder/ir/scalar/evaluate.h"
#include "smolder/ir/scalar/lane_builder.h"
#include "smolder/ir/scalar/random.h"

namespace smolder::ir::scalar {
namespace {

using H = HostBuilder;
static_assert(FourLaneBuilder<LaneBuilder<8>>);

template <DType D>
using Lanes = LaneBuilder<(kVectorBytes >= 32 ? 32 : 16) / static_cast<int>(itemsize(compute_type(D))),
                          int_lane(register_lane(D)) == LaneType::kI1 ? LaneType::kI8 : int_lane(register_lane(D))>;

/// Operands in memory as registers of one value are: a byte for a condition.
template <LaneType L>
struct Row {
  using T = std::conditional_t<L == LaneType::kI1, uint8_t, H::Value<L>>;
  std::array<T, 32> at;

  template <class B>
  Value<B, L> load(B&) const {
    if constexpr (L == LaneType::kI1) {
      const auto bytes = B::template load<LaneType::kI8>(at.data());
      return B::ine(bytes, B::template constant<LaneType::kI8>(0));
    } else {
      return B::template load<L>(at.data());
    }
  }
  template <class B>
  void store(B&, const Value<B, L>& v) {
    if constexpr (L == LaneType::kI1) {
      B::template store<LaneType::kI8>(at.data(), B::template zext<LaneType::kI8>(v));
    } else {
      B::template store<L>(at.data(), v);
    }
  }
  uint64_t bits(int i) const {
    if constexpr (L == LaneType::kI1) {
      return at[i];
    } else {
      return H::wrap<L>(at[i]).bits;
    }
  }
  void set(int i, H::V v) {
    if constexpr (L == LaneType::kI1) {
      at[i] = v.bits & 1;
    } else {
      at[i] = H::unwrap<L>(v);
    }
  }
};

/// A function, not part of what is instantiated some hundred times: an assertion is much to compile.
[[gnu::noinline]] void expect_bits(Primitive p, DType d, LaneType result, uint64_t got, std::span<const H::V> args) {
  H host;
  const uint64_t want = emit_primitive<H>(host, p, d, args).bits;
  ASSERT_TRUE(same(result, got, want)) << info(p).name << " " << name(d) << " of " << args.front().bits << ", "
                                       << args.back().bits << ": " << got << ", want " << want;
}

template <Primitive P, DType D>
void check_lanes(std::mt19937_64& random) {
  using B = Lanes<D>;
  constexpr LaneType kLane = register_lane(D);
  constexpr LaneType kFirst = P == Primitive::kWhere ? LaneType::kI1 : kLane;
  B b;
  for (int k = 0; k < 64 && !testing::Test::HasFatalFailure(); ++k) {
    Row<kFirst> x{};
    Row<kLane> y{}, z{};
    Row<kResultLane<P, D>> r{};
    for (int i = 0; i < B::kLanes; ++i) {
      x.set(i, operand(P == Primitive::kWhere ? DType::kBool : D, random));
      y.set(i, operand(D, random));
      z.set(i, operand(D, random));
    }
    if constexpr (info(P).arity == 1) {
      r.store(b, emit<P, D>(b, x.load(b)));
    } else if constexpr (info(P).arity == 2) {
      r.store(b, emit<P, D>(b, x.load(b), y.load(b)));
    } else {
      r.store(b, emit<P, D>(b, x.load(b), y.load(b), z.load(b)));
    }
    for (int i = 0; i < B::kLanes; ++i) {
      const std::array args{H::V{x.bits(i)}, H::V{y.bits(i)}, H::V{z.bits(i)}};
      expect_bits(P, D, kResultLane<P, D>, r.bits(i), std::span(args).first(info(P).arity));
    }
  }
}

template <DType D, size_t... kPrimitive>
void check_all_lanes(std::index_sequence<kPrimitive...>) {
  std::mt19937_64 random(3);
  auto check = [&]<Primitive P>() {
    if constexpr (info(P).takes(D)) check_lanes<P, D>(random);
  };
  (check.template operator()<static_cast<Primitive>(kPrimitive)>(), ...);
}

class ScalarLanes : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) GTEST_SKIP() << "needs AVX2 and FMA";
#endif
  }
  // Below -O2 GCC leaves the upper halves of registers dirty, and every later SSE instruction of the process waits.
  void TearDown() override {
#if defined(__x86_64__)
    _mm256_zeroupper();
#endif
  }
};
template <class T>
class LaneBuilderOf : public ScalarLanes {};
template <DType D>
using Type = std::integral_constant<DType, D>;
using LaneDTypes = testing::Types<Type<DType::kBool>, Type<DType::kUInt8>, Type<DType::kInt8>, Type<DType::kInt16>,
                                  Type<DType::kInt32>, Type<DType::kInt64>, Type<DType::kFloat16>,
                                  Type<DType::kFloat32>, Type<DType::kFloat64>>;
TYPED_TEST_SUITE(LaneBuilderOf, LaneDTypes);

TYPED_TEST(LaneBuilderOf, GivesTheBitsOfOneValueAtATime) {
  check_all_lanes<TypeParam::value>(std::make_index_sequence<kNumPrimitives>());
}

TYPED_TEST(LaneBuilderOf, CastsLikeOneValueAtATime) {
  constexpr DType kFrom = TypeParam::value;
  using B = Lanes<kFrom>;
  std::mt19937_64 random(4);
  B b;
  auto check = [&]<DType kTo>(Type<kTo>) {
    for (int k = 0; k < 16; ++k) {
      Row<register_lane(kFrom)> x{};
      Row<storage_lane(kTo)> r{};
      for (int i = 0; i < B::kLanes; ++i) x.set(i, operand(kFrom, random));
      r.store(b, to_storage<kTo, B>(cast<kFrom, kTo, B>(Reg<B, kFrom>{&b, x.load(b)})).v);
      for (int i = 0; i < B::kLanes; ++i) {
        H host;
        const uint64_t want = emit_store(host, kTo, emit_cast(host, kFrom, kTo, H::V{x.bits(i)})).bits;
        const bool nan = is_floating(kTo) && is_nan(register_lane(kFrom), x.bits(i));
        ASSERT_TRUE(nan || r.bits(i) == want) << name(kFrom) << " to " << name(kTo) << " of " << x.bits(i);
      }
    }
  };
  check(Type<DType::kBool>{});
  check(Type<DType::kUInt8>{});
  check(Type<DType::kInt8>{});
  check(Type<DType::kInt16>{});
  check(Type<DType::kInt32>{});
  check(Type<DType::kInt64>{});
  check(Type<DType::kFloat16>{});
  check(Type<DType::kBFloat16>{});
  check(Type<DType::kFloat32>{});
  check(Type<DType::kFloat64>{});
}

TEST_F(ScalarLanes, InFoursGiveTheSameRandomBits) {
  using B = LaneBuilder<8>;
  B b;
  H host;
  const int64_t seed = -0x123456789abcdef, offset = 0xfffffff0;
  for (int64_t first = 0; first < 256; first += 8) {
    const I64<B> index{&b, B::iota(first)};
    const I64<B> key = like(index, seed), base = like(index, offset);
    std::array<int32_t, 8> fours{}, apart{};
    B::store<LaneType::kI32>(fours.data(), random_bits_aligned(key, base, index).v);
    B::store<LaneType::kI32>(apart.data(), random_bits(key, base, index).v);
    for (int64_t i = 0; i < 8; ++i) {
      const int32_t want = random_bits(I64<H>{&host, seed}, I64<H>{&host, offset}, I64<H>{&host, first + i}).v;
      EXPECT_EQ(fours[i], want);
      EXPECT_EQ(apart[i], want);
    }
  }
}

}  // namespace
}  // namespace smolder::ir::scalar

#if defined(__x86_64__)
#pragma GCC pop_options
#endif
