#include "smolder/jit/cuda/interpreter.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>

#include "smolder/core/counters.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/jit/cuda/device_program.h"
#include "smolder/jit/cuda/numbers.h"
#include "smolder/jit/cuda/schedule.h"
#include "smolder/jit/kernel_queue.h"

namespace smolder::jit::cuda {

namespace {

using smolder::cuda::Stream;

/// The interpreter's program for one architecture. Where it did not come with the library it is compiled once a
/// machine, behind the program.
class InterpreterProgram {
 public:
  static InterpreterProgram& of(const std::string& arch) {
    static std::mutex mutex;
    static auto* all = new std::map<std::string, std::unique_ptr<InterpreterProgram>>;
    const std::lock_guard lock(mutex);
    std::unique_ptr<InterpreterProgram>& one = (*all)[arch];
    if (!one) one.reset(new InterpreterProgram(arch));
    return *one;
  }

  /// For large calls and for others. Null until they are compiled.
  struct Entries {
    smolder::cuda::DriverKernel one = nullptr, large = nullptr;
  };
  Entries functions() {
    std::call_once(asked_, [&] {
      const bool waits = stand_ins() == StandIns::kOnly || stand_ins() == StandIns::kRandom;
      if (waits || program_.is_kept()) return load();
      KernelQueue::get().submit([this] { load(); });
    });
    return {one_.load(std::memory_order_acquire), large_.load(std::memory_order_acquire)};
  }

 private:
  explicit InterpreterProgram(const std::string& arch) : program_(interpreter_text(), kInterpreterEntry, arch) {}
  void load() {
    const smolder::cuda::Module& module = program_.module();
    large_.store(module.kernel(kLargeInterpreterEntry), std::memory_order_release);
    one_.store(module.kernel(kInterpreterEntry), std::memory_order_release);
  }

  DeviceProgram program_;
  std::once_flag asked_;
  std::atomic<smolder::cuda::DriverKernel> one_ = nullptr, large_ = nullptr;  ///< the second is there first
};

class InterpretedKernel final : public DeviceKernel {
 public:
  InterpretedKernel(const Kernel& kernel, InterpreterProgram::Entries functions)
      : kernel_(Schedule(kernel).kernel), numbers_(kernel_), code_(encode(kernel)), functions_(functions) {}

  void launch(Stream& stream, std::span<const KernelArguments> calls) const override {
    const smolder::cuda::DeviceInfo& info = smolder::cuda::device_info(stream.device());
    const void* const code = code_on(stream);
    for (const KernelArguments& call : calls) {
      InterpreterLaunch own(code_, call, info);
      if (own.empty()) continue;
      own.place_code(code);
      const auto allocate = [&](size_t bytes) { return smolder::cuda::allocate_temporary(bytes, stream.device()); };
      BufferRef scratch, slots, words;
      if (own.scratch_bytes() > 0) {
        scratch = allocate(static_cast<size_t>(own.scratch_bytes()));
        own.place_scratch(scratch->data());
      }
      if (own.slots_bytes() > 0) {
        slots = allocate(static_cast<size_t>(own.slots_bytes()));
        own.place_slots(slots->data());
      }
      if (own.is_large()) {
        words = allocate(own.words().size_bytes());
        smolder::cuda::copy_to_device(stream, words->data(), own.words().data(), own.words().size_bytes());
        own.place_words(words->data());
      }
      smolder::cuda::LaunchShape shape = own.shape();
      shape.dependent = info.major >= 9;
      void* parameters[] = {own.argument().data()};
      smolder::cuda::launch(own.is_large() ? functions_.large : functions_.one, stream, shape, parameters);
    }
  }
  size_t num_computed() const override { return numbers_.results().size(); }
  void compute_scalars(uint64_t* scalars) const override { numbers_.compute(scalars); }
  Tier tier() const override { return Tier::kInterpreted; }

 private:
  /// Copied at the first launch.
  const void* code_on(Stream& stream) const {
    const std::lock_guard lock(mutex_);
    Copy& copy = copies_[stream.device()];
    const size_t bytes = code_.code.size() * sizeof(int32_t);
    if (!copy.memory) copy.memory = smolder::cuda::allocate(bytes, stream.device());
    if (!copy.is_there) {
      smolder::cuda::copy_to_device(stream, copy.memory->data(), code_.code.data(), bytes);
      copy.is_there = !smolder::cuda::Rehearsal::current();  // which copies nothing
    }
    return copy.memory->data();
  }

  const Kernel kernel_;
  const Numbers numbers_;
  const ByteCode code_;
  const InterpreterProgram::Entries functions_;
  struct Copy {
    BufferRef memory;
    bool is_there = false;
  };
  mutable std::mutex mutex_;
  mutable std::map<int, Copy> copies_;  ///< by device, under `mutex_`
};

}  // namespace

std::shared_ptr<const DeviceKernel> interpreted(const Kernel& kernel, const std::string& arch) {
  const InterpreterProgram::Entries functions = InterpreterProgram::of(arch).functions();
  static Counter& not_ready = counter("cuda.interpreter_not_ready");
  if (!functions.one) {
    not_ready.add();
    return nullptr;
  }
  return std::make_shared<const InterpretedKernel>(kernel, functions);
}

}  // namespace smolder::jit::cuda
