// Where intermediates live: offsets into one arena, from how long each is needed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "smolder/jit/program.h"

namespace smolder::jit {

/// When a buffer of the arena is needed, in launches, and whose memory it may take over.
struct Lifetime {
  BufferId buffer = -1;
  ir::Dim elements;
  int64_t itemsize = 0;
  int first = 0, last = 0;
  std::vector<int> heirs_of;  ///< lifetimes that end in `first`, whose elements this one may overwrite in place
};

/// Lifetimes of the arena's buffers, in order of first use. `launch_of` says in which launch each step runs. Guards
/// that sizes of one number under two names are one.
std::vector<Lifetime> lifetimes_of(Program& program, std::span<const int> launch_of);

/// An output that is no leaf's memory: until it is written it may hold what the arena would.
struct Host {
  BufferId buffer = -1;
  ir::Dim elements;
  int64_t itemsize = 0;
  int until = 0;  ///< the launch that first writes it
};

/// Byte offset of each lifetime, and the bytes of the arena, for sizes known: best fit in order of first use, or, where
/// that leaves much empty when most is needed, the largest first. What waits then lies in hosts, as far as it fits.
struct Placement {
  std::vector<int64_t> offsets;
  std::vector<BufferId> hosts;  ///< by lifetime: whose memory it is in; -1: the arena's
  int64_t bytes = 0;
};
Placement place(std::span<const Lifetime> lifetimes, std::span<const int64_t> evaluated,
                std::span<const Host> hosts = {});

/// Fills Program::donations: see Plan::donations.
void find_donors(Program& program, std::span<const int> launch_of);
/// Outputs that no leaf can be given for. Donors must be known.
std::vector<Host> find_hosts(const Program& program, std::span<const int> launch_of);

}  // namespace smolder::jit
