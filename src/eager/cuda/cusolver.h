// The parts of cuSOLVER and cuBLAS that we call, declared here so that a build needs no CUDA headers, and opened at run
// time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "smolder/core/cuda/api.h"

namespace smolder::eager::cuda {

using SolverStatus = int;
using SolverHandle = struct OpaqueSolver*;
using SolverParams = struct OpaqueSolverParams*;  ///< cusolverDnParams_t
using JacobiInfo = struct OpaqueJacobi*;          ///< gesvdjInfo_t
using BlasHandle = struct OpaqueBlas*;
using DriverStream = smolder::cuda::DriverStream;

enum class SolverType : int { kFloat32 = 0, kFloat64 = 1 };  ///< cudaDataType
enum class BlasFill : int { kLower = 0, kUpper = 1 };        ///< cublasFillMode_t
enum class BlasTransposed : int { kNo = 0, kYes = 1 };       ///< cublasOperation_t
enum class BlasSide : int { kLeft = 0, kRight = 1 };         ///< cublasSideMode_t
enum class BlasDiagonal : int { kAny = 0, kOnes = 1 };       ///< cublasDiagType_t
enum class SolverVectors : int { kNo = 0, kYes = 1 };        ///< cusolverEigMode_t
using Jobs = signed char;                                    ///< 'A', 'S' or 'N' of gesvd

/// FUNCTION(member, name in the library, parameters). Matrices are column-major.
#define SMOLDER_CUSOLVER(FUNCTION)                                                                                     \
  FUNCTION(create, cusolverDnCreate, (SolverHandle*))                                                                  \
  FUNCTION(set_stream, cusolverDnSetStream, (SolverHandle, DriverStream))                                              \
  FUNCTION(create_params, cusolverDnCreateParams, (SolverParams*))                                                     \
  FUNCTION(create_jacobi, cusolverDnCreateGesvdjInfo, (JacobiInfo*))                                                   \
  FUNCTION(                                                                                                            \
      potrf_bytes, cusolverDnXpotrf_bufferSize,                                                                        \
      (SolverHandle, SolverParams, BlasFill, int64_t, SolverType, const void*, int64_t, SolverType, size_t*, size_t*)) \
  FUNCTION(potrf, cusolverDnXpotrf,                                                                                    \
           (SolverHandle, SolverParams, BlasFill, int64_t, SolverType, void*, int64_t, SolverType, void*, size_t,      \
            void*, size_t, int*))                                                                                      \
  FUNCTION(                                                                                                            \
      getrf_bytes, cusolverDnXgetrf_bufferSize,                                                                        \
      (SolverHandle, SolverParams, int64_t, int64_t, SolverType, const void*, int64_t, SolverType, size_t*, size_t*))  \
  FUNCTION(getrf, cusolverDnXgetrf,                                                                                    \
           (SolverHandle, SolverParams, int64_t, int64_t, SolverType, void*, int64_t, int64_t*, SolverType, void*,     \
            size_t, void*, size_t, int*))                                                                              \
  FUNCTION(getrs, cusolverDnXgetrs,                                                                                    \
           (SolverHandle, SolverParams, BlasTransposed, int64_t, int64_t, SolverType, const void*, int64_t,            \
            const int64_t*, SolverType, void*, int64_t, int*))                                                         \
  FUNCTION(geqrf_bytes, cusolverDnXgeqrf_bufferSize,                                                                   \
           (SolverHandle, SolverParams, int64_t, int64_t, SolverType, const void*, int64_t, SolverType, const void*,   \
            SolverType, size_t*, size_t*))                                                                             \
  FUNCTION(geqrf, cusolverDnXgeqrf,                                                                                    \
           (SolverHandle, SolverParams, int64_t, int64_t, SolverType, void*, int64_t, SolverType, void*, SolverType,   \
            void*, size_t, void*, size_t, int*))                                                                       \
  FUNCTION(syevd_bytes, cusolverDnXsyevd_bufferSize,                                                                   \
           (SolverHandle, SolverParams, SolverVectors, BlasFill, int64_t, SolverType, const void*, int64_t,            \
            SolverType, const void*, SolverType, size_t*, size_t*))                                                    \
  FUNCTION(syevd, cusolverDnXsyevd,                                                                                    \
           (SolverHandle, SolverParams, SolverVectors, BlasFill, int64_t, SolverType, void*, int64_t, SolverType,      \
            void*, SolverType, void*, size_t, void*, size_t, int*))                                                    \
  FUNCTION(                                                                                                            \
      gesvd_bytes, cusolverDnXgesvd_bufferSize,                                                                        \
      (SolverHandle, SolverParams, Jobs, Jobs, int64_t, int64_t, SolverType, const void*, int64_t, SolverType,         \
       const void*, SolverType, const void*, int64_t, SolverType, const void*, int64_t, SolverType, size_t*, size_t*)) \
  FUNCTION(gesvd, cusolverDnXgesvd,                                                                                    \
           (SolverHandle, SolverParams, Jobs, Jobs, int64_t, int64_t, SolverType, void*, int64_t, SolverType, void*,   \
            SolverType, void*, int64_t, SolverType, void*, int64_t, SolverType, void*, size_t, void*, size_t, int*))

/// Those that CUDA 12 has only in its later versions.
#define SMOLDER_CUSOLVER_LATER(FUNCTION)                                                                          \
  FUNCTION(syev_batched_bytes, cusolverDnXsyevBatched_bufferSize,                                                 \
           (SolverHandle, SolverParams, SolverVectors, BlasFill, int64_t, SolverType, const void*, int64_t,       \
            SolverType, const void*, SolverType, size_t*, size_t*, int64_t))                                      \
  FUNCTION(syev_batched, cusolverDnXsyevBatched,                                                                  \
           (SolverHandle, SolverParams, SolverVectors, BlasFill, int64_t, SolverType, void*, int64_t, SolverType, \
            void*, SolverType, void*, size_t, void*, size_t, int*, int64_t))

/// Functions that there are for each type, called cusolverDnS... and cusolverDnD...: (member, the rest of the name,
/// parameters), with void for the type.
#define SMOLDER_CUSOLVER_TYPED(FUNCTION)                                                                              \
  FUNCTION(potrf_batched, potrfBatched, (SolverHandle, BlasFill, int, void**, int, int*, int))                        \
  FUNCTION(orgqr_size, orgqr_bufferSize, (SolverHandle, int, int, int, const void*, int, const void*, int*))          \
  FUNCTION(orgqr, orgqr, (SolverHandle, int, int, int, void*, int, const void*, void*, int, int*))                    \
  FUNCTION(gesvdj_size, gesvdj_bufferSize,                                                                            \
           (SolverHandle, SolverVectors, int, int, int, const void*, int, const void*, const void*, int, const void*, \
            int, int*, JacobiInfo))                                                                                   \
  FUNCTION(gesvdj, gesvdj,                                                                                            \
           (SolverHandle, SolverVectors, int, int, int, void*, int, void*, void*, int, void*, int, void*, int, int*,  \
            JacobiInfo))                                                                                              \
  FUNCTION(gesvdj_batched_size, gesvdjBatched_bufferSize,                                                             \
           (SolverHandle, SolverVectors, int, int, const void*, int, const void*, const void*, int, const void*, int, \
            int*, JacobiInfo, int))                                                                                   \
  FUNCTION(gesvdj_batched, gesvdjBatched,                                                                             \
           (SolverHandle, SolverVectors, int, int, void*, int, void*, void*, int, void*, int, void*, int, int*,       \
            JacobiInfo, int))

#define SMOLDER_CUBLAS(FUNCTION)                   \
  FUNCTION(create, cublasCreate_v2, (BlasHandle*)) \
  FUNCTION(set_stream, cublasSetStream_v2, (BlasHandle, DriverStream))

/// The same, called cublasS... and cublasD...
#define SMOLDER_CUBLAS_TYPED(FUNCTION)                                                                                \
  FUNCTION(getrf_batched, getrfBatched, (BlasHandle, int, void* const*, int, int*, int*, int))                        \
  FUNCTION(getrs_batched, getrsBatched,                                                                               \
           (BlasHandle, BlasTransposed, int, int, const void* const*, int, const int*, void* const*, int, int*, int)) \
  FUNCTION(geqrf_batched, geqrfBatched, (BlasHandle, int, int, void* const*, int, void* const*, int*, int))           \
  FUNCTION(gemm_batched, gemmStridedBatched,                                                                          \
           (BlasHandle, BlasTransposed, BlasTransposed, int, int, int, const void*, const void*, int, long long,      \
            const void*, int, long long, const void*, void*, int, long long, int))                                    \
  FUNCTION(trsm, trsm_v2,                                                                                             \
           (BlasHandle, BlasSide, BlasFill, BlasTransposed, BlasDiagonal, int, int, const void*, const void*, int,    \
            void*, int))                                                                                              \
  FUNCTION(trsm_batched, trsmBatched,                                                                                 \
           (BlasHandle, BlasSide, BlasFill, BlasTransposed, BlasDiagonal, int, int, const void*, const void* const*,  \
            int, void* const*, int, int))

#define SMOLDER_DECLARE(member, name, parameters) SolverStatus(*member) parameters = nullptr;
struct Cusolver {
  SMOLDER_CUSOLVER(SMOLDER_DECLARE)
  SMOLDER_CUSOLVER_LATER(SMOLDER_DECLARE)  ///< may be null
  struct Typed {
    SMOLDER_CUSOLVER_TYPED(SMOLDER_DECLARE)
  };
  Typed typed[2];  ///< by SolverType
};
struct Cublas {
  SMOLDER_CUBLAS(SMOLDER_DECLARE)
  struct Typed {
    SMOLDER_CUBLAS_TYPED(SMOLDER_DECLARE)
  };
  Typed typed[2];
};
#undef SMOLDER_DECLARE

/// Opens both at the first call. Why they are not there, naming the package to install; empty where they are. Never
/// throws.
const std::string& cusolver_missing() noexcept;
/// Throw RuntimeError with that reason.
const Cusolver& cusolver();
const Cublas& cublas();
/// Throws RuntimeError when the call failed.
void check_solver(SolverStatus status, const char* call);

}  // namespace smolder::eager::cuda
