// A CUDA driver whose devices are the host, for tests where there is none: what is queued is done at once, a captured
// graph is a list of what to do, and a cubin is the text that nvrtc.cpp was given. Of api.h's functions all are here.
// A kernel, copy or fill that is given memory of another device than its stream's fails, as does work on a stream of
// another device than the current one.
//
//   SMOLDER_CUDA_HOST_DEVICES how many devices there are (default 1)
//   SMOLDER_CUDA_HOST_PEERS   0: no device may access another's memory
//   SMOLDER_CUDA_HOST_MB      memory of each device (default 1024)
//   SMOLDER_CUDA_HOST_MAPS    0: no device can map memory
//   SMOLDER_CUDA_HOST_LATE    how many pieces of work the device is behind the host (default 0)
//   SMOLDER_CUDA_HOST_CACHE   where compiled programs are kept
#include "smolder/core/cuda/api.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "cuda_host/host_program.h"

#define API extern "C" __attribute__((visibility("default")))

namespace smolder::cuda {

struct OpaqueContext {
  int device = 0;
  bool retained = false;
  std::map<Address, size_t> blocks;
  size_t used = 0;
  std::set<DriverContext> peers;
};
struct OpaqueGraph {
  int device;
  std::vector<std::function<void()>> work;
};
struct OpaqueGraphExec : OpaqueGraph {};
struct OpaqueStream {
  int device;
};
struct OpaqueEvent {
  int device;
  DriverStream recorded_on = nullptr;
  std::chrono::steady_clock::time_point recorded_at;
};
struct OpaqueLibrary {
  std::string text;
  std::unique_ptr<cuda_host::HostProgram> program;
};
struct OpaqueKernel {
  DriverLibrary library;
  std::string name;
};

namespace {

std::atomic<int64_t> g_spent_ns{0};

constexpr Status kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400, kNotFound = 500, kIllegalAddress = 700,
                 kNotSupported = 801;

size_t number_from(const char* variable, size_t otherwise) {
  const char* const asked = std::getenv(variable);
  return asked ? std::strtoul(asked, nullptr, 10) : otherwise;
}

thread_local DriverContext t_current = nullptr;

/// The devices' state. Held while anything runs: kernels of one program share the machine's threads.
struct Host {
  std::recursive_mutex mutex;
  std::vector<OpaqueContext> devices{std::max<size_t>(number_from("SMOLDER_CUDA_HOST_DEVICES", 1), 1)};
  std::map<Address, size_t> pinned;
  const size_t total = number_from("SMOLDER_CUDA_HOST_MB", 1024) << 20;  ///< of each device
  DriverGraph captured = nullptr;                                        ///< by the thread that holds the mutex
  std::set<DriverStream> captured_lanes;                                 ///< streams that take part
  std::deque<std::function<void()>> late;                                ///< queued, not run
  const size_t most_late = number_from("SMOLDER_CUDA_HOST_LATE", 0);     ///< pieces of work that the device is behind

