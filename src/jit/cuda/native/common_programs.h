// Programs written by hand that steps often need: those that the library brings along compiled (shipped_code.h).
#pragma once

#include <string>
#include <vector>

#include "smolder/jit/cuda/compiler.h"

namespace smolder::jit::cuda {

/// A whole program, as `compile_text` takes it.
struct CommonProgram {
  std::string text;
  Contraction contraction = Contraction::kNone;
  std::string arch;  ///< that it is for: the one asked for, or that with all of its instructions, as sm_90a
};
/// For devices of `arch`, such as sm_90: the interpreter of kernels; products, scatters, sorts, scans and copies of
/// common dtypes; attention. What is not among them is compiled when a step needs it.
std::vector<CommonProgram> common_programs(const std::string& arch);

}  // namespace smolder::jit::cuda
