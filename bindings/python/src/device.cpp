// Where tensors are, and what the devices of CUDA are and hold.
#include "smolder/core/cuda/driver.h"
#include "smolder/core/cuda/library.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/nvrtc.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/jit/arena.h"
#include "smolder/jit/cuda/replay.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/tape.h"
#include "smolder/lazy/view.h"
#include "src/tensor.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

/// Runs what is recorded for CUDA, without making it a step that the program marked.
void run_recorded(const std::string& reason) {
  const WithoutGil nogil;
  const SourceToken source = capture_source();
  lazy::Tape& tape = lazy::Tape::on(DeviceType::kCUDA);
  const std::lock_guard hold(tape.mutex());
  tape.sync(reason, source);
}

/// Waits for all that the device was given.
void synchronize(int index) {
  const WithoutGil nogil;
  if (cuda::Queue* const queue = cuda::Queue::existing(index)) queue->stream().synchronize();
  lazy::Tape& tape = lazy::Tape::on(DeviceType::kCUDA);
  const std::lock_guard hold(tape.mutex());
  tape.raise_reports(true);
}

/// Under torch's names.
nb::dict memory_of(int index) {
  const cuda::PoolStatistics s = cuda::pool_statistics(index);
  nb::dict out;
  const auto put = [&](const std::string& name, const cuda::Statistic& of) {
    out[(name + ".all.current").c_str()] = of.current;
    out[(name + ".all.peak").c_str()] = of.peak;
    out[(name + ".all.allocated").c_str()] = of.total;
    out[(name + ".all.freed").c_str()] = of.total - of.current;
  };
  put("allocated_bytes", s.allocated);
  put("reserved_bytes", s.reserved);
  put("allocation", s.blocks);
  out["num_alloc_retries"] = s.retries;
  out["num_ooms"] = s.failures;
  return out;
}

/// Where the elements are. Computes the tensor.
uintptr_t address_of(const Tensor& t) {
  const WithoutGil nogil;
  const SourceToken source = capture_source();
  if (t.numel() && lazy::is_external(t)) return reinterpret_cast<uintptr_t>(lazy::window(t).data);
  lazy::refresh(t.impl());
  lazy::Tape& tape = lazy::Tape::on(t.device().type);
  const std::lock_guard hold(tape.mutex());
  const lazy::Value& value = *t.impl()->value;
  if (value.pending) tape.sync("data_ptr", source);
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
  return out;
}

}  // namespace

void bind_devices(nb::module_& m, nb::class_<Tensor>& tensor) {
  tensor.def_prop_ro("_device", [](const Tensor& t) { return to_string(t.device()); });
  tensor.def_prop_ro("_on_cpu", [](const Tensor& t) { return t.device().type == DeviceType::kCPU; });
  tensor.def("_device_address", &address_of);
  tensor.def("_to_device", [](const Tensor& t, const std::string& where) {
    const Device device = parse_device(where);
    const WithoutGil nogil;
    return t.to(device);
  });
  m.def("_check_device", [](const std::string& where) { return to_string(parse_device(where)); });
  m.def("_creation_device", [] { return to_string(Device{lazy::creation_device(), 0}); });
  m.def("_set_creation_device", [](const std::string& where) { lazy::set_creation_device(parse_device(where).type); });
  m.def("_cuda_is_available", &cuda::is_available);
  m.def("_cuda_unavailable_reason", &cuda::unavailable_reason);
  m.def("_cuda_nvrtc_missing", &cuda::nvrtc_missing);
  m.def("_cuda_device_count", &cuda::device_count);
  m.def("_cuda_properties", &properties_of);
  m.def("_cuda_memory", &memory_of);
  m.def("_cuda_memory_info", [](int index) { return cuda::memory_info(index); });
  m.def("_cuda_reset_peak_memory", &cuda::reset_peak_memory);
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
      .def("done", &cuda::Event::done)
      .def("synchronize",
           [](cuda::Event& e) {
             const WithoutGil nogil;
             e.synchronize();
           })
      .def("milliseconds_since", &cuda::Event::milliseconds_since);
  m.def("_cuda_empty_cache", [](int index) {
    jit::Arena::of(DeviceType::kCUDA).release();
    cuda::empty_cache(index);
  });
  m.def("_cuda_set_graphs", &jit::cuda::set_graphs_enabled);
  m.def("_cuda_add_site_packages", &cuda::add_site_packages);
}

}  // namespace smolder::python
