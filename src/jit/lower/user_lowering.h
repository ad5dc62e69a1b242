// Loop IR that users write for ops of theirs: the op becomes a kernel of the step, compiled and cached as any other.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smolder/jit/program.h"

namespace smolder::jit {

/// A call as its lowering sees it. Sizes are symbolic where the step's are, and `sizes` calculates with them.
struct LoopCall {
  struct Operand {
    DType dtype = DType::kFloat32;
    ir::SymDims shape, strides;  ///< strides in elements
    ir::Dim offset;              ///< of the first element
    bool number = false;         ///< a run-time number: the next scalar of the kernel, not a buffer
    bool absent = false;         ///< an optional operand that was not given: neither
  };
  ir::SymTable& sizes;
  std::span<const Operand> inputs, outputs;  ///< outputs are row-major
  std::span<const ir::Dim> attrs;            ///< words, as ir::AttrKind says
};

/// Result of a lowering: a kernel in the text form of loop IR (loop_ir.h). Its buffers b0, b1, ... are the inputs
/// that are tensors and then the outputs, its scalars s0, s1, ... the numbers, and n0, n1, ... what `ints` says.
struct LoopKernel {
  std::string text;
  std::vector<ir::Dim> ints;
};
using LoopLowering = std::function<LoopKernel(const LoopCall&)>;

/// Says how an op that a user registered is lowered. It then needs no kernel for the CPU: where it is run by itself,
/// that is made of the same loop IR. Throws RuntimeError when there is a lowering already.
void register_lowering(ir::Op op, LoopLowering lowering);
/// Null when there is none.
const LoopLowering* find_lowering(ir::Op op);
/// The kernel that `lowering` makes of a call. Throws ValueError, naming the op, when its text is none.
std::unique_ptr<KernelCall> lower_call(Program& p, const LibraryCall& call, const LoopLowering& lowering);

}  // namespace smolder::jit
