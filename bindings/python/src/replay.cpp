// Graphs of recorded steps that run outside of any tape, as `smolder replay` runs them.
#include <chrono>
#include <functional>
#include <unordered_map>

#include "smolder/core/cuda/queue.h"
#include "smolder/eager/execute.h"
#include "smolder/graph/state.h"
#include "smolder/ir/attr_words.h"
#include "smolder/ir/interpret.h"
#include "smolder/jit/compile.h"
#include "smolder/jit/fuse/recompute.h"
#include "smolder/jit/graph/rules.h"
#include "smolder/jit/plan.h"
#include "smolder/jit/plan/time_plan.h"
#include "smolder/jit/run/compare_steps.h"
#include "smolder/jit/run/run_mode.h"
#include "smolder/jit/switches.h"
#include "smolder/lazy/lock.h"
#include "smolder/lazy/storage.h"
#include "smolder/lazy/tape.h"
#include "src/plans.h"
#include "src/replay.h"
#include "src/without_gil.h"

namespace smolder::python {
namespace {

/// Until a device has done what it was given.
void wait_for(Device device) {
  if (device != DeviceType::kCUDA) return;
  if (cuda::Queue* const queue = cuda::Queue::existing(device.index)) queue->stream().synchronize();
}

/// Leaves and numbers of a run, checked against the graph.
struct RunInputs {
  std::vector<BufferRef> buffers;
  std::vector<void*> addresses;
  std::vector<uint64_t> numbers;

  RunInputs(const ReplayGraph& g, const std::vector<Tensor>& tensors, const nb::list& values, Device device) {
    SMOLDER_CHECK(tensors.size() == g.leaves.size(), ValueError, "the graph has ", g.leaves.size(), " leaves, ",
                  tensors.size(), " are given");
    SMOLDER_CHECK(values.size() == g.numbers.size(), ValueError, "the graph has ", g.numbers.size(), " numbers, ",
                  values.size(), " are given");
    for (size_t i = 0; i < tensors.size(); ++i) {
      const ir::ValueId v = g.leaves[i];
      const Tensor& t = tensors[i];
      SMOLDER_CHECK(t.dtype() == g.graph.dtype(v) && t.shape() == g.graph.shape(v).values(), ValueError, "leaf ", i,
                    " is ", name(g.graph.dtype(v)), to_string(g.graph.shape(v).values()), ", given ", name(t.dtype()),
                    to_string(t.shape()));
      SMOLDER_CHECK(t.device() == device, ValueError, "leaf ", i, " is on ", to_string(t.device()));
    }
    for (size_t i = 0; i < values.size(); ++i) {
      const Category c = g.numbers[i];
      const nb::handle v = values[i];
      const Scalar s = c == Category::kFloat ? Scalar(nb::cast<double>(v))
                       : c == Category::kInt ? Scalar(nb::cast<int64_t>(v))
                                             : Scalar(nb::cast<bool>(v));
      numbers.push_back(s.bits());
    }
    const WithoutGil nogil;
    for (const Tensor& t : tensors) buffers.push_back(lazy::elements(t, "replay", capture_source()));
    for (const BufferRef& b : buffers) {
      SMOLDER_INVARIANT(b->device() == device);
      addresses.push_back(b->data());
    }
  }
  RunInputs(std::vector<BufferRef> leaves, std::vector<uint64_t> values)
      : buffers(std::move(leaves)), numbers(std::move(values)) {
    for (const BufferRef& b : buffers) addresses.push_back(b->data());
  }
};

std::vector<std::string> bad_index_texts(const std::vector<jit::IndexReport>& sites) {
  std::vector<std::string> out;
  for (const jit::IndexReport& s : sites) out.push_back(s.op + " at " + resolve_source(s.source));
  return out;
}

class ReplayPlan {
 public:
  ReplayPlan(const ReplayGraph& g, Device device, bool fuse, bool simplify) : graph_(g), device_(device) {
    const auto start = std::chrono::steady_clock::now();
    plan_ = jit::Plan::compile(g.graph, {device, precision(), fuse, simplify});
    instance_ = plan_->bind(g.symbols);
    SMOLDER_INVARIANT(instance_);
    milliseconds_ = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  }

