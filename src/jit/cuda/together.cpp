#include "smolder/jit/cuda/together.h"

#include <algorithm>
#include <utility>

#include "smolder/jit/cuda/launch.h"

namespace smolder::jit::cuda {

namespace {

/// Bytes of arguments that a kernel may have on any device. Newer ones take more, which each launch would copy.
constexpr int64_t kArgumentBytes = 4096;
/// Beyond this, blocks search for long.
constexpr int64_t kMostCalls = 64;
constexpr int64_t kMostBlocks = (int64_t{1} << 31) - 1;

/// A launch that calls are added to.
struct Table {
  smolder::cuda::LaunchShape shape;
  int64_t blocks = 0;
  std::vector<std::vector<int64_t>> calls;
  std::vector<uint32_t> first;

  bool takes(const smolder::cuda::LaunchShape& other, int64_t most) const {
    return std::ranges::equal(shape.block, other.block) && static_cast<int64_t>(calls.size()) < most &&
           blocks + other.grid[0] <= kMostBlocks;
  }
  void add(Launch& launch) {
    const smolder::cuda::LaunchShape& other = launch.plan().shape;
    shape.shared_bytes = std::max(shape.shared_bytes, other.shared_bytes);
    first.push_back(static_cast<uint32_t>(blocks));
    blocks += other.grid[0];
    calls.push_back(std::move(launch.words()));
  }
  TableLaunch finish(int64_t words_of_one, int64_t most) && {
    TableLaunch out{shape, {}};
    out.shape.grid[0] = static_cast<unsigned>(blocks);
    for (const auto& call : calls) out.words.insert(out.words.end(), call.begin(), call.end());
    out.words.resize(static_cast<size_t>(words_of_one * most));
    const size_t count = first.size();
    first.resize(static_cast<size_t>(most));
    first.push_back(static_cast<uint32_t>(count));
    for (size_t i = 0; i < first.size(); i += 2) {
      const uint64_t high = i + 1 < first.size() ? first[i + 1] : 0;
      out.words.push_back(static_cast<int64_t>(high << 32 | first[i]));
    }
    return out;
  }
};

}  // namespace

int64_t most_together(const Schedule& schedule) {
  const bool sums_rows = schedule.shape.group_split && !schedule.shape.chunk_loop;
  // Rows that may need memory of their own.
  if (sums_rows || has_shared_rows(schedule.kernel)) return 0;
  const int64_t bytes = static_cast<int64_t>(schedule.arguments.size()) * 8 + 4;
  const int64_t calls = std::min((kArgumentBytes - 8) / bytes, kMostCalls);
  return calls < 2 ? 0 : calls;
}

bool may_run_together(const Kernel& kernel) { return most_together(Schedule(kernel)) > 0; }

std::vector<TableLaunch> launch_together(const Schedule& schedule, std::span<const KernelArguments> calls,
                                         const smolder::cuda::DeviceInfo& device) {
  const auto most = most_together(schedule), words = static_cast<int64_t>(schedule.arguments.size());
  std::vector<Table> tables;
  for (const KernelArguments& c : calls) {
    Launch launch(schedule, c, device);
    if (launch.empty()) continue;
    const smolder::cuda::LaunchShape& own = launch.plan().shape;
    auto table = std::ranges::find_if(tables, [&](const Table& t) { return t.takes(own, most); });
    if (table == tables.end()) {
      table = tables.emplace(tables.end());
      table->shape = own;
    }
    table->add(launch);
  }
  std::vector<TableLaunch> out;
  for (Table& t : tables) out.push_back(std::move(t).finish(words, most));
  return out;
}

}  // namespace smolder::jit::cuda
