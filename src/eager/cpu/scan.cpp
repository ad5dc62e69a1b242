// Running reductions along an axis. A row is one chain of additions; columns run side by side, in stretches that a
// thread keeps in its first-level cache. Threads share a long row of sums: the chain goes from one to the next, and
// what is not of the chain each does for itself.
#include <algorithm>
#include <atomic>
#include <thread>

#include "smolder/core/thread_pool.h"
#include "smolder/eager/cpu/blocks.h"
#include "smolder/eager/cpu/indices.h"
#include "smolder/eager/cpu/kernels.h"
#include "smolder/eager/cpu/scratch.h"
#include "smolder/eager/dispatcher.h"

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

/// Groups that a thread takes at a time: their sums stay in its second-level cache.
constexpr int64_t kStretch = 4096;
/// A row shorter than this many stretches is not worth sharing; from this many bytes on no cache holds the result.
constexpr int64_t kLeastStretches = 8, kStreamedBytes = 16 << 20;

/// Stretches are taken in order, so whoever has the one before is at work on it or done.
void scan_long_row(const ScanFns& loops, int64_t n, int64_t item, const char* from, char* to) {
  constexpr int kPatience = 1000;
  const int64_t length = kStretch * kScanGroup, bytes = length * item, stretches = n / length;
  const int threads = num_threads();
  alignas(64) std::atomic<int64_t> next{0};
  alignas(64) std::atomic<int64_t> carried{0};  ///< stretches that `carry` holds the sum of
  double carry = 0;
  parallel_for(threads, 1, [&](int64_t, int64_t) {
    double* const sums = scratch<double, 20>(kStretch);
    for (int64_t i = next.fetch_add(1); i < stretches; i = next.fetch_add(1)) {
      const char* const in = from + i * bytes;
      loops.totals(in, kStretch, sums);
      for (int tries = 0; carried.load(std::memory_order_acquire) != i; ++tries) {
        if (tries > kPatience) std::this_thread::yield();
      }
      carry = carry_groups(carry, kStretch, sums);
      carried.store(i + 1, std::memory_order_release);
      const char* const ahead = from + std::min(i + threads, stretches - 1) * bytes;
      loops.spread(in, kStretch, sums, to + i * bytes, ahead, n * item >= kStreamedBytes);
    }
  });
  loops.rest(from + stretches * bytes, n - stretches * length, carry, to + stretches * bytes);
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
    const auto item = static_cast<int64_t>(itemsize(x.dtype));
    const int64_t bytes = r.n * item;
    if (loops.totals && r.outer < num_threads() && r.n >= kLeastStretches * kStretch * kScanGroup) {
      for (int64_t i = 0; i < r.outer; ++i) scan_long_row(loops, r.n, item, from + i * bytes, to + i * bytes);
      return;
    }
    parallel_for(r.outer, columns_grain(r.n), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) loops.row(from + i * bytes, r.n, to + i * bytes);
    });
  });
}

}  // namespace smolder::eager::cpu
