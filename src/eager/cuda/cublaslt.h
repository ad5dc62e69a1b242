// The part of cuBLASLt that we call, declared here so that a build needs no CUDA headers, and opened at run time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "smolder/core/cuda/api.h"

namespace smolder::eager::cuda {

using LtStatus = int;
using LtHandle = struct OpaqueLt*;
using LtDesc = struct OpaqueLtDesc*;
using LtLayout = struct OpaqueLtLayout*;
using LtPreference = struct OpaqueLtPreference*;
using DriverStream = smolder::cuda::DriverStream;

/// cublasLtMatmulAlgo_t
struct LtAlgo {
  uint64_t data[8];
};
/// cublasLtMatmulHeuristicResult_t
struct LtChoice {
  LtAlgo algo{};
  size_t workspace_bytes = 0;
  LtStatus state = 0;
  float waves = 0;
  int reserved[4] = {};
};

enum class LtType : int { kFloat32 = 0, kFloat64 = 1, kFloat16 = 2, kBFloat16 = 14 };  ///< cudaDataType
enum class LtCompute : int { kFloat32 = 68, kFloat64 = 70, kTF32 = 77 };               ///< cublasComputeType_t
/// cublasLtMatmulDescAttributes_t, cublasLtMatrixLayoutAttribute_t, cublasLtMatmulPreferenceAttributes_t
enum class LtDescAttribute : int { kTransposeA = 3, kTransposeB = 4, kEpilogue = 7, kBias = 8 };
enum class LtEpilogue : uint32_t { kNone = 1, kBias = 4 };  ///< cublasLtEpilogue_t
enum class LtLayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };
enum class LtPreferenceAttribute : int {
  kWorkspaceBytes = 1,
  kReductionSchemes = 3,
  kAlignmentA = 5,
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8,
};

inline constexpr uint32_t kReduceInComputeType = 2;  ///< CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
/// cublasLtMatmulAlgoConfigAttributes_t
enum class LtAlgoAttribute : int { kSplits = 2, kReduction = 3, kSwizzle = 4 };

/// FUNCTION(member, name in the library, parameters).
#define SMOLDER_CUBLASLT(FUNCTION)                                                                                   \
  FUNCTION(create, cublasLtCreate, (LtHandle*))                                                                      \
  FUNCTION(desc_create, cublasLtMatmulDescCreate, (LtDesc*, LtCompute, LtType))                                      \
  FUNCTION(desc_set, cublasLtMatmulDescSetAttribute, (LtDesc, LtDescAttribute, const void*, size_t))                 \
  FUNCTION(desc_destroy, cublasLtMatmulDescDestroy, (LtDesc))                                                        \
  FUNCTION(layout_create, cublasLtMatrixLayoutCreate, (LtLayout*, LtType, uint64_t, uint64_t, int64_t))              \
  FUNCTION(layout_set, cublasLtMatrixLayoutSetAttribute, (LtLayout, LtLayoutAttribute, const void*, size_t))         \
  FUNCTION(layout_destroy, cublasLtMatrixLayoutDestroy, (LtLayout))                                                  \
  FUNCTION(preference_create, cublasLtMatmulPreferenceCreate, (LtPreference*))                                       \
  FUNCTION(preference_set, cublasLtMatmulPreferenceSetAttribute,                                                     \
           (LtPreference, LtPreferenceAttribute, const void*, size_t))                                               \
  FUNCTION(preference_destroy, cublasLtMatmulPreferenceDestroy, (LtPreference))                                      \
  FUNCTION(choose, cublasLtMatmulAlgoGetHeuristic,                                                                   \
           (LtHandle, LtDesc, LtLayout, LtLayout, LtLayout, LtLayout, LtPreference, int, LtChoice*, int*))           \
  FUNCTION(supports, cublasLtMatmulAlgoCheck,                                                                        \
           (LtHandle, LtDesc, LtLayout, LtLayout, LtLayout, LtLayout, const LtAlgo*, LtChoice*))                     \
  FUNCTION(algo_get, cublasLtMatmulAlgoConfigGetAttribute, (const LtAlgo*, LtAlgoAttribute, void*, size_t, size_t*)) \
  FUNCTION(algo_set, cublasLtMatmulAlgoConfigSetAttribute, (LtAlgo*, LtAlgoAttribute, const void*, size_t))          \
  FUNCTION(multiply, cublasLtMatmul,                                                                                 \
           (LtHandle, LtDesc, const void*, const void*, LtLayout, const void*, LtLayout, const void*, const void*,   \
            LtLayout, void*, LtLayout, const LtAlgo*, void*, size_t, DriverStream))

struct CublasLt {
#define SMOLDER_DECLARE(member, name, parameters) LtStatus(*member) parameters = nullptr;
  SMOLDER_CUBLASLT(SMOLDER_DECLARE)
#undef SMOLDER_DECLARE
  const char* (*status_string)(LtStatus) = nullptr;
  size_t (*version)() = nullptr;
};

/// Throws RuntimeError naming the package to install when it is not found.
const CublasLt& cublaslt();
/// Throws RuntimeError when the call failed.
void check_lt(LtStatus status, const char* call);

}  // namespace smolder::eager::cuda
