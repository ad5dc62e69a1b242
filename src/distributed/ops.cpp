#include "smolder/distributed/ops.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "smolder/autograd/library.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/distributed/device_ops.h"
#include "smolder/distributed/error.h"
#include "smolder/distributed/stand_in.h"
#include "smolder/distributed/words.h"
#include "smolder/eager/array.h"
#include "smolder/eager/execute.h"
#include "smolder/jit/library/library.h"
#include "smolder/jit/library/waits.h"
#include "smolder/lazy/effects.h"
#include "smolder/lazy/tape.h"

namespace smolder::distributed {
namespace {

using eager::KernelCall;
using eager::TensorView;

/// The work of a collective on its bytes.
struct Bytes {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t from_count = 0, to_count = 0;  ///< elements
  DType dtype = DType::kFloat32;

  size_t item() const { return itemsize(dtype); }
  size_t from_bytes() const { return static_cast<size_t>(from_count) * item(); }
  size_t to_bytes() const { return static_cast<size_t>(to_count) * item(); }
  void copy() const {
    if (from_count && to != from) std::memcpy(to, from, from_bytes());
  }
};

Combine combine_of_call(const Words& w, DType dtype) { return combine_of(static_cast<Reduce>(w.detail[0]), dtype); }

void all_reduce(Communicator& c, Word word, const Words& w, const Bytes& b, int /*rank*/, int /*size*/) {
  b.copy();
  if (b.to_count) c.all_reduce(b.to, static_cast<size_t>(b.to_count), b.item(), combine_of_call(w, b.dtype), word);
}

void reduce(Communicator& c, Word word, const Words& w, const Bytes& b, int rank, int /*size*/) {
  const int root = static_cast<int>(w.detail[1]);
  b.copy();
  if (b.to_count == 0) return;
  c.reduce(b.to, static_cast<size_t>(b.to_count), b.item(), combine_of_call(w, b.dtype), root, word);
  if (rank != root) b.copy();  // what it held before
}

void broadcast(Communicator& c, Word word, const Words& w, const Bytes& b, int /*rank*/, int /*size*/) {
  b.copy();
  if (b.to_count) c.broadcast(b.to, b.to_bytes(), static_cast<int>(w.detail[0]), word);
}

/// Between a tensor in pieces whole, and what each rank has of all of them, one rank behind the other.
void each_part(const std::vector<Piece>& pieces, size_t of_rank, int size, size_t item, auto&& copy) {
  for (size_t r = 0; r < static_cast<size_t>(size); ++r) {
    for (const Piece& p : pieces) copy((p.whole + r * p.count) * item, (r * of_rank + p.part) * item, p.count * item);
  }
}

void all_gather(Communicator& c, Word word, const Words& w, const Bytes& b, int /*rank*/, int size) {
  if (b.from_count == 0) return;
  const auto count = static_cast<size_t>(b.from_count);
  const std::vector<Piece> pieces = pieces_of("all_gather", w, count, size);
  if (pieces.size() == 1) return c.all_gather(b.from, b.to, b.from_bytes(), word);
  std::string parts(b.to_bytes(), '\0');
  c.all_gather(b.from, parts.data(), b.from_bytes(), word);
  each_part(pieces, count, size, b.item(), [&](size_t whole, size_t part, size_t bytes) {
    std::memcpy(static_cast<char*>(b.to) + whole, parts.data() + part, bytes);
  });
}

void gather(Communicator& c, Word word, const Words& w, const Bytes& b, int /*rank*/, int /*size*/) {
  if (b.from_count) c.gather(b.from, b.to, b.from_bytes(), static_cast<int>(w.detail[0]), word);
}

void scatter(Communicator& c, Word word, const Words& w, const Bytes& b, int /*rank*/, int /*size*/) {
  if (b.to_count) c.scatter(b.from, b.to, b.to_bytes(), static_cast<int>(w.detail[0]), word);
}

/// Each rank gets the parts that are its own and adds them in the order of ranks: as few bytes as can be.
void reduce_scatter(Communicator& c, Word word, const Words& w, const Bytes& b, int /*rank*/, int size) {
  if (b.to_count == 0) return;
  const auto count = static_cast<size_t>(b.to_count);
  const std::vector<Piece> pieces = pieces_of("reduce_scatter", w, count, size);
  const void* from = b.from;
  std::string by_rank;
  if (pieces.size() > 1) {
    by_rank.resize(b.from_bytes());
    each_part(pieces, count, size, b.item(), [&](size_t whole, size_t part, size_t bytes) {
      std::memcpy(by_rank.data() + part, static_cast<const char*>(b.from) + whole, bytes);
    });
    from = by_rank.data();
  }
  std::string parts(b.from_bytes(), '\0');
  const std::vector<int64_t> sizes(static_cast<size_t>(size), static_cast<int64_t>(b.to_bytes()));
  c.all_to_all(from, sizes, parts.data(), sizes, word);
  const Combine combine = combine_of_call(w, b.dtype);
  std::memcpy(b.to, parts.data(), b.to_bytes());
  for (int r = 1; r < size; ++r) {
    combine(b.to, b.to, parts.data() + static_cast<size_t>(r) * b.to_bytes(), static_cast<size_t>(b.to_count));
  }
}

void all_to_all(Communicator& c, Word word, const Words& w, const Bytes& b, int /*rank*/, int size) {
  const auto n = static_cast<size_t>(size);
  const std::span<const int64_t> to_each = w.detail.first(n), of_each = w.detail.subspan(n, n);
  // Who sends more than the other expects would write beyond its memory. All ranks see what all say, and fail together.
  std::vector<int64_t> all(n * 2 * n), going, coming;
  c.all_gather(w.detail.data(), all.data(), 2 * n * sizeof(int64_t), word);
  for (size_t from = 0; from < n; ++from) {
    for (size_t to = 0; to < n; ++to) {
      const int64_t sent = all[from * 2 * n + to], expected = all[to * 2 * n + n + from];
      if (sent == expected) continue;
      raise<DistBackendError>("the sizes differ: rank ", from, " of the group sends ", sent, " elements to rank ", to,
                              ", which expects ", expected);
    }
  }
  for (size_t r = 0; r < n; ++r) {
    going.push_back(to_each[r] * static_cast<int64_t>(b.item()));
    coming.push_back(of_each[r] * static_cast<int64_t>(b.item()));
  }
  c.all_to_all(b.from, going, b.to, coming, word);
}

void barrier(Communicator& c, Word word, const Words& /*w*/, const Bytes& /*b*/, int /*rank*/, int /*size*/) {
  c.barrier(word);
}

using Run = void(Communicator&, Word, const Words&, const Bytes&, int rank, int size);

struct Kind {
  const char* name;
  Run* run;          ///< null for send and receive
  int root_at = -1;  ///< in the details; -1: all wait for all
  bool root_waits = false;

