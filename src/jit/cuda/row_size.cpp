#include "smolder/jit/cuda/row_size.h"

#include <algorithm>
#include <bit>

#include "smolder/jit/cuda/keep_values.h"
#include "smolder/jit/cuda/schedule.h"
#include "smolder/jit/cuda/stage_rows.h"

namespace smolder::jit::cuda {

namespace {

constexpr int64_t kStagedBytes = 220 << 10;  // of shared memory, which a multiprocessor has for rows
constexpr int64_t kKeptRegisters = 104;      // of the 128 that a thread has

/// Bytes of the rows of `n` elements that would be staged in shared memory.
int64_t staged_bytes(const Schedule& schedule, const Accesses& accesses, int64_t n) {
  int64_t bytes = 0;
  for (const auto& row : schedule.shape.held) {
    if (row.is_written() || !is_worth_staging(schedule.kernel, accesses, row.buffer)) continue;
    bytes += n * static_cast<int64_t>(itemsize(schedule.kernel.buffers[static_cast<size_t>(row.buffer)].dtype));
  }
  return bytes;
}

/// Rows of `n` elements, which are too many for registers.
RowSize long_rows(const Schedule& schedule, int64_t n) {
  const Kernel& k = schedule.kernel;
  const bool rest = n % unit_of(n) != 0;
  if (schedule.shape.group_split) return {.vector = rest ? 1 : unit_of(n)};
  const Accesses accesses(k);
  const int64_t bytes = staged_bytes(schedule, accesses, n);
  const int staged = bytes == 0 || bytes > kStagedBytes ? 0 : bytes > kStagedBytes / 2 ? 1 : 2;
  RowSize row{.vector = unit_of(n), .staged = staged, .rest = rest};
  const int all = row.vector * kMostRowThreads, chunks = static_cast<int>((n + all - 1) / all);
  const auto repeats = static_cast<int64_t>(repeats_of(k, accesses).size());
  const bool writes = std::ranges::any_of(schedule.shape.held, &KernelShape::HeldRow::is_written);
  const bool kept = repeats > 0 && chunks * row.vector * repeats <= kKeptRegisters;
  if (staged == 0 || rest || writes || !kept || has_shared_rows(k)) return row;
  row.staged = 1;
  row.threads = kMostRowThreads;
  row.chunks = chunks;
  row.whole = n % all == 0;
  return row;
}

/// Rows of `n` elements, which a thread may have registers for. Chunks of eight are of half as many threads, which have
/// no registers for two rows.
RowSize short_rows(const Schedule& schedule, int64_t n) {
  const Kernel& k = schedule.kernel;
  int64_t read = 0;
  for (const auto& row : schedule.shape.held) {
    if (!row.is_written()) read += static_cast<int64_t>(itemsize(k.buffers[static_cast<size_t>(row.buffer)].dtype));
  }
  const bool in_eights = n % (2 * kUnit) == 0 && read <= 2 && Accesses(k).has_narrow_rows(k);
  RowSize row{.vector = in_eights ? 2 * kUnit : kUnit};
  row.sides = row.vector / kUnit;
  const int threads = std::max(lanes_of(n) / row.sides, 1), all = row.vector * threads;
  const int64_t chunks = (n + all - 1) / all;
  if (chunks * row.vector > kHeldElements / 2 * row.sides) return row;
  row.threads = threads;
  row.chunks = static_cast<int>(chunks);
  row.whole = n % all == 0;
  return row;
}

}  // namespace

RowSize row_size(const Kernel& kernel, std::span<const int64_t> ints) {
  const Schedule schedule(kernel);
  if (!schedule.shape.has_row_size()) return {};
  const int64_t n = value_of(schedule.shape.thread_loops[0]->extents[0], ints);
  if (unit_of(n) == 1) return {.vector = 1};
  return unit_of(n) > kUnit ? long_rows(schedule, n) : short_rows(schedule, n);
}

IntRef row_extent(const Kernel& kernel) {
  const Schedule schedule(kernel);
  return schedule.shape.has_row_size() ? schedule.shape.thread_loops[0]->extents[0] : IntRef{};
}

RowRange row_range(int64_t extent, const RowSize& row) {
  constexpr int64_t kShort = 128, kWarpRow = 1024;  // between which there are as many lanes
  // Others would go by single elements.
  if (row.staged > 0 && row.chunks > 0) {
    const int64_t all = row.vector * row.threads, most = row.chunks * all;
    return {row.whole ? most - 1 : most - all, most};
  }
  if (extent > kLongRow) return {kLongRow, INT64_MAX};
  if (extent <= kShort) return {0, kShort};
  if (extent <= kWarpRow) return {kShort, kWarpRow};
  const auto last = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(extent)));
  return {last / 2, last};
}

}  // namespace smolder::jit::cuda
