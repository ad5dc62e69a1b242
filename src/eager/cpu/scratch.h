// Working memory that a thread keeps between calls of library-like kernels.
#pragma once

#include <cstdint>
#include <cstdlib>

#include "smolder/core/error.h"
#include "smolder/core/per_thread.h"

namespace smolder::eager {

/// At least `elements` of T, aligned to 64 bytes, kept and grown by the calling thread until it ends; `Slot`
/// tells apart what is in use at the same time. Contents never outlive the work of one task.
template <class T, int Slot>
T* scratch(int64_t elements) {
  struct Buffer {
    void* data = nullptr;
    int64_t bytes = 0;
    ~Buffer() { std::free(data); }
  };
  static const PerThread<Buffer> buffers;
  Buffer& buffer = *buffers;
  const int64_t bytes = (elements * static_cast<int64_t>(sizeof(T)) + 4095) / 4096 * 4096;
  if (bytes > buffer.bytes) {
    std::free(buffer.data);
    buffer.bytes = 0;
    buffer.data = std::aligned_alloc(64, static_cast<size_t>(bytes));
    if (!buffer.data) raise<OutOfMemoryError>("no memory for ", bytes, " bytes of working space");
    buffer.bytes = bytes;
  }
  return static_cast<T*>(buffer.data);
}

}  // namespace smolder::eager
