// Where tensors are, and what the devices of CUDA are and hold.
#include "smolder/core/cpu_memory.h"
#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/library.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/core/cuda/preload.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/meta_device.h"
#include "smolder/jit/cuda/replay.h"
#include "smolder/jit/run/arena.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/tape.h"
#include "smolder/lazy/view.h"
#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

/// Runs what is recorded for a device, without making it a step that the program marked.
void run_recorded(const std::string& reason, int index) {
  const WithoutGil nogil;
  const SourceToken source = capture_source();
  lazy::Tape& tape = lazy::Tape::on({DeviceType::kCUDA, index});
  const std::lock_guard hold(tape.mutex());
  tape.sync(reason, source);
}

/// Waits for all that the device was given.
void synchronize(int index) {
  const WithoutGil nogil;
  if (cuda::Queue* const queue = cuda::Queue::existing(index)) queue->stream().synchronize();
  lazy::Tape& tape = lazy::Tape::on({DeviceType::kCUDA, index});
  const std::lock_guard hold(tape.mutex());
  tape.raise_reports(true);
}

/// Gives back first what is held only until the device has come so far.
void forget_passed(int index) {
  if (!cuda::Queue::existing(index)) return;
  const WithoutGil nogil;
  lazy::Tape& tape = lazy::Tape::on({DeviceType::kCUDA, index});
  const std::lock_guard hold(tape.mutex());
  tape.forget_passed();
}

void put(nb::dict& out, const std::string& name, const cuda::Statistic& s) {
  out[(name + ".current").c_str()] = s.current;
  out[(name + ".peak").c_str()] = s.peak;
  out[(name + ".allocated").c_str()] = s.total;
  out[(name + ".freed").c_str()] = s.total - s.current;
}

/// Under torch's names. A block is active as long as it is held: it may be used again at once.
nb::dict memory_of(const cuda::PoolStatistics& s) {
  nb::dict out;
  const std::pair<std::string, const cuda::PoolPart&> parts[] = {
      {"all", s.all}, {"large_pool", s.large}, {"small_pool", s.small}};
  for (const auto& [name, part] : parts) {
    put(out, "allocated_bytes." + name, part.allocated);
    put(out, "active_bytes." + name, part.allocated);
    put(out, "requested_bytes." + name, part.requested);
    put(out, "reserved_bytes." + name, part.reserved);
    put(out, "inactive_split_bytes." + name, part.inactive_bytes);
    put(out, "allocation." + name, part.blocks);
    put(out, "active." + name, part.blocks);
    put(out, "segment." + name, part.segments);
    put(out, "inactive_split." + name, part.inactive);
  }
  put(out, "oversize_allocations", {});  // blocks of any size are split
  put(out, "oversize_segments", {});
  out["max_split_size"] = -1;
  out["num_alloc_retries"] = s.retries;
  out["num_ooms"] = s.failures;
  out["num_device_alloc"] = s.takes;
  out["num_device_free"] = s.returns;
  out["num_sync_all_streams"] = s.retries;
  return out;
}

/// Statistics of pinned memory.
nb::dict host_memory() {
  const cuda::PoolStatistics s = cuda::pinned_statistics();
  nb::dict out;
  put(out, "allocated_bytes", s.all.reserved);
  put(out, "allocations", s.all.segments);
  put(out, "active_bytes", s.all.allocated);
  put(out, "active_requests", s.all.blocks);
  out["num_host_alloc"] = s.takes;
  out["num_host_free"] = s.returns;
  return out;
}

/// Where the elements are. Computes the tensor.
uintptr_t address_of(const Tensor& t) {
  const WithoutGil nogil;
  const SourceToken source = capture_source();
  if (t.numel() && lazy::is_external(t)) return reinterpret_cast<uintptr_t>(lazy::window(t).data);
  lazy::refresh(t.impl());
  if (t.numel() && lazy::owner_of(t.impl()) == t.impl())
    return reinterpret_cast<uintptr_t>(lazy::told_address(t.impl(), source));
  lazy::Tape& tape = lazy::Tape::on(t.device());
  const std::lock_guard hold(tape.mutex());
  tape.hear();
  const lazy::Value& value = *t.impl()->value;
  if (value.pending) tape.sync("data_ptr", source);
  if (t.numel() && !value.buffer) tape.raise_no_value();
  return t.numel() ? reinterpret_cast<uintptr_t>(value.buffer->data()) : 0;
}

nb::dict properties_of(int index) {
  const cuda::DeviceInfo& d = cuda::device_info(index);
  nb::dict out;
  out["name"] = d.name;
  out["major"] = d.major;
  out["minor"] = d.minor;
  out["total_memory"] = d.memory_bytes;
  out["multi_processor_count"] = d.multiprocessors;
  out["max_threads_per_multi_processor"] = d.threads_per_multiprocessor;
  out["shared_memory_per_block_optin"] = d.shared_bytes;
  out["L2_cache_size"] = d.l2_bytes;
  using cuda::DeviceAttribute;
  const std::pair<const char*, DeviceAttribute> numbers[] = {
      {"warp_size", DeviceAttribute::kWarpSize},
      {"max_threads_per_block", DeviceAttribute::kThreadsPerBlock},
      {"regs_per_multiprocessor", DeviceAttribute::kRegistersPerMultiprocessor},
      {"shared_memory_per_block", DeviceAttribute::kSharedPerBlock},
      {"shared_memory_per_multiprocessor", DeviceAttribute::kSharedPerMultiprocessor},
      {"clock_rate", DeviceAttribute::kClockKilohertz},
      {"memory_clock_rate", DeviceAttribute::kMemoryClockKilohertz},
      {"memory_bus_width", DeviceAttribute::kMemoryBusBits},
      {"is_integrated", DeviceAttribute::kIsIntegrated},
      {"is_multi_gpu_board", DeviceAttribute::kIsMultiGpuBoard},
  };
  for (const auto& [name, attribute] : numbers) out[name] = cuda::device_attribute(index, attribute);
  return out;
}

}  // namespace

