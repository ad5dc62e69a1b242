#include <algorithm>
#include <bit>

#include "smolder/core/error.h"
#include "smolder/jit/cuda/interpreter.h"
#include "smolder/jit/cuda/shape.h"

namespace smolder::jit::cuda {

namespace {

constexpr int64_t kColumnBlock = 128, kGroupsBlock = 128;  ///< threads of a block, where groups are small
constexpr int64_t kBlocksEach = 16;  ///< blocks of a multiprocessor at most: they go from one position to the next
constexpr int64_t kMostSlotBytes = int64_t{64} << 20;  ///< of slots in the device's memory: beyond, blocks are fewer
/// Places in the argument: its first word, or the addresses of a large call's words and slots, and slots of a block.
constexpr size_t kFirstWord = 7, kWordsAt = 7, kSlotsAt = 8, kBlockSlotsAt = 9;

int64_t share(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t slot_bytes(const ByteCode& code, int64_t threads) { return code.slots * int64_t{8} * threads; }

}  // namespace

InterpreterLaunch::InterpreterLaunch(const ByteCode& code, const KernelArguments& call,
                                     const smolder::cuda::DeviceInfo& device) {
  const std::span<const int64_t> ints(call.ints, static_cast<size_t>(code.num_ints));
  int64_t positions = std::max<int64_t>(call.positions, 0), columns = -1;
  if (code.takes_columns) {
    columns = std::max<int64_t>(code.is_flat ? positions : value_of(code.columns, ints), 0);
    if (code.is_flat) positions = columns > 0 ? 1 : 0;
    plan_columns(code, positions * columns, device);
  } else {
    plan_groups(code, ints, positions, device);
  }
  if (empty()) return;
  plan_slots(code, device);
  const size_t buffers = code.rows.size();
  argument_ = {0,
               reinterpret_cast<int64_t>(call.scalars),
               reinterpret_cast<int64_t>(call.errors),
               positions,
               columns,
               code.guarded ? 1 : 0,
               static_cast<int64_t>(buffers)};
  fill_words(code, call, ints);
  if (slots_bytes_ > 0 || code.num_words() > kInterpreterWords) {
    argument_.resize(kBlockSlotsAt + 1);
    argument_[kBlockSlotsAt] = slots_bytes_ / (int64_t{8} * shape_.grid[0]);
    return;
  }
  argument_.insert(argument_.end(), words_.begin(), words_.end());
  argument_.resize(kFirstWord + kInterpreterWords);
  words_.clear();
}

void InterpreterLaunch::fill_words(const ByteCode& code, const KernelArguments& call, std::span<const int64_t> ints) {
  const size_t buffers = code.rows.size();
  const int64_t groups = int64_t{shape_.grid[0]} * (code.takes_columns ? shape_.block[0] : shape_.block[1]);
  words_.reserve(code.num_words());
  words_.resize(2 * buffers);
  for (size_t b = 0; b < buffers; ++b) {
    const bool is_given = b < static_cast<size_t>(code.num_buffers) && call.buffers[b];
    words_[b] = is_given ? reinterpret_cast<int64_t>(call.buffers[b]) : 0;
    const ByteCode::Row& row = code.rows[b];
    if (is_given || row.itemsize == 0) continue;
    const int64_t bytes = row.itemsize * (code.takes_columns ? 1 : std::max<int64_t>(value_of(row.elements, ints), 1));
    words_[b] = scratch_bytes_;
    words_[buffers + b] = bytes;
    placed_.push_back(b);
    scratch_bytes_ += share(bytes * groups, 16) * 16;
  }
  words_.insert(words_.end(), ints.begin(), ints.end());
  for (const auto& [kind, extent] : code.derived) {
    const int64_t n = value_of(extent, ints);
    words_.push_back(kind == ByteCode::Derived::kLanes      ? lanes_of(n)
                     : kind == ByteCode::Derived::kUnit     ? unit_of(n)
                     : kind == ByteCode::Derived::kAllLanes ? shape_.block[0]
                     : kind == ByteCode::Derived::kSegment  ? segment_of(n)
                                                            : 1);
  }
  words_.insert(words_.end(), code.constants.begin(), code.constants.end());
}

/// In shared memory, or where that has not enough for a block in the device's, for as many blocks as run at once.
void InterpreterLaunch::plan_slots(const ByteCode& code, const smolder::cuda::DeviceInfo& device) {
  const int64_t bytes = slot_bytes(code, int64_t{shape_.block[0]} * shape_.block[1]);
  if (bytes <= device.shared_bytes) {
    shape_.shared_bytes = static_cast<unsigned>(bytes);
    return;
  }
  const int64_t most = std::max<int64_t>(kMostSlotBytes / bytes, 1);
  shape_.grid[0] = static_cast<unsigned>(std::min<int64_t>(shape_.grid[0], most));
  slots_bytes_ = bytes * shape_.grid[0];
}

void InterpreterLaunch::place_slots(const void* address) { argument_[kSlotsAt] = reinterpret_cast<int64_t>(address); }
void InterpreterLaunch::place_words(const void* address) { argument_[kWordsAt] = reinterpret_cast<int64_t>(address); }
double interpreter_slowness(const Kernel& kernel, std::span<const int64_t> ints, int64_t positions,
                            const smolder::cuda::DeviceInfo& device) {
  constexpr double kThreadsEach = 512;  // of a multiprocessor, which hide what each waits for
  const std::vector<void*> nowhere(kernel.buffers.size());
  const InterpreterLaunch launch(encode(kernel), {nowhere.data(), ints.data(), nullptr, nullptr, positions}, device);
  const smolder::cuda::LaunchShape& shape = launch.shape();
  const double threads = static_cast<double>(shape.grid[0]) * shape.block[0] * shape.block[1];
  return std::max(1.0, kThreadsEach * device.multiprocessors / std::max(threads, 1.0));
}

void InterpreterLaunch::place_scratch(const void* address) {
  for (const size_t w : placed_) {
    (words_.empty() ? argument_[kFirstWord + w] : words_[w]) += reinterpret_cast<int64_t>(address);
  }
}

void InterpreterLaunch::plan_columns(const ByteCode& code, int64_t elements, const smolder::cuda::DeviceInfo& device) {
  int64_t threads = kColumnBlock;
  while (threads > kWarp && slot_bytes(code, threads) > device.shared_bytes) threads /= 2;
  shape_.block[0] = static_cast<unsigned>(threads);
  shape_.grid[0] = static_cast<unsigned>(std::min(share(elements, threads), device.multiprocessors * kBlocksEach));
}

void InterpreterLaunch::plan_groups(const ByteCode& code, std::span<const int64_t> ints, int64_t positions,
                                    const smolder::cuda::DeviceInfo& device) {
  int64_t group = 1;
  for (const IntRef extent : code.vectors) group = std::max<int64_t>(group, lanes_of(value_of(extent, ints)));
  int64_t groups = group <= kWarp ? kGroupsBlock / group : 1;
  while (groups > 1 && slot_bytes(code, group * groups) > device.shared_bytes) groups /= 2;
  shape_.block[0] = static_cast<unsigned>(group);
  shape_.block[1] = static_cast<unsigned>(groups);
  shape_.grid[0] = static_cast<unsigned>(std::min(share(positions, groups), device.multiprocessors * kBlocksEach));
}

}  // namespace smolder::jit::cuda
