// The CUDA driver, opened when first asked for. Every call that fails throws and names itself; OutOfMemoryError where
// memory ran out, RuntimeError else. Thread-safe: each call makes its device's context current on its thread.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "smolder/core/cuda/api.h"

namespace smolder::cuda {

/// Whether there is a driver and a device. Never throws.
bool is_available() noexcept;
/// Why not; empty when there is.
std::string unavailable_reason();
/// 0 without a driver.
int device_count() noexcept;
/// Whether this process was forked from one that had used CUDA: nothing of a device can be used then.
bool is_forked() noexcept;
/// The driver's CUDA version, 1000 * major + 10 * minor.
int driver_version();

/// The driver's entry points. Throws RuntimeError with the reason when there is no driver.
struct Driver {
#define SMOLDER_DECLARE(member, name, parameters) Status(*member) parameters = nullptr;
  SMOLDER_CUDA_DRIVER(SMOLDER_DECLARE)
#undef SMOLDER_DECLARE
};
const Driver& driver();
/// Throws unless `status` is success: "cuMemAlloc_v2: CUDA_ERROR_... (text)".
void check(Status status, const char* call);
#define SMOLDER_CUDA(call_member, ...) \
  ::smolder::cuda::check(::smolder::cuda::driver().call_member(__VA_ARGS__), #call_member)

/// The properties of a device.
struct DeviceInfo {
  std::string name;
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  int threads_per_multiprocessor = 0;
  int shared_bytes = 0;  ///< that a block may have at most, asked for at launch
  int l2_bytes = 0;
  size_t memory_bytes = 0;
};
/// Throws RuntimeError when there is no such device, naming it and how many there are.
void check_ordinal(int device);
/// The device of this thread that "cuda" means where no index says which: the first at first.
int current_device() noexcept;
void set_current_device(int device);
/// Throws RuntimeError when there is no such device. Makes no context there.
const DeviceInfo& device_info(int device);
/// Throws RuntimeError when there is no such device, or when the driver does not know the attribute.
int device_attribute(int device, DeviceAttribute attribute);
/// Makes the device's primary context current on this thread. The first time it makes the context, which takes memory
/// of the device.
void make_current(int device);
/// Waits for all that the device was given.
void synchronize(int device);
/// Whether a device can read another's memory by itself. Makes no context.
bool can_access_peer(int device, int other);

class Event;

/// A queue of work, in order. Not blocked by the default stream.
class Stream {
 public:
  /// `captured`: whatever it is given is part of a graph.
  explicit Stream(int device, bool captured = false);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  void synchronize();
  /// Whether all work is done.
  bool idle();
  void wait(const Event& event);
  int device() const { return device_; }
  DriverStream handle() const { return handle_; }
  /// Whether, on a stream that is captured, one kernel is all that the next work waits for.
  bool ends_in_kernel() const;
  bool is_captured() const { return is_captured_; }

 private:
  int device_;
  bool is_captured_;
  DriverStream handle_ = nullptr;
};

/// A point in a stream.
class Event {
 public:
  /// `timed`: for `milliseconds_since`; others are cheaper.
  explicit Event(int device, bool timed = false);
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  void record(Stream& stream);
  void synchronize();
  bool done();
  /// Both timed and done.
  double milliseconds_since(const Event& earlier) const;
  DriverEvent handle() const { return handle_; }

 private:
  DriverEvent handle_ = nullptr;
};

/// Memory of a device.
class DeviceMemory {
 public:
  DeviceMemory(int device, size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  Address address() const { return address_; }
  void* data() const { return reinterpret_cast<void*>(address_); }
  size_t bytes() const { return bytes_; }

 private:
  int device_;
  size_t bytes_;
  Address address_ = 0;
};
/// Free and total bytes.
std::pair<size_t, size_t> memory_info(int device);

/// Memory of the host that a device copies from and to while the host goes on.
class PinnedMemory {
 public:
  PinnedMemory(int device, size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  size_t bytes_;
};

/// While it lives, copies, kernels and calls of libraries that its thread queues are left out. What queues them takes
/// memory all the same, so one learns whether there is enough before anything is overwritten.
class Rehearsal {
 public:
  Rehearsal();
  ~Rehearsal();
  Rehearsal(const Rehearsal&) = delete;
  Rehearsal& operator=(const Rehearsal&) = delete;
  /// The one of this thread; null outside.
  static Rehearsal* current();
  void note_memory() { takes_memory_ = true; }
  bool takes_memory() const { return takes_memory_; }

 private:
  bool takes_memory_ = false;
};

// In the order of the stream. From memory of the host that is not pinned the host's part is done on return.
void copy_to_device(Stream& stream, void* to, const void* from, size_t bytes);
void copy_to_host(Stream& stream, void* to, const void* from, size_t bytes);
void copy_on_device(Stream& stream, void* to, const void* from, size_t bytes);
void fill(Stream& stream, void* to, unsigned char value, size_t bytes);
/// From memory of the stream's device to that of another.
void copy_to_peer(Stream& stream, void* to, int to_device, const void* from, size_t bytes);

/// Code of a program, on all devices that it was made for.
class Module {
 public:
  /// Throws ValueError when the driver cannot load the image.
  explicit Module(const std::string& cubin);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  /// Throws ValueError when there is none of that name.
  DriverKernel kernel(const char* name) const;

 private:
  DriverLibrary handle_ = nullptr;
};
int kernel_attribute(DriverKernel kernel, KernelAttribute attribute, int device);

/// How a kernel is launched.
struct LaunchShape {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1};
  unsigned shared_bytes = 0;
  /// May start while the kernel before it ends: it must wait (griddepcontrol.wait) before it touches memory. Where what
  /// is before it in a graph is no kernel, it starts afterwards.
  bool dependent = false;
};
/// Fills memory with zeros once, before all that a graph does, in place of each fill with zeros of a part of it.
void zero_first(DriverGraph graph, int device, void* to, size_t bytes);
/// `parameters`: the address of each parameter.
void launch(DriverKernel kernel, Stream& stream, const LaunchShape& shape, void** parameters);

}  // namespace smolder::cuda
