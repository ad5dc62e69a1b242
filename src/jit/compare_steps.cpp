#include "smolder/jit/compare_steps.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "smolder/eager/execute.h"
#include "smolder/ir/builder.h"
#include "smolder/jit/arena.h"
#include "smolder/jit/plan_impl.h"

namespace smolder::jit {
namespace {

using ir::ValueId;

eager::Array copy_of(const eager::Array& a) {
  eager::Array whole = eager::contiguous(a);
  if (whole.data != a.data) return whole;
  eager::Array out = eager::Array::empty(a.shape, a.dtype);
  if (a.bytes()) std::memcpy(out.data, a.data, a.bytes());
  return out;
}

/// The primitives between what a step reads and what it writes, as a graph of their own.
class StepGraph {
 public:
  StepGraph(const Program& p, const Step& step) : p_(p), step_(step), made_(p.graph.values.size(), ir::kNone) {
    graph.sym = p.graph.sym;
  }

  /// False where they are not to be had from the graph.
  bool build() {
    std::vector<bool> wanted(p_.graph.values.size(), false);
    ValueId last = 0;
    for (const BufferId b : step_.writes) {
      const ValueId v = p_.buffers[b].value;
      if (v == ir::kNone) return false;
      wanted[v] = true;
      last = std::max(last, v);
    }
    for (ValueId v = last + 1; v-- > 0;) {
      if (!wanted[v] || is_read(v)) continue;
      const ir::Node& n = p_.graph.producer(v);
      if (n.op == ir::Op::kLeaf) return false;
      for (const ValueId x : n.inputs) {
        if (x != ir::kNone) wanted[x] = true;
      }
    }
    for (ValueId v = 0; v <= last; ++v) {
      if (wanted[v] && made_[v] == ir::kNone) make(v);
    }
    for (const BufferId b : step_.writes) graph.outputs.push_back(made_[p_.buffers[b].value]);
    return true;
  }

  ir::Graph graph;
  std::vector<BufferId> leaves;

 private:
  bool is_read(ValueId v) const {
    const BufferId b = p_.buffer_of[v];
    return b >= 0 && p_.buffers[b].value == v && std::ranges::find(step_.reads, b) != step_.reads.end();
  }

  void make(ValueId v) {
    if (is_read(v)) {
      made_[v] = ir::Builder(graph).leaf(static_cast<int>(leaves.size()), p_.graph.dtype(v), p_.graph.shape(v)).id;
      leaves.push_back(p_.buffer_of[v]);
      return;
    }
    const ir::Node& n = p_.graph.producer(v);
    std::vector<ValueId> inputs = n.inputs;
    for (ValueId& x : inputs) {
      if (x != ir::kNone) x = made_[x];
    }
    const ValueId first = graph.append(n.op, std::move(inputs), n.attrs,
                                       {p_.graph.values.data() + n.first_output, n.num_outputs}, n.origin);
    for (uint32_t i = 0; i < n.num_outputs; ++i) made_[n.first_output + i] = first + i;
  }

  const Program& p_;
  const Step& step_;
  std::vector<ValueId> made_;
};

}  // namespace

/// What a buffer of the running plan holds.
eager::Array InstanceImpl::memory_of(BufferId b) const {
  const BufferInfo& info = plan_->program().buffers[b];
  const auto dims = [&](const ir::SymDims& list) {
    Dims out;
    for (const ir::Dim& d : list) out.push_back(ir::SymTable::value(d, evaluated_));
    return out;
  };
  const PointerSlot slot = pointer(b);
  eager::Array out =
      eager::Array::wrap(RunTables::of_thread().bases[slot.base] + slot.offset, dims(info.shape), info.dtype);
  out.strides = dims(info.strides);
  out.data = static_cast<char*>(out.data) +
             ir::SymTable::value(info.offset, evaluated_) * static_cast<int64_t>(itemsize(info.dtype));
  return out;
}

ComparedRun InstanceImpl::run_compared(std::span<const int64_t> symbols, const RunArguments& args) const {
  const Program& p = plan_->program();
  SMOLDER_CHECK(p.options.device == DeviceType::kCPU, NotImplementedError,
                "steps of plans are compared on the CPU only");
  const Arena::Lease arena = Arena::of(DeviceType::kCPU).reserve(arena_bytes_);
  fill_bases(args, arena.base);
  fill_tables(args);
  ComparedRun out;
  std::vector<OpSite> reports;
  for (const Launch& launch : launches_) {
    std::vector<std::optional<std::vector<eager::Array>>> wanted;
    for (uint32_t i = 0; i < launch.num_steps; ++i) {  // before it runs, which may write over what it reads
      const Step& step = p.steps[launch.first_step + i];
      StepGraph reference(p, step);
      if (!reference.build()) {
        wanted.emplace_back();
        out.skipped.push_back(launch.first_step + i);
        continue;
      }
      std::vector<eager::Array> leaves;
      for (const BufferId b : reference.leaves) leaves.push_back(copy_of(memory_of(b)));
      std::vector<eager::BadIndex> bad;
      wanted.emplace_back(eager::execute_graph(reference.graph, leaves, args.parameters, symbols, &bad));
      for (eager::Array& a : *wanted.back()) a = copy_of(a);
    }
    run_launch(launch, reports);
    for (uint32_t i = 0; i < launch.num_steps; ++i) {
      if (!wanted[i]) continue;
      const Step& step = p.steps[launch.first_step + i];
      for (size_t k = 0; k < step.writes.size(); ++k) {
        eager::Array got = copy_of(memory_of(step.writes[k])), &want = (*wanted[i])[k];
        if (got.bytes() == want.bytes() && (!got.bytes() || !std::memcmp(got.data, want.data, got.bytes()))) continue;
        out.differences.push_back({launch.first_step + i, std::move(got), std::move(want)});
      }
    }
  }
  return out;
}

ComparedRun run_compared(const Instance& instance, std::span<const int64_t> symbols, const RunArguments& args) {
  return static_cast<const InstanceImpl&>(instance).run_compared(symbols, args);
}

}  // namespace smolder::jit
