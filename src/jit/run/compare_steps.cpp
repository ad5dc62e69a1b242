#include "smolder/jit/run/compare_steps.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "smolder/core/device.h"
#include "smolder/eager/execute.h"
#include "smolder/ir/rewrite.h"
#include "smolder/jit/plan/plan_impl.h"
#include "smolder/jit/run/arena.h"

namespace smolder::jit {
namespace {

using ir::ValueId;

/// Row-major, on the host.
eager::Array copy_of(const eager::Array& given, Device device) {
  eager::Array a = given;
  if (device != DeviceType::kCPU && a.bytes()) {
    int64_t last = 0;
    for (int i = 0; i < a.shape.size(); ++i) last += (a.shape[i] - 1) * a.strides[i];
    const size_t bytes = static_cast<size_t>(last + 1) * itemsize(a.dtype);
    a.buffer = allocate(bytes);
    copy_to_host(a.buffer->data(), a.data, bytes, device);
    a.data = static_cast<std::byte*>(a.buffer->data());
  }
  eager::Array whole = eager::contiguous(a);
  if (whole.data != a.data) return whole;
  eager::Array out = eager::Array::empty(a.shape, a.dtype);
  if (a.bytes()) std::memcpy(out.data, a.data, a.bytes());
  return out;
}

/// The primitives between what a step reads and what it writes, as a graph of their own.
class StepGraph {
 public:
  StepGraph(const Program& p, const Step& step) : p_(p), step_(step), rewriter_(p.graph) {}

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
      if (wanted[v] && rewriter_.now(v) == ir::kNone) make(v);
    }
    std::vector<ValueId> outputs;
    for (const BufferId b : step_.writes) outputs.push_back(rewriter_.now(p_.buffers[b].value));
    graph = rewriter_.finish(std::move(outputs));
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
      const auto number = static_cast<int>(leaves.size());
      rewriter_.set(v, rewriter_.builder().leaf(number, p_.graph.dtype(v), p_.graph.shape(v)).id);
      leaves.push_back(p_.buffer_of[v]);
    } else {
      rewriter_.copy(p_.graph.producer(v));
    }
  }

  const Program& p_;
  const Step& step_;
  ir::Rewriter rewriter_;
};

}  // namespace

/// The contents of a buffer of the running plan.
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

/// Runs the primitives of a step on the memory as it is now; nothing where they are not to be had, or have no kernel
/// on the host.
std::optional<std::vector<eager::Array>> InstanceImpl::reference_of(const Step& step, std::span<const int64_t> symbols,
                                                                    const RunArguments& args) const {
  const Program& p = plan_->program();
  StepGraph reference(p, step);
  if (!reference.build()) return {};
  std::vector<eager::Array> leaves;
  for (const BufferId b : reference.leaves) leaves.push_back(copy_of(memory_of(b), p.options.device));
  try {
    std::vector<eager::BadIndex> bad;
    std::vector<eager::Array> out = eager::execute_graph(reference.graph, leaves, args.parameters, symbols, &bad);
    for (eager::Array& a : out) a = copy_of(a, DeviceType::kCPU);
    return out;
  } catch (const NotImplementedError&) {
    return {};
  }
}

ComparedRun InstanceImpl::run_compared(std::span<const int64_t> symbols, const RunArguments& args) const {
  const Program& p = plan_->program();
  ComparedRun out;
  std::vector<std::optional<std::vector<eager::Array>>> wanted;
  const auto before = [&](const Launch& launch) {  // which may write over what it reads
    wanted.clear();
    for (size_t s = launch.first_step; s < launch.first_step + launch.num_steps; ++s) {
      wanted.push_back(reference_of(p.steps[s], symbols, args));
      if (!wanted.back()) out.skipped.push_back(s);
    }
  };
  const auto after = [&](const Launch& launch) {
    for (size_t i = 0; i < launch.num_steps; ++i) {
      if (!wanted[i]) continue;
      const Step& step = p.steps[launch.first_step + i];
      for (size_t k = 0; k < step.writes.size(); ++k) {
        eager::Array got = copy_of(memory_of(step.writes[k]), p.options.device), &want = (*wanted[i])[k];
        if (got.bytes() == want.bytes() && (!got.bytes() || !std::memcmp(got.data, want.data, got.bytes()))) continue;
        out.differences.push_back({launch.first_step + i, std::move(got), std::move(want)});
      }
    }
  };
  if (p.options.device == DeviceType::kCUDA) {
    const LaunchWatch watch{before, after};
    (void)run_on_cuda(args, &watch);
    return out;
  }
  const Arena::Lease arena = Arena::of(DeviceType::kCPU).reserve(arena_bytes_);
  fill_bases(args, arena.base);
  fill_tables(args);
  std::vector<IndexReport> reports;
  for (const Launch& launch : launches_) {
    before(launch);
    run_launch(launch, reports);
    after(launch);
  }
  return out;
}

ComparedRun run_compared(const Instance& instance, std::span<const int64_t> symbols, const RunArguments& args) {
  return static_cast<const InstanceImpl&>(instance).run_compared(symbols, args);
}

}  // namespace smolder::jit
