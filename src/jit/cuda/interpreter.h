// Launches of the interpreter on a device, which runs kernels whose code is not compiled yet:
// docs/architecture/cuda_first_use.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "smolder/core/cuda/driver.h"
#include "smolder/jit/backend.h"
#include "smolder/jit/cuda/byte_code.h"

namespace smolder::jit::cuda {

/// The interpreter's one function.
inline constexpr const char* kInterpreterEntry = "interpret";

/// Whether the interpreter has room for a kernel's values and numbers, whatever the sizes.
bool may_interpret(const ByteCode& code, const smolder::cuda::DeviceInfo& device);

/// A launch and the words of its argument.
class InterpreterLaunch {
 public:
  InterpreterLaunch(const ByteCode& code, const KernelArguments& call, const smolder::cuda::DeviceInfo& device);

  bool empty() const { return shape_.grid[0] == 0; }
  const smolder::cuda::LaunchShape& shape() const { return shape_; }
  std::vector<int64_t>& words() { return words_; }
  void place_code(const void* address) { words_[0] = reinterpret_cast<int64_t>(address); }
  /// Memory of the device that rows of groups need, in bytes. Then `place_scratch`.
  int64_t scratch_bytes() const { return scratch_bytes_; }
  void place_scratch(const void* address);

 private:
  void plan_groups(const ByteCode& code, std::span<const int64_t> ints, int64_t positions,
                   const smolder::cuda::DeviceInfo& device);
  void plan_columns(const ByteCode& code, int64_t elements, const smolder::cuda::DeviceInfo& device);

  smolder::cuda::LaunchShape shape_;
  std::vector<int64_t> words_;
  int64_t scratch_bytes_ = 0;
  std::vector<size_t> placed_;  ///< words that hold offsets into the scratch memory
};

/// A kernel that the interpreter runs; null where it can't, or is not compiled for the device's architecture: then it
/// is from now on, behind the program.
std::shared_ptr<const DeviceKernel> interpreted(const Kernel& kernel, const std::string& arch,
                                                const smolder::cuda::DeviceInfo& device);

}  // namespace smolder::jit::cuda