  static Host& get() {
    static auto* const host = [] {
      auto* const made = new Host;
      for (size_t i = 0; i < made->devices.size(); ++i) made->devices[i].device = static_cast<int>(i);
      return made;
    }();
    return *host;
  }
  /// The device that has memory; -1: none.
  int device_of(Address address) const {
    for (const OpaqueContext& d : devices) {
      const auto after = d.blocks.upper_bound(address);
      if (after == d.blocks.begin() || std::prev(after)->first + std::prev(after)->second <= address) continue;
      return d.device;
    }
    return -1;
  }
  bool is_foreign(Address address, int device) const {
    const int at = device_of(address);
    return at >= 0 && at != device;
  }
  /// Whether the current device may be given work on the stream that touches this memory. Holds the mutex.
  Status may_queue(DriverStream stream, std::initializer_list<Address> addresses) {
    if (!t_current) return kInvalidContext;
    if (device_of_stream(stream) != t_current->device) return kInvalidHandle;
    for (const Address a : addresses) {
      if (is_foreign(a, t_current->device)) return kIllegalAddress;
    }
    return 0;
  }
  Status queue(DriverStream stream, std::initializer_list<Address> addresses, std::function<void()> work) {
    const std::lock_guard hold(mutex);
    if (const Status status = may_queue(stream, addresses); status != 0) return status;
    queue(stream, std::move(work));
    return 0;
  }
  /// The legacy default stream is a number, and of the device that is current.
  static int device_of_stream(DriverStream stream) {
    return reinterpret_cast<uintptr_t>(stream) <= 2 ? t_current->device : stream->device;
  }
  void queue(DriverStream stream, std::function<void()> work) {
    const std::lock_guard hold(mutex);
    if (captured && captured_lanes.contains(stream)) {
      captured->work.push_back(std::move(work));
    } else {
      run_late(std::move(work));
    }
  }
  /// In the order of the program, whatever the stream, so that no event has to be looked at.
  void run_late(std::function<void()> work) {
    late.push_back(std::move(work));
    while (late.size() > most_late) run_next();
  }
  void run_next() {
    const std::function<void()> work = std::move(late.front());
    late.pop_front();
    work();
  }
  /// Whoever waits, or takes away what work may use, comes here first.
  static Status catch_up() {
    Host& host = get();
    const std::lock_guard hold(host.mutex);
    while (!host.late.empty()) host.run_next();
    return 0;
  }
};

/// The kernels' program on the host; null where the compiler does not take it, which it says.
cuda_host::HostProgram* program_of(DriverLibrary library) {
  try {
    if (!library->program) {
      library->program = std::make_unique<cuda_host::HostProgram>(library->text, SMOLDER_HOST_CXX);
    }
    return library->program.get();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "CUDA on the host: %s\n", e.what());
    return nullptr;
  }
}

}  // namespace

// -- the device

API Status cuInit(unsigned) { return 0; }
API Status cuDriverGetVersion(int* version) {
  *version = 13000;
  return 0;
}
API Status cuGetErrorName(Status status, const char** name) {
  *name = status == kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_ON_THE_HOST";
  return 0;
}
API Status cuGetErrorString(Status status, const char** text) {
  *text = status == kOutOfMemory ? "out of memory" : "CUDA on the host has no such thing";
  return 0;
}
API Status cuDeviceGetCount(int* count) {
  *count = static_cast<int>(Host::get().devices.size());
  return 0;
}
API Status cuDeviceGet(DriverDevice* device, int index) {
  *device = index;
  return 0;
}
API Status cuDeviceGetName(char* name, int size, DriverDevice) {
  std::snprintf(name, static_cast<size_t>(size), "CUDA on the host");
  return 0;
}
API Status cuDeviceGetAttribute(int* value, DeviceAttribute attribute, DriverDevice) {
  switch (attribute) {
    case DeviceAttribute::kThreadsPerBlock:
      *value = 1024;
      return 0;
    case DeviceAttribute::kSharedPerBlock:
      *value = 48 << 10;
      return 0;
    case DeviceAttribute::kWarpSize:
      *value = 32;
      return 0;
    case DeviceAttribute::kClockKilohertz:
    case DeviceAttribute::kMemoryClockKilohertz:
      *value = 1'000'000;
      return 0;
    case DeviceAttribute::kMemoryBusBits:
      *value = 64;
      return 0;
    case DeviceAttribute::kIsIntegrated:
    case DeviceAttribute::kIsMultiGpuBoard:
      *value = 0;
      return 0;
    case DeviceAttribute::kMapsMemory: {
      const char* const asked = std::getenv("SMOLDER_CUDA_HOST_MAPS");
      *value = !asked || std::strcmp(asked, "0") != 0;
      return 0;
    }
    case DeviceAttribute::kSharedPerMultiprocessor:
      *value = 228 << 10;
      return 0;
    case DeviceAttribute::kRegistersPerMultiprocessor:
      *value = 65536;
      return 0;
    case DeviceAttribute::kMultiprocessors:
      *value = 4;
      return 0;
    case DeviceAttribute::kL2Bytes:
      *value = 50 << 20;
      return 0;
    case DeviceAttribute::kThreadsPerMultiprocessor:
      *value = 2048;
      return 0;
    case DeviceAttribute::kCapabilityMajor:
      *value = 8;
      return 0;
    case DeviceAttribute::kCapabilityMinor:
      *value = 0;
      return 0;
    case DeviceAttribute::kSharedPerBlockOptIn:
      *value = 227 << 10;
      return 0;
  }
  return kInvalidValue;
}
API Status cuDeviceTotalMem_v2(size_t* bytes, DriverDevice) {
  *bytes = Host::get().total;
  return 0;
}
API Status cuDevicePrimaryCtxRetain(DriverContext* context, DriverDevice device) {
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  *context = &host.devices[static_cast<size_t>(device)];
  (*context)->retained = true;
  return 0;
}
API Status cuCtxSetCurrent(DriverContext context) {
  t_current = context;
  return 0;
}
API Status cuDeviceCanAccessPeer(int* may, DriverDevice device, DriverDevice other) {
  *may = device != other && number_from("SMOLDER_CUDA_HOST_PEERS", 1) != 0;
  return 0;
}
API Status cuCtxEnablePeerAccess(DriverContext other, unsigned) {
  if (!t_current) return kInvalidContext;
  const std::lock_guard hold(Host::get().mutex);
  return t_current->peers.insert(other).second ? 0 : kPeerAccessIsEnabled;
}
API Status cuCtxSynchronize() { return Host::catch_up(); }