  /// The outputs, and which indices were out of range.
  nb::tuple run(const std::vector<Tensor>& leaves, const nb::list& numbers) const {
    const RunInputs in(graph_, leaves, numbers, device_);
    std::vector<BufferRef> outputs;
    std::vector<jit::IndexReport> bad;
    {
      const WithoutGil nogil;
      outputs = run(in, bad);
      wait(bad);
    }
    nb::list out;
    for (size_t i = 0; i < outputs.size(); ++i) {
      const ir::ValueId v = graph_.graph.outputs[i];
      out.append(nb::cast(tensor_of(outputs[i], graph_.graph.shape(v).values(), graph_.graph.dtype(v))));
    }
    return nb::make_tuple(out, bad_index_texts(bad));
  }

  /// The same without the GIL, and on a device without waiting for it.
  std::vector<BufferRef> run(const RunInputs& in, std::vector<jit::IndexReport>& bad) const {
    std::vector<BufferRef> outputs = allocate_outputs(in);
    for (jit::IndexReport& site : instance_->run({in.addresses, in.numbers, addresses_of(outputs)})) {
      bad.push_back(std::move(site));
    }
    return outputs;
  }

  /// Seconds of each of some runs.
  std::vector<double> time(const std::vector<Tensor>& leaves, const nb::list& numbers, int iterations) const {
    const RunInputs in(graph_, leaves, numbers, device_);
    const std::vector<BufferRef> outputs = allocate_outputs(in);
    const std::vector<void*> addresses = addresses_of(outputs);
    std::vector<double> seconds;
    const WithoutGil nogil;
    for (int i = 0; i < iterations; ++i) {
      const auto start = std::chrono::steady_clock::now();
      std::vector<jit::IndexReport> bad = instance_->run({in.addresses, in.numbers, addresses});
      wait(bad);
      seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    }
    return seconds;
  }

  /// Tries what the step may be made by until nothing is left to try.
  void tune(const std::vector<Tensor>& leaves, const nb::list& numbers) const {
    const RunInputs in(graph_, leaves, numbers, device_);
    const std::vector<BufferRef> outputs = allocate_outputs(in);
    const WithoutGil nogil;
    const jit::RunModeScope scope({.tunes = true, .at_once = true});
    constexpr int kPhases = 4;  // the last runs by what was chosen: see TunedProduct::Phase
    for (int i = 0; i < kPhases; ++i) {
      std::vector<jit::IndexReport> bad = instance_->run({in.addresses, in.numbers, addresses_of(outputs)});
      wait(bad);
    }
  }

  /// Seconds of each step in each of some runs.
  std::vector<std::vector<double>> step_times(const std::vector<Tensor>& leaves, const nb::list& numbers,
                                              size_t rounds) const {
    const RunInputs in(graph_, leaves, numbers, device_);
    const std::vector<BufferRef> outputs = allocate_outputs(in);
    const WithoutGil nogil;
    return jit::step_seconds(*plan_, *instance_, {in.addresses, in.numbers, addresses_of(outputs)}, rounds);
  }

  /// Steps whose results are not what their primitives make: (step, got, wanted). And those that were not compared.
  nb::tuple compare(const std::vector<Tensor>& leaves, const nb::list& numbers) const {
    const RunInputs in(graph_, leaves, numbers, device_);
    const std::vector<BufferRef> outputs = allocate_outputs(in);
    jit::ComparedRun ran;
    {
      const WithoutGil nogil;
      ran = jit::run_compared(*instance_, graph_.symbols, {in.addresses, in.numbers, addresses_of(outputs)});
    }
    nb::list differences;
    for (jit::StepDifference& d : ran.differences) {
      differences.append(nb::make_tuple(d.step, tensor_of(d.got.buffer, d.got.shape, d.got.dtype),
                                        tensor_of(d.wanted.buffer, d.wanted.shape, d.wanted.dtype)));
    }
    return nb::make_tuple(differences, ran.skipped);
  }

  const jit::Plan& plan() const { return *plan_; }
  const jit::Instance& instance() const { return *instance_; }
  double milliseconds() const { return milliseconds_; }