void bind_devices(nb::module_& m, nb::class_<Tensor>& tensor) {
  meta_device_type();  // programs name it
  tensor.def_prop_ro("_device", [](const Tensor& t) { return to_string(t.device()); });
  tensor.def_prop_ro("_on_cpu", [](const Tensor& t) { return t.device().type == DeviceType::kCPU; });
  tensor.def("_device_address", &address_of);
  tensor.def(
      "_to_device",
      [](const Tensor& t, const std::string& where, bool non_blocking) {
        const Device device = parse_device(where);
        const WithoutGil nogil;
        return t.to(device, non_blocking);
      },
      nb::arg("where"), nb::arg("non_blocking") = false);
  tensor.def("_is_pinned", &Tensor::is_pinned);
  tensor.def("_pin_memory", [](const Tensor& t) {
    const WithoutGil nogil;
    return t.pin_memory();
  });
  m.def("_check_device", [](const std::string& where) { return to_string(parse_device(where)); });
  m.def("_creation_device", [] { return to_string(lazy::creation_device()); });
  m.def("_creation_mode", [] {
    const Device mode = lazy::creation_mode();
    return mode == lazy::kCurrentCuda ? "cuda" : to_string(mode);
  });
  m.def("_set_creation_device", [](const std::string& where) {
    lazy::set_creation_device(where == "cuda" ? lazy::kCurrentCuda : parse_device(where));
  });
  m.def("_cuda_current_device", &cuda::current_device);
  m.def("_cuda_set_current_device", &cuda::set_current_device);
  m.def("_cuda_check_ordinal", &cuda::check_ordinal);
  m.def("_cuda_is_available", &cuda::is_available);
  m.def("_cuda_unavailable_reason", &cuda::unavailable_reason);
  m.def("_cuda_nvrtc_missing", &cuda::nvrtc_missing);
  m.def("_cuda_promise_to_finish_preload", &cuda::promise_to_finish_preload);
  m.def("_cuda_finish_preload", &cuda::finish_preload, nb::call_guard<WithoutGil>());
  m.def("_cuda_device_count", &cuda::device_count);
  m.def("_cuda_can_access_peer", &cuda::can_access_peer);
  m.def("_cuda_properties", &properties_of);
  m.def("_cuda_memory", [](int index) {
    forget_passed(index);
    return memory_of(cuda::pool_statistics(index));
  });
  m.def("_cpu_memory", [] { return memory_of(cpu_pool_statistics()); });
  m.def("_cpu_reset_total_memory", &reset_cpu_totals);
  m.def("_cuda_memory_info", [](int index) { return cuda::memory_info(index); });
  m.def("_cuda_reset_peak_memory", &cuda::reset_peak_memory);
  m.def("_cuda_reset_total_memory", &cuda::reset_total_memory);
  m.def("_cuda_memory_fraction", &cuda::memory_fraction);
  m.def("_cuda_set_memory_fraction", &cuda::set_memory_fraction);
  m.def("_cuda_host_memory", &host_memory);
  m.def("_cuda_reset_peak_host_memory", &cuda::reset_peak_pinned);
  m.def("_cuda_is_forked", &cuda::is_forked);
  m.def("_cuda_driver_version", &cuda::driver_version);
  m.def("_cuda_toolkit_version", [] { return cuda::has_nvrtc() ? cuda::nvrtc_version() : std::string(); });
  m.def("_cuda_profile", [](bool on) {
    cuda::make_current(cuda::current_device());
    cuda::check(on ? cuda::driver().profiler_start() : cuda::driver().profiler_stop(),
                on ? "profiler_start" : "profiler_stop");
  });
  m.def("_cuda_run_recorded", &run_recorded);
  m.def("_cuda_synchronize", [](int index) {
    synchronize(index);
    release_orphans();  // which the device may have used until now
  });
  m.def("_cuda_idle", [](int index) {
    cuda::Queue* const queue = cuda::Queue::existing(index);
    return !queue || queue->stream().idle();
  });
  m.def("_cuda_stream",
        [](int index) { return reinterpret_cast<uintptr_t>(cuda::Queue::of(index).stream().handle()); });
  m.def("_cuda_precede", [](int index, uintptr_t stream) {
    cuda::Queue::of(index).precede(reinterpret_cast<cuda::DriverStream>(stream));
  });
  nb::class_<cuda::Event>(m, "_CudaEvent")
      .def(nb::init<int, bool>())
      .def("record", [](cuda::Event& e, int index) { e.record(cuda::Queue::of(index).stream()); })
      .def("wait", [](cuda::Event& e, int index) { cuda::Queue::of(index).stream().wait(e); })
      .def("done", &cuda::Event::done)
      .def("synchronize",
           [](cuda::Event& e) {
             const WithoutGil nogil;
             e.synchronize();
           })
      .def("milliseconds_since", &cuda::Event::milliseconds_since);
  m.def("_cuda_empty_cache", [] {
    for (int index = 0; index < cuda::device_count(); ++index) {
      forget_passed(index);
      jit::Arena::of({DeviceType::kCUDA, index}).release();
      cuda::empty_cache(index);
    }
    cuda::empty_pinned_cache();
  });
  m.def("_cuda_set_graphs", &jit::cuda::set_graphs_enabled);
  m.def("_cuda_add_site_packages", &cuda::add_site_packages);
}

}  // namespace smolder::python
