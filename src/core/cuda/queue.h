// The order of a device's work: the one stream that all of it is queued on, graphs captured from it, and the ring
// through which numbers of the host reach the device.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "smolder/core/buffer.h"
#include "smolder/core/cuda/driver.h"

namespace smolder::cuda {

/// The stream that libraries of CUDA use unless told otherwise (CU_STREAM_LEGACY).
inline DriverStream legacy_stream() { return reinterpret_cast<DriverStream>(uintptr_t{1}); }

/// Work that was captured rather than run, to be queued as a whole.
class Graph {
 public:
  Graph(DriverGraph graph, std::vector<BufferRef> kept);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  DriverGraphExec handle() const { return handle_; }

 private:
  DriverGraphExec handle_ = nullptr;
  std::vector<BufferRef> kept_;  ///< temporaries whose addresses the work knows
};

/// Where what is written next goes in a ring of parts, each of which is waited for before it is written again.
class RingPlaces {
 public:
  RingPlaces(size_t parts, size_t part_bytes) : parts_(parts), part_bytes_(part_bytes) {}
  struct Place {
    size_t at;
    bool enters;  ///< a part: the one before it is left, and what was in this one must have been read
    size_t part;
  };
  /// `bytes`: at most those of a part.
  Place next(size_t bytes);

 private:
  const size_t parts_, part_bytes_;
  size_t part_ = 0, used_ = 0;  ///< of the part
};

/// Temporaries of the work in a graph. What follows on a lane may have the memory of what nobody holds any more.
class LaneMemory {
 public:
  /// The smallest that has as many bytes; null where there is none.
  BufferRef find(int lane, size_t bytes) const;
  void add(int lane, BufferRef memory) { kept_.push_back({lane, std::move(memory)}); }
  std::vector<BufferRef> take_all();

 private:
  struct Kept {
    int lane;
    BufferRef memory;
  };
  std::vector<Kept> kept_;
};

/// All work of a device is queued here, in program order, so memory that is freed may be given out again at once.
class Queue {
 public:
  /// Throws RuntimeError when there is no such device. Never destroyed.
  static Queue& of(int device);
  /// The same, but null unless the device was used.
  static Queue* existing(int device) noexcept;

  /// Where work goes: to the device, or to a lane of the graph that this thread is capturing.
  Stream& stream() { return is_capturing() ? *lanes_[lane_] : stream_; }
  int device() const { return stream_.device(); }

  /// On this thread.
  bool is_capturing() const { return capturing_ == this; }
  /// Captures what `work` queues, as a graph. It must only queue, and on `stream()`.
  std::unique_ptr<Graph> capture(const std::function<void()>& work);
  /// For work that is being captured: lanes go side by side, from the start of the graph to its end.
  static constexpr int kLanes = 6;
  void use_lane(int lane);
  /// The lane in use; 0 when nothing is being captured.
  int lane() const { return is_capturing() ? lane_ : 0; }
  /// A point of the lane in use, and what follows on the lane in use waits for such a point.
  int mark();
  void wait_for(int mark);
  void launch(const Graph& graph);
  /// Null unless this thread is capturing a graph, which keeps what is added.
  LaneMemory* temporaries() { return is_capturing() ? &temporaries_ : nullptr; }
  /// A few bytes for the work that is being captured and nobody else, which are zeros when the graph begins: what fills
  /// them with zeros is left out of it. Null when nothing is being captured, or all were given.
  void* zeros(size_t bytes);

  /// Copies to memory of another device, after all that either was given; what either is given from now on is after
  /// the copy.
  void copy_to(Queue& other, void* to, const void* from, size_t bytes);
  /// Lets what is queued from now on wait for what a stream of somebody else's was given.
  void follow(DriverStream other);
  /// Lets what such a stream is given from now on wait for what is queued.
  void precede(DriverStream other);

  /// Queues a copy of `bytes` from the host to the device, which are read before this returns.
  void upload(void* to, const void* from, size_t bytes);
  /// Waits for all that was queued before the last call of this. For work that takes longer than to queue it.
  void pace();

 private:
  explicit Queue(int device);

  static constexpr size_t kParts = 4, kPartBytes = 256 << 10, kZeros = 128 << 10;
  static thread_local Queue* capturing_;

  Stream stream_;
  // State of the graph being captured.
  std::array<std::unique_ptr<Stream>, kLanes> lanes_;
  std::array<bool, kLanes> used_{};
  int lane_ = 0;
  std::vector<std::unique_ptr<Event>> events_;
  int marks_ = 0;
  LaneMemory temporaries_;
  BufferRef zeros_;
  size_t zeros_used_ = 0;

  std::mutex mutex_;
  Event handed_over_, paced_;
  PinnedMemory ring_;
  RingPlaces places_{kParts, kPartBytes};
  std::array<Event, kParts> read_;  ///< all of the part has been
};

}  // namespace smolder::cuda
