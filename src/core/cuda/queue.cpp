#include "smolder/core/cuda/queue.h"

#include <atomic>
#include <cstring>
#include <utility>

#include "smolder/core/error.h"

namespace smolder::cuda {
namespace {

std::array<std::atomic<Queue*>, kMaxCudaDevices> g_queues{};

}  // namespace

Graph::Graph(DriverGraph graph, std::vector<BufferRef> kept) : kept_(std::move(kept)) {
  const Status status = driver().graph_instantiate(&handle_, graph, 0);
  driver().graph_destroy(graph);
  check(status, "graph_instantiate");
}
Graph::~Graph() {
  if (!is_forked()) driver().graph_exec_destroy(handle_);
}

BufferRef LaneMemory::find(int lane, size_t bytes) const {
  const Kept* best = nullptr;
  for (const Kept& k : kept_) {
    const bool fits = k.lane == lane && k.memory.use_count() == 1 && k.memory->bytes() >= bytes;
    if (fits && (!best || k.memory->bytes() < best->memory->bytes())) best = &k;
  }
  return best ? best->memory : nullptr;
}

std::vector<BufferRef> LaneMemory::take_all() {
  std::vector<BufferRef> all;
  for (Kept& k : std::exchange(kept_, {})) all.push_back(std::move(k.memory));
  return all;
}

thread_local Queue* Queue::capturing_ = nullptr;

Queue::Queue(int device)
    : stream_(device),
      handed_over_(device),
      paced_(device),
      ring_(device, kParts * kPartBytes),
      read_{Event(device), Event(device), Event(device), Event(device)} {}

Queue& Queue::of(int device) {
  if (Queue* const known = existing(device)) return *known;
  check_ordinal(device);
  static std::mutex making;
  const std::lock_guard hold(making);
  if (Queue* const known = existing(device)) return *known;
  auto* const made = new Queue(device);
  g_queues[device].store(made, std::memory_order_release);
  return *made;
}

Queue* Queue::existing(int device) noexcept {
  return device >= 0 && device < kMaxCudaDevices ? g_queues[device].load(std::memory_order_acquire) : nullptr;
}

std::unique_ptr<Graph> Queue::capture(const std::function<void()>& work) {
  constexpr int kRelaxed = 2;  // memory may be taken from the driver meanwhile
  for (auto& lane : lanes_) {
    if (!lane) lane = std::make_unique<Stream>(device(), true);
  }
  const DriverStream origin = lanes_[0]->handle();
  make_current(device());
  SMOLDER_CUDA(capture_begin, origin, kRelaxed);
  capturing_ = this;
  lane_ = marks_ = 0;
  used_ = {true};
  DriverGraph graph = nullptr;
  try {
    mark();  // where the other lanes begin
    work();
    for (int lane = 1; lane < kLanes; ++lane) {
      if (!used_[lane]) continue;
      use_lane(lane);
      const int end = mark();
      use_lane(0);
      wait_for(end);
    }
  } catch (...) {
    capturing_ = nullptr;
    temporaries_.take_all();
    zeros_.reset();
    if (driver().capture_end(origin, &graph) == 0 && graph) driver().graph_destroy(graph);
    throw;
  }
  capturing_ = nullptr;
  std::vector<BufferRef> kept = temporaries_.take_all();
  const BufferRef zeros = std::exchange(zeros_, nullptr);
  SMOLDER_CUDA(capture_end, origin, &graph);
  if (zeros) {
    try {
      zero_first(graph, device(), zeros->data(), zeros_used_);
    } catch (...) {
      driver().graph_destroy(graph);
      throw;
    }
    kept.push_back(zeros);
  }
  return std::make_unique<Graph>(graph, std::move(kept));
}

void Queue::use_lane(int lane) {
  lane_ = lane;
  if (std::exchange(used_[lane], true)) return;
  wait_for(0);
}

int Queue::mark() {
  if (marks_ == static_cast<int>(events_.size())) events_.push_back(std::make_unique<Event>(device()));
  events_[marks_]->record(*lanes_[lane_]);
  return marks_++;
}

void Queue::wait_for(int mark) { lanes_[lane_]->wait(*events_[mark]); }

void Queue::launch(const Graph& graph) {
  make_current(device());
  SMOLDER_CUDA(graph_launch, graph.handle(), stream().handle());
}

void Queue::follow(DriverStream other) {
  make_current(device());
  const std::lock_guard hold(mutex_);
  SMOLDER_CUDA(event_record, handed_over_.handle(), other);
  stream_.wait(handed_over_);
}

void Queue::precede(DriverStream other) {
  make_current(device());
  const std::lock_guard hold(mutex_);
  handed_over_.record(stream_);
  SMOLDER_CUDA(stream_wait, other, handed_over_.handle(), 0);
}

// The copy is this queue's: what is freed here after it may be written again at once. So the other's memory, which may
// have been freed there, is first waited for.
void Queue::copy_to(Queue& other, void* to, const void* from, size_t bytes) {
  {
    make_current(other.device());
    const std::lock_guard hold(other.mutex_);
    other.handed_over_.record(other.stream_);
    stream_.wait(other.handed_over_);
  }
  copy_to_peer(stream_, to, other.device(), from, bytes);
  make_current(device());
  const std::lock_guard hold(mutex_);
  handed_over_.record(stream_);
  other.stream_.wait(handed_over_);
}

RingPlaces::Place RingPlaces::next(size_t bytes) {
  const bool enters = used_ + bytes > part_bytes_;
  if (enters) {
    part_ = (part_ + 1) % parts_;
    used_ = 0;
  }
  const size_t at = part_ * part_bytes_ + used_;
  used_ += bytes;
  return {at, enters, part_};
}

void Queue::upload(void* to, const void* from, size_t bytes) {
  constexpr size_t kLine = 64;
  const size_t taken = (bytes + kLine - 1) / kLine * kLine;
  if (taken > kPartBytes) return copy_to_device(stream_, to, from, bytes);
  const std::lock_guard hold(mutex_);
  const RingPlaces::Place place = places_.next(taken);
  if (place.enters) {
    read_[(place.part + kParts - 1) % kParts].record(stream_);
    read_[place.part].synchronize();  // which it has been at first
  }
  char* const host = static_cast<char*>(ring_.data()) + place.at;
  std::memcpy(host, from, bytes);
  copy_to_device(stream_, to, host, bytes);
}

void Queue::pace() {
  paced_.synchronize();  // done, where it never was recorded
  make_current(device());
  paced_.record(stream_);
}

}  // namespace smolder::cuda
