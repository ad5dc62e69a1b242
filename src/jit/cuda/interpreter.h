// Launches of the interpreter on a device, which runs kernels whose code is not compiled yet:
// docs/architecture/cuda_first_use.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "smolder/core/cuda/driver.h"
#include "smolder/jit/backend.h"
#include "smolder/jit/cuda/byte_code.h"

namespace smolder::jit::cuda {

/// The interpreter's functions: for calls whose words an argument has room for, and whose slots shared memory has, and
/// for others.
inline constexpr const char *kInterpreterEntry = "interpret", *kLargeInterpreterEntry = "interpret_large";

/// A launch, its argument, and of a large call the words that lie in memory of the device.
class InterpreterLaunch {
 public:
  InterpreterLaunch(const ByteCode& code, const KernelArguments& call, const smolder::cuda::DeviceInfo& device);

  bool empty() const { return shape_.grid[0] == 0; }
  /// Whether kLargeInterpreterEntry runs it.
  bool is_large() const { return !words_.empty(); }
  const smolder::cuda::LaunchShape& shape() const { return shape_; }
  std::vector<int64_t>& argument() { return argument_; }
  void place_code(const void* address) { argument_[0] = reinterpret_cast<int64_t>(address); }
  /// Memory of the device that rows of groups need, in bytes. Then `place_scratch`.
  int64_t scratch_bytes() const { return scratch_bytes_; }
  void place_scratch(const void* address);
  /// Memory of the device that slots need, of a large call; 0: shared memory has them. Then `place_slots`.
  int64_t slots_bytes() const { return slots_bytes_; }
  void place_slots(const void* address);
  /// A large call's, to be copied to the device when scratch memory is placed. Then `place_words`.
  std::span<const int64_t> words() const { return words_; }
  void place_words(const void* address);

 private:
  void fill_words(const ByteCode& code, const KernelArguments& call, std::span<const int64_t> ints);
  void plan_groups(const ByteCode& code, std::span<const int64_t> ints, int64_t positions,
                   const smolder::cuda::DeviceInfo& device);
  void plan_columns(const ByteCode& code, int64_t elements, const smolder::cuda::DeviceInfo& device);
  void plan_slots(const ByteCode& code, const smolder::cuda::DeviceInfo& device);

  smolder::cuda::LaunchShape shape_;
  std::vector<int64_t> argument_;
  std::vector<int64_t> words_;  ///< of a large call
  int64_t scratch_bytes_ = 0, slots_bytes_ = 0;
  std::vector<size_t> placed_;  ///< words that hold offsets into the scratch memory
};

/// A kernel that the interpreter runs; null where it is not compiled for the device's architecture: then it is from now
/// on, behind the program.
std::shared_ptr<const DeviceKernel> interpreted(const Kernel& kernel, const std::string& arch);

/// How many times longer the interpreter takes for a call of few threads than for as much work of all the device's.
double interpreter_slowness(const Kernel& kernel, std::span<const int64_t> ints, int64_t positions,
                            const smolder::cuda::DeviceInfo& device);

}  // namespace smolder::jit::cuda
