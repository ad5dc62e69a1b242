// Tensors from memory of the program, and their elements as the program reads them.
#include <cstring>
#include <mutex>

#include "smolder/core/counters.h"
#include "smolder/core/element.h"
#include "smolder/core/memory_history.h"
#include "smolder/core/profile.h"
#include "smolder/core/size.h"
#include "smolder/lazy/batch_access.h"
#include "smolder/lazy/capture.h"
#include "smolder/lazy/modes.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/tape.h"
#include "smolder/lazy/tensor.h"
#include "smolder/lazy/view.h"

namespace smolder {

Tensor Tensor::from_buffer(BufferRef buffer, Dims shape, DType dtype) {
  const ir::Meta* const meta = lazy::intern({shape, dtype, false});
  lazy::Tape& tape = lazy::Tape::on(buffer->device());
  lazy::ValueRef value;
  {
    std::lock_guard hold(tape.mutex());
    value = tape.adopt(std::move(buffer), meta);
  }
  if (lazy::Capture* const c = lazy::Capture::current()) [[unlikely]]
    c->note_constant(value);
  Tensor out(new lazy::TensorImpl(std::move(value)));
  out.impl()->inference = lazy::inference_mode_enabled();
  return out;
}

Tensor Tensor::from_data(const void* data, Dims shape, DType dtype) {
  const auto bytes = static_cast<size_t>(storage_bytes(shape, dtype));
  const SourceToken source = capture_source();
  const MemoryFor use("tensor from data", source);
  BufferRef buffer = allocate(bytes);
  {
    const CopySpan span("tensor from data", source, bytes);
    if (bytes) std::memcpy(buffer->data(), data, bytes);
  }
  record_copy("tensor from data", resolve_source(source), bytes);
  return from_buffer(std::move(buffer), shape, dtype);
}

BufferRef lazy::elements(const Tensor& t, std::string_view reason, SourceToken source) {
  refresh(t.impl());
  check_readable(*t.impl()->value, reason);
  break_capture(reason, source);
  Tape& tape = Tape::on(t.device());
  if (t.impl()->value->external && is_external(t)) return copied(window(t)).buffer;
  std::lock_guard hold(tape.mutex());
  tape.hear();
  if (t.impl()->value->pending) tape.sync(reason, source);
  if (!t.impl()->value->buffer) tape.raise_no_value();
  return t.impl()->value->buffer;
}

BufferRef Tensor::materialize(std::string_view reason) const {
  meta();  // throws when undefined
  const SourceToken source = capture_source();
  BufferRef elements = lazy::elements(*this, reason, source);
  lazy::Tape& tape = lazy::Tape::on(elements->device());
  if (tape.device() == DeviceType::kCPU) return elements;
  const size_t bytes = static_cast<size_t>(numel()) * itemsize(dtype());
  const MemoryFor use(reason, source);
  BufferRef host = allocate(bytes);
  std::lock_guard hold(tape.mutex());
  if (bytes) copy_to_host(host->data(), elements->data(), bytes, tape.device());
  tape.raise_reports(bytes > 0);
  return host;
}

namespace {

/// Calls f(element) with each of `n` elements as a bool, an int64 or a double.
void for_each_element(const void* data, DType dtype, int64_t n, auto&& f) {
  SMOLDER_CHECK(!is_complex(dtype), NotImplementedError, "elements of ", name(dtype),
                " as real numbers are not supported; read those of view_as_real()");
  with_type(dtype, [&]<class T>(T) {
    for (int64_t i = 0; i < n; ++i) f(number_at<T>(data, i));
  });
}

}  // namespace

Scalar Tensor::item() const {
  SMOLDER_CHECK(numel() == 1, RuntimeError, "a Tensor with ", numel(),
                " elements cannot be converted to Scalar; its shape is ", shape());
  const BufferRef buffer = materialize("item");
  Scalar out(false);
  for_each_element(buffer->data(), dtype(), 1, [&](auto v) { out = Scalar(v); });
  return out;
}

template <class T>
std::vector<T> Tensor::to_vector() const {
  const BufferRef buffer = materialize("to_vector");
  std::vector<T> out;
  out.reserve(numel());
  if (numel()) for_each_element(buffer->data(), dtype(), numel(), [&](auto v) { out.push_back(static_cast<T>(v)); });
  return out;
}
template std::vector<float> Tensor::to_vector<float>() const;
template std::vector<double> Tensor::to_vector<double>() const;
template std::vector<int64_t> Tensor::to_vector<int64_t>() const;
template std::vector<uint8_t> Tensor::to_vector<uint8_t>() const;

}  // namespace smolder
