#include <algorithm>
#include <bit>

#include "smolder/core/error.h"
#include "smolder/jit/cuda/interpreter.h"
#include "smolder/jit/cuda/shape.h"

namespace smolder::jit::cuda {

namespace {

constexpr int64_t kColumnBlock = 128, kGroupsBlock = 128;  ///< threads of a block, where groups are small
constexpr int64_t kBlocksEach = 16;  ///< blocks of a multiprocessor at most: they go from one position to the next
constexpr size_t kFirstWord = 7;     ///< of the argument, whose numbers come before

int64_t share(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t slot_bytes(const ByteCode& code, int64_t threads) { return code.slots * int64_t{8} * threads; }

}  // namespace

bool may_interpret(const ByteCode& code, const smolder::cuda::DeviceInfo& device) {
  const int64_t threads = code.takes_columns ? kWarp : kMostRowThreads;
  return code.num_words() <= kInterpreterWords && slot_bytes(code, threads) <= device.shared_bytes;
}

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
  words_ = {0,
            reinterpret_cast<int64_t>(call.scalars),
            reinterpret_cast<int64_t>(call.errors),
            positions,
            columns,
            code.guarded ? 1 : 0,
            static_cast<int64_t>(code.rows.size())};
  const size_t buffers = code.rows.size();
  const int64_t groups = int64_t{shape_.grid[0]} * (code.takes_columns ? shape_.block[0] : shape_.block[1]);
  words_.resize(kFirstWord + 2 * buffers);
  for (size_t b = 0; b < buffers; ++b) {
    const bool is_given = b < static_cast<size_t>(code.num_buffers) && call.buffers[b];
    words_[kFirstWord + b] = is_given ? reinterpret_cast<int64_t>(call.buffers[b]) : 0;
    const ByteCode::Row& row = code.rows[b];
    if (is_given || row.itemsize == 0) continue;
    const int64_t bytes = row.itemsize * (code.takes_columns ? 1 : std::max<int64_t>(value_of(row.elements, ints), 1));
    words_[kFirstWord + b] = scratch_bytes_;
    words_[kFirstWord + buffers + b] = bytes;
    placed_.push_back(kFirstWord + b);
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
  words_.resize(kFirstWord + kInterpreterWords);
}

void InterpreterLaunch::place_scratch(const void* address) {
  for (const size_t w : placed_) words_[w] += reinterpret_cast<int64_t>(address);
}

void InterpreterLaunch::plan_columns(const ByteCode& code, int64_t elements, const smolder::cuda::DeviceInfo& device) {
  int64_t threads = kColumnBlock;
  while (threads > kWarp && slot_bytes(code, threads) > device.shared_bytes) threads /= 2;
  shape_.block[0] = static_cast<unsigned>(threads);
  shape_.grid[0] = static_cast<unsigned>(std::min(share(elements, threads), device.multiprocessors * kBlocksEach));
  shape_.shared_bytes = static_cast<unsigned>(slot_bytes(code, threads));
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
  shape_.shared_bytes = static_cast<unsigned>(slot_bytes(code, group * groups));
}

}  // namespace smolder::jit::cuda
