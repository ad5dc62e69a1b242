// Kernels to object code for one processor.
#pragma once

#include <memory>
#include <string>

#include "smolder/jit/backend.h"
#include "smolder/jit/llvm/emit.h"

namespace smolder::jit::cpu {

/// The processor that code is made for.
struct Target {
  std::string triple;    ///< "x86_64-pc-linux-gnu"
  std::string cpu;       ///< LLVM's name of the processor
  std::string features;  ///< LLVM's "+avx2,-sse4a,..."; those of the cpu when empty
};

/// This processor ("native"), or less of it: x86-64-v3 or x86-64-v4. Throws ValueError when the name is unknown or
/// this processor cannot run such code, NotImplementedError when the processor is older than what generated code
/// needs (x86-64-v3).
Target host_target(const std::string& cpu);

/// Thread-safe.
class Compiler {
 public:
  explicit Compiler(Target target);
  ~Compiler();

  /// Verifies the kernel, then makes an object of it.
  ObjectCode compile(const Kernel& kernel);
  /// The same as assembly.
  std::string assembly(const Kernel& kernel);
  const Target& target() const { return target_; }
  const Traits& traits() const { return traits_; }

 private:
  class Machine;
  class Lease;

  Target target_;
  Traits traits_;
  struct Pool;
  std::unique_ptr<Pool> pool_;
};

}  // namespace smolder::jit::cpu
