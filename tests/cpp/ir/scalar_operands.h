// Operands and comparisons for tests of scalar arithmetic. Included after any target pragma: it uses HostBuilder.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <random>

#include "smolder/ir/scalar/emit.h"
#include "smolder/ir/scalar/evaluate.h"

namespace smolder::ir::scalar {
namespace {

/// Random bits that favour what breaks arithmetic: specials, small integers, numbers near 1.
uint64_t operand_bits(LaneType lane, std::mt19937_64& random) {
  const uint64_t any = random();
  switch (any % 8) {
    case 0:
      return is_float(lane) ? (lane == LaneType::kF32 ? (any >> 32 & 0x80000000) | 0x7f800000
                                                      : (any & uint64_t{1} << 63) | uint64_t{0x7ff} << 52)
                            : any >> 8;
    case 1:
      return 0;
    case 2:
    case 3: {  // a small number of either sign
      const int64_t n = static_cast<int64_t>(any >> 32) % 20 - 10;
      if (lane == LaneType::kF32) return HostBuilder::wrap<LaneType::kF32>(static_cast<float>(n) / 2).bits;
      if (lane == LaneType::kF64) return HostBuilder::wrap<LaneType::kF64>(static_cast<double>(n) / 2).bits;
      return static_cast<uint64_t>(n);
    }
    case 4:
    case 5: {
      const double x = (static_cast<double>(random() >> 11) * 0x1p-53 - 0.5) * 8;
      if (lane == LaneType::kF32) return HostBuilder::wrap<LaneType::kF32>(static_cast<float>(x)).bits;
      if (lane == LaneType::kF64) return HostBuilder::wrap<LaneType::kF64>(x).bits;
      return random();
    }
    default:
      return random();
  }
}
/// Only the bits of the lane, and a value of the dtype where the lane has more.
HostBuilder::V operand(DType t, std::mt19937_64& random) {
  const LaneType lane = register_lane(t);
  const int width = lane_bits(lane);
  uint64_t bits = operand_bits(lane, random);
  if (width < 64) bits &= (uint64_t{1} << width) - 1;
  HostBuilder host;
  return emit_cast(host, compute_type(t), t, HostBuilder::V{bits});
}

bool is_nan(LaneType lane, uint64_t bits) {
  return lane == LaneType::kF32   ? std::isnan(std::bit_cast<float>(static_cast<uint32_t>(bits)))
         : lane == LaneType::kF64 ? std::isnan(std::bit_cast<double>(bits))
                                  : false;
}
bool same(LaneType lane, uint64_t a, uint64_t b) { return a == b || (is_nan(lane, a) && is_nan(lane, b)); }

template <class F>
[[maybe_unused]] void for_each_primitive(F f) {
  for (int i = 0; i < kNumPrimitives; ++i) {
    for (int d = 0; d < kNumDTypes; ++d) {
      const auto p = static_cast<Primitive>(i);
      const auto t = static_cast<DType>(d);
      if (info(p).takes(t)) f(p, t);
    }
  }
}

}  // namespace
}  // namespace smolder::ir::scalar
