#include "smolder/distributed/stand_in.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/distributed/group.h"

namespace smolder::distributed {
namespace {

std::atomic<bool> g_stands_in{false};

size_t bytes_of(const eager::TensorView& v) { return static_cast<size_t>(numel(v.shape)) * itemsize(v.dtype); }

/// Calls `copy(at, bytes)` for the pieces of `to` that `from` fills.
void tile(size_t from, size_t to, auto&& copy) {
  for (size_t at = 0; from && at < to; at += from) copy(at, std::min(from, to - at));
}

}  // namespace

void stand_in_for_peers() { g_stands_in = true; }

bool stands_in(int64_t group) { return g_stands_in && !has_group(group); }

void stand_in(const eager::TensorView& from, const eager::TensorView& to) {
  auto* const out = static_cast<char*>(to.data);
  if (bytes_of(from) == 0 && bytes_of(to)) std::memset(out, 0, bytes_of(to));
  tile(bytes_of(from), bytes_of(to), [&](size_t at, size_t bytes) { std::memmove(out + at, from.data, bytes); });
}

void stand_in_on_device(int device, const eager::TensorView& from, const eager::TensorView& to) {
  auto* const out = static_cast<char*>(to.data);
  auto&& stream = smolder::cuda::Queue::of(device).stream();
  if (bytes_of(from) == 0 && bytes_of(to)) smolder::cuda::fill(stream, out, 0, bytes_of(to));
  tile(bytes_of(from), bytes_of(to), [&](size_t at, size_t bytes) {
    if (out + at != from.data) smolder::cuda::copy_on_device(stream, out + at, from.data, bytes);
  });
}

}  // namespace smolder::distributed