// -- streams and events

API Status cuStreamCreate(DriverStream* stream, unsigned) {
  if (!t_current) return kInvalidContext;
  *stream = new OpaqueStream{t_current->device};
  return 0;
}
API Status cuStreamDestroy_v2(DriverStream stream) {
  Host::catch_up();
  delete stream;
  return 0;
}
API Status cuStreamSynchronize(DriverStream) { return Host::catch_up(); }
API Status cuStreamQuery(DriverStream) { return Host::catch_up(); }
API Status cuStreamWaitEvent(DriverStream stream, DriverEvent event, unsigned) {
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  if (host.captured && host.captured_lanes.contains(event->recorded_on)) host.captured_lanes.insert(stream);
  return 0;
}
API Status cuEventCreate(DriverEvent* event, unsigned) {
  if (!t_current) return kInvalidContext;
  *event = new OpaqueEvent{t_current->device, nullptr, {}};
  return 0;
}
API Status cuEventDestroy_v2(DriverEvent event) {
  delete event;
  return 0;
}
API Status cuEventRecord(DriverEvent event, DriverStream stream) {
  using Clock = std::chrono::steady_clock;
  if (Host::device_of_stream(stream) != event->device) return kInvalidHandle;
  event->recorded_on = stream;
  const int64_t spent = g_spent_ns;
  event->recorded_at = spent ? Clock::time_point(std::chrono::nanoseconds(spent)) : Clock::now();
  return 0;
}
API Status cuEventSynchronize(DriverEvent) { return Host::catch_up(); }
API Status cuEventQuery(DriverEvent) { return Host::catch_up(); }
API Status cuEventElapsedTime(float* milliseconds, DriverEvent start, DriverEvent end) {
  if (start->device != end->device) return kInvalidHandle;
  *milliseconds = std::chrono::duration<float, std::milli>(end->recorded_at - start->recorded_at).count();
  return 0;
}

// -- kernels

