// Which processes wait for which: so that those that wait for each other for ever say so, whatever the groups are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "smolder/distributed/store.h"

namespace smolder::distributed {

/// The job that a process waits for.
struct Waiting {
  int64_t group = 0;        ///< its number
  uint64_t number = 0;      ///< of the collective; 0: a receive, or that the group is made
  std::vector<int> needed;  ///< ranks of the world, without each of which it does not end
  uint64_t slot = 0;        ///< of a receive: where the two sides meet, and how many times they did
  uint64_t turn = 0;
  std::string what;  ///< for messages
};

/// The jobs that this process has begun, as it tells the others while it waits.
void note_group(int64_t group);
void note_collective(int64_t group, uint64_t number);
void note_send(int64_t group, int to, uint64_t slot);
/// Returns how many receives from that rank there were with the slot, this one with them.
uint64_t note_receive(int64_t group, int from, uint64_t slot);

/// Tells the others that this process, which is `rank`, waits, and looks whether one of those that it needs waits in
/// turn, through whatever others, for this one. Returns what to say then: none of them goes on, as each waits for a
/// process that has not begun the same. While it is called nothing else is begun.
std::optional<std::string> waits_in_circle(Store& store, int rank, const Waiting& waiting);
/// Tells them that it does not wait any more.
void forget_waiting(Store& store, int rank);

}  // namespace smolder::distributed
