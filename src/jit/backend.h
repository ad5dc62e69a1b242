// Interface of a code generator to the compiler: loop IR in, callable kernels out.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smolder/jit/loop/loop_ir.h"

namespace smolder::cuda {
class Stream;
}

namespace smolder::jit {

/// The arguments of one call of a kernel on a device.
struct KernelArguments {
  void* const* buffers;  ///< addresses on the device; null for scratch rows
  const int64_t* ints;
  const uint64_t* scalars;  ///< these and the error words lie on the device
  uint32_t* errors;
  int64_t positions;  ///< the product of the root loop's extents
};

/// A kernel on a device. Thread-safe.
class DeviceKernel {
 public:
  virtual ~DeviceKernel() = default;
  /// Queues runs of the whole root loop, which are independent: side by side where the kernel is compiled for that
  /// (`Kernel::together`). Integers are read before this returns, scalars and error words when the kernel runs.
  virtual void launch(smolder::cuda::Stream& stream, std::span<const KernelArguments> calls) const = 0;
  void launch(smolder::cuda::Stream& stream, const KernelArguments& call) const { launch(stream, {&call, 1}); }
  /// How many words, behind the scalars of the kernel, the host computes of them, and what computes them.
  virtual size_t num_computed() const { return 0; }
  virtual void compute_scalars(uint64_t* /*scalars*/) const {}
  /// The code that runs it, from the slowest: the first two stand in until its own is there.
  enum class Tier : uint8_t { kInterpreted, kQuick, kOwn };
  virtual Tier tier() const { return Tier::kOwn; }
};

/// A loaded kernel: a function of the host, or a kernel on a device. Holding it keeps the code alive.
struct CompiledKernel {
  KernelFn fn = nullptr;
  std::shared_ptr<void> code = nullptr;
  std::shared_ptr<const DeviceKernel> device = nullptr;
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
  /// Compiles kernels to objects, one each, several at a time.
  virtual std::vector<ObjectCode> compile(std::span<const Kernel* const> kernels) = 0;
  /// Links an object and finds its kernel; ~0.1 ms. Throws ValueError when the bytes are not loadable.
  virtual CompiledKernel load(const std::string& object) = 0;
  /// An interpreter that runs a kernel on a device with the same bits, without a compiler; null where there is none.
  virtual std::shared_ptr<const DeviceKernel> stand_in(const Kernel& /*kernel*/) { return nullptr; }
  /// How many times longer that takes for a call of such sizes than for one of as much work for all of the device.
  virtual double slowness(const Kernel& /*kernel*/, std::span<const int64_t> /*ints*/, int64_t /*positions*/,
                          int /*device*/) {
    return 1;
  }
  /// The same by code that is slower, and there sooner; null where there is none. It is kept nowhere.
  virtual std::shared_ptr<const DeviceKernel> compile_quickly(const Kernel& /*kernel*/) { return nullptr; }
};

/// The CPU backend: opens the `smolder_llvm` plugin on first call. Throws RuntimeError naming the file
/// and the reason when it can't be opened.
Backend& llvm_backend();

}  // namespace smolder::jit
