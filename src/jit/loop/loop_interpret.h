// Runs loop IR directly, one scalar at a time, in the order that the canonical reductions prescribe: what
// generated code is checked against, and a code generator for where there is none.
#pragma once

#include <cstdint>
#include <span>

#include "smolder/jit/backend.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

/// Runs positions [begin, end) of a verified kernel's root loop; arguments as KernelFn's. `order`: a device's,
/// where that is not the canonical one. A scheduled kernel runs as its groups of threads do, with memory of theirs
/// for shared rows. Throws InternalError where two threads touch a place, one of them writes it, and no barrier lies
/// between: by which thread has which iteration, whatever order they would come in.
void interpret(const Kernel& k, void* const* buffers, const int64_t* ints, const uint64_t* scalars, uint32_t* errors,
               int64_t begin, int64_t end, const ReduceOrder* order = nullptr);

/// One primitive on numbers, with the bits that kernels give: operands and result are values of dtype `t` (or
/// what `t` gives: bool for comparisons; the condition of `where` is bool).
Scalar evaluate(ir::Op op, DType t, std::span<const Scalar> operands);

/// A primitive or a cast as kernels compute it. `values` and their dtypes are by local, as registers hold them.
uint64_t evaluate(const Stmt& s, std::span<const DType> dtypes, std::span<const uint64_t> values);

/// The interpreter as a code generator: an object is a kernel's text. At most a few thousand kernels may be
/// loaded at once.
Backend& interpret_backend();

}  // namespace smolder::jit
