#include "smolder/jit/plan/control_flow.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "smolder/core/buffer.h"
#include "smolder/core/cuda/memory.h"
#include "smolder/core/cuda/queue.h"
#include "smolder/core/precision.h"
#include "smolder/eager/dispatcher.h"
#include "smolder/eager/execute.h"
#include "smolder/ir/control_flow.h"
#include "smolder/jit/device_target.h"
#include "smolder/jit/plan/plan_impl.h"

namespace smolder::jit {

using ir::ControlKind;
using ir::Subgraph;

namespace {

int64_t bytes_of(const ir::Meta& m) { return numel(m.shape) * static_cast<int64_t>(itemsize(m.dtype)); }

/// Plans of subgraphs, shared by all steps that run them.
class SubgraphPlans {
 public:
  static SubgraphPlans& get() {
    static SubgraphPlans* const plans = new SubgraphPlans;
    return *plans;
  }

  std::shared_ptr<const Instance> instance(Device device, int64_t number) {
    CompileOptions options;
    options.device = device;
    if (device != DeviceType::kCPU) options.precision = precision();
    const Subgraph& s = ir::subgraph(number);
    const std::lock_guard hold(lock_);
    if (const uint64_t now = eager::dispatch_generation(); now != generation_) {
      generation_ = now;  // plans hold what ran their ops when they were made
      families_.clear();
    }
    std::vector<Family>& alike = families_[s.structure];
    const auto at = std::ranges::find_if(
        alike, [&](const Family& f) { return f.device == device && f.precision == options.precision; });
    Family& family = at == alike.end() ? alike.emplace_back(Family{device, options.precision, {}}) : *at;
    for (const auto& plan : family.plans) {
      if (auto bound = plan->bind(s.symbols)) return bound;
    }
    family.plans.push_back(Plan::compile(s.graph, options));
    return family.plans.back()->bind(s.symbols);
  }

 private:
  /// Plans for graphs that differ in sizes alone.
  struct Family {
    Device device;
    Precision precision;
    std::vector<std::shared_ptr<const Plan>> plans;
  };
  std::mutex lock_;
  std::unordered_map<std::string, std::vector<Family>> families_;
  uint64_t generation_ = 0;
};

/// Where graphs run: what a loop asks of memory there. Used by one run at a time.
class Machine {
 public:
  virtual ~Machine() = default;
  virtual void run(int64_t graph, std::span<void* const> leaves, std::span<const uint64_t> parameters,
                   std::span<void* const> outputs) = 0;
  virtual BufferRef allocate(int64_t bytes) = 0;
  virtual void copy(void* to, const void* from, int64_t bytes) = 0;
  /// Copies to the host, and waits for it.
  virtual void read(void* to, const void* from, int64_t bytes) = 0;
  bool good = true;  ///< no index was out of range
};

/// On the host, op by op.
class EagerMachine final : public Machine {
 public:
  void run(int64_t graph, std::span<void* const> leaves, std::span<const uint64_t> parameters,
           std::span<void* const> outputs) override {
    const Subgraph& s = ir::subgraph(graph);
    std::vector<eager::Array> arrays;
    for (size_t i = 0; i < leaves.size(); ++i) {
      arrays.push_back(
          {nullptr, leaves[i], s.leaves[i].dtype, s.leaves[i].shape, contiguous_strides(s.leaves[i].shape)});
    }
    std::vector<eager::BadIndex> bad;
    const std::vector<eager::Array> results = eager::execute_graph(s.graph, arrays, parameters, s.symbols, &bad);
    good &= bad.empty();
    for (size_t i = 0; i < results.size(); ++i) {
      const eager::Array dense = eager::contiguous(results[i]);
      if (dense.bytes()) std::memcpy(outputs[i], dense.data, dense.bytes());
    }
  }
  BufferRef allocate(int64_t bytes) override { return smolder::allocate(static_cast<size_t>(bytes)); }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  void read(void* to, const void* from, int64_t bytes) override { copy(to, from, bytes); }
};

/// As plans.
class PlanMachine final : public Machine {
 public:
  explicit PlanMachine(Device device) : device_(device) {}