  About about(const Words& w, const Bytes& b) const {
    const int root = root_at < 0 ? -1 : static_cast<int>(w.detail[static_cast<size_t>(root_at)]);
    return {root, root_waits, std::max(b.from_bytes(), b.to_bytes())};
  }
};
constexpr std::array kKinds = {Kind{"all_reduce", &all_reduce},
                               Kind{"reduce", &reduce, 1, true},
                               Kind{"broadcast", &broadcast, 0, false},
                               Kind{"all_gather", &all_gather},
                               Kind{"gather", &gather, 0, true},
                               Kind{"scatter", &scatter, 0, false},
                               Kind{"reduce_scatter", &reduce_scatter},
                               Kind{"all_to_all", &all_to_all},
                               Kind{"barrier", &barrier},
                               Kind{"send", nullptr},
                               Kind{"receive", nullptr}};

/// The tensor of a call, row-major.
eager::Array dense(const TensorView& v) { return eager::contiguous({nullptr, v.data, v.dtype, v.shape, v.strides}); }

int64_t& token_of(const TensorView& v) { return *static_cast<int64_t*>(v.data); }

void next_token(const KernelCall& call) { token_of(call.outputs[1]) = token_of(call.inputs[1]) + 1; }

/// One that is there when it is done.
void run_now(const Kind& kind, const KernelCall& call) {
  const Words w = Words::read(call.attrs);
  if (stands_in(w.group)) {
    const eager::Array x = dense(call.inputs[0]);
    stand_in({.data = x.data, .dtype = x.dtype, .shape = x.shape, .strides = {}}, call.outputs[0]);
    if (call.outputs.size() > 2) token_of(call.outputs[2]) = 0;
    return next_token(call);
  }
  const std::shared_ptr<Group> group = find_group(w.group);
  const eager::Array x = dense(call.inputs[0]);
  const TensorView& to = call.outputs[0];
  Bytes b{x.data, to.data, numel(x.shape), numel(to.shape), x.dtype};
  count_collective(std::max(b.from_bytes(), b.to_bytes()));
  if (kind.run) {
    group->run(
        title_of(kind.name, w, x.dtype, x.shape, *group),
        [&](Communicator& c, Word word, Job&) { kind.run(c, word, w, b, group->rank(), group->size()); },
        kind.about(w, b));
  } else {
    const int peer = static_cast<int>(w.detail[0]);
    if (std::string_view(kind.name) == "send") {
      group->send(text_of(x.dtype, x.shape), x.data, b.from_bytes(), peer, w.detail[1]);
    } else {
      const auto job = group->begin_receive(text_of(x.dtype, to.shape), b.to_bytes(), peer, w.detail[1]);
      const int sender = group->finish_receive(*job);
      if (b.to_count) std::memcpy(to.data, job->result.data(), b.to_bytes());
      token_of(call.outputs[2]) = sender;
    }
  }
  next_token(call);
}

/// The jobs of collectives that were begun and are not finished, by the number that their op gives.
struct Begun {
  std::mutex lock;
  std::unordered_map<int64_t, std::shared_ptr<Job>> jobs;
  int64_t last = 0;
  static Begun& get() {
    static Begun* const begun = new Begun;
    return *begun;
  }
  bool has(int64_t number) {
    const std::lock_guard hold(lock);
    return jobs.contains(number);
  }
  int64_t add(std::shared_ptr<Job> job) {
    const std::lock_guard hold(lock);
    jobs.emplace(++last, std::move(job));
    return last;
  }
  std::shared_ptr<Job> take(int64_t number) {
    const std::lock_guard hold(lock);
    const auto at = jobs.find(number);
    if (at == jobs.end()) raise<DistBackendError>("a collective was finished twice, or its group was destroyed");
    std::shared_ptr<Job> job = std::move(at->second);
    jobs.erase(at);
    return job;
  }
};

/// Alone: what `run_finish` gives is made where it begins.
void begin_alone(const KernelCall& call, const Words& w) {
  const eager::Array x = dense(call.inputs[0]);
  auto job = std::make_shared<Job>();
  job->result.resize(static_cast<size_t>(numel(Dims(w.shape))) * itemsize(x.dtype));
  stand_in({.data = x.data, .dtype = x.dtype, .shape = x.shape, .strides = {}},
           {.data = job->result.data(), .dtype = x.dtype, .shape = Dims(w.shape), .strides = {}});
  token_of(call.outputs[0]) = Begun::get().add(std::move(job));
  next_token(call);
}

void run_begin(const Kind& kind, const KernelCall& call) {
  const Words w = Words::read(call.attrs);
  if (stands_in(w.group)) return begin_alone(call, w);
  const std::shared_ptr<Group> group = find_group(w.group);
  const eager::Array x = dense(call.inputs[0]);
  const Dims shape = Dims(w.shape);
  Bytes b{nullptr, nullptr, numel(x.shape), numel(shape), x.dtype};
  count_collective(std::max(b.from_bytes(), b.to_bytes()));
  std::shared_ptr<Job> job;
  if (kind.run) {
    // The step's memory may be used again before the job runs.
    std::string from(static_cast<const char*>(x.data), b.from_bytes());
    std::vector<int64_t> words(call.attrs.begin(), call.attrs.end());
    job = group->begin(
        title_of(kind.name, w, x.dtype, x.shape, *group),
        [&kind, b, from = std::move(from), words = std::move(words), rank = group->rank(), size = group->size()](
            Communicator& c, Word word, Job& j) {
          Bytes bytes = b;
          bytes.from = from.data();
          j.result.resize(b.to_bytes());
          bytes.to = j.result.data();
          kind.run(c, word, Words::read(words), bytes, rank, size);
        },
        kind.about(w, b));
  } else {
    const int peer = static_cast<int>(w.detail[0]);
    if (std::string_view(kind.name) == "send") raise<DistBackendError>("a send is never waited for");
    job = group->begin_receive(text_of(x.dtype, shape), b.to_bytes(), peer, w.detail[1]);
  }
  token_of(call.outputs[0]) = Begun::get().add(std::move(job));
  next_token(call);
}

void run_finish(const KernelCall& call) {
  const Words w = Words::read(call.attrs);
  if (stands_in(w.group) && !Begun::get().has(token_of(call.inputs[0]))) {  // it was begun in another step
    stand_in({}, call.outputs[0]);
    token_of(call.outputs[2]) = 0;
    return next_token(call);
  }
  const std::shared_ptr<Job> job = Begun::get().take(token_of(call.inputs[0]));
  const int sender = stands_in(w.group) ? 0 : find_group(w.group)->finish_receive(*job);
  const TensorView& to = call.outputs[0];
  const size_t bytes = static_cast<size_t>(numel(to.shape)) * itemsize(to.dtype);
  if (bytes) std::memcpy(to.data, job->result.data(), bytes);
  token_of(call.outputs[2]) = sender;
  next_token(call);
}

struct Ops {
  ir::Op now, begin, begin_on_device;
};

void announce(const lazy::Trace& t);

constexpr const char* kSignature = "(Tensor x, Tensor(a!) token, int group, int[] detail, int[] shape) -> Tensor";
constexpr const char* kFinish =
    "(Tensor x, Tensor(a!) token, Tensor(b!) sender, int group, int[] detail, int[] shape, ScalarType dtype) -> Tensor";

// Without a token: the others do not see where a rank waits, so plans may have it later. The operand of what was begun
// is read where it is until then, so the wait needs it, too, unless that works in place.
constexpr const char* kFollow = "(Tensor x, int group, int[] detail, int[] shape, ScalarType dtype) -> Tensor";
constexpr const char* kRelease =
    "(Tensor x, Tensor operand, int group, int[] detail, int[] shape, ScalarType dtype) -> Tensor";

void shape_of_words(const ir::Call& call, ir::Meta* out) {
  out[0] = {Dims(Words::read(call.attrs).shape), call.inputs[0]->dtype, false};
}
void shape_of_finish(const ir::Call& call, ir::Meta* out) {
  out[0] = {Dims(Words::read(call.attrs).shape), static_cast<DType>(call.attrs.back()), false};
}
void shape_of_number(const ir::Call& /*call*/, ir::Meta* out) { out[0] = {{}, DType::kInt64, false}; }

/// A value that each collective on a device reads and writes, so that plans keep their order, and who sent last.
struct Order {
  Tensor token, sender;

