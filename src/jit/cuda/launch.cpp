#include "smolder/jit/cuda/launch.h"

#include <algorithm>
#include <bit>

#include "smolder/core/error.h"

namespace smolder::jit::cuda {

namespace {

constexpr int64_t kRowBlock = 128;  ///< threads at most of a block whose groups are part of a warp
/// Elements of the rows of such a block, if a warp has no more: softmax of 65536 x 1024 took 67.1 us, and 68.3 with
/// 8192.
constexpr int64_t kBlockElements = 2048;
constexpr int64_t kSharedAlignment = 16;
constexpr int64_t kCombineBytes = 512;  ///< what groups of several warps combine in: see the prelude
constexpr int64_t kManyThreads = 200000;
constexpr int64_t kSeveral = 8, kSeveralThreads = 128;  ///< chunks of a thread where it may have several, of a block
/// That have all turns of a loop to themselves; half as many do where iterations are few.
constexpr int64_t kAloneThreads = 131072, kFewIterations = 32;
/// Chunks of a row that a block of cooperating groups takes: fewer where there would be few blocks, twice as many where
/// a thread has few iterations on their way at once. A block has so many threads, if there are rows.
constexpr int64_t kWide = 16, kNarrow = 8, kFewBlocks = 264, kFewAtOnce = 4, kFewThreads = 128;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

void set_grid(LaunchPlan& plan, int64_t blocks) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  SMOLDER_CHECK(blocks <= kMost, RuntimeError, "a kernel of ", blocks, " blocks is more than a launch can have (",
                kMost, ")");
  plan.shape.grid[0] = static_cast<unsigned>(blocks);
}

void set_block(LaunchPlan& plan, int64_t group, int64_t groups) {
  plan.shape.block[0] = static_cast<unsigned>(group);
  plan.shape.block[1] = static_cast<unsigned>(groups);
}

/// Threads count the elements of a row in 32 bits.
int64_t row_extent(IntRef extent, std::span<const int64_t> ints) {
  constexpr int64_t kMost = int64_t{1} << 30;
  const int64_t n = value_of(extent, ints);
  SMOLDER_CHECK(n <= kMost, RuntimeError, "a kernel with rows of ", n, " elements is more than a launch can have (",
                kMost, ")");
  return n;
}

/// Bytes of a row in shared memory: whole chunks, so that the last may be taken whole.
int64_t row_bytes(const KernelShape& shape, IntRef extent, int64_t itemsize, std::span<const int64_t> ints) {
  return round_up(value_of(extent, ints) * itemsize, std::max(kSharedAlignment, shape.vector * itemsize));
}

/// Bytes of each of the shared rows that a group has.
std::vector<int64_t> shared_bytes(const Schedule& schedule, std::span<const int64_t> ints) {
  std::vector<int64_t> all;
  for (const Stmt& s : schedule.kernel.root.body) {
    if (s.kind != StmtKind::kShared) break;
    const DType t = schedule.kernel.buffers[static_cast<size_t>(s.address.buffer)].dtype;
    all.push_back(row_bytes(schedule.shape, s.limit, static_cast<int64_t>(itemsize(t)), ints));
  }
  return all;
}

/// Shared memory of a block of so many groups that share a split loop: their rows, what they combine, and their sums.
int64_t split_bytes(const Schedule& schedule, int64_t group, int64_t groups, int64_t segments,
                    std::span<const int64_t> ints) {
  const KernelShape& shape = schedule.shape;
  int64_t rows = 0, slots = 0, bytes = group > kWarp ? kCombineBytes : 0;
  for (const auto& column : shape.sums) slots += row_bytes(shape, column.vector->extents[0], column.itemsize, ints);
  for (const int64_t row : shared_bytes(schedule, ints)) bytes += row;
  for (const auto& row : shape.common_rows) rows += row_bytes(shape, row.vector->extents[0], row.itemsize, ints);
  return rows + groups * bytes + segments * slots;
}

/// Groups of a block that have a position each.
int64_t groups_of(const KernelShape& shape, int64_t group, std::span<const int64_t> ints) {
  int64_t longest = 1;
  for (const Stmt* loop : shape.thread_loops) longest = std::max(longest, value_of(loop->extents[0], ints));
  const auto enough = std::bit_floor(static_cast<uint64_t>(kBlockElements / longest));
  return std::clamp<int64_t>(static_cast<int64_t>(enough), kWarp / group, kRowBlock / group);
}

/// Segments of the split loop, rounded up to a power of two: as many groups can take them.
int64_t segments_of(const KernelShape& shape, std::span<const int64_t> ints) {
  const int64_t iterations = std::max<int64_t>(row_extent(shape.group_split->extents[0], ints), 1);
  return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(ceil_div(iterations, segment_of(iterations)))));
}

