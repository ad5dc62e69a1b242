// Which work of a run may go side by side: what shares no memory need not be in one order.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace smolder::jit::cuda {

/// Bytes [begin, end) that a piece of work reads or writes.
struct MemoryRange {
  uintptr_t begin, end;
  bool written;
};

/// Where a piece of work goes.
struct LanePlace {
  int lane = 0;
  std::vector<int> waits;      ///< earlier pieces, on other lanes, that it must wait for
  bool is_waited_for = false;  ///< by some on other lanes
};

/// Deals work, given in an order that is right, to `lanes` queues so that pieces of which one writes what the other
/// touches stay in that order. A piece goes behind the last one that it waits for where it can, else where it waits
/// for nothing else; but what touches `large` bytes or more fills the device by itself, so all such work is on the
/// first queue.
std::vector<LanePlace> deal_to_lanes(std::span<const std::vector<MemoryRange>> work, int lanes,
                                     uint64_t large = uint64_t{30} << 20);

}  // namespace smolder::jit::cuda
