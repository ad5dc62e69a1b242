// The code generator for NVIDIA's devices.
#pragma once

#include <string>

#include "smolder/jit/backend.h"

namespace smolder::jit::cuda {

/// Makes code for a device and runs it there. Throws RuntimeError when there is no such device or no NVRTC.
Backend& cuda_backend(int device);
/// Makes code for an architecture ("sm_90") that no device here need have. Throws RuntimeError without NVRTC.
Backend& cuda_backend_for(const std::string& arch);

}  // namespace smolder::jit::cuda