 private:
  std::vector<BufferRef> allocate_outputs(const RunInputs& in) const {
    std::vector<BufferRef> out;
    for (size_t i = 0; i < plan_->outputs().size(); ++i) {
      const jit::OutputInfo& info = plan_->outputs()[i];
      out.push_back(info.same_as_leaf >= 0     ? in.buffers[info.same_as_leaf]
                    : info.same_as_output >= 0 ? out[info.same_as_output]
                                               : allocate(instance_->output_bytes()[i], device_));
    }
    return out;
  }
  static std::vector<void*> addresses_of(const std::vector<BufferRef>& buffers) {
    std::vector<void*> out;
    for (const BufferRef& b : buffers) out.push_back(b->data());
    return out;
  }
  /// Waits for the device: its reports are known when it has done all.
  void wait(std::vector<jit::IndexReport>& bad) const {
    if (device_ == DeviceType::kCPU) return;
    wait_for(device_);
    for (jit::IndexReport& site : jit::take_reports(device_, true)) bad.push_back(std::move(site));
  }

  ReplayGraph graph_;
  Device device_;
  std::shared_ptr<const jit::Plan> plan_;
  std::shared_ptr<const jit::Instance> instance_;
  double milliseconds_ = 0;
};

/// A graph that runs op by op. On CUDA each op is a plan of its own, as it is in eager mode there.
class OpByOp {
 public:
  OpByOp(const ReplayGraph& g, Device device) : graph_(g), device_(device) {
    if (device != DeviceType::kCUDA) {
      program_ = eager::Program::compile(g.graph, g.symbols);
      return;
    }
    std::vector<size_t> number_of(g.graph.values.size());
    size_t numbers = 0;
    for (const ir::Node& n : g.graph.nodes) {
      if (n.op == ir::Op::kParameter) number_of[n.first_output] = numbers++;
      if (n.op != ir::Op::kParameter && n.op != ir::Op::kLeaf) ops_.push_back(one(n, number_of));
    }
  }

  /// The outputs, and which indices were out of range.
  nb::tuple run(const std::vector<Tensor>& leaves, const nb::list& numbers) const {
    const RunInputs in(graph_, leaves, numbers, device_);
    std::vector<BufferRef> results;
    std::vector<jit::IndexReport> bad;
    {
      const WithoutGil nogil;
      results = program_ ? run_program(in, bad) : run_ops(in, bad);
      wait_for(device_);
      if (device_ != DeviceType::kCPU) {
        for (jit::IndexReport& site : jit::take_reports(device_, true)) bad.push_back(std::move(site));
      }
    }
    nb::list out;
    for (size_t i = 0; i < results.size(); ++i) {
      const ir::ValueId v = graph_.graph.outputs[i];
      out.append(nb::cast(tensor_of(results[i], graph_.graph.shape(v).values(), graph_.graph.dtype(v))));
    }
    return nb::make_tuple(out, bad_index_texts(bad));
  }

 private:
  struct OneOp {
    std::shared_ptr<const ReplayPlan> plan;
    std::vector<ir::ValueId> leaves;
    std::vector<size_t> numbers;
    ir::ValueId first_output;
  };

  OneOp one(const ir::Node& n, const std::vector<size_t>& number_of) const {
    const ir::Graph& g = graph_.graph;
    OneOp out{nullptr, {}, {}, n.first_output};
    std::vector<ReplayGraph::PlainNode> nodes;
    std::unordered_map<ir::ValueId, int64_t> now;
    std::vector<int64_t> operands, words, results;
    for (const ir::ValueId v : n.inputs) {
      if (v != ir::kNone && now.try_emplace(v, static_cast<int64_t>(nodes.size())).second) {
        const bool weak = g.info(v).weak;
        const Dims shape = g.shape(v).values();
        const char* const kind = category_name(smolder::category(g.dtype(v)));
        nodes.push_back({weak ? "parameter" : "leaf",
                         {},
                         {},
                         {weak ? kind : std::string(name(g.dtype(v))), {shape.begin(), shape.end()}},
                         0});
        if (weak) {
          out.numbers.push_back(number_of[v]);
        } else {
          out.leaves.push_back(v);
        }
      }
      operands.push_back(v == ir::kNone ? -1 : now[v]);
    }
    for (const ir::Dim& d : n.attrs) words.push_back(d.value);
    for (int64_t i = 0; i < n.num_outputs; ++i) results.push_back(static_cast<int64_t>(nodes.size()) + i);
    nodes.push_back({std::string(ir::name(n.op)), operands, words, {}, n.origin.source});
    out.plan = std::make_shared<const ReplayPlan>(ReplayGraph(nodes, results), device_, true, true);
    return out;
  }

