#include "smolder/core/cuda/timeline.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "smolder/core/error.h"

namespace smolder::cuda {

/// Work that is being timed.
struct TimedWork::Work {
  Stream* stream;
  std::vector<Span> spans;
  std::unique_ptr<Event> begin, end;
};

namespace {

/// Pieces of work waiting to be read after which those that are done are read.
constexpr size_t kMostWaiting = 1024;
/// A float's milliseconds are exact to a microsecond up to here; later times count from a later event.
constexpr double kAnchorMs = 4000;

/// The timeline of a device, whose events are in one order. Guarded by `lock`. Never destroyed.
struct Timeline {
  std::mutex lock;
  std::unique_ptr<Event> anchor;  ///< an event whose time on the host's clock is known
  double anchor_ns = 0;
  std::deque<TimedWork::Work> waiting;
  std::vector<std::unique_ptr<Event>> free;

  static Timeline& of(int device) {
    static auto* const all = new std::array<Timeline, kMaxCudaDevices>;
    return (*all)[device];
  }
  static void each(auto&& f) {
    for (int device = 0; device < kMaxCudaDevices; ++device) {
      Timeline& t = of(device);
      const std::lock_guard hold(t.lock);
      f(t);
    }
  }

  std::unique_ptr<Event> event(int device) {
    if (free.empty()) return std::make_unique<Event>(device, true);
    auto e = std::move(free.back());
    free.pop_back();
    return e;
  }

  /// Waits, once a profile, for an event, so that it is known when it was.
  void set_anchor(Stream& stream) {
    anchor = event(stream.device());
    anchor->record(stream);
    anchor->synchronize();
    anchor_ns = static_cast<double>(now_ns());
  }

  int64_t time_of(const Event& e) const { return std::llround(anchor_ns + e.milliseconds_since(*anchor) * 1e6); }

  void read(TimedWork::Work work) {
    const int64_t end = time_of(*work.end);
    const int64_t begin = time_of(*work.begin);
    double bytes = 0, passed = 0;
    for (const Span& span : work.spans) bytes += static_cast<double>(span.bytes);
    const auto at = [&] {
      return begin + std::llround(passed / std::max(bytes, 1.0) * static_cast<double>(end - begin));
    };
    for (Span& span : work.spans) {
      span.begin_ns = at();
      passed += static_cast<double>(span.bytes);
      span.end_ns = &span == &work.spans.back() ? end : at();
      add_span(std::move(span));
    }
    free.push_back(std::move(work.begin));
    if (static_cast<double>(end) - anchor_ns > kAnchorMs * 1e6) {
      anchor_ns = static_cast<double>(end);
      std::swap(anchor, work.end);
    }
    free.push_back(std::move(work.end));
  }

  void settle(bool wait) {
    while (!waiting.empty()) {
      if (wait) waiting.front().end->synchronize();
      if (!wait && !waiting.front().end->done()) return;
      TimedWork::Work work = std::move(waiting.front());
      waiting.pop_front();
      read(std::move(work));
    }
  }
};

}  // namespace

void TimedWork::begin(Stream& stream, std::vector<Span> spans) {
  Timeline& t = Timeline::of(stream.device());
  const std::lock_guard hold(t.lock);
  if (!t.anchor) t.set_anchor(stream);
  for (Span& span : spans) {
    span.thread = thread_number();
    span.device = {DeviceType::kCUDA, stream.device()};
    span.queued = true;
  }
  auto work =
      std::make_unique<Work>(Work{&stream, std::move(spans), t.event(stream.device()), t.event(stream.device())});
  work->begin->record(stream);
  work_ = work.release();
}

void TimedWork::end() noexcept {
  const std::unique_ptr<Work> work(std::exchange(work_, nullptr));
  Timeline& t = Timeline::of(work->stream->device());
  const std::lock_guard hold(t.lock);
  try {
    work->end->record(*work->stream);
    t.waiting.push_back(std::move(*work));
    if (t.waiting.size() > kMostWaiting) t.settle(false);
  } catch (const std::exception&) {  // the device is lost, which its next use will tell
  }
}

void settle_timeline(bool wait) {
  if (is_forked()) return;  // events are the parent's
  Timeline::each([wait](Timeline& t) { t.settle(wait); });
}

int64_t host_time(Stream& stream, const Event& event) {
  Timeline& t = Timeline::of(stream.device());
  const std::lock_guard hold(t.lock);
  if (!t.anchor) t.set_anchor(stream);
  return t.time_of(event);
}

void forget_timeline() {
  if (is_forked()) return;
  Timeline::each([](Timeline& t) {
    t.waiting.clear();
    t.anchor.reset();
  });
}

}  // namespace smolder::cuda
