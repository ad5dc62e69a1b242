// Kernels to code for one architecture of NVIDIA's devices: loop IR to CUDA C++ to NVRTC. Needs no device.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "smolder/jit/backend.h"

namespace smolder::jit::cuda {

/// How long a kernel may be compiled. kQuick: a fifth to two thirds of the time, where it has less than some 500
/// statements. Threads take elements one at a time, whatever the sizes, and NVRTC optimizes less. The bits are the
/// same.
enum class Effort : bool { kQuick, kFull };

/// A program, and the parts of it that are one kernel each.
struct ProgramText {
  std::string text;
  std::vector<std::string> kernels;
  std::vector<std::string> entries;  ///< names of their functions, which profilers show: their ops, and _k0, _k1, ...
};
/// The kernels must be valid.
ProgramText program_text(std::span<const Kernel* const> kernels, Effort effort = Effort::kFull);

/// Kernels that one program holds at most: they share what a program costs, and one thread compiles them.
inline constexpr size_t kProgramKernels = 8;

/// The form in which a compiled kernel is stored.
struct Object {
  std::string entry, kernel, cubin;  ///< name of the function, `to_bytes` of the kernel, the program's code
};
std::string to_bytes(const Object& object);
/// The object whose bytes these are. Throws ValueError when they are none's.
Object object_from_bytes(const std::string& bytes);

/// Whether a product and the sum that takes it may be rounded as one, which no bits of a generated kernel may depend
/// on.
enum class Contraction : bool { kNone, kAllowed };
/// Everything that what is compiled depends on but the kernel: architecture, compiler and flags.
std::string target_of(const std::string& arch, Contraction contraction = Contraction::kNone);
/// The flags that a program is compiled with, as one text.
std::string flags_text(Contraction contraction);
/// Code of a whole program.
std::string compile_text(const std::string& text, const std::string& arch, Contraction contraction = Contraction::kNone,
                         Effort effort = Effort::kFull);
/// Verifies the kernels, then compiles each `kProgramKernels` as a program.
std::vector<ObjectCode> compile(std::span<const Kernel* const> kernels, const std::string& arch,
                                Effort effort = Effort::kFull);

}  // namespace smolder::jit::cuda