API Status cuLibraryLoadData(DriverLibrary* library, const void* text, int*, void**, unsigned, int*, void**, unsigned) {
  const std::string_view code = static_cast<const char*>(text);
  constexpr Status kNoBinaryForDevice = 209;
  if (code.starts_with('\x7f')) return kNoBinaryForDevice;  // machine code, as a build brings for real devices
  *library = new OpaqueLibrary{std::string(code), nullptr};
  return 0;
}
API Status cuLibraryUnload(DriverLibrary library) {
  Host::catch_up();
  delete library;
  return 0;
}
API Status cuLibraryGetKernel(DriverKernel* kernel, DriverLibrary library, const char* name) {
  *kernel = new OpaqueKernel{library, name};  // the driver's own too live as long as it
  return 0;
}
API Status cuKernelGetAttribute(int* value, KernelAttribute, DriverKernel, DriverDevice) {
  *value = 0;
  return 0;
}
API Status cuKernelSetAttribute(KernelAttribute, int, DriverKernel, DriverDevice) { return 0; }
/// Whether a device would take it.
bool is_shape(const LaunchConfig& c) {
  constexpr unsigned kThreads = 1024, kBlocks = 0x7fff'ffff, kMoreBlocks = 0xffff, kShared = 227 << 10;
  const auto within = [](unsigned n, unsigned most) { return n >= 1 && n <= most; };
  return within(c.grid[0], kBlocks) && within(c.grid[1], kMoreBlocks) && within(c.grid[2], kMoreBlocks) &&
         within(c.block[0], kThreads) && within(c.block[1], kThreads) &&
         within(c.block[0] * c.block[1] * c.block[2], kThreads) && c.shared_bytes <= kShared;
}

API Status cuLaunchKernelEx(const LaunchConfig* config, DriverKernel kernel, void** parameters, void**) {
  static const bool idle = number_from("SMOLDER_CUDA_HOST_IDLE", 0) != 0;  // for who wants only the kernels' texts
  if (idle) return is_shape(*config) ? 0 : kInvalidValue;
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  const cuda_host::HostProgram* const program = program_of(kernel->library);
  if (!program) return kNotSupported;
  if (!is_shape(*config)) return kInvalidValue;
  std::vector<std::max_align_t> arguments;
  try {
    const size_t bytes = program->argument_bytes(kernel->name);
    arguments.resize(bytes / sizeof(std::max_align_t) + 1);
    std::memcpy(arguments.data(), parameters[0], bytes);
  } catch (const std::exception&) {
    return kNotFound;
  }
  if (const Status status = host.may_queue(config->stream, {}); status != 0) return status;
  // Words that are addresses of another device's memory: no number is likely to be one.
  const auto* const words = reinterpret_cast<const Address*>(arguments.data());
  for (size_t i = 0; host.devices.size() > 1 && i < program->argument_bytes(kernel->name) / sizeof(Address); ++i) {
    if (host.is_foreign(words[i], t_current->device)) return kIllegalAddress;
  }
  const LaunchConfig shape = *config;
  host.queue(config->stream, [=] { program->run(kernel->name, arguments.data(), shape.grid, shape.block); });
  return 0;
}

// -- memory