  void run(int64_t graph, std::span<void* const> leaves, std::span<const uint64_t> parameters,
           std::span<void* const> outputs) override {
    const std::shared_ptr<const Instance>& instance = bound(graph);
    const NestedRun nested;
    good &= instance->run({leaves, parameters, outputs}).empty();
    const Subgraph& s = ir::subgraph(graph);
    const std::span<const OutputInfo> infos = shared_outputs(graph);
    for (size_t i = 0; i < infos.size(); ++i) {
      const void* const from = infos[i].same_as_leaf >= 0     ? leaves[static_cast<size_t>(infos[i].same_as_leaf)]
                               : infos[i].same_as_output >= 0 ? outputs[static_cast<size_t>(infos[i].same_as_output)]
                                                              : nullptr;
      if (from) copy(outputs[i], from, bytes_of(s.results[i]));
    }
  }
  BufferRef allocate(int64_t bytes) override { return smolder::allocate(static_cast<size_t>(bytes), device_); }
  void copy(void* to, const void* from, int64_t bytes) override {
    if (bytes == 0) return;
    if (DeviceTarget* const target = DeviceTarget::of(device_.type)) {
      target->copy(device_.index, to, from, bytes);
    } else {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  }
  void read(void* to, const void* from, int64_t bytes) override {
    if (bytes == 0) return;
    if (device_ == DeviceType::kCUDA) {
      smolder::cuda::copy_to_host(to, from, static_cast<size_t>(bytes), device_.index);
    } else {
      std::memcpy(to, from, static_cast<size_t>(bytes));
    }
  }

 private:
  const std::shared_ptr<const Instance>& bound(int64_t graph) {
    std::shared_ptr<const Instance>& at = instances_[graph];
    if (!at) at = SubgraphPlans::get().instance(device_, graph);
    return at;
  }
  std::span<const OutputInfo> shared_outputs(int64_t graph) {
    return static_cast<const InstanceImpl&>(*bound(graph)).plan().outputs();
  }

  Device device_;
  std::map<int64_t, std::shared_ptr<const Instance>> instances_;
};

/// Arguments of a call: addresses of tensors in row-major order, numbers, and where results go.
struct Arguments {
  std::vector<void*> tensors;
  std::vector<uint64_t> numbers;
  std::vector<void*> outputs;
};

/// An element of bool.
bool truth(Machine& m, const void* at) {
  uint8_t raw = 0;
  m.read(&raw, at, 1);
  return raw != 0;
}

void run_cond(Machine& m, const Arguments& a, std::span<const int64_t> attrs) {
  const ir::CondAttrs c = ir::CondAttrs::read(attrs);
  const bool taken = truth(m, a.tensors[0]);
  m.run(taken ? c.true_graph : c.false_graph, std::span(a.tensors).subspan(1), a.numbers, a.outputs);
}

/// Memory for values that a turn of a loop reads and the next writes.
struct CarriedMemory {
  std::vector<BufferRef> buffers;
  std::vector<void*> addresses;
  CarriedMemory(Machine& m, const Subgraph& s, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      buffers.push_back(m.allocate(std::max<int64_t>(1, bytes_of(s.results[static_cast<size_t>(i)]))));
      addresses.push_back(buffers.back()->data());
    }
  }
};

/// Moves the random numbers of a graph on by so many turns.
void move_draws(std::vector<uint64_t>& numbers, int64_t graph, int64_t by) {
  for (const ir::DrawnNumbers& d : ir::drawn_numbers(ir::subgraph(graph))) {
    numbers[d.offset] += static_cast<uint64_t>(by);
  }
}

/// Runs a loop from what `now` begins with, which it leaves as it is in the end. `before_turn` gives the memory for
/// what a turn makes.
void run_loop(Machine& m, const ir::WhileAttrs& w, std::vector<void*>& now, std::vector<uint64_t> numbers,
              auto&& before_turn) {
  const BufferRef flag = m.allocate(1);
  void* const flags[] = {flag->data()};
  for (;;) {
    m.run(w.cond_graph, now, numbers, flags);
    if (!truth(m, flag->data())) return;
    const std::vector<void*> next = before_turn();
    m.run(w.body_graph, now, numbers, next);
    std::ranges::copy(next, now.begin());
    for (const int64_t graph : {w.cond_graph, w.body_graph}) move_draws(numbers, graph, w.draws);
  }
}

void run_while(Machine& m, const Arguments& a, std::span<const int64_t> attrs) {
  const ir::WhileAttrs w = ir::WhileAttrs::read(attrs);
  const Subgraph& body = ir::subgraph(w.body_graph);
  const CarriedMemory even(m, body, w.carried), odd(m, body, w.carried);
  std::vector<void*> now = a.tensors;
  bool turn = false;
  run_loop(m, w, now, a.numbers, [&] { return ((turn = !turn) ? odd : even).addresses; });
  for (size_t i = 0; i < a.outputs.size(); ++i) m.copy(a.outputs[i], now[i], bytes_of(body.results[i]));
}

/// Keeps what each turn carries, then goes back through the turns.
void run_while_grad(Machine& m, const Arguments& a, std::span<const int64_t> attrs) {
  const ir::WhileGradAttrs w = ir::WhileGradAttrs::read(attrs);
  const Subgraph &body = ir::subgraph(w.loop.body_graph), &back = ir::subgraph(w.graph);
  const auto of_loop = static_cast<size_t>(w.of_loop());
  std::vector<void*> now(a.tensors.begin(), a.tensors.begin() + static_cast<int64_t>(of_loop));
  std::vector<std::vector<void*>> carried;
  std::vector<CarriedMemory> kept;
  run_loop(m, w.loop, now, a.numbers, [&] {
    carried.emplace_back(now.begin(), now.begin() + w.loop.carried);
    return kept.emplace_back(m, body, w.loop.carried).addresses;
  });
  const CarriedMemory even(m, back, w.gradients + w.sums), odd(m, back, w.gradients + w.sums);
  std::vector<void*> leaves = a.tensors;
  std::vector<uint64_t> numbers = a.numbers;
  for (size_t turn = carried.size(); turn-- > 0;) {
    std::ranges::copy(carried[turn], leaves.begin());
    const std::vector<void*>& next = (turn % 2 ? odd : even).addresses;
    numbers = a.numbers;
    move_draws(numbers, w.graph, static_cast<int64_t>(turn) * w.loop.draws);
    m.run(w.graph, leaves, numbers, next);
    std::ranges::copy(next, leaves.begin() + static_cast<int64_t>(of_loop));
  }
  for (size_t i = 0; i < a.outputs.size(); ++i) {
    m.copy(a.outputs[i], leaves[of_loop + i], bytes_of(back.results[i]));
  }
}

void run_scan(Machine& m, const Arguments& a, std::span<const int64_t> attrs, int64_t turns) {
  const ir::ScanAttrs s = ir::ScanAttrs::read(attrs);
  const Subgraph& g = ir::subgraph(s.graph);
  const auto carried = static_cast<size_t>(s.carried), scanned = static_cast<size_t>(s.scanned);
  const CarriedMemory even(m, g, s.carried), odd(m, g, s.carried);
  std::vector<uint64_t> numbers = a.numbers;
  if (s.draws < 0) move_draws(numbers, s.graph, -s.draws * (turns - 1));
  std::vector<void*> now = a.tensors, out = a.outputs;
  for (int64_t turn = 0; turn < turns; ++turn) {
    const int64_t at = s.reverse ? turns - 1 - turn : turn;
    for (size_t i = carried; i < carried + scanned; ++i) {
      now[i] = static_cast<char*>(a.tensors[i]) + at * bytes_of(g.leaves[i]);
    }
    const bool last = turn + 1 == turns;
    const std::vector<void*>& next = (turn % 2 ? odd : even).addresses;
    for (size_t i = 0; i < out.size(); ++i) {
      out[i] = i < carried ? (last ? a.outputs[i] : next[i])
                           : static_cast<char*>(a.outputs[i]) + at * bytes_of(g.results[i]);
    }
    m.run(s.graph, now, numbers, out);
    std::copy_n(out.begin(), carried, now.begin());
    move_draws(numbers, s.graph, s.draws);
  }
  if (turns > 0) return;
  for (size_t i = 0; i < carried; ++i) m.copy(a.outputs[i], a.tensors[i], bytes_of(g.results[i]));
}

/// Runs a call of `op` whose operands are row-major.
void run_control(Machine& m, ir::Op op, const Arguments& a, std::span<const int64_t> attrs,
                 std::span<const LibraryView> inputs) {
  switch (ir::control_kind(op)) {
    case ControlKind::kCond:
      return run_cond(m, a, attrs);
    case ControlKind::kWhileLoop:
      return run_while(m, a, attrs);
    case ControlKind::kWhileGrad:
      return run_while_grad(m, a, attrs);
    case ControlKind::kScan:
      return run_scan(m, a, attrs, inputs[static_cast<size_t>(ir::ScanAttrs::read(attrs).carried)].shape[0]);
  }
}

bool is_dense(const LibraryView& v) {
  const Dims dense = contiguous_strides(v.shape);
  for (int i = 0; i < v.shape.size(); ++i) {
    if (v.shape[i] != 1 && v.strides[i] != dense[i]) return false;
  }
  return true;
}

class ControlFlow final : public BoundLibrary {
 public:
  ControlFlow(Device device, ir::Op op, std::vector<LibraryView> inputs, std::vector<LibraryView> outputs,
              std::vector<int64_t> attrs)
      : device_(device),
        op_(op),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)),
        attrs_(std::move(attrs)),
        machine_(device) {
    for (const LibraryView& v : outputs_) SMOLDER_INVARIANT(numel(v.shape) == 0 || is_dense(v));
  }