  std::vector<BufferRef> run_program(const RunInputs& in, std::vector<jit::IndexReport>& bad) const {
    std::vector<eager::Array> arrays;
    for (size_t i = 0; i < in.buffers.size(); ++i) {
      const ir::ValueId v = graph_.leaves[i];
      arrays.push_back(eager::Array::wrap(in.buffers[i], graph_.graph.shape(v).values(), graph_.graph.dtype(v)));
    }
    std::vector<eager::BadIndex> found;
    std::vector<BufferRef> out;
    const Device device = device_;
    for (const eager::Array& a : program_->run(arrays, in.numbers, eager::dispatch_key(device), &found)) {
      out.push_back(lazy::owned(a, device).buffer);
    }
    for (const eager::BadIndex& b : found) bad.push_back({b.source, b.op});
    return out;
  }

  std::vector<BufferRef> run_ops(const RunInputs& in, std::vector<jit::IndexReport>& bad) const {
    std::vector<BufferRef> values(graph_.graph.values.size());
    for (size_t i = 0; i < in.buffers.size(); ++i) values[graph_.leaves[i]] = in.buffers[i];
    for (const OneOp& op : ops_) {
      std::vector<BufferRef> leaves;
      std::vector<uint64_t> numbers;
      for (const ir::ValueId v : op.leaves) leaves.push_back(values[v]);
      for (const size_t i : op.numbers) numbers.push_back(in.numbers[i]);
      std::vector<BufferRef> results = op.plan->run(RunInputs(std::move(leaves), std::move(numbers)), bad);
      for (size_t i = 0; i < results.size(); ++i) values[op.first_output + i] = std::move(results[i]);
    }
    std::vector<BufferRef> out;
    for (const ir::ValueId v : graph_.graph.outputs) out.push_back(values[v]);
    return out;
  }

