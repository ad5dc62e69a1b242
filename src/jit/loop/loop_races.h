// Errors where the threads of a scheduled kernel take places of memory in another order, or keep elements that
// others touch: the interpreter looks for it at each access.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "smolder/core/error.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

/// Who touched places of memory since the last barrier. Threads are numbered within their group; groups, which no
/// barrier joins, by position.
class Races {
 public:
  static constexpr int kAll = -1;  ///< all threads of a group

  void next_position() {
    ++position_;
    ++phase_;
  }
  void barrier() { ++phase_; }
  /// Threads run one after the other here, and each begins in the phase in which the first did.
  int64_t phase() const { return phase_; }
  void begin_thread(int64_t phase) { phase_ = phase; }
  /// Iterations of a split loop are of segments, which no barrier joins until it ends.
  void begin_split() { split_ = ++splits_; }
  void segment(int64_t segment) { segment_ = segment; }
  void end_split() {
    split_ = 0;
    ++phase_;
  }

  /// Throws InternalError where a load that is made early would miss what was written since.
  void touch_early(const Kernel& k, int buffer, const void* place, int64_t element) const {
    const auto it = places_.find(place);
    const bool misses = it != places_.end() && it->second.written.position == position_ &&
                        (split_ == 0 || it->second.written.split == split_);
    SMOLDER_CHECK(!misses, InternalError, "internal error: a load of b", buffer, "[", element,
                  "] is made before what writes it, in\n", print(k));
  }

  /// Throws InternalError where the access and an earlier one may come in either order, and one of them writes. `own`:
  /// the memory is each group's own.
  void touch(const Kernel& k, int buffer, const void* place, int64_t element, int thread, bool writes, bool own) {
    Place& p = places_[place];
    if (own && p.read.position != position_ && p.written.position != position_) p = {};
    const Touch now{position_, phase_, split_, segment_, thread};
    const bool races = p.written.races(now) || (writes && p.read.races(now));
    SMOLDER_CHECK(!races, InternalError, "internal error: two threads touch b", buffer, "[", element,
                  "] without a barrier between them, and one writes it, in\n", print(k));
    Touch& last = writes ? p.written : p.read;
    // Where there are several readers, none is the only one.
    if (!writes && last.position >= 0 && last.position != now.position) {
      last.position = kSeveral;
    } else if (!writes && last.split != 0 && last.split == now.split && last.segment != now.segment) {
      last.segment = kSeveral;
    } else if (!writes && last.phase == now.phase && last.thread != now.thread) {
      last.thread = kAll;
    } else if (last.position != kSeveral) {
      last = now;
    }
  }

 private:
  static constexpr int64_t kNone = -1, kSeveral = -2;
  struct Touch {
    int64_t position = kNone, phase = 0, split = 0, segment = 0;
    int thread = 0;
    /// Whether a later access of another kind may come before this one.
    bool races(const Touch& later) const {
      if (position == kNone) return false;
      if (position != later.position) return true;
      if (split != 0 && split == later.split && segment != later.segment) return true;
      return phase == later.phase && (thread == kAll || thread != later.thread);
    }
  };
  struct Place {
    Touch read, written;
  };
  std::unordered_map<const void*, Place> places_;
  int64_t position_ = 0, phase_ = 0, split_ = 0, splits_ = 0, segment_ = 0;
};

/// Elements that a thread keeps in registers, and those that are staged in shared memory. The copy in the device's
/// memory may be older than those, or newer.
class Placements {
 public:
  void next_position() {
    held_.clear();
    staged_.clear();
  }
  void end_split() { staged_.clear(); }
  void run(const Stmt& s, const void* place, int thread) {
    if (s.kind == StmtKind::kHold) held_[place] = {thread, false};
    if (s.kind == StmtKind::kRelease) held_.erase(place);
    if (s.kind == StmtKind::kStage) staged_.insert(place);
    if (s.kind == StmtKind::kUnstage) staged_.erase(place);
  }
  /// The same for a chunk, lane by lane.
  void hold_lane(int buffer, const void* place) { chunks_[buffer].push_back(place); }
  void release_chunk(int buffer) { chunks_.erase(buffer); }
  /// Throws InternalError where a lane of a thread touches an element of a buffer of which it holds another.
  void touch_lane(const Kernel& k, int buffer, const void* place, int64_t element, int64_t lane) const {
    const auto chunk = chunks_.find(buffer);
    const bool misses = chunk != chunks_.end() && chunk->second.at(static_cast<size_t>(lane)) != place;
    SMOLDER_CHECK(!misses, InternalError, "internal error: a thread touches b", buffer, "[", element,
                  "], and keeps other elements of the buffer in registers, in\n", print(k));
  }
  /// Throws InternalError where the access is not the one that memory stands for.
  void touch(const Kernel& k, int buffer, const void* place, int64_t element, int thread, bool writes) {
    if (held_.empty() && staged_.empty()) return;  // most accesses
    const auto held = held_.find(place);
    const bool misses = held != held_.end() && held->second.thread != thread && (writes || held->second.is_written);
    SMOLDER_CHECK(!misses, InternalError, "internal error: a thread touches b", buffer, "[", element,
                  "], which another keeps in registers, in\n", print(k));
    SMOLDER_CHECK(!writes || !staged_.contains(place), InternalError, "internal error: a thread writes b", buffer, "[",
                  element, "], which is staged in shared memory, in\n", print(k));
    if (held != held_.end() && writes) held->second.is_written = true;
  }

 private:
  struct Held {
    int thread;
    bool is_written;
  };
  std::unordered_map<const void*, Held> held_;
  std::unordered_set<const void*> staged_;
  std::unordered_map<int, std::vector<const void*>> chunks_;  ///< by buffer: what each lane holds
};

}  // namespace smolder::jit