  bool run(std::span<void* const> addresses) const override {
    Arguments a;
    std::vector<BufferRef> holders(inputs_.size());
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const LibraryView& v = inputs_[i];
      if (v.weak) {
        a.numbers.push_back(*static_cast<const uint64_t*>(addresses[i]));
      } else {
        a.tensors.push_back(dense(v, addresses[i], holders[i]));
      }
    }
    a.outputs.assign(addresses.begin() + static_cast<int64_t>(inputs_.size()), addresses.end());
    const std::lock_guard hold(running_);
    machine_.good = true;
    run_control(machine_, op_, a, attrs_, inputs_);
    return machine_.good;
  }
  std::string describe() const override { return std::string(ir::name(op_)); }

 private:
  void* dense(const LibraryView& v, void* address, BufferRef& holder) const {
    if (numel(v.shape) == 0 || is_dense(v)) return address;
    if (DeviceTarget* const target = DeviceTarget::of(device_.type)) {
      return target->dense(device_.index, v, address, holder);
    }
    holder = eager::contiguous({nullptr, address, v.dtype, v.shape, v.strides}).buffer;
    return holder->data();
  }

  Device device_;
  ir::Op op_;
  std::vector<LibraryView> inputs_, outputs_;
  std::vector<int64_t> attrs_;
  mutable std::mutex running_;
  mutable PlanMachine machine_;
};

