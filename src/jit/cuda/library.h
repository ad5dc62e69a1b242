// Steps of a plan on CUDA that are not generated kernels.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "smolder/jit/library/library.h"

namespace smolder::jit::cuda {

class NativeDevice;

/// The primitives that kernels written by hand run; null for others.
std::unique_ptr<BoundLibrary> bind_native(NativeDevice& device, ir::Op op, const std::vector<LibraryView>& inputs,
                                          const std::vector<LibraryView>& outputs, const std::vector<int64_t>& attrs,
                                          bool guarded = false);

/// Whether some operands of a primitive that loop IR does not say stay on the device: `bind_library` knows the op.
bool has_kernel(ir::Op op);
/// As DeviceTarget::missing_for.
std::string missing_for(ir::Op op);

/// Convolutions go to cuDNN where it is and takes them, attention and what `bind_native` knows to kernels of our own,
/// other products of floats to cuBLASLt. All else runs on the host, between copies that wait for the device and are
/// counted (fallbacks.bytes_copied).
std::unique_ptr<BoundLibrary> bind_library(int device, ir::Op op, std::vector<LibraryView> inputs,
                                           std::vector<LibraryView> outputs, std::vector<int64_t> attrs, bool guarded);

}  // namespace smolder::jit::cuda
