#include "jit/cuda_emulator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "smolder/core/error.h"
#include "smolder/jit/cuda/compiler.h"
#include "smolder/jit/cuda/device/native.h"
#include "smolder/jit/cuda/device/prelude.h"
#include "smolder/jit/cuda/interpreter.h"
#include "smolder/jit/cuda/launch.h"
#include "smolder/jit/cuda/numbers.h"
#include "smolder/jit/cuda/together.h"

namespace smolder::jit::test {

namespace {

class EmulatedFunction final : public cuda::NativeFunction {
 public:
  EmulatedFunction(std::shared_ptr<const HostProgram> program, std::string entry)
      : program_(std::move(program)), entry_(std::move(entry)) {}
  void launch(int64_t blocks, int threads, const cuda::Words& arguments, const cuda::LaunchOptions&) const override {
    const unsigned grid[] = {static_cast<unsigned>(blocks), 1}, block[] = {static_cast<unsigned>(threads), 1};
    program_->run(entry_, arguments.all().data(), grid, block);
  }

 private:
  std::shared_ptr<const HostProgram> program_;
  std::string entry_;
};

}  // namespace

CudaEmulator::CudaEmulator(std::span<const Kernel* const> kernels, const std::string& compiler, cuda::Effort effort)
    : kernels_(kernels), text_(cuda::program_text(kernels, effort)), program_(text_.text, compiler) {}

void CudaEmulator::launch(size_t kernel, void* const* buffers, const int64_t* ints, const uint64_t* scalars,
                          uint32_t* errors, int64_t positions) const {
  const Kernel& k = *kernels_[kernel];
  std::vector<uint64_t> words;
  const KernelArguments call = with_numbers(kernel, {buffers, ints, scalars, errors, positions}, words);
  cuda::Launch launch(cuda::Schedule(k), call, emulated_device());
  if (launch.empty()) return;
  SMOLDER_CHECK(launch.scratch_bytes() == 0, RuntimeError, "scratch rows beyond shared memory are not emulated");
  const smolder::cuda::LaunchShape& shape = launch.plan().shape;
  program_.run(text_.entries[kernel], launch.words().data(), shape.grid, shape.block);
}

KernelArguments CudaEmulator::with_numbers(size_t kernel, KernelArguments call, std::vector<uint64_t>& words) const {
  const Kernel& k = *kernels_[kernel];
  const cuda::Numbers numbers(k);
  words.resize(k.scalars.size() + numbers.results().size());
  std::copy_n(call.scalars, k.scalars.size(), words.begin());
  numbers.compute(words.data());
  call.scalars = words.data();
  return call;
}

size_t CudaEmulator::launch(size_t kernel, std::span<const KernelArguments> calls) const {
  const Kernel& k = *kernels_[kernel];
  std::vector<std::vector<uint64_t>> words(calls.size());
  std::vector<KernelArguments> own;
  for (size_t i = 0; i < calls.size(); ++i) own.push_back(with_numbers(kernel, calls[i], words[i]));
  const std::vector<cuda::TableLaunch> launches = cuda::launch_together(cuda::Schedule(k), own, emulated_device());
  for (const cuda::TableLaunch& t : launches) {
    program_.run(text_.entries[kernel], t.words.data(), t.shape.grid, t.shape.block);
  }
  return launches.size();
}

const InterpreterEmulator& InterpreterEmulator::get() {
  static const InterpreterEmulator only(SMOLDER_HOST_CXX);
  return only;
}

void InterpreterEmulator::launch(const Kernel& k, void* const* buffers, const int64_t* ints, const uint64_t* scalars,
                                 uint32_t* errors, int64_t positions) const {
  const cuda::ByteCode code = cuda::encode(k);
  const cuda::Schedule schedule(k);
  const cuda::Numbers numbers(schedule.kernel);
  std::vector<uint64_t> all(k.scalars.size() + numbers.results().size());
  std::copy_n(scalars, k.scalars.size(), all.begin());
  numbers.compute(all.data());
  cuda::InterpreterLaunch launch(code, {buffers, ints, all.data(), errors, positions}, emulated_device());
  if (launch.empty()) return;
  std::vector<char> scratch(static_cast<size_t>(launch.scratch_bytes()), '\xa5');
  launch.place_code(code.code.data());
  launch.place_scratch(scratch.data());
  std::vector<char> slots(static_cast<size_t>(launch.slots_bytes()), '\xa5');
  if (!slots.empty()) launch.place_slots(slots.data());
  if (launch.is_large()) launch.place_words(launch.words().data());
  const char* const entry = launch.is_large() ? cuda::kLargeInterpreterEntry : cuda::kInterpreterEntry;
  program_.run(entry, launch.argument().data(), launch.shape().grid, launch.shape().block);
}

cuda::NativeRef EmulatedDevice::function(const std::string& program, const std::string& entry) {
  std::shared_ptr<const HostProgram>& known = programs_[program];
  if (!known) {
    known =
        std::make_shared<const HostProgram>(std::string(cuda::kPrelude) + cuda::kNativePrelude + program, compiler_);
  }
  return std::make_shared<const EmulatedFunction>(known, entry);
}

std::vector<std::string> EmulatedDevice::programs() const {
  std::vector<std::string> all;
  for (const auto& [text, program] : programs_) all.push_back(text);
  return all;
}

}  // namespace smolder::jit::test