  explicit Order(Device device) {
    const int64_t first = 0, nobody = -1;
    token = Tensor::from_data(&first, {}, DType::kInt64).to(device);
    sender = Tensor::from_data(&nobody, {}, DType::kInt64).to(device);
  }
};

/// The ops, registered when the first group is made.
struct Table {
  Library library{"dist"};
  std::unordered_map<std::string, Ops> of;
  std::unordered_map<ir::Op, const Kind*> begins;
  ir::Op finish, follow, release;
  std::mutex lock;
  std::map<int, Order> orders;  ///< by device; the CPU's is that of -1

  Table() {
    const auto with_sender = [](std::string signature) {
      signature.replace(signature.find("int group"), 9, "Tensor(b!) sender, int group");
      return signature;
    };
    const auto define = [&](const std::string& schema, void (*shape)(const ir::Call&, ir::Meta*),
                            eager::Kernel kernel) {
      return library.def({.schema = schema, .shape = shape, .kernel = std::move(kernel), .effect = true}).op();
    };
    // Plans have the device queue it; nothing runs it by itself.
    const auto on_device = [&](ir::Op op, jit::QueuedKernel kernel) {
      eager::register_kernel(eager::DispatchKey::kCUDA, op, [](const KernelCall& call) {
        raise<NotImplementedError>(ir::name(call.op), " runs in a plan alone");
      });
      jit::register_queued_kernel(op, std::move(kernel));
    };
    for (const Kind& kind : kKinds) {
      const std::string name = kind.name;
      Ops ops;
      ops.now = define(name + (name == "receive" ? with_sender(kSignature) : kSignature), &shape_of_words,
                       [&kind](const KernelCall& call) { run_now(kind, call); });
      on_device(ops.now,
                [&kind](int device, const KernelCall& call, auto& /*copies*/) { queue_now(kind.name, device, call); });
      ops.begin = define("begin_" + name + kSignature, &shape_of_number,
                         [&kind](const KernelCall& call) { run_begin(kind, call); });
      ops.begin_on_device = define("queue_" + name + kSignature, &shape_of_words, {});
      if (is_in_place(name)) jit::set_in_place_on_device(ops.begin_on_device);
      on_device(ops.begin_on_device, [&kind](int device, const KernelCall& call, std::vector<BufferRef>& copies) {
        queue_begin(kind.name, device, call, copies);
      });
      of.emplace(name, ops);
      for (const ir::Op op : {ops.now, ops.begin, ops.begin_on_device}) begins.emplace(op, &kind);
    }
    finish = define(std::string("finish") + kFinish, &shape_of_finish, &run_finish);
    follow = define(std::string("follow") + kFollow, &shape_of_finish, {});
    release = define(std::string("release") + kRelease, &shape_of_finish, {});
    for (const ir::Op op : {follow, release}) {
      on_device(op, [](int device, const KernelCall& call, auto& /*copies*/) { queue_finish(device, call); });
      jit::set_waits_on_device(op);
    }
    lazy::set_effects_lost(&fail_groups);
    lazy::set_effects_ahead(&announce);
    smolder::cuda::set_wait_check(&check_groups_on_devices);
  }
  static Table& get() {
    static Table* const table = new Table;  // its tensors may outlive statics
    return *table;
  }
  /// Null for other ops.
  const Kind* kind_that_begins(ir::Op op) const {
    const auto at = begins.find(op);
    return at == begins.end() ? nullptr : at->second;
  }
  Order& order_of(Device device) {
    const std::lock_guard hold(lock);
    return orders.try_emplace(device == DeviceType::kCUDA ? device.index : -1, device).first->second;
  }
};

/// Tells the groups what a step will do in them.
void announce(const lazy::Trace& t) {
  std::map<int64_t, std::vector<Group::Planned>> planned;  // by group, in the order of the program
  for (const lazy::Instr& e : t.instrs) {
    const Kind* const kind = Table::get().kind_that_begins(e.op);
    if (!kind || !kind->run) continue;
    const Words w = Words::read(t.attrs_of(e));
    if (stands_in(w.group)) continue;
    const ir::Meta& x = *t.metas[t.inputs_of(e)[0]];
    planned[w.group].push_back(
        {title_of(kind->name, w, x.dtype, x.shape, *find_group(w.group)), resolve_source(e.source)});
  }
  for (const auto& [number, of_group] : planned) find_group(number)->announce(of_group);
}

bool is_on_device(const Tensor& x) { return x.device() == DeviceType::kCUDA; }

void append_list(std::vector<int64_t>& words, const std::vector<int64_t>& list) {
  words.push_back(static_cast<int64_t>(list.size()));
  words.insert(words.end(), list.begin(), list.end());
}

std::vector<int64_t> words_of(const CollectiveCall& call) {
  std::vector<int64_t> words{call.group};
  append_list(words, call.detail);
  append_list(words, call.shape);
  return words;
}

const Ops& ops_of(const std::string& name) {
  const auto at = Table::get().of.find(name);
  SMOLDER_CHECK(at != Table::get().of.end(), ValueError, "there is no collective ", name);
  return at->second;
}

Tensor call_op(ir::Op op, const Tensor& x, bool with_sender, const std::vector<int64_t>& words) {
  const lazy::GradMode no_grad(false);
  const Order& order = Table::get().order_of(x.device());
  std::vector<lazy::OperandValue> operands{x, order.token};
  if (with_sender) operands.emplace_back(order.sender);
  return lazy::call_op(op, operands, words)[0];
}

}  // namespace

Tensor record_collective(const CollectiveCall& call, const Tensor& x) {
  return call_op(ops_of(call.name).now, x, call.name == "receive", words_of(call));
}

Tensor record_begin(const CollectiveCall& call, const Tensor& x) {
  const Ops& ops = ops_of(call.name);
  return call_op(is_on_device(x) ? ops.begin_on_device : ops.begin, x, false, words_of(call));
}

Tensor record_finish(const CollectiveCall& call, const Tensor& begun, const Tensor& x) {
  std::vector<int64_t> words = words_of(call);
  words.push_back(static_cast<int64_t>(x.dtype()));
  const Table& table = Table::get();
  if (!is_on_device(x)) return call_op(table.finish, begun, true, words);
  const lazy::GradMode no_grad(false);
  std::vector<lazy::OperandValue> operands{begun};
  if (!is_in_place(call.name)) operands.emplace_back(x);
  return lazy::call_op(operands.size() > 1 ? table.release : table.follow, operands, words)[0];
}

void define_collectives() { Table::get(); }

int64_t last_sender() { return Table::get().order_of({}).sender.item().to_int(); }

bool collectives_pending() {
  Table& table = Table::get();
  const std::lock_guard hold(table.lock);
  return std::ranges::any_of(table.orders, [](const auto& of) { return of.second.token.impl()->value->pending; });
}

void forget_begun() {
  forget_begun_on_devices();
  const std::lock_guard hold(Begun::get().lock);
  Begun::get().jobs.clear();
}

}  // namespace smolder::distributed
