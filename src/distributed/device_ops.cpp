#include "smolder/distributed/device_ops.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <numeric>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/distributed/error.h"
#include "smolder/distributed/stand_in.h"
#include "smolder/distributed/words.h"

namespace smolder::distributed {
namespace {

using eager::KernelCall;
using eager::TensorView;
using smolder::cuda::DriverStream;
using smolder::cuda::Queue;

/// A collective's memory on the device.
struct Call {
  Words words;
  std::shared_ptr<Group> group;
  int device;
  const char* from;
  char* to;
  size_t from_count, to_count;  ///< elements
  DType dtype;

  Call(int device, const KernelCall& call)
      : words(Words::read(call.attrs)),
        group(find_group(words.group)),
        device(device),
        from(static_cast<const char*>(call.inputs[0].data)),
        to(static_cast<char*>(call.outputs[0].data)),
        from_count(static_cast<size_t>(numel(call.inputs[0].shape))),
        to_count(static_cast<size_t>(numel(call.outputs[0].shape))),
        dtype(call.inputs[0].dtype) {}

  size_t from_bytes() const { return from_count * itemsize(dtype); }
  size_t to_bytes() const { return to_count * itemsize(dtype); }
  int rank() const { return group->rank(); }
  int size() const { return group->size(); }
  nccl::Reduction reduction() const { return nccl::reduction_of(static_cast<Reduce>(words.detail[0]), dtype); }
  /// In the order of the device's queue.
  void copy(void* target, const void* source, size_t bytes) const {
    if (bytes && target != source) smolder::cuda::copy_on_device(Queue::of(device).stream(), target, source, bytes);
  }
  BufferRef allocate(size_t bytes) const { return smolder::cuda::allocate(bytes, device); }
  /// Memory of the operand, which stays until the collective has read it.
  const char* staged(std::vector<BufferRef>& kept) const {
    if (from_count == 0) return from;
    kept.push_back(allocate(from_bytes()));
    copy(kept.back()->data(), from, from_bytes());
    return static_cast<const char*>(kept.back()->data());
  }
};

/// How a collective runs: the launch that tells NCCL of it, and buffers that must live until it is done, as its operand
/// does.
struct Plan {
  Launch launch;
  std::vector<BufferRef> kept = {};
};
using Prepare = Plan(const Call& c);

Plan all_reduce(const Call& c) {
  return {[from = c.from, to = c.to, n = c.to_count, r = c.reduction()](nccl::Communicator& comm, DriverStream s) {
    if (n) comm.all_reduce(from, to, n, r, s);
  }};
}

/// NCCL writes nothing on ranks but the root, so the operand is copied to the result first.
Plan reduce(const Call& c) {
  c.copy(c.to, c.from, c.from_bytes());
  return {[to = c.to, n = c.to_count, r = c.reduction(), root = static_cast<int>(c.words.detail[1])](
              nccl::Communicator& comm, DriverStream s) {
    if (n) comm.reduce(to, to, n, r, root, s);
  }};
}

Plan broadcast(const Call& c) {
  return {[from = c.from, to = c.to, bytes = c.to_bytes(), root = static_cast<int>(c.words.detail[0])](
              nccl::Communicator& comm, DriverStream s) {
    if (bytes) comm.broadcast(from, to, bytes, root, s);
  }};
}

/// Memory that NCCL reads and writes, of one piece of a tensor.
struct Move {
  const char* from;
  char* to;
  size_t count;
};
/// One call of NCCL's for each piece, which it runs as one.
template <class One>
Launch together(std::vector<Move> moves, One&& one) {
  return [moves = std::move(moves), one = std::forward<One>(one)](nccl::Communicator& comm, DriverStream s) {
    if (moves.size() > 1) comm.begin();
    for (const Move& m : moves) {
      if (m.count) one(comm, m, s);
    }
    if (moves.size() > 1) comm.end();
  };
}

Plan all_gather(const Call& c) {
  std::vector<Move> moves;
  for (const Piece& p : pieces_of("all_gather", c.words, c.from_count, c.size())) {
    const size_t item = itemsize(c.dtype);
    moves.push_back({c.from + p.part * item, c.to + p.whole * item, p.count * item});
  }
  return {together(std::move(moves), [](nccl::Communicator& comm, const Move& m, DriverStream s) {
    comm.all_gather(m.from, m.to, m.count, s);
  })};
}

Plan reduce_scatter(const Call& c) {
  std::vector<Move> moves;
  for (const Piece& p : pieces_of("reduce_scatter", c.words, c.to_count, c.size())) {
    const size_t item = itemsize(c.dtype);
    moves.push_back({c.from + p.whole * item, c.to + p.part * item, p.count});
  }
  return {together(std::move(moves), [r = c.reduction()](nccl::Communicator& comm, const Move& m, DriverStream s) {
    comm.reduce_scatter(m.from, m.to, m.count, r, s);
  })};
}

/// Bytes for and from each rank, one after the other; what a rank keeps for itself is sent, too.
Plan exchange(const Call& c, std::vector<size_t> going, std::vector<size_t> coming) {
  return {[from = c.from, to = c.to, going = std::move(going), coming = std::move(coming)](nccl::Communicator& comm,
                                                                                           DriverStream s) {
    comm.begin();
    size_t at = 0;
    for (size_t r = 0; r < going.size(); at += going[r++]) {
      if (going[r]) comm.send(from + at, going[r], static_cast<int>(r), s);
    }
    at = 0;
    for (size_t r = 0; r < coming.size(); at += coming[r++]) {
      if (coming[r]) comm.receive(to + at, coming[r], static_cast<int>(r), s);
    }
    comm.end();
  }};
}

std::vector<size_t> only(int rank, int size, size_t bytes) {
  std::vector<size_t> out(static_cast<size_t>(size));
  out[static_cast<size_t>(rank)] = bytes;
  return out;
}

Plan gather(const Call& c) {
  const int root = static_cast<int>(c.words.detail[0]);
  std::vector<size_t> coming(static_cast<size_t>(c.size()), c.rank() == root ? c.from_bytes() : 0);
  return exchange(c, only(root, c.size(), c.from_bytes()), std::move(coming));
}

Plan scatter(const Call& c) {
  const int root = static_cast<int>(c.words.detail[0]);
  std::vector<size_t> going(static_cast<size_t>(c.size()), c.rank() == root ? c.to_bytes() : 0);
  return exchange(c, std::move(going), only(root, c.size(), c.to_bytes()));
}

Plan all_to_all(const Call& c) {
  const auto n = static_cast<size_t>(c.size());
  const auto bytes = [&](std::span<const int64_t> counts) {
    std::vector<size_t> out;
    for (const int64_t count : counts) out.push_back(static_cast<size_t>(count) * itemsize(c.dtype));
    return out;
  };
  return exchange(c, bytes(c.words.detail.first(n)), bytes(c.words.detail.subspan(n, n)));
}

/// All have come where all have added one number.
Plan barrier(const Call& c) {
  Plan plan{{}, {c.allocate(sizeof(int32_t))}};
  plan.launch = [word = plan.kept[0]->data()](nccl::Communicator& comm, DriverStream s) {
    comm.all_reduce(word, word, 1, {nccl::Type::kInt32, nccl::ReduceOp::kSum}, s);
  };
  return plan;
}

constexpr std::pair<std::string_view, Prepare*> kKinds[] = {
    {"all_reduce", &all_reduce}, {"reduce", &reduce},         {"broadcast", &broadcast},
    {"all_gather", &all_gather}, {"gather", &gather},         {"scatter", &scatter},
    {"barrier", &barrier},       {"all_to_all", &all_to_all}, {"reduce_scatter", &reduce_scatter}};

std::shared_ptr<QueuedJob> queue_send(const Call& c) {
  const int to = static_cast<int>(c.words.detail[0]);
  std::vector<BufferRef> kept;
  const char* const from = c.staged(kept);
  return c.group->queue_transfer(
      "send of " + text_of(c.dtype, Dims{static_cast<int64_t>(c.from_count)}) + " to rank " +
          std::to_string(c.group->ranks()[static_cast<size_t>(to)]),
      c.device, c.rank(), to,
      [from, bytes = c.from_bytes()](nccl::Communicator& comm, DriverStream s) {
        if (bytes) comm.send(from, bytes, 1, s);
      },
      std::move(kept));
}

std::shared_ptr<QueuedJob> queue_receive(const Call& c) {
  const int from = static_cast<int>(c.words.detail[0]);
  if (from < 0) raise<DistBackendError>("NCCL receives from a rank that is named, not from any");
  return c.group->queue_transfer("receive of " + text_of(c.dtype, Dims{static_cast<int64_t>(c.to_count)}) +
                                     " from rank " + std::to_string(c.group->ranks()[static_cast<size_t>(from)]),
                                 c.device, from, c.rank(),
                                 [to = c.to, bytes = c.to_bytes()](nccl::Communicator& comm, DriverStream s) {
                                   if (bytes) comm.receive(to, bytes, 0, s);
                                 },
                                 {});
}

std::shared_ptr<QueuedJob> queue_call(std::string_view name, const Call& c, const Dims& from,
                                      std::vector<BufferRef> copies) {
  count_collective(std::max(c.from_bytes(), c.to_bytes()));
  if (name == "send") return queue_send(c);
  if (name == "receive") return queue_receive(c);
  const auto* const kind = std::ranges::find(kKinds, name, &std::pair<std::string_view, Prepare*>::first);
  Plan plan = kind->second(c);
  std::ranges::move(copies, std::back_inserter(plan.kept));
  return c.group->queue(title_of(name, c.words, c.dtype, from, *c.group), std::max(c.from_bytes(), c.to_bytes()),
                        c.device, plan.launch, std::move(plan.kept));
}

/// The jobs of collectives that were begun, by the address of their result.
struct Begun {
  std::mutex lock;
  std::unordered_map<const void*, std::shared_ptr<QueuedJob>> jobs;
  static Begun& get() {
    static Begun* const begun = new Begun;
    return *begun;
  }
};

}  // namespace

void queue_now(const char* name, int device, const KernelCall& call) {
  if (stands_in(Words::read(call.attrs).group)) return stand_in_on_device(device, call.inputs[0], call.outputs[0]);
  const Call c(device, call);
  const std::shared_ptr<QueuedJob> job = queue_call(name, c, call.inputs[0].shape, {});
  if (std::string_view(name) != "send") c.group->follow(job, device);  // what is sent is a copy
}

void queue_begin(const char* name, int device, const KernelCall& call, std::vector<BufferRef>& copies) {
  if (stands_in(Words::read(call.attrs).group)) return stand_in_on_device(device, call.inputs[0], call.outputs[0]);
  Call c(device, call);
  if (is_in_place(name)) {  // of which the operand does not stay: see record_finish
    c.copy(c.to, c.from, c.from_bytes());
    c.from = c.to;
  }
  std::shared_ptr<QueuedJob> job = queue_call(name, c, call.inputs[0].shape, std::move(copies));
  Begun& begun = Begun::get();
  const std::lock_guard hold(begun.lock);
  begun.jobs[c.to] = std::move(job);
}

void queue_finish(int device, const KernelCall& call) {
  if (stands_in(Words::read(call.attrs).group)) return stand_in_on_device(device, call.inputs[0], call.outputs[0]);
  const Call c(device, call);
  Begun& begun = Begun::get();
  std::shared_ptr<QueuedJob> job;
  {
    const std::lock_guard hold(begun.lock);
    const auto at = begun.jobs.find(c.from);
    if (at == begun.jobs.end()) raise<DistBackendError>("a collective was finished twice, or its group was destroyed");
    job = std::move(at->second);
    begun.jobs.erase(at);
  }
  c.group->follow(job, device);
  c.copy(c.to, c.from, c.to_bytes());
}

void forget_begun_on_devices() {
  const std::lock_guard hold(Begun::get().lock);
  Begun::get().jobs.clear();
}

}  // namespace smolder::distributed