API Status cuMemGetInfo_v2(size_t* free, size_t* total) {
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  if (!t_current) return kInvalidContext;
  *total = host.total;
  *free = host.total - t_current->used;
  return 0;
}
API Status cuMemAlloc_v2(Address* address, size_t bytes) {
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  if (!t_current) return kInvalidContext;
  if (t_current->used + bytes > host.total) return kOutOfMemory;
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<Address>(memory);
  t_current->blocks[*address] = bytes;
  t_current->used += bytes;
  return 0;
}
API Status cuMemFree_v2(Address address) {
  Host::catch_up();
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  const int at = host.device_of(address);
  if (at < 0) return kInvalidValue;
  OpaqueContext& device = host.devices[static_cast<size_t>(at)];
  const auto block = device.blocks.find(address);
  if (block == device.blocks.end()) return kInvalidValue;
  munmap(reinterpret_cast<void*>(address), block->second);
  device.used -= block->second;
  device.blocks.erase(block);
  return 0;
}
API Status cuMemGetAllocationGranularity(size_t* granularity, const MemoryProperties*, int) {
  *granularity = 2 << 20;
  return 0;
}
API Status cuMemAddressReserve(Address* address, size_t bytes, size_t, Address, unsigned long long) {
  void* const range = mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return kOutOfMemory;
  *address = reinterpret_cast<Address>(range);
  return 0;
}
API Status cuMemCreate(MemoryHandle* handle, size_t bytes, const MemoryProperties* of, unsigned long long) {
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  OpaqueContext& device = host.devices[static_cast<size_t>(of->location.device)];
  if (device.used + bytes > host.total) return kOutOfMemory;
  device.used += bytes;
  *handle =
      bytes | static_cast<MemoryHandle>(of->location.device);  // nothing else is asked of it; sizes are of whole pages
  return 0;
}
API Status cuMemRelease(MemoryHandle) { return 0; }  // what is mapped lives on
API Status cuMemMap(Address address, size_t bytes, size_t, MemoryHandle handle, unsigned long long) {
  const size_t device = handle & 0xfff;
  if (handle - device != bytes) return kInvalidValue;
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  host.devices[device].blocks[address] = bytes;
  return 0;
}
API Status cuMemSetAccess(Address address, size_t bytes, const MemoryAccess* access, size_t) {
  if (access->allowed != MemoryAccess::kReadWrite) return kInvalidValue;
  return mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE) == 0 ? 0 : kInvalidValue;
}
API Status cuMemUnmap(Address address, size_t bytes) {
  Host::catch_up();
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  const int at = host.device_of(address);
  if (at < 0) return kInvalidValue;
  OpaqueContext& device = host.devices[static_cast<size_t>(at)];
  const auto block = device.blocks.find(address);
  if (block == device.blocks.end() || block->second != bytes) return kInvalidValue;
  device.blocks.erase(block);
  device.used -= bytes;
  void* const memory = reinterpret_cast<void*>(address);
  madvise(memory, bytes, MADV_DONTNEED);
  return mprotect(memory, bytes, PROT_NONE) == 0 ? 0 : kInvalidValue;
}
API Status cuMemHostAlloc(void** memory, size_t bytes, unsigned) {
  if (!t_current) return kInvalidContext;
  *memory = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (!*memory) return kOutOfMemory;
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  host.pinned[reinterpret_cast<Address>(*memory)] = bytes;
  return 0;
}
API Status cuMemFreeHost(void* memory) {
  Host::catch_up();
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  host.pinned.erase(reinterpret_cast<Address>(memory));
  std::free(memory);
  return 0;
}
API Status cuPointerGetAttribute(void* value, int, Address address) {  // the only one asked for: the memory's type
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  const auto after = host.pinned.upper_bound(address);
  const bool is_pinned = after != host.pinned.begin() && std::prev(after)->first + std::prev(after)->second > address;
  if (!is_pinned && host.device_of(address) < 0) return kInvalidValue;
  *static_cast<unsigned*>(value) = is_pinned ? 1 : 2;
  return 0;
}
API Status cuProfilerStart() { return 0; }
API Status cuProfilerStop() { return 0; }
API Status cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, DriverStream stream) {
  // Memory that is not pinned has been read when the call returns.
  unsigned type = 0;
  const bool is_read_now = cuPointerGetAttribute(&type, 0, reinterpret_cast<Address>(from)) != 0;
  const Status status = Host::get().queue(stream, {to}, [=] { std::memcpy(reinterpret_cast<void*>(to), from, bytes); });
  if (is_read_now) Host::catch_up();
  return status;
}
API Status cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, DriverStream stream) {
  return Host::get().queue(stream, {from}, [=] { std::memcpy(to, reinterpret_cast<void*>(from), bytes); });
}
API Status cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, DriverStream stream) {
  return Host::get().queue(stream, {to, from},
                           [=] { std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
}
API Status cuMemcpyPeerAsync(Address to, DriverContext to_device, Address from, DriverContext from_device, size_t bytes,
                             DriverStream stream) {
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  if (host.is_foreign(to, to_device->device) || host.is_foreign(from, from_device->device)) return kIllegalAddress;
  return host.queue(stream, {},
                    [=] { std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
}
API Status cuMemsetD8Async(Address to, unsigned char value, size_t bytes, DriverStream stream) {
  return Host::get().queue(stream, {to}, [=] { std::memset(reinterpret_cast<void*>(to), value, bytes); });
}

// -- graphs

API Status cuStreamBeginCapture_v2(DriverStream stream, int) {
  Host& host = Host::get();
  host.mutex.lock();  // until the capture ends
  host.captured = new OpaqueGraph{stream->device, {}};
  host.captured_lanes = {stream};
  return 0;
}
API Status cuStreamEndCapture(DriverStream, DriverGraph* graph) {
  Host& host = Host::get();
  *graph = host.captured;
  host.captured = nullptr;
  host.captured_lanes.clear();
  host.mutex.unlock();
  return 0;
}
API Status cuStreamGetCaptureInfo_v2(DriverStream, int* status, uint64_t*, DriverGraph*, const DriverGraphNode**,
                                     size_t* count) {
  *status = Host::get().captured != nullptr;
  *count = 0;
  return 0;
}
API Status cuGraphNodeGetType(DriverGraphNode, int*) { return kNotSupported; }
// Nothing is told of a graph's nodes, and what fills memory stays where it is.
API Status cuGraphGetNodes(DriverGraph, DriverGraphNode*, size_t* count) {
  *count = 0;
  return 0;
}
API Status cuGraphGetRootNodes(DriverGraph, DriverGraphNode*, size_t* count) {
  *count = 0;
  return 0;
}
API Status cuGraphNodeGetDependencies(DriverGraphNode, DriverGraphNode*, size_t*) { return kNotSupported; }
API Status cuGraphNodeGetDependentNodes(DriverGraphNode, DriverGraphNode*, size_t*) { return kNotSupported; }
API Status cuGraphDestroyNode(DriverGraphNode) { return kNotSupported; }
API Status cuGraphMemsetNodeGetParams(DriverGraphNode, FillParameters*) { return kNotSupported; }
API Status cuGraphAddMemsetNode(DriverGraphNode*, DriverGraph graph, const DriverGraphNode*, size_t,
                                const FillParameters* fill, DriverContext) {
  auto* const to = reinterpret_cast<char*>(fill->to);
  graph->work.insert(graph->work.begin(),
                     [to, bytes = fill->width * fill->element_bytes] { std::memset(to, 0, bytes); });
  return 0;
}
API Status cuGraphAddDependencies(DriverGraph, const DriverGraphNode*, const DriverGraphNode*, size_t) { return 0; }
API Status cuGraphInstantiateWithFlags(DriverGraphExec* graph, DriverGraph from, uint64_t) {
  *graph = new OpaqueGraphExec{*from};
  return 0;
}
API Status cuGraphLaunch(DriverGraphExec graph, DriverStream stream) {
  const std::lock_guard hold(Host::get().mutex);
  if (Host::device_of_stream(stream) != graph->device) return kInvalidHandle;
  for (const auto& work : graph->work) Host::get().run_late(work);
  return 0;
}
API Status cuGraphExecDestroy(DriverGraphExec graph) {
  delete graph;
  return 0;
}
API Status cuGraphDestroy(DriverGraph graph) {
  delete graph;
  return 0;
}

/// For the libraries beside this one. Once time was spent, it is the device's clock: what takes how long is then known.
API void smolder_host_spend(int64_t nanoseconds) { g_spent_ns += nanoseconds; }
API void smolder_host_queue(DriverStream stream, void (*work)(const void*), const void* argument) {
  Host::get().queue(stream, [=] { work(argument); });
}
/// Why work on this memory cannot be queued; 0: it can.
API Status smolder_host_refuses(DriverStream stream, const void* memory) {
  Host& host = Host::get();
  const std::lock_guard hold(host.mutex);
  return host.may_queue(stream, {reinterpret_cast<Address>(memory)});
}
/// The device that is current; -1: none.
API int smolder_host_device() { return t_current ? t_current->device : -1; }
/// For tests: a bit for each device that a context was made for.
API uint64_t smolder_host_contexts() {
  const std::lock_guard hold(Host::get().mutex);
  uint64_t all = 0;
  for (const OpaqueContext& d : Host::get().devices) all |= uint64_t{d.retained} << d.device;
  return all;
}

#define SAME_TYPE(member, name, parameters) static_assert(std::is_same_v<decltype(&name), Status(*) parameters>);
SMOLDER_CUDA_DRIVER(SAME_TYPE)

}  // namespace smolder::cuda
