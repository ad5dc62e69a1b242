// NVRTC, NVIDIA's compiler of CUDA C++ as a library, opened when first asked for. It needs no driver and no device.
#pragma once

#include <span>
#include <string>

namespace smolder::cuda {

/// Whether it was found. Never throws.
bool has_nvrtc() noexcept;
/// Why not, and what to install; empty when it was found.
std::string nvrtc_missing();
/// "13.0". Throws RuntimeError when there is none, as `nvrtc_compile` does.
std::string nvrtc_version();
bool nvrtc_is_at_least(int major, int minor);
/// Opens NVRTC and lets it compile a first program, as work of preload.h.
void preload_nvrtc();
/// Makes code for the architecture ("sm_90") of a program that includes no headers. Throws InternalError with the
/// compiler's log when it does not compile. Thread-safe, and parallel.
std::string nvrtc_compile(const std::string& source, const std::string& arch, std::span<const char* const> flags);

}  // namespace smolder::cuda
