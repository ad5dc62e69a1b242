// Kernels become machine code: from the cache, or from the code generator.
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "smolder/core/device.h"
#include "smolder/jit/backend.h"
#include "smolder/jit/program.h"

namespace smolder::jit {

/// The code generator of a device: on the CPU LLVM, or the interpreter of loop IR where SMOLDER_BACKEND=interpret.
Backend& backend(Device device = {});
/// Test hook: makes another one the code generator of plans compiled from now on; null takes it back.
void override_backend(Backend* other);

/// The key of a kernel in the cache, but for the target: of its text.
Hash128 key_of(const Kernel& kernel);

/// Finds each distinct kernel in the cache. Fills `Program::kernels`, but for those of `Program::missing`.
void emit(Program& program);

/// Nanoseconds of one core that kernels of a step take together which the interpreter runs until they are compiled:
/// some 50 ms of an H100. There first steps of the corpus took 28 s together with a tenth of it, 18 with it and 21 with
/// ten times as much, when what is waited for was not yet compiled quickly.
inline constexpr double kMostInterpretedWork = 5e8;
/// Which of some missing kernels the step waits for, least work first: those beyond `most` together, and those for
/// which nothing else is there. `work`: of each in a run, in nanoseconds of one core (Launch::work), and more where
/// what stands in has few threads. `stand_in` has something slower run the kernel of a number until it is compiled, and
/// says whether there is such.
std::vector<size_t> kernels_to_wait_for(std::span<const double> work, double most,
                                        const std::function<bool(size_t)>& stand_in);

/// Compiles what is missing, side by side with `others`, on all threads; but for kernels that something slower runs
/// meanwhile, least work first. `work`: of each of Program::kernels, as above. Counts
/// kernels.compiled and kernels.compile_us, and records what was compiled.
void compile_missing(Program& program, std::span<const std::function<void()>> others, std::span<const double> work);

}  // namespace smolder::jit
