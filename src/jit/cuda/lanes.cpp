#include "smolder/jit/cuda/lanes.h"

#include <algorithm>

namespace smolder::jit::cuda {
namespace {

bool conflict(const std::vector<MemoryRange>& a, const std::vector<MemoryRange>& b) {
  for (const MemoryRange& x : a) {
    for (const MemoryRange& y : b) {
      if ((x.written || y.written) && x.begin < y.end && y.begin < x.end) return true;
    }
  }
  return false;
}

uint64_t bytes_of(const std::vector<MemoryRange>& ranges) {
  uint64_t bytes = 0;
  for (const MemoryRange& r : ranges) bytes += r.end - r.begin;
  return bytes;
}

class Dealer {
 public:
  Dealer(std::span<const std::vector<MemoryRange>> work, int lanes, uint64_t large)
      : work_(work),
        large_(large),
        done_(work.size(), Clock(lanes, 0)),
        places_(work.size()),
        tails_(lanes, kNone),
        counts_(lanes, 0) {}

  std::vector<LanePlace> deal() && {
    for (int i = 0; i < static_cast<int>(work_.size()); ++i) place(i);
    return std::move(places_);
  }

 private:
  static constexpr int kNone = -1;
  /// By lane, how many of its pieces are known to be done.
  using Clock = std::vector<int>;

  void place(int i) {
    std::vector<int> before;  // the latest first
    for (int j = i; j-- > 0;) {
      if (conflict(work_[i], work_[j])) before.push_back(j);
    }
    LanePlace& p = places_[i];
    p.lane = bytes_of(work_[i]) >= large_ ? 0 : lane_for(before);
    const int tail = tails_[p.lane];
    Clock known = tail == kNone ? Clock(tails_.size(), 0) : done_[tail];
    for (const int j : before) {
      if (is_known(known, j)) continue;
      p.waits.push_back(j);
      places_[j].is_waited_for = true;
      for (size_t l = 0; l < known.size(); ++l) known[l] = std::max(known[l], done_[j][l]);
    }
    tails_[p.lane] = i;
    known[p.lane] = ++counts_[p.lane];
    done_[i] = std::move(known);
  }

  /// Whether piece j is done once those of the clock are.
  bool is_known(const Clock& clock, int j) const { return clock[places_[j].lane] >= done_[j][places_[j].lane]; }

  int lane_for(const std::vector<int>& before) const {
    for (const int j : before) {
      if (tails_[places_[j].lane] == j) return places_[j].lane;
    }
    Clock known(tails_.size(), 0);
    for (const int j : before) {
      for (size_t l = 0; l < known.size(); ++l) known[l] = std::max(known[l], done_[j][l]);
    }
    const auto waits_for_nothing_else = [&](int tail) { return tail == kNone || is_known(known, tail); };
    const auto free = std::ranges::find_if(tails_, waits_for_nothing_else);
    const auto lane = free != tails_.end() ? free : std::ranges::min_element(tails_);
    return static_cast<int>(lane - tails_.begin());
  }

  std::span<const std::vector<MemoryRange>> work_;
  uint64_t large_;
  std::vector<Clock> done_;  ///< by piece, what is known to be done when it is
  std::vector<LanePlace> places_;
  std::vector<int> tails_, counts_;  ///< by lane: its last piece, and how many it has
};

}  // namespace

std::vector<LanePlace> deal_to_lanes(std::span<const std::vector<MemoryRange>> work, int lanes, uint64_t large) {
  return Dealer(work, lanes, large).deal();
}

}  // namespace smolder::jit::cuda