/// Groups of a block that take segments of a loop side by side, and segments of a round: as many as there is room for.
int64_t split_groups(LaunchPlan& plan, const Schedule& schedule, int64_t group, std::span<const int64_t> ints,
                     int64_t shared_limit) {
  const KernelShape& shape = schedule.shape;
  plan.segments = segments_of(shape, ints);
  int64_t groups = std::min(plan.segments, std::max<int64_t>(shape.split_threads / group, 1));
  while (plan.segments > 1 && split_bytes(schedule, group, groups, plan.segments, ints) > shared_limit) {
    plan.segments /= 2;
    groups = std::min(groups, plan.segments);
  }
  return groups;
}

/// Threads of a block for so many chunks of a row: at most `widest`.
int64_t share_of(int64_t chunks, int64_t widest) {
  const int64_t share = ceil_div(chunks, ceil_div(chunks, widest));
  return share <= kWarp ? static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(share))) : round_up(share, kWarp);
}

/// Gives each group a place in shared memory for its sums.
void place_slots(LaunchPlan& plan, const KernelShape& shape) {
  int64_t shared = 0;
  for (size_t i = 0; i < shape.sums.size(); ++i) {
    const int64_t bytes = plan.shape.block[0] * shape.vector * shape.sums[i].itemsize;
    plan.slots[i] = {shared, bytes};
    shared += round_up(bytes * plan.shape.block[1], kSharedAlignment);
  }
  plan.shape.shared_bytes = static_cast<unsigned>(shared);
}

/// For `rows` positions of so many chunks. Where these alone keep the device busy each thread goes its own way. Groups
/// that share segments have a thread for each element that they add up.
void plan_split_columns(LaunchPlan& plan, const KernelShape& shape, std::span<const int64_t> ints, int64_t rows,
                        int64_t chunks, int64_t shared_limit) {
  const auto power = [](int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); };
  const int64_t iterations = value_of(shape.group_split->extents[0], ints);
  if (rows * chunks >= (iterations <= kFewIterations ? kAloneThreads / 2 : kAloneThreads)) {
    const int64_t group = share_of(chunks, kColumnThreads);
    plan.tiles = ceil_div(chunks, group);
    set_block(plan, group, std::min<int64_t>(kColumnThreads / group, rows));
    set_grid(plan, ceil_div(rows, plan.shape.block[1]) * plan.tiles);
    place_slots(plan, shape);
    return;
  }
  // Where much is computed segments are longer, for the sake of what a thread does once.
  int64_t group = std::min<int64_t>(power(chunks), shape.group_split->unroll < kFewAtOnce ? 2 * kWide : kWide);
  while (group > kNarrow && rows * ceil_div(chunks, group) < kFewBlocks) group /= 2;
  const int64_t fewest = power(shape.vector);
  int64_t groups = std::clamp<int64_t>(segments_of(shape, ints), fewest, kColumnThreads / group);
  int64_t side = std::clamp<int64_t>(kFewThreads / group / groups, 1, power(rows)), itemsizes = 0;
  for (const auto& column : shape.sums) itemsizes += column.itemsize;
  while (group * shape.vector * itemsizes * groups * side > shared_limit) {
    (side > 1 ? side : groups > fewest ? groups : group) /= 2;
  }
  plan.groups = groups;
  plan.tiles = ceil_div(chunks, group);
  set_block(plan, group, groups * side);
  set_grid(plan, ceil_div(rows, side) * plan.tiles);
  place_slots(plan, shape);
}

