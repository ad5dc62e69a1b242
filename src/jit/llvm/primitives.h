// The elementwise primitives as LLVM IR: ir/scalar, instantiated for the builder.
#pragma once

#include <span>

#include "smolder/core/dtype.h"
#include "smolder/core/scalar.h"
#include "smolder/ir/op.h"
#include "smolder/jit/llvm/builder.h"

namespace smolder::jit::cpu {

/// An elementwise primitive of dtype `t` on registers.
llvm::Value* emit_primitive(Builder& b, ir::Op op, DType t, std::span<llvm::Value* const> args);
llvm::Value* emit_cast(Builder& b, DType from, DType to, llvm::Value* x);
/// `random_bits` of the op table, as int32; the operands are int64.
llvm::Value* emit_random_bits(Builder& b, llvm::Value* seed, llvm::Value* offset, llvm::Value* position);
/// The same for lanes of one seed and offset that hold consecutive positions; `misaligned` is a single condition:
/// whether the first is no multiple of four, which costs four times as much.
llvm::Value* emit_random_bits(Builder& b, llvm::Value* seed, llvm::Value* offset, llvm::Value* position,
                              llvm::Value* misaligned);

/// Lanes as they lie in registers and in memory; a half is rounded already when it is stored.
LaneType register_lane(DType t);
LaneType storage_lane(DType t);
llvm::Value* from_storage(Builder& b, DType t, llvm::Value* x);
llvm::Value* to_storage(Builder& b, DType t, llvm::Value* x);

/// A number as a register of `t` holds it, and as memory does: bits of one lane.
uint64_t register_bits(Scalar v, DType t);
uint64_t storage_bits(Scalar v, DType t);

}  // namespace smolder::jit::cpu
