// Running reductions along an axis. A row is one chain of additions; columns run side by side, in stretches that a
// thread keeps in its first-level cache.
#include <algorithm>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/blocks.h"
#include "smolder/eager/cpu/indices.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/scratch.h"

namespace smolder::eager::cpu {
namespace {

void scan_columns(const ScanFns& loops, const Rows& r, size_t item, const char* from, char* to) {
  const int64_t width = std::min<int64_t>(r.inner, kBlock), stretches = (r.inner + width - 1) / width;
  const int64_t bytes = static_cast<int64_t>(item);
  parallel_for(r.outer * stretches, columns_grain(r.n * width), [&](int64_t begin, int64_t end) {
    double* const carry = scratch<double, 20>(width);  // eight bytes hold what any dtype carries
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = piece % stretches * width, count = std::min(width, r.inner - first);
      int64_t at = (piece / stretches * r.n * r.inner + first) * bytes;
      loops.reset(carry, count);
      for (int64_t i = 0; i < r.n; ++i, at += r.inner * bytes) loops.column(from + at, carry, to + at, count);
    }
  });
}

}  // namespace

void run_scan(const KernelCall& call) {
  BufferRef holder;
  const TensorView x = contiguous(call.inputs[0], holder);
  const auto kind = static_cast<ir::ScanKind>(call.attrs[0]);
  const Rows r(x.shape, normalize_axis(call.attrs[1], x.shape.size()), {});
  const ScanFns& loops = scan_fns(kind, x.dtype);
  if (r.n == 0 || r.outer == 0 || r.inner == 0) return;
  with_contiguous(call.outputs[0], [&](const TensorView& out) {
    const char* from = static_cast<const char*>(x.data);
    char* to = static_cast<char*>(out.data);
    if (r.inner > 1) return scan_columns(loops, r, itemsize(x.dtype), from, to);
    const int64_t bytes = r.n * static_cast<int64_t>(itemsize(x.dtype));
    parallel_for(r.outer, columns_grain(r.n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) loops.row(from + i * bytes, r.n, to + i * bytes);
    });
  });
}

}  // namespace smolder::eager::cpu
