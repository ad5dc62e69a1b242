// The parts of cuFFT that we call, declared here so that a build needs no CUDA headers, and opened at run time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "smolder/core/cuda/api.h"
#include "smolder/core/dims.h"

namespace smolder::eager::cuda {

using FftStatus = int;
using FftHandle = int;  ///< cufftHandle

enum class FftType : int { kReal32 = 0, kReal64 = 1, kComplex32 = 4, kComplex64 = 5 };  ///< cudaDataType
enum class FftDirection : int { kForward = -1, kInverse = 1 };

/// FUNCTION(member, name in the library, parameters).
#define SMOLDER_CUFFT(FUNCTION)                                                                                      \
  FUNCTION(create, cufftCreate, (FftHandle*))                                                                        \
  FUNCTION(destroy, cufftDestroy, (FftHandle))                                                                       \
  FUNCTION(set_auto_allocation, cufftSetAutoAllocation, (FftHandle, int))                                            \
  FUNCTION(make_plan, cufftXtMakePlanMany,                                                                           \
           (FftHandle, int, long long*, long long*, long long, long long, FftType, long long*, long long, long long, \
            FftType, long long, size_t*, FftType))                                                                   \
  FUNCTION(set_work_area, cufftSetWorkArea, (FftHandle, void*))                                                      \
  FUNCTION(set_stream, cufftSetStream, (FftHandle, smolder::cuda::DriverStream))                                     \
  FUNCTION(execute, cufftXtExec, (FftHandle, void*, void*, FftDirection))

struct Cufft {
#define SMOLDER_DECLARE(member, name, parameters) FftStatus(*member) parameters = nullptr;
  SMOLDER_CUFFT(SMOLDER_DECLARE)
#undef SMOLDER_DECLARE
};

/// Why there is no cuFFT, and what to install; empty when there is. Opens it.
const std::string& cufft_missing() noexcept;
/// Throws RuntimeError when there is none.
const Cufft& cufft();

/// Transforms of rows, one beside the other: up to three axes, sums that nothing scales.
struct FftProblem {
  /// How numbers of one side lie: `step` apart along the last axis, the others as its `shape` says.
  struct Side {
    FftType type;
    Dims shape;
    int64_t step, row;  ///< numbers between neighbours, and between rows
    friend bool operator==(const Side&, const Side&) = default;
  };
  Dims lengths;
  Side in, out;
  int64_t rows;
  friend bool operator==(const FftProblem&, const FftProblem&) = default;
};

/// A plan of cuFFT, which chose its kernels. Those made last are kept. Thread-safe.
class FftPlan {
 public:
  /// Throws RuntimeError when there is no cuFFT, or it does not take these sizes.
  static std::shared_ptr<const FftPlan> get(const FftProblem& problem, int device);
  virtual ~FftPlan() = default;
  /// Queues it, with working memory that is let go then. What real numbers are made of is overwritten.
  virtual void run(void* in, void* out, FftDirection direction) const = 0;
};

}  // namespace smolder::eager::cuda
