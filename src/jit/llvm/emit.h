// Loop IR to LLVM IR. The IR is final: no pass runs over it but the code generator's own, so it is written the
// way the machine should run it.
#pragma once

#include <memory>

#include "smolder/jit/loop/loop_ir.h"

namespace llvm {
class LLVMContext;
class Module;
}  // namespace llvm

namespace smolder::jit::cpu {

/// Name of the function in every module; its type is KernelFn.
inline constexpr const char* kEntry = "smolder_kernel";

/// Operations that the target does well.
struct Traits {
  bool masked_narrow = false;  ///< masked loads and stores of 8- and 16-bit lanes
  bool masked_wide = false;    ///< of 32- and 64-bit lanes
  bool cheap_masks = false;    ///< a masked operation costs what a plain one does
  bool gather = false;         ///< gathers and scatters of 32- and 64-bit lanes
  bool streaming = false;      ///< non-temporal stores, ordered by sfence
};

/// A module of one function. The kernel must be valid.
std::unique_ptr<llvm::Module> emit_module(llvm::LLVMContext& context, const Kernel& kernel, const Traits& traits);

}  // namespace smolder::jit::cpu
