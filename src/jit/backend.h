// What a code generator offers the compiler: loop IR in, callable kernels out.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smolder/jit/loop_ir.h"

namespace smolder::jit {

/// A loaded kernel. Holding it keeps the code alive.
struct CompiledKernel {
  KernelFn fn = nullptr;
  std::shared_ptr<void> code;
};

/// Object code as the disk cache keeps it.
struct ObjectCode {
  std::string bytes;
  std::string source;  ///< for people: the kernel as text
  double milliseconds = 0;
};

/// One code generator. Thread-safe.
class Backend {
 public:
  virtual ~Backend() = default;
  /// Processor, features, compiler version and flags: part of every cache key.
  virtual std::string target() const = 0;
  /// Compiles kernels to relocatable objects, one each, several at a time.
  virtual std::vector<ObjectCode> compile(std::span<const Kernel* const> kernels) = 0;
  /// Links an object and finds its kernel; ~0.1 ms. Throws ValueError when the bytes are not loadable.
  virtual CompiledKernel load(const std::string& object) = 0;
};

/// The CPU backend: opens the `smolder_llvm` plugin on first call. Throws RuntimeError naming the file
/// and the reason when it can't be opened.
Backend& llvm_backend();

}  // namespace smolder::jit
