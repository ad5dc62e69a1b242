// Kernels that are compiled behind the program, while something slower runs in their place.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "smolder/core/hash.h"
#include "smolder/jit/backend.h"

namespace smolder::jit {

/// When the interpreter runs a device's kernel, whose code is not there yet (SMOLDER_CUDA_INTERPRETER).
enum class StandIns : uint8_t {
  kNone,    ///< nothing: steps wait for the compiler
  kBehind,  ///< the interpreter, until the code is there
  kOnly,    ///< the interpreter, always: nothing is compiled. For tests
  kRandom,  ///< either, drawn for each launch. For tests
};
/// The setting of SMOLDER_CUDA_INTERPRETER, else kBehind; kNone on a thread that waits for kernels. Throws ValueError
/// where it says nothing known.
StandIns stand_ins();
/// While one lives that awaits, what its thread compiles waits for the compiler.
class AwaitedKernels {
 public:
  explicit AwaitedKernels(bool awaited);
  ~AwaitedKernels();
  AwaitedKernels(const AwaitedKernels&) = delete;

 private:
  const bool outer_;
};

/// A kernel that a stand-in runs until its own code is there: the interpreter, or code that was compiled quickly. All
/// give the same bits.
class TieredKernel final : public DeviceKernel {
 public:
  TieredKernel(std::shared_ptr<const DeviceKernel> stand_in, bool draws)
      : computed_(stand_in->num_computed()), draws_(draws), stand_in_(std::move(stand_in)) {}

  void launch(smolder::cuda::Stream& stream, std::span<const KernelArguments> calls) const override;
  size_t num_computed() const override { return computed_; }
  void compute_scalars(uint64_t* scalars) const override;
  /// kOwn: and will from now on.
  Tier tier() const override;
  /// Takes what is faster, unless its own code is there.
  void replace_stand_in(std::shared_ptr<const DeviceKernel> faster);
  void take_over(std::shared_ptr<const DeviceKernel> compiled);
  /// By the stand-in.
  int64_t launches() const { return launches_.load(std::memory_order_relaxed); }

  /// Null once its own code is there.
  std::shared_ptr<const DeviceKernel> stand_in() const;

 private:
  const size_t computed_;
  const bool draws_;
  std::shared_ptr<const DeviceKernel> own_;  ///< written once, before `compiled_`
  std::atomic<const DeviceKernel*> compiled_ = nullptr;
  mutable std::atomic<int64_t> launches_ = 0;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const DeviceKernel> stand_in_;  ///< under `mutex_`; null once the code is there
};

/// Compiles on a few threads of its own, what was launched most before what was launched less. Thread-safe.
class KernelQueue {
  struct Shared;

 public:
  static KernelQueue& get();

  struct Job {
    Backend* target;
    Kernel kernel;
    std::string text, target_name, where;  ///< of the kernel; as in the cache's key
    Hash128 key;
  };
  /// A kernel that `stand_in` runs until the job is done; that of an earlier job of the same kernel, if it is waiting.
  /// Null where there can be no thread.
  std::shared_ptr<const DeviceKernel> submit(Job job, std::shared_ptr<const DeviceKernel> stand_in);
  /// Does other work, before any kernel. False where there can be no thread; what it throws is told once.
  bool submit(std::function<void()> work);
  /// While one lives no program is begun: a thread waits for its own, and processors are few.
  class Pause {
   public:
    Pause();
    ~Pause();
    Pause(const Pause&) = delete;

   private:
    const std::shared_ptr<Shared> shared_;
  };
  /// Returns when nothing waits. Throws what check_interrupt() throws.
  void wait();
  /// Ends the threads after the programs at hand. Nothing is compiled from then on.
  void finish();

 private:
  class OverForks;
  KernelQueue();
  static void work(const std::shared_ptr<Shared>& shared);
  bool start(const std::shared_ptr<Shared>& shared);
  std::shared_ptr<Shared> shared_;  ///< also held by threads
};

}  // namespace smolder::jit
