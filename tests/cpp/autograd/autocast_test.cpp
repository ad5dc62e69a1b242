// Autocast as C++ programs use it, and its rules one by one.
#include "smolder/lazy/autocast.h"

#include <gtest/gtest.h>

#include <thread>

#include "smolder/autograd/engine.h"
#include "smolder/core/error.h"
#include "smolder/lazy/call.h"
#include "smolder/lazy/ops.h"

namespace smolder {
namespace {

using lazy::AutocastCall;
using lazy::CastRule;

Tensor weight() { return full({2, 2}, 1.0).to(DType::kFloat32).detach().requires_grad_(); }
Tensor half(DType dtype) { return full({2, 2}, 0.5).to(dtype); }

/// The dtypes that a call with a rule of the CPU's makes of two operands.
std::pair<DType, DType> cast_by(CastRule rule, const Tensor& a, const Tensor& b) {
  AutocastCall call({.cpu = rule});
  call.see(a);
  call.see(b);
  EXPECT_TRUE(call.applies());
  EXPECT_FALSE(lazy::autocasting());  // what the op is made of
  return {call.cast(a).dtype(), call.cast(b).dtype()};
}

TEST(Autocast, ProductsRunInTheDtypeOfTheRegion) {
  const Tensor x = full({2, 2}, 1.0 / 3).to(DType::kFloat32);
  Tensor w = weight();
  Tensor y;
  {
    const AutocastMode region(DeviceType::kCPU);
    y = linear(x, w);
    EXPECT_EQ((x + x).dtype(), DType::kFloat32);
    const AutocastMode inner(DeviceType::kCPU, DType::kFloat16);
    EXPECT_EQ(matmul(x, x).dtype(), DType::kFloat16);
    const AutocastMode off(DeviceType::kCPU, {}, false);
    EXPECT_EQ(matmul(x, x).dtype(), DType::kFloat32);
  }
  EXPECT_EQ(y.dtype(), DType::kBFloat16);
  EXPECT_EQ(matmul(x, x).dtype(), DType::kFloat32);
  sum(y).backward();
  EXPECT_EQ(w.grad().dtype(), DType::kFloat32);
  EXPECT_EQ(w.grad().to_vector<float>(), (std::vector<float>(4, 0.66796875F)));  // 2/3 out of thirds in bfloat16
}

TEST(Autocast, EachRule) {
  const AutocastMode region(DeviceType::kCPU);
  const DType f = DType::kFloat32, b = DType::kBFloat16, h = DType::kFloat16, d = DType::kFloat64;
  using Pair = std::pair<DType, DType>;
  EXPECT_EQ(cast_by(CastRule::kLower, half(f), half(h)), Pair(b, b));
  EXPECT_EQ(cast_by(CastRule::kLower, half(f), half(d)), Pair(b, d));
  EXPECT_EQ(cast_by(CastRule::kLower, half(f), half(DType::kInt64)), Pair(b, DType::kInt64));
  EXPECT_EQ(cast_by(CastRule::kFloat32, half(b), half(h)), Pair(f, f));
  EXPECT_EQ(cast_by(CastRule::kWidest, half(b), half(b)), Pair(b, b));
  EXPECT_EQ(cast_by(CastRule::kWidest, half(b), half(f)), Pair(f, f));
  EXPECT_EQ(cast_by(CastRule::kWidest, half(b), half(d)), Pair(b, d));
  EXPECT_EQ(cast_by(CastRule::kBelow, half(b), half(f)), Pair(b, f));
  EXPECT_THROW(cast_by(CastRule::kWidest, half(b), half(h)), RuntimeError);
  EXPECT_TRUE(lazy::autocasting());  // again
  AutocastCall refused({.cpu = CastRule::kRefused});
  const Tensor operand = half(f);
  refused.see(operand);
  EXPECT_THROW(refused.applies(), RuntimeError);
}

TEST(Autocast, ACallWithoutARuleOrOfAnotherDeviceIsNotMadeAgain) {
  const AutocastMode region(DeviceType::kCPU);
  for (const lazy::CastRules rules : {lazy::CastRules{}, lazy::CastRules{.cuda = CastRule::kLower}}) {
    AutocastCall call(rules);
    const Tensor operand = half(DType::kFloat32);
    call.see(operand);
    EXPECT_FALSE(call.applies());
    EXPECT_TRUE(lazy::autocasting());
  }
}

TEST(Autocast, RulesByName) {
  EXPECT_EQ(lazy::cast_rules("binary_cross_entropy").cuda, CastRule::kRefused);
  EXPECT_EQ(lazy::cast_rules("matmul").cpu, CastRule::kLower);
  EXPECT_EQ(lazy::cast_rules("no such op").cpu, CastRule::kNone);
  const AutocastMode region(DeviceType::kCPU);
  EXPECT_EQ(OpHandle("matmul")(half(DType::kFloat32), half(DType::kFloat32)).dtype(), DType::kBFloat16);
}

TEST(Autocast, StateIsOfAThread) {
  const AutocastMode region(DeviceType::kCPU, DType::kFloat16, true, false);
  EXPECT_FALSE(is_autocast_cache_enabled());
  std::thread([] {
    EXPECT_FALSE(is_autocast_enabled(DeviceType::kCPU));
    EXPECT_TRUE(is_autocast_cache_enabled());
    EXPECT_EQ(get_autocast_dtype(DeviceType::kCPU), DType::kBFloat16);
    EXPECT_EQ(get_autocast_dtype(DeviceType::kCUDA), DType::kFloat16);
  }).join();
}

TEST(Autocast, Mistakes) {
  EXPECT_THROW(AutocastMode(DeviceType::kCPU, DType::kFloat64), ValueError);
  EXPECT_THROW(AutocastMode(DeviceType::kFirstUser), RuntimeError);
  EXPECT_FALSE(is_autocast_available(DeviceType::kFirstUser));
  EXPECT_FALSE(is_autocast_enabled(DeviceType::kFirstUser));
}

}  // namespace
}  // namespace smolder