void plan_columns(LaunchPlan& plan, const Schedule& schedule, std::span<const int64_t> ints, int64_t positions,
                  int64_t shared_limit) {
  const KernelShape& shape = schedule.shape;
  plan.slots.resize(shape.sums.size());
  const bool flat = schedule.is_flat(), together = schedule.kernel.together;
  const int64_t rows = flat ? 1 : positions;
  int64_t columns = flat ? positions : value_of(shape.chunk_loop->extents[0], ints);
  if (shape.chunk_loop->clamp_var >= 0) columns = std::min(columns, value_of(shape.chunk_loop->clamp_total, ints));
  const int64_t threads = ceil_div(columns, shape.vector);
  if (rows <= 0 || threads <= 0) {
    set_grid(plan, 0);
    return;
  }
  if (const Stmt* const tile = tile_loop(schedule.kernel)) {
    const int64_t in_tile = tile->extents[0].constant;
    plan.tiles = ceil_div(columns, tile->chunk);
    set_block(plan, tile->chunk / shape.vector, in_tile);
    set_grid(plan, ceil_div(rows, in_tile) * plan.tiles);
    return;
  }
  if (shape.group_split) {
    plan_split_columns(plan, shape, ints, rows, threads, shared_limit);
    return;
  }
  if (shape.chunk_loop->coarsened && rows * threads >= kSeveral * kManyThreads) plan.chunks = kSeveral;
  // Blocks of several rows find in the first-level cache what is next to what one row loads.
  const int64_t widest = shape.transposed ? kWarp : plan.chunks > 1 ? kSeveralThreads : kColumnThreads;
  const int64_t group = together && flat ? widest : share_of(ceil_div(threads, plan.chunks), widest);
  plan.tiles = ceil_div(threads, group * plan.chunks);
  const int64_t groups = together ? kColumnThreads / group : std::min<int64_t>(kColumnThreads / group, rows);
  set_block(plan, group, groups);
  set_grid(plan, ceil_div(rows, groups) * plan.tiles);
}

void plan_rows(LaunchPlan& plan, const Schedule& schedule, std::span<const int64_t> ints, int64_t positions,
               const smolder::cuda::DeviceInfo& device) {
  const KernelShape& shape = schedule.shape;
  const int64_t shared_limit = device.shared_bytes;
  int64_t group = 1;
  for (const Stmt* loop : shape.thread_loops) {
    group = std::max<int64_t>(group, lanes_of(row_extent(loop->extents[0], ints)) / shape.sides);
  }
  const int64_t groups = shape.group_split ? split_groups(plan, schedule, group, ints, shared_limit)
                         : group <= kWarp  ? groups_of(shape, group, ints)
                                           : 1;
  set_block(plan, group, groups);
  set_grid(plan,
           shape.group_split ? std::max<int64_t>(positions, 0) : ceil_div(std::max<int64_t>(positions, 0), groups));
  int64_t shared = group > kWarp ? kCombineBytes * groups : 0;
  const int64_t lanes = shared;
  for (const int64_t bytes : shared_bytes(schedule, ints)) {
    plan.scratch.push_back({shared, bytes});
    shared += bytes * groups;
  }
  plan.scratch_in_memory = shared > shared_limit;
  if (plan.scratch_in_memory) shared = lanes;
  const auto place = [&](int64_t bytes) {
    const bool fits = shared + bytes <= shared_limit;
    const int64_t at = fits ? shared : -1;
    if (fits) shared += bytes;
    return at;
  };
  for (const auto& column : shape.sums) {
    const int64_t bytes = row_bytes(shape, column.vector->extents[0], column.itemsize, ints);
    plan.slots.push_back({place(bytes * plan.segments), bytes});
  }
  for (const auto& row : shape.common_rows) {
    const int64_t bytes = row_bytes(shape, row.vector->extents[0], row.itemsize, ints);
    plan.common_rows.push_back({place(bytes), bytes});
  }
  const int64_t before = shared;
  for (const auto& row : shape.staged_rows) {
    const int64_t bytes = row_bytes(shape, row.vector->extents[0], row.itemsize, ints);
    plan.staged_rows.push_back({place(bytes), bytes});
  }
  if (std::ranges::any_of(plan.staged_rows, [](const auto& row) { return row.offset < 0; })) {
    for (auto& row : plan.staged_rows) row.offset = -1;
    shared = before;
  } else if (shape.staged_blocks > 0) {
    const int blocks = device.multiprocessors * shape.staged_blocks;
    plan.shape.grid[0] = std::min(plan.shape.grid[0], static_cast<unsigned>(blocks));
  }
  plan.shape.shared_bytes = static_cast<unsigned>(shared);
}

}  // namespace

