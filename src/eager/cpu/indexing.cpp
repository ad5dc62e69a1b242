// Reads at indices.
#include <array>
#include <cstring>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/indices.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/dispatcher.h"

namespace smolder::eager::cpu {

void run_take(const KernelCall& call) {
  BufferRef holders[2];
  const int axis = normalize_axis(call.attrs[0], call.inputs[0].shape.size());
  const TensorView x = contiguous(call.inputs[0], holders[0]), index = contiguous(call.inputs[1], holders[1]);
  const Rows r(x.shape, axis, index.shape);
  const Indices indices(index, r.n, call.errors);
  if (r.n == 0) {
    if (r.rows > 0) indices.find(0);
    return fill(call.outputs[0], 0);
  }
  with_contiguous(call.outputs[0], [&](const TensorView& out) {
    const size_t bytes = static_cast<size_t>(r.inner) * itemsize(x.dtype);
    const char* from = static_cast<const char*>(x.data);
    char* to = static_cast<char*>(out.data);
    parallel_for(r.outer * r.rows, columns_grain(r.inner), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / r.rows * r.n + indices.clamp(i % r.rows);
        std::memcpy(to + i * bytes, from + row * bytes, bytes);
      }
    });
  });
}

void run_gather(const KernelCall& call) {
  const TensorView x = with_axis(call.inputs[0]), index = with_axis(call.inputs[1]), out = with_axis(call.outputs[0]);
  const int axis = normalize_axis(call.attrs[0], x.shape.size());
  const Indices indices(index, x.shape[axis], call.errors);
  if (x.shape[axis] == 0) {
    if (numel(index.shape) > 0) indices.find(0);
    return fill(out, 0);
  }
  const Columns<3> columns(index.shape, axis, {&x, &index, &out});
  const int64_t length = index.shape[axis];
  with_item_type(itemsize(x.dtype), [&]<class T>(T) {
    const T* from = static_cast<const T*>(x.data);
    T* to = static_cast<T*>(out.data);
    parallel_for(columns.count(), columns_grain(length), [&](int64_t begin, int64_t end) {
      columns.for_each(begin, end, [&](const std::array<int64_t, 3>& at) {
        for (int64_t j = 0; j < length; ++j) {
          const int64_t i = indices.clamp(at[1] + j * index.strides[axis]);
          to[at[2] + j * out.strides[axis]] = from[at[0] + i * x.strides[axis]];
        }
      });
    });
  });
}

}  // namespace smolder::eager::cpu
