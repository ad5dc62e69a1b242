// The few types and functions of the CUDA driver and of NVRTC that we call, declared here so that a build needs no
// CUDA headers. Their binary interface is versioned by name (`_v2`) and does not change.
#pragma once

#include <cstddef>
#include <cstdint>

namespace smolder::cuda {

/// A driver's or NVRTC's status; 0 is success.
using Status = int;
using DriverDevice = int;
using Address = unsigned long long;
using DriverContext = struct OpaqueContext*;
using DriverStream = struct OpaqueStream*;
using DriverEvent = struct OpaqueEvent*;
using DriverLibrary = struct OpaqueLibrary*;
using DriverGraph = struct OpaqueGraph*;
using DriverGraphNode = struct OpaqueGraphNode*;
using DriverGraphExec = struct OpaqueGraphExec*;
using DriverKernel = struct OpaqueKernel*;  ///< CUkernel; launches take it where they take a CUfunction
using NvrtcProgram = struct OpaqueProgram*;

inline constexpr Status kOutOfMemory = 2;
inline constexpr Status kNotReady = 600;
inline constexpr Status kPeerAccessIsEnabled = 704;

/// CUdevice_attribute
enum class DeviceAttribute : int {
  kThreadsPerBlock = 1,
  kSharedPerBlock = 8,
  kWarpSize = 10,
  kClockKilohertz = 13,
  kMultiprocessors = 16,
  kIsIntegrated = 18,
  kMemoryClockKilohertz = 36,
  kMemoryBusBits = 37,
  kL2Bytes = 38,
  kThreadsPerMultiprocessor = 39,
  kCapabilityMajor = 75,
  kCapabilityMinor = 76,
  kSharedPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kIsMultiGpuBoard = 84,
  kSharedPerBlockOptIn = 97,
  kMapsMemory = 102,
};
/// CUmemGenericAllocationHandle
using MemoryHandle = unsigned long long;
/// CUmemLocation
struct MemoryLocation {
  static constexpr int kDevice = 1;
  int type;
  int device;
};
/// CUmemAllocationProp
struct MemoryProperties {
  static constexpr int kPinned = 1;
  int type;
  int shareable_as;
  MemoryLocation location;
  void* of_windows;
  unsigned char flags[8];
};
static_assert(sizeof(MemoryProperties) == 32);
/// CUmemAccessDesc
struct MemoryAccess {
  static constexpr int kReadWrite = 3;
  MemoryLocation location;
  int allowed;
};
static_assert(sizeof(MemoryAccess) == 12);

/// CUDA_MEMSET_NODE_PARAMS
struct FillParameters {
  Address to;
  size_t pitch;
  unsigned value, element_bytes;
  size_t width, height;
};
static_assert(sizeof(FillParameters) == 40);

/// CUfunction_attribute
enum class KernelAttribute : int { kLocalBytes = 3, kRegisters = 4, kMaxDynamicShared = 8 };

/// CUlaunchAttribute
struct LaunchAttribute {
  static constexpr int kProgrammaticSerialization = 6;  ///< programmatic dependent launch
  int id;
  int padding;
  union {
    char bytes[64];
    int allowed;
  } value;
};
static_assert(sizeof(LaunchAttribute) == 72);

/// CUlaunchConfig
struct LaunchConfig {
  unsigned grid[3];
  unsigned block[3];
  unsigned shared_bytes;
  DriverStream stream;
  LaunchAttribute* attributes;
  unsigned num_attributes;
};
static_assert(sizeof(LaunchConfig) == 56);

/// The driver's functions: FUNCTION(member, name in the library, parameters).
#define SMOLDER_CUDA_DRIVER(FUNCTION)                                                                               \
  FUNCTION(init, cuInit, (unsigned))                                                                                \
  FUNCTION(driver_version, cuDriverGetVersion, (int*))                                                              \
  FUNCTION(error_name, cuGetErrorName, (Status, const char**))                                                      \
  FUNCTION(error_string, cuGetErrorString, (Status, const char**))                                                  \
  FUNCTION(device_count, cuDeviceGetCount, (int*))                                                                  \
  FUNCTION(device_get, cuDeviceGet, (DriverDevice*, int))                                                           \
  FUNCTION(device_name, cuDeviceGetName, (char*, int, DriverDevice))                                                \
  FUNCTION(device_attribute, cuDeviceGetAttribute, (int*, DeviceAttribute, DriverDevice))                           \
  FUNCTION(device_total_memory, cuDeviceTotalMem_v2, (size_t*, DriverDevice))                                       \
  FUNCTION(context_retain, cuDevicePrimaryCtxRetain, (DriverContext*, DriverDevice))                                \
  FUNCTION(context_set, cuCtxSetCurrent, (DriverContext))                                                           \
  FUNCTION(context_synchronize, cuCtxSynchronize, ())                                                               \
  FUNCTION(can_access_peer, cuDeviceCanAccessPeer, (int*, DriverDevice, DriverDevice))                              \
  FUNCTION(enable_peer_access, cuCtxEnablePeerAccess, (DriverContext, unsigned))                                    \
  FUNCTION(stream_create, cuStreamCreate, (DriverStream*, unsigned))                                                \
  FUNCTION(stream_destroy, cuStreamDestroy_v2, (DriverStream))                                                      \
  FUNCTION(stream_synchronize, cuStreamSynchronize, (DriverStream))                                                 \
  FUNCTION(stream_query, cuStreamQuery, (DriverStream))                                                             \
  FUNCTION(stream_wait, cuStreamWaitEvent, (DriverStream, DriverEvent, unsigned))                                   \
  FUNCTION(event_create, cuEventCreate, (DriverEvent*, unsigned))                                                   \
  FUNCTION(event_destroy, cuEventDestroy_v2, (DriverEvent))                                                         \
  FUNCTION(event_record, cuEventRecord, (DriverEvent, DriverStream))                                                \
  FUNCTION(event_synchronize, cuEventSynchronize, (DriverEvent))                                                    \
  FUNCTION(event_query, cuEventQuery, (DriverEvent))                                                                \
  FUNCTION(event_elapsed, cuEventElapsedTime, (float*, DriverEvent, DriverEvent))                                   \
  FUNCTION(library_load, cuLibraryLoadData,                                                                         \
           (DriverLibrary*, const void*, int*, void**, unsigned, int*, void**, unsigned))                           \
  FUNCTION(library_unload, cuLibraryUnload, (DriverLibrary))                                                        \
  FUNCTION(library_kernel, cuLibraryGetKernel, (DriverKernel*, DriverLibrary, const char*))                         \
  FUNCTION(kernel_attribute, cuKernelGetAttribute, (int*, KernelAttribute, DriverKernel, DriverDevice))             \
  FUNCTION(kernel_set_attribute, cuKernelSetAttribute, (KernelAttribute, int, DriverKernel, DriverDevice))          \
  FUNCTION(launch, cuLaunchKernelEx, (const LaunchConfig*, DriverKernel, void**, void**))                           \
  FUNCTION(memory_info, cuMemGetInfo_v2, (size_t*, size_t*))                                                        \
  FUNCTION(allocate, cuMemAlloc_v2, (Address*, size_t))                                                             \
  FUNCTION(release, cuMemFree_v2, (Address))                                                                        \
  FUNCTION(memory_granularity, cuMemGetAllocationGranularity, (size_t*, const MemoryProperties*, int))              \
  FUNCTION(address_reserve, cuMemAddressReserve, (Address*, size_t, size_t, Address, unsigned long long))           \
  FUNCTION(memory_create, cuMemCreate, (MemoryHandle*, size_t, const MemoryProperties*, unsigned long long))        \
  FUNCTION(memory_release, cuMemRelease, (MemoryHandle))                                                            \
  FUNCTION(memory_map, cuMemMap, (Address, size_t, size_t, MemoryHandle, unsigned long long))                       \
  FUNCTION(memory_unmap, cuMemUnmap, (Address, size_t))                                                             \
  FUNCTION(memory_set_access, cuMemSetAccess, (Address, size_t, const MemoryAccess*, size_t))                       \
  FUNCTION(pointer_attribute, cuPointerGetAttribute, (void*, int, Address))                                         \
  FUNCTION(profiler_start, cuProfilerStart, ())                                                                     \
  FUNCTION(profiler_stop, cuProfilerStop, ())                                                                       \
  FUNCTION(allocate_host, cuMemHostAlloc, (void**, size_t, unsigned))                                               \
  FUNCTION(release_host, cuMemFreeHost, (void*))                                                                    \
  FUNCTION(copy_to_device, cuMemcpyHtoDAsync_v2, (Address, const void*, size_t, DriverStream))                      \
  FUNCTION(copy_to_host, cuMemcpyDtoHAsync_v2, (void*, Address, size_t, DriverStream))                              \
  FUNCTION(copy_on_device, cuMemcpyDtoDAsync_v2, (Address, Address, size_t, DriverStream))                          \
  FUNCTION(copy_to_peer, cuMemcpyPeerAsync, (Address, DriverContext, Address, DriverContext, size_t, DriverStream)) \
  FUNCTION(fill_bytes, cuMemsetD8Async, (Address, unsigned char, size_t, DriverStream))                             \
  FUNCTION(capture_begin, cuStreamBeginCapture_v2, (DriverStream, int))                                             \
  FUNCTION(capture_end, cuStreamEndCapture, (DriverStream, DriverGraph*))                                           \
  FUNCTION(capture_info, cuStreamGetCaptureInfo_v2,                                                                 \
           (DriverStream, int*, uint64_t*, DriverGraph*, const DriverGraphNode**, size_t*))                         \
  FUNCTION(node_type, cuGraphNodeGetType, (DriverGraphNode, int*))                                                  \
  FUNCTION(graph_nodes, cuGraphGetNodes, (DriverGraph, DriverGraphNode*, size_t*))                                  \
  FUNCTION(graph_roots, cuGraphGetRootNodes, (DriverGraph, DriverGraphNode*, size_t*))                              \
  FUNCTION(node_dependencies, cuGraphNodeGetDependencies, (DriverGraphNode, DriverGraphNode*, size_t*))             \
  FUNCTION(node_dependents, cuGraphNodeGetDependentNodes, (DriverGraphNode, DriverGraphNode*, size_t*))             \
  FUNCTION(node_destroy, cuGraphDestroyNode, (DriverGraphNode))                                                     \
  FUNCTION(fill_parameters, cuGraphMemsetNodeGetParams, (DriverGraphNode, FillParameters*))                         \
  FUNCTION(add_fill, cuGraphAddMemsetNode,                                                                          \
           (DriverGraphNode*, DriverGraph, const DriverGraphNode*, size_t, const FillParameters*, DriverContext))   \
  FUNCTION(add_dependencies, cuGraphAddDependencies,                                                                \
           (DriverGraph, const DriverGraphNode*, const DriverGraphNode*, size_t))                                   \
  FUNCTION(graph_instantiate, cuGraphInstantiateWithFlags, (DriverGraphExec*, DriverGraph, uint64_t))               \
  FUNCTION(graph_launch, cuGraphLaunch, (DriverGraphExec, DriverStream))                                            \
  FUNCTION(graph_exec_destroy, cuGraphExecDestroy, (DriverGraphExec))                                               \
  FUNCTION(graph_destroy, cuGraphDestroy, (DriverGraph))

#define SMOLDER_CUDA_NVRTC(FUNCTION)                                                               \
  FUNCTION(version, nvrtcVersion, (int*, int*))                                                    \
  FUNCTION(create, nvrtcCreateProgram,                                                             \
           (NvrtcProgram*, const char*, const char*, int, const char* const*, const char* const*)) \
  FUNCTION(destroy, nvrtcDestroyProgram, (NvrtcProgram*))                                          \
  FUNCTION(compile, nvrtcCompileProgram, (NvrtcProgram, int, const char* const*))                  \
  FUNCTION(log_size, nvrtcGetProgramLogSize, (NvrtcProgram, size_t*))                              \
  FUNCTION(log, nvrtcGetProgramLog, (NvrtcProgram, char*))                                         \
  FUNCTION(cubin_size, nvrtcGetCUBINSize, (NvrtcProgram, size_t*))                                 \
  FUNCTION(cubin, nvrtcGetCUBIN, (NvrtcProgram, char*))

}  // namespace smolder::cuda
