#include "smolder/jit/llvm/primitives.h"

#include "smolder/ir/scalar/emit.h"
#include "smolder/ir/scalar/evaluate.h"
#include "smolder/ir/scalar/random.h"

namespace smolder::jit::cpu {

namespace scalar = ir::scalar;
using scalar::HostBuilder;
using V = llvm::Value*;

V emit_primitive(Builder& b, ir::Op op, DType t, std::span<V const> args) {
  return scalar::emit_primitive(b, static_cast<scalar::Primitive>(op), t, args);
}

V emit_cast(Builder& b, DType from, DType to, V x) { return scalar::emit_cast(b, from, to, x); }

V emit_random_bits(Builder& b, V seed, V offset, V position) {
  using I64 = scalar::I64<Builder>;
  return scalar::random_bits(I64{&b, seed}, I64{&b, offset}, I64{&b, position}).v;
}

V emit_random_bits(Builder& b, V seed, V offset, V position, V misaligned) {
  using I64 = scalar::I64<Builder>;
  V aligned = scalar::random_bits_aligned(I64{&b, seed}, I64{&b, offset}, I64{&b, position}).v;
  return b.select_rare<LaneType::kI32>(misaligned, {aligned, aligned}, [&] {
    V any = emit_random_bits(b, seed, offset, position);
    return std::array<V, 2>{any, any};
  })[0];
}

LaneType register_lane(DType t) { return scalar::register_lane(t); }
LaneType storage_lane(DType t) { return scalar::storage_lane(t); }

V from_storage(Builder& b, DType t, V x) { return scalar::emit_load(b, t, x); }
V to_storage(Builder& b, DType t, V x) { return scalar::emit_store(b, t, x); }

uint64_t register_bits(Scalar v, DType t) {
  HostBuilder b;
  const DType from = v.category() == Category::kFloat ? DType::kFloat64 : DType::kInt64;
  return scalar::emit_cast(b, from, t, HostBuilder::V{v.bits()}).bits;
}

uint64_t storage_bits(Scalar v, DType t) {
  HostBuilder b;
  return scalar::emit_store(b, t, HostBuilder::V{register_bits(v, t)}).bits;
}

}  // namespace smolder::jit::cpu