/// The same op by op: what eager execution calls.
void run_eagerly(const eager::KernelCall& call) {
  EagerMachine machine;
  Arguments a;
  std::vector<BufferRef> holders;
  std::vector<LibraryView> views;
  for (const eager::TensorView& v : call.inputs) {
    views.push_back({v.dtype, v.shape, v.strides, v.weak});
    if (v.weak) {
      a.numbers.push_back(*static_cast<const uint64_t*>(v.data));
    } else if (numel(v.shape) == 0 || is_dense(views.back())) {
      a.tensors.push_back(v.data);
    } else {
      holders.push_back(eager::contiguous({nullptr, v.data, v.dtype, v.shape, v.strides}).buffer);
      a.tensors.push_back(holders.back()->data());
    }
  }
  for (const eager::TensorView& v : call.outputs) a.outputs.push_back(v.data);
  run_control(machine, call.op, a, call.attrs, views);
  if (!machine.good) call.errors->bad_index(0, -1);
}

/// Gives each op its eager kernel when it is registered.
[[maybe_unused]] const bool g_registered = [] {
  ir::on_control_op([](ir::Op op) { eager::register_kernel(eager::DispatchKey::kCPU, op, &run_eagerly); });
  return true;
}();

}  // namespace

std::unique_ptr<BoundLibrary> bind_control_flow(Device device, ir::Op op, std::vector<LibraryView> inputs,
                                                std::vector<LibraryView> outputs, std::vector<int64_t> attrs) {
  return std::make_unique<ControlFlow>(device, op, std::move(inputs), std::move(outputs), std::move(attrs));
}

}  // namespace smolder::jit
