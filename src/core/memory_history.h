// Who holds memory: for each block that is held the op and the line that it was taken for, and what was taken and given
// back of late. Off, an allocator reads a flag and goes on.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "smolder/core/device.h"
#include "smolder/core/source_line.h"

namespace smolder {

/// The purpose of memory: an op's result and the line that recorded it, or a part of the runtime.
struct MemoryUse {
  std::string what;  ///< "linear", "arena of plans"; empty when nobody said
  SourceToken source = 0;
};

/// A block that is held.
struct HeldMemory {
  uintptr_t address = 0;
  Device device = {};
  size_t bytes = 0;  ///< asked for
  size_t size = 0;   ///< of the block
  MemoryUse use = {};
  int64_t at_ns = 0;  ///< when it was taken, or last written over by an op's result, on the clock of now_ns()
};
/// A block that was taken, given back, or given to the result of another op.
struct MemoryEvent {
  enum Kind : uint8_t { kTaken, kGivenBack, kGivenOn } kind = kTaken;
  HeldMemory block;
};
struct MemoryHistory {
  std::vector<HeldMemory> held;     ///< of what was taken since the history was started, by address
  std::vector<MemoryEvent> events;  ///< the latest
};

namespace memory_detail {
enum : uint8_t { kKept = 1, kProfiled = 2 };
extern std::atomic<uint8_t> g_watched;
/// Begins or ends to watch for one of these. Takes no lock: the profile asks for it under its own.
void watch(uint8_t what, bool on);
}  // namespace memory_detail

/// Whether anybody wants to be told. One relaxed load.
inline bool memory_is_watched() { return memory_detail::g_watched.load(std::memory_order_relaxed) != 0; }

/// Keeps what is taken from now on, and the `most_events` latest events. What was kept is forgotten, unless the history
/// is on already and `goes_on`.
void start_memory_history(size_t most_events, bool goes_on = false);
void stop_memory_history();
bool memory_history_is_on();
/// The events since the last start; a stop does not forget it.
MemoryHistory memory_history();

/// Memory that this thread takes while it lives is for that purpose.
class MemoryFor {
 public:
  MemoryFor(std::string_view what, SourceToken source);
  ~MemoryFor();
  MemoryFor(const MemoryFor&) = delete;
  MemoryFor& operator=(const MemoryFor&) = delete;

 private:
  MemoryUse use_;
  const MemoryUse* before_ = nullptr;
  bool on_;
};

/// Allocators tell, when memory is watched: of a block of `size` bytes that was taken, and before one is given back.
/// `live`: the bytes of blocks that are held then.
void note_taken(const void* data, size_t bytes, size_t size, Device device, int64_t live);
void note_given_back(const void* data, size_t size, Device device, int64_t live);
/// The block at `data` now holds the result of another op.
void note_given_on(const void* data, std::string_view what, SourceToken source);

}  // namespace smolder
