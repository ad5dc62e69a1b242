#include "smolder/core/cuda/driver.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bitset>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "smolder/core/cuda/library.h"
#include "smolder/core/cuda/preload.h"
#include "smolder/core/device.h"
#include "smolder/core/error.h"
#include "smolder/core/fork.h"

namespace smolder::cuda {
namespace {

/// A device whose primary context is ours to use; kept until the process ends, as the driver is.
struct Opened {
  DriverDevice handle = 0;
  DriverContext context = nullptr;
  DeviceInfo info;
  std::once_flag described, retained;
};

struct State {
  Driver functions;
  std::string reason;  ///< why there is none
  std::vector<std::unique_ptr<Opened>> devices;
};

const char* symbol_of(const char* member) {
#define SMOLDER_NAME(name_of_member, name, parameters) \
  if (std::string_view(member) == #name_of_member) return #name;
  SMOLDER_CUDA_DRIVER(SMOLDER_NAME)
#undef SMOLDER_NAME
  return member;
}

std::string text_of(const Driver& functions, Status status) {
  const char *name = nullptr, *text = nullptr;
  if (functions.error_name) functions.error_name(status, &name);
  if (functions.error_string) functions.error_string(status, &text);
  std::string all = name ? name : "error " + std::to_string(status);
  if (text) all += std::string(" (") + text + ")";
  return all;
}

std::atomic<bool> g_forked{false};

class DriverOverForks final : public ForkGuard {
 public:
  DriverOverForks() : ForkGuard(ForkRank::kNoLock) { watch_forks(); }

 private:
  void before_fork() override {}
  void after_fork_in_parent() override {}
  void after_fork_in_child() override { g_forked.store(true); }
};

/// Fills the functions and the list of devices; the reason when that fails.
std::string open(State& s) {
  std::string reason;
  const auto library = find_library({"libcuda.so", {".1", ""}, "install NVIDIA's driver"}, &reason);
  if (!library) return "there is no CUDA driver: " + reason;
  try {
#define SMOLDER_LOAD(member, name, parameters) s.functions.member = library->symbol<Status parameters>(#name);
    SMOLDER_CUDA_DRIVER(SMOLDER_LOAD)
#undef SMOLDER_LOAD
  } catch (const Error& e) {
    return std::string("the CUDA driver is older than CUDA 12: ") + e.what();
  }
  if (const Status status = s.functions.init(0); status != 0) return "cuInit: " + text_of(s.functions, status);
  int count = 0;
  if (const Status status = s.functions.device_count(&count); status != 0) {
    return "cuDeviceGetCount: " + text_of(s.functions, status);
  }
  if (count == 0) return "there is no CUDA device";
  count = std::min(count, kMaxCudaDevices);
  for (int i = 0; i < count; ++i) {
    auto device = std::make_unique<Opened>();
    if (const Status status = s.functions.device_get(&device->handle, i); status != 0) {
      return "cuDeviceGet: " + text_of(s.functions, status);
    }
    s.devices.push_back(std::move(device));
  }
  return "";
}

State& state() {
  static State* opened = [] {
    auto* s = new State;
    try {
      s->reason = open(*s);
    } catch (const std::exception& e) {
      s->reason = e.what();
    }
    if (!s->reason.empty()) s->devices.clear();
    return s;
  }();
  return *opened;
}

/// A device, of which no more may be known than that there is one.
Opened& listed(int device) {
  State& s = state();
  SMOLDER_CHECK(s.reason.empty(), RuntimeError, "CUDA is not available: ", s.reason);
  const auto count = static_cast<int>(s.devices.size());
  SMOLDER_CHECK(device >= 0 && device < count, RuntimeError,
                "CUDA error: invalid device ordinal: there is no cuda:", device, ", there ",
                count == 1 ? "is " : "are ", count, count == 1 ? " device" : " devices");
  SMOLDER_CHECK(!is_forked(), RuntimeError,
                "Cannot re-initialize CUDA in forked subprocess. To use CUDA with multiprocessing, you must use the "
                "'spawn' start method");
  return *s.devices[device];
}

/// A device whose `info` is there. It need not have a context.
Opened& described(int device) {
  Opened& d = listed(device);
  std::call_once(d.described, [&] {
    char name[256] = {};
    SMOLDER_CUDA(device_name, name, static_cast<int>(sizeof name) - 1, d.handle);
    d.info.name = name;
    const auto attribute = [&](DeviceAttribute a) {
      int value = 0;
      SMOLDER_CUDA(device_attribute, &value, a, d.handle);
      return value;
    };
    d.info.major = attribute(DeviceAttribute::kCapabilityMajor);
    d.info.minor = attribute(DeviceAttribute::kCapabilityMinor);
    d.info.multiprocessors = attribute(DeviceAttribute::kMultiprocessors);
    d.info.threads_per_multiprocessor = attribute(DeviceAttribute::kThreadsPerMultiprocessor);
    d.info.shared_bytes = attribute(DeviceAttribute::kSharedPerBlockOptIn);
    d.info.l2_bytes = attribute(DeviceAttribute::kL2Bytes);
    SMOLDER_CUDA(device_total_memory, &d.info.memory_bytes, d.handle);
  });
  return d;
}

/// A device whose context is there.
Opened& opened(int device) {
  Opened& d = listed(device);
  std::call_once(d.retained, [&] {
    static DriverOverForks watched;
    start_preload(device);
    SMOLDER_CUDA(context_retain, &d.context, d.handle);
  });
  return d;
}

thread_local int t_current_device = 0;

Address address_of(const void* p) { return reinterpret_cast<Address>(p); }

}  // namespace

bool is_available() noexcept { return device_count() > 0; }

bool is_forked() noexcept { return g_forked.load(std::memory_order_relaxed); }

std::string unavailable_reason() { return state().reason; }

int device_count() noexcept {
  try {
    return static_cast<int>(state().devices.size());
  } catch (...) {
    return 0;
  }
}

const Driver& driver() {
  State& s = state();
  SMOLDER_CHECK(s.reason.empty(), RuntimeError, "CUDA is not available: ", s.reason);
  return s.functions;
}

void check(Status status, const char* call) {
  if (status == 0) return;
  const std::string text = std::string(symbol_of(call)) + ": " + text_of(state().functions, status);
  if (status == kOutOfMemory) throw OutOfMemoryError(text);
  throw RuntimeError(text);
}

int driver_version() {
  int version = 0;
  SMOLDER_CUDA(driver_version, &version);
  return version;
}

void check_ordinal(int device) { listed(device); }

int current_device() noexcept { return t_current_device; }
void set_current_device(int device) {
  check_ordinal(device);
  t_current_device = device;
}

const DeviceInfo& device_info(int device) { return described(device).info; }

int device_attribute(int device, DeviceAttribute attribute) {
  int value = 0;
  SMOLDER_CUDA(device_attribute, &value, attribute, listed(device).handle);
  return value;
}

// The driver keeps the current context of each thread; setting it anew costs less than asking which it is.
void make_current(int device) { SMOLDER_CUDA(context_set, opened(device).context); }

void synchronize(int device) {
  make_current(device);
  SMOLDER_CUDA(context_synchronize);
}

bool can_access_peer(int device, int other) {
  int may = 0;
  SMOLDER_CUDA(can_access_peer, &may, listed(device).handle, listed(other).handle);
  return may != 0;
}

// -- streams and events

Stream::Stream(int device, bool captured) : device_(device), is_captured_(captured) {
  constexpr unsigned kNonBlocking = 1;
  make_current(device);
  SMOLDER_CUDA(stream_create, &handle_, kNonBlocking);
}
// A destructor has nobody to tell: what fails here has failed before, where it was told.
Stream::~Stream() { driver().stream_destroy(handle_); }
bool Stream::ends_in_kernel() const {
  constexpr int kKernel = 0;
  int status = 0, type = -1;
  uint64_t id = 0;
  DriverGraph graph = nullptr;
  const DriverGraphNode* nodes = nullptr;
  size_t count = 0;
  // Fails where a dependency is of a kind that it does not tell of.
  if (driver().capture_info(handle_, &status, &id, &graph, &nodes, &count) != 0 || count != 1) return false;
  return driver().node_type(nodes[0], &type) == 0 && type == kKernel;
}
void Stream::synchronize() { SMOLDER_CUDA(stream_synchronize, handle_); }
bool Stream::idle() {
  const Status status = driver().stream_query(handle_);
  if (status == kNotReady) return false;
  check(status, "stream_query");
  return true;
}
void Stream::wait(const Event& event) { SMOLDER_CUDA(stream_wait, handle_, event.handle(), 0); }

Event::Event(int device, bool timed) {
  constexpr unsigned kDisableTiming = 2;
  make_current(device);
  SMOLDER_CUDA(event_create, &handle_, timed ? 0 : kDisableTiming);
}
Event::~Event() { driver().event_destroy(handle_); }
void Event::record(Stream& stream) { SMOLDER_CUDA(event_record, handle_, stream.handle()); }
void Event::synchronize() { SMOLDER_CUDA(event_synchronize, handle_); }
bool Event::done() {
  const Status status = driver().event_query(handle_);
  if (status == kNotReady) return false;
  check(status, "event_query");
  return true;
}
double Event::milliseconds_since(const Event& earlier) const {
  float milliseconds = 0;
  SMOLDER_CUDA(event_elapsed, &milliseconds, earlier.handle_, handle_);
  return milliseconds;
}

// -- memory

DeviceMemory::DeviceMemory(int device, size_t bytes) : device_(device), bytes_(bytes) {
  make_current(device);
  SMOLDER_CUDA(allocate, &address_, std::max<size_t>(bytes, 1));
}
DeviceMemory::~DeviceMemory() {
  driver().context_set(opened(device_).context);
  driver().release(address_);
}

std::pair<size_t, size_t> memory_info(int device) {
  make_current(device);
  std::pair<size_t, size_t> info;
  SMOLDER_CUDA(memory_info, &info.first, &info.second);
  return info;
}

PinnedMemory::PinnedMemory(int device, size_t bytes) : bytes_(bytes) {
  constexpr unsigned kPortable = 1;  // pinned for every device
  make_current(device);
  SMOLDER_CUDA(allocate_host, &data_, std::max<size_t>(bytes, 1), kPortable);
}
PinnedMemory::~PinnedMemory() { driver().release_host(data_); }

namespace {
thread_local Rehearsal* t_rehearsal = nullptr;
}

Rehearsal::Rehearsal() { t_rehearsal = this; }
Rehearsal::~Rehearsal() { t_rehearsal = nullptr; }
Rehearsal* Rehearsal::current() { return t_rehearsal; }

void copy_to_device(Stream& stream, void* to, const void* from, size_t bytes) {
  if (bytes == 0 || t_rehearsal) return;
  make_current(stream.device());
  SMOLDER_CUDA(copy_to_device, address_of(to), from, bytes, stream.handle());
}
void copy_to_host(Stream& stream, void* to, const void* from, size_t bytes) {
  if (bytes == 0 || t_rehearsal) return;
  make_current(stream.device());
  SMOLDER_CUDA(copy_to_host, to, address_of(from), bytes, stream.handle());
}
void copy_on_device(Stream& stream, void* to, const void* from, size_t bytes) {
  if (bytes == 0 || t_rehearsal) return;
  make_current(stream.device());
  SMOLDER_CUDA(copy_on_device, address_of(to), address_of(from), bytes, stream.handle());
}
void fill(Stream& stream, void* to, unsigned char value, size_t bytes) {
  if (bytes == 0 || t_rehearsal) return;
  make_current(stream.device());
  SMOLDER_CUDA(fill_bytes, address_of(to), value, bytes, stream.handle());
}

namespace {

/// Lets copies between the two go from one to the other; those that cannot go through the host. Once a pair.
void connect(int device, int other) {
  static std::mutex lock;
  static std::array<std::bitset<kMaxCudaDevices>, kMaxCudaDevices> done;
  const std::lock_guard hold(lock);
  if (done[device][other]) return;
  done[device][other] = true;
  if (!can_access_peer(device, other)) return;
  make_current(device);
  const Status status = driver().enable_peer_access(opened(other).context, 0);
  if (status != kPeerAccessIsEnabled) check(status, "enable_peer_access");  // by another library
}

}  // namespace

void copy_to_peer(Stream& stream, void* to, int to_device, const void* from, size_t bytes) {
  if (bytes == 0 || t_rehearsal) return;
  connect(stream.device(), to_device);
  connect(to_device, stream.device());
  make_current(stream.device());
  SMOLDER_CUDA(copy_to_peer, address_of(to), opened(to_device).context, address_of(from),
               opened(stream.device()).context, bytes, stream.handle());
}

// -- code

Module::Module(const std::string& cubin) {
  const Status status = driver().library_load(&handle_, cubin.data(), nullptr, nullptr, 0, nullptr, nullptr, 0);
  SMOLDER_CHECK(status == 0, ValueError, "cuLibraryLoadData: ", text_of(driver(), status));
}
Module::~Module() { driver().library_unload(handle_); }

DriverKernel Module::kernel(const char* name) const {
  DriverKernel kernel = nullptr;
  const Status status = driver().library_kernel(&kernel, handle_, name);
  SMOLDER_CHECK(status == 0, ValueError, "cuLibraryGetKernel of ", name, ": ", text_of(driver(), status));
  return kernel;
}

int kernel_attribute(DriverKernel kernel, KernelAttribute attribute, int device) {
  int value = 0;
  SMOLDER_CUDA(kernel_attribute, &value, attribute, kernel, opened(device).handle);
  return value;
}

void launch(DriverKernel kernel, Stream& stream, const LaunchShape& shape, void** parameters) {
  if (t_rehearsal) return;
  constexpr unsigned kWithoutAsking = 48 << 10;  // dynamic shared memory that needs no leave
  make_current(stream.device());
  if (shape.shared_bytes > kWithoutAsking) {
    SMOLDER_CUDA(kernel_set_attribute, KernelAttribute::kMaxDynamicShared, static_cast<int>(shape.shared_bytes), kernel,
                 opened(stream.device()).handle);
  }
  const bool follows = shape.dependent && (!stream.is_captured() || stream.ends_in_kernel());
  LaunchAttribute dependent{};
  dependent.id = LaunchAttribute::kProgrammaticSerialization;
  dependent.value.allowed = 1;
  const LaunchConfig config{{shape.grid[0], shape.grid[1], shape.grid[2]},
                            {shape.block[0], shape.block[1], shape.block[2]},
                            shape.shared_bytes,
                            stream.handle(),
                            follows ? &dependent : nullptr,
                            follows ? 1U : 0U};
  SMOLDER_CUDA(launch, &config, kernel, parameters, nullptr);
}

namespace {

/// The nodes that one of the driver's functions lists of a graph or a node.
template <class List, class Of>
std::vector<DriverGraphNode> nodes_of(List list, const char* what, Of of) {
  size_t count = 0;
  check(list(of, nullptr, &count), what);
  std::vector<DriverGraphNode> nodes(count);
  if (count > 0) check(list(of, nodes.data(), &count), what);
  return nodes;
}

}  // namespace

void zero_first(DriverGraph graph, int device, void* to, size_t bytes) {
  constexpr int kFill = 2;
  const Driver& d = driver();
  for (const DriverGraphNode node : nodes_of(d.graph_nodes, "graph_nodes", graph)) {
    int type = 0;
    SMOLDER_CUDA(node_type, node, &type);
    if (type != kFill) continue;
    FillParameters fill{};
    SMOLDER_CUDA(fill_parameters, node, &fill);
    const bool inside =
        fill.to >= address_of(to) && fill.to + fill.width * fill.element_bytes <= address_of(to) + bytes;
    if (!inside || fill.value != 0 || fill.height != 1) continue;
    for (const DriverGraphNode after : nodes_of(d.node_dependents, "node_dependents", node)) {
      for (const DriverGraphNode before : nodes_of(d.node_dependencies, "node_dependencies", node)) {
        SMOLDER_CUDA(add_dependencies, graph, &before, &after, 1);
      }
    }
    SMOLDER_CUDA(node_destroy, node);
  }
  const std::vector<DriverGraphNode> roots = nodes_of(d.graph_roots, "graph_roots", graph);
  const FillParameters all{address_of(to), 0, 0, 1, bytes, 1};
  DriverGraphNode first = nullptr;
  SMOLDER_CUDA(add_fill, &first, graph, nullptr, 0, &all, opened(device).context);
  for (const DriverGraphNode root : roots) SMOLDER_CUDA(add_dependencies, graph, &first, &root, 1);
}

}  // namespace smolder::cuda