  ReplayGraph graph_;
  Device device_;
  std::shared_ptr<const eager::Program> program_;  ///< null on CUDA
  std::vector<OneOp> ops_;
};

nb::list run_interpreted(const ReplayGraph& g, const std::vector<Tensor>& leaves, const nb::list& numbers) {
  const RunInputs in(g, leaves, numbers, DeviceType::kCPU);
  std::vector<ir::PlainTensor> results;
  {
    const WithoutGil nogil;
    std::vector<ir::PlainTensor> plain;
    for (size_t i = 0; i < leaves.size(); ++i) {
      plain.push_back(ir::PlainTensor::from_memory(in.addresses[i], g.graph.dtype(g.leaves[i]),
                                                   g.graph.shape(g.leaves[i]).values()));
    }
    results = ir::interpret(g.graph, plain, in.numbers, g.symbols);
  }
  nb::list out;
  for (const ir::PlainTensor& t : results) {
    BufferRef buffer = allocate(static_cast<size_t>(numel(t.shape)) * itemsize(t.dtype));
    t.to_memory(buffer->data());
    out.append(nb::cast(tensor_of(std::move(buffer), t.shape, t.dtype)));
  }
  return out;
}

/// Swaps the operands of primitives `op`: a compiler that is wrong, for tests of what finds it. In the graph after
/// `simplify`, or in kernels after `lower`. An empty name takes it back.
void plant_miscompile(const std::string& op_name, const std::string& where) {
  if (op_name.empty()) return jit::set_stage_hook({});
  const ir::Op op = ir::find_op(op_name);
  jit::set_stage_hook([op, where](std::string_view stage, jit::Program& program) {
    if (stage != where) return;
    if (stage == "simplify") {
      for (ir::Node& n : program.graph.nodes) {
        if (n.op == op && n.inputs.size() > 1) std::swap(n.inputs[0], n.inputs[1]);
      }
      return;
    }
    const std::function<void(jit::Stmt&)> spoil = [&](jit::Stmt& s) {
      if (s.kind == jit::StmtKind::kPrimitive && s.op == op && s.args.size() > 1) std::swap(s.args[0], s.args[1]);
      for (jit::Stmt& inner : s.body) spoil(inner);
    };
    for (jit::Step& step : program.steps) {
      if (step.kernel) spoil(step.kernel->kernel.root);
    }
  });
}

std::vector<std::string> as_strings(const std::vector<std::string_view>& views) { return {views.begin(), views.end()}; }

}  // namespace

const char* category_name(Category c) { return c == Category::kBool ? "bool" : c == Category::kInt ? "int" : "float"; }

Tensor tensor_of(BufferRef buffer, const Dims& shape, DType dtype) {
  lazy::Tape& tape = lazy::Tape::on(buffer->device());
  const std::lock_guard hold(tape.mutex());
  lazy::ValueRef value = tape.adopt(std::move(buffer), lazy::intern({shape, dtype}));
  return Tensor::first(new lazy::TensorImpl(std::move(value)));
}

void bind_replay(nb::module_& m) {
  bind_trace_log(m);
  m.def("_operand_names", [](const std::string& op) {
    std::vector<std::string> out;
    for (const ir::OperandInfo& o : ir::info(ir::find_op(op)).operands) out.emplace_back(o.name);
    return out;
  });
  m.def("_size_words", [](const std::string& op, const std::vector<int64_t>& words) {
    std::vector<bool> out(words.size());
    ir::for_each_attr_word(ir::info(ir::find_op(op)), words, [&](size_t w, bool is_size) { out[w] = is_size; });
    return out;
  });
  m.def("_plant_miscompile", &plant_miscompile);
  m.def("_set_scarce_bytes", &jit::set_scarce_bytes);
  m.def("_scarce_bytes", &jit::scarce_bytes);
  m.def("_compiler_stages", [] { return as_strings(jit::stage_names()); });
  m.def("_compiler_switches", [] {
    std::vector<std::string> out = as_strings(jit::switch_names());
    for (const jit::Rule& rule : jit::rules()) out.push_back("rule." + std::string(rule.name));
    return out;
  });
  m.def("_first_difference", &first_difference);
  m.def("_parse_graph", &parse_graph);
  m.def("_source_named", &source_named);
  nb::class_<ReplayGraph>(m, "_ReplayGraph")
      .def(nb::init<const std::vector<ReplayGraph::PlainNode>&, const std::vector<int64_t>&>())
      .def_prop_ro("text", [](const ReplayGraph& g) { return graph::print_nested(g.graph); })
      .def_prop_ro("symbols", [](const ReplayGraph& g) { return g.symbols; })
      .def("nodes", [](const ReplayGraph& g) { return nodes_list(g.graph); })
      .def("op_by_op",
           [](const ReplayGraph& g, const std::string& device) {
             const WithoutGil nogil;
             return new OpByOp(g, parse_device(device));
           })
      .def("interpret", &run_interpreted)
      .def("after_stage",
           [](const ReplayGraph& g, const std::string& device, bool fuse, bool simplify, const std::string& stage) {
             const jit::CompileOptions options{parse_device(device), precision(), fuse, simplify};
             return jit::text_after(g.graph, options, stage);
           })
      .def("compile", [](const ReplayGraph& g, const std::string& device, bool fuse, bool simplify) {
        const WithoutGil nogil;
        return new ReplayPlan(g, parse_device(device), fuse, simplify);
      });
  nb::class_<OpByOp>(m, "_OpByOp").def("run", &OpByOp::run);
  nb::class_<ReplayPlan>(m, "_ReplayPlan")
      .def("run", nb::overload_cast<const std::vector<Tensor>&, const nb::list&>(&ReplayPlan::run, nb::const_))
      .def("time", &ReplayPlan::time)
      .def("tune", &ReplayPlan::tune)
      .def("step_times", &ReplayPlan::step_times)
      .def("compare", &ReplayPlan::compare)
      .def("report", [](const ReplayPlan& p) { return plan_report(p.instance()); })
      .def("describe", [](const ReplayPlan& p) { return p.plan().describe(); })
      .def_prop_ro("milliseconds", &ReplayPlan::milliseconds)
      .def_prop_ro("arena_bytes", [](const ReplayPlan& p) { return p.instance().arena_bytes(); })
      .def_prop_ro("built", [](const ReplayPlan& p) { return p.plan().built().size(); });
}

}  // namespace smolder::python