LaunchPlan plan_launch(const Schedule& schedule, std::span<const int64_t> ints, int64_t positions,
                       const smolder::cuda::DeviceInfo& device) {
  const KernelShape& shape = schedule.shape;
  LaunchPlan plan;
  if (shape.split) plan.segment = segment_of(value_of(shape.split->extents[0], ints));
  shape.chunk_loop ? plan_columns(plan, schedule, ints, positions, device.shared_bytes)
                   : plan_rows(plan, schedule, ints, positions, device);
  return plan;
}

Launch::Launch(const Schedule& schedule, const KernelArguments& call, const smolder::cuda::DeviceInfo& device) {
  const std::span<const int64_t> ints(call.ints, static_cast<size_t>(schedule.kernel.num_ints));
  plan_ = plan_launch(schedule, ints, call.positions, device);
  for (const Argument& x : schedule.arguments) words_.push_back(word(x, schedule, call, ints));
}

int64_t Launch::word(const Argument& x, const Schedule& schedule, const KernelArguments& call,
                     std::span<const int64_t> ints) {
  const KernelShape& shape = schedule.shape;
  switch (x.kind) {
    case Argument::kBuffer:
    case Argument::kStep: {
      const bool is_step = x.kind == Argument::kStep;
      void* const given = call.buffers[x.index];
      const Stmt* const row = shared_row(schedule.kernel, static_cast<int>(x.index));
      // The caller's memory for a shared row: there is one position.
      if (given || !row) return is_step ? 0 : reinterpret_cast<int64_t>(given);
      const auto [offset, bytes] = plan_.scratch[static_cast<size_t>(row - schedule.kernel.root.body.data())];
      if (is_step) return plan_.scratch_in_memory ? bytes : -bytes;
      return plan_.scratch_in_memory
                 ? take_memory(bytes * call.positions * (shape.group_split ? plan_.shape.block[1] : 1))
                 : offset;
    }
    case Argument::kInt:
      return ints[x.index];
    case Argument::kScalars:
      return reinterpret_cast<int64_t>(call.scalars);
    case Argument::kErrors:
      return reinterpret_cast<int64_t>(call.errors);
    case Argument::kPositions:
      return call.positions;
    case Argument::kTiles:
      return plan_.tiles;
    case Argument::kSlots:
      return plan_.slots[x.index].offset;
    case Argument::kMemory: {
      const LaunchPlan::Row& slots = plan_.slots[x.index];
      return !shape.chunk_loop && slots.offset < 0 ? take_memory(slots.bytes * call.positions * plan_.segments) : 0;
    }
    case Argument::kSlotSize:
      return plan_.slots[x.index].bytes / shape.sums[x.index].itemsize;
    case Argument::kCommonRow:
      return plan_.common_rows[x.index].offset;
    case Argument::kStagedRow:
      return plan_.staged_rows[x.index].offset;
    case Argument::kBlocks:
      return plan_.shape.grid[0];
    case Argument::kSegment:
      return plan_.segment;
    case Argument::kGroups:
      return plan_.groups;
    case Argument::kSegments:
      return plan_.segments;
    case Argument::kChunks:
      return plan_.chunks;
    case Argument::kLanes:
      return lanes_of(value_of(shape.thread_loops[x.index]->extents[0], ints));
  }
  raise<InternalError>("internal error: an argument of no kind");
}

/// For the word that comes next.
int64_t Launch::take_memory(int64_t bytes) {
  placed_.push_back({words_.size(), scratch_bytes_});
  scratch_bytes_ += bytes;
  return 0;
}

void Launch::place_scratch(int64_t address) {
  for (const Placed& p : placed_) words_[p.word] = address + p.offset;
}

}  // namespace smolder::jit::cuda
