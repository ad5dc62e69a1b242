// The part of cuDNN that we call, its backend interface, declared here so that a build needs no CUDA headers, and
// opened at run time.
#pragma once

#include <cstdint>
#include <string>

#include "smolder/core/cuda/api.h"

namespace smolder::eager::cuda {

using DnnStatus = int;
using DnnHandle = struct OpaqueDnn*;
using DnnObject = void*;  ///< cudnnBackendDescriptor_t
using DriverStream = smolder::cuda::DriverStream;

/// cudnnBackendDescriptorType_t
enum class DnnKind : int {
  kPointwise = 0,
  kConvolution = 1,
  kEngine = 2,
  kEngineConfig = 3,
  kHeuristic = 4,
  kPlan = 5,
  kConvolutionForward = 10,
  kConvolutionWeight = 11,
  kConvolutionInput = 12,
  kPointwiseOperation = 13,
  kGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kMatmulOperation = 19,
  kReduction = 21,
  kReductionOperation = 22,
  kReshapeOperation = 31,
  kDevice = 38,
};

/// cudnnBackendAttributeType_t
enum class DnnType : int {
  kHandle = 0,
  kData = 1,
  kBoolean = 2,
  kInt64 = 3,
  kFloat = 4,
  kPointer = 6,
  kConvolutionMode = 7,
  kHeuristicMode = 8,
  kNumericalNote = 11,
  kPointwiseMode = 14,
  kObject = 15,
  kReduction = 18,
  kChar = 24,
};

/// cudnnBackendAttributeName_t
enum class DnnAttribute : int {
  kPointwiseMode = 0,
  kPointwisePrecision = 1,
  kPointwiseAxis = 9,
  kConvolutionPrecision = 100,
  kConvolutionMode = 101,
  kConvolutionDilations = 102,
  kConvolutionStrides = 103,
  kConvolutionPaddingAfter = 104,
  kConvolutionPaddingBefore = 105,
  kConvolutionRank = 106,
  kHeuristicMode = 200,
  kHeuristicGraph = 201,
  kHeuristicResults = 202,
  kHeuristicDevice = 204,
  kConfigEngine = 300,
  kPlanHandle = 400,
  kPlanConfig = 401,
  kPlanWorkspaceBytes = 402,
  kPlanDevice = 407,
  kForwardAlpha = 700,  ///< then beta, the convolution, w, x and y
  kInputAlpha = 706,    ///< then beta, the convolution, w, dx and dy
  kWeightAlpha = 712,   ///< then beta, the convolution, dw, x and dy
  kPointwiseOperation = 750,
  kPointwiseX = 751,
  kPointwiseB = 752,
  kPointwiseY = 753,
  kPointwiseCondition = 758,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorData = 901,
  kTensorShape = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsNumber = 908,
  kVariantIds = 1000,
  kVariantAddresses = 1001,
  kVariantWorkspace = 1003,
  kEngineNotes = 1303,
  kMatmulPrecision = 1500,
  kMatmulA = 1520,
  kMatmulB = 1521,
  kMatmulC = 1522,
  kMatmulOperation = 1523,
  kReduction = 1600,
  kReductionPrecision = 1601,
  kReductionX = 1610,
  kReductionY = 1611,
  kReductionOperation = 1612,
  kReshapeX = 2200,
  kReshapeY = 2201,
  kDeviceText = 2702,
};

enum class DnnData : int { kFloat32 = 0, kFloat16 = 2, kInt32 = 4, kBFloat16 = 9, kBoolean = 11 };  ///< cudnnDataType_t
enum class DnnHeuristic : int { kFallback = 2, kA = 3 };  ///< cudnnBackendHeurMode_t
/// cudnnBackendNumericalNote_t
enum class DnnNote : int { kTensorCore = 0, kDownConvertInputs = 1, kReducedReduction = 2, kNondeterministic = 4 };
/// cudnnPointwiseMode_t
enum class DnnPointwise : int {
  kAdd = 0,
  kMultiply = 1,
  kDivide = 6,
  kSubtract = 9,
  kExp = 13,
  kLog = 15,
  kIdentity = 21,
  kGreaterEqual = 303,
  kIndex = 501,
  kSelect = 601,
};
enum class DnnReduction : int { kAdd = 0, kMax = 3 };  ///< cudnnReduceTensorOp_t

/// FUNCTION(member, name in the library, parameters).
#define SMOLDER_CUDNN(FUNCTION)                                                                                \
  FUNCTION(create, cudnnCreate, (DnnHandle*))                                                                  \
  FUNCTION(set_stream, cudnnSetStream, (DnnHandle, DriverStream))                                              \
  FUNCTION(object_create, cudnnBackendCreateDescriptor, (DnnKind, DnnObject*))                                 \
  FUNCTION(object_destroy, cudnnBackendDestroyDescriptor, (DnnObject))                                         \
  FUNCTION(object_finalize, cudnnBackendFinalize, (DnnObject))                                                 \
  FUNCTION(object_set, cudnnBackendSetAttribute, (DnnObject, DnnAttribute, DnnType, int64_t, const void*))     \
  FUNCTION(object_get, cudnnBackendGetAttribute, (DnnObject, DnnAttribute, DnnType, int64_t, int64_t*, void*)) \
  FUNCTION(execute, cudnnBackendExecute, (DnnHandle, DnnObject, DnnObject))

struct Cudnn {
#define SMOLDER_DECLARE(member, name, parameters) DnnStatus(*member) parameters = nullptr;
  SMOLDER_CUDNN(SMOLDER_DECLARE)
#undef SMOLDER_DECLARE
  const char* (*status_string)(DnnStatus) = nullptr;
  size_t (*version)() = nullptr;
};

/// Opens it at the first call. Throws RuntimeError naming the package to install when it is not found.
const Cudnn& cudnn();
/// 10000 * major + 100 * minor + patch, or 0 where there is none. Never throws.
int64_t cudnn_version() noexcept;
/// Throws RuntimeError when the call failed.
void check_dnn(DnnStatus status, const char* call);

}  // namespace smolder::eager::cuda
