// The dtype of floats whose dtype nothing else says: torch's default dtype, float32 at first.
//
// The rules of the op table know float32 alone there, so that a graph means the same whenever it is read. Where the
// default is another, recording converts what an op would make float32 of: integers beside Python's floats, and those
// of quotients and of functions such as sqrt. Defined in op_default_dtype.cpp, which is above recording.
#pragma once

#include <atomic>
#include <span>
#include <vector>

#include "smolder/core/dtype.h"
#include "smolder/ir/op.h"

namespace smolder {
class Tensor;
}

namespace smolder::lazy {

class Operand;

extern std::atomic<DType> g_default_dtype;

/// The default dtype of the process: as in torch, threads share it.
inline DType default_dtype() { return g_default_dtype.load(std::memory_order_relaxed); }
/// Throws TypeError where `t` is no floating-point dtype.
void set_default_dtype(DType t);

/// The operands as the default dtype has them; empty where the op does not make floats of integers. `kept` holds those
/// that are new for as long as the operands are used.
std::vector<Operand> in_default_dtype(ir::Op op, std::span<const Operand> operands, std::span<const int64_t> attrs,
                                      std::vector<Tensor>& kept);

}  // namespace smolder::lazy
