// Rows kept between the phases of a kernel: softmax needs exp(x - max) for the sum and again for the quotient. Cheap
// values are computed again from what the first-level cache holds; costly ones are kept, in the row of an output
// that is written later anyway where there is one.
#include <algorithm>
#include <unordered_map>

#include "smolder/jit/cost.h"
#include "smolder/jit/fuse/fuse_domain.h"
#include "smolder/jit/lower/lowering.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::ValueId;

namespace {

/// Bytes of a row that a device has a place for in shared memory, beside that of another block.
constexpr int64_t kMostOnDevice = 64 << 10;

}  // namespace

/// Follows what `v` needs at the element the loops are at, in phase `phase`, without making code of it.
void Lowering::trace(ValueId reader, ValueId v, int phase) {
  // Reducing one element takes no phase: it asks for that element here.
  const auto passes = [&](ValueId x) {
    const ir::Node& n = graph().producer(x);
    return is_alias(n.op) || (n.op == ir::Op::kReduce && !is_reduction(graph(), n));
  };
  while (!must_load(v) && passes(v)) v = graph().producer(v).inputs[0];
  const ir::Node& n = graph().producer(v);
  if (must_load(v) || !(ir::is_elementwise_primitive(n.op) || n.op == ir::Op::kCast || n.op == ir::Op::kRandomBits))
    return;
  if (graph().info(v).weak || is_row_value(v)) return;
  requests_.push_back({reader, v, phase});
  std::vector<int>& phases = phases_of_[v];
  if (std::ranges::find(phases, phase) != phases.end()) return;
  if (phases.empty()) computed_.push_back(v);
  phases.push_back(phase);
  for (const ValueId x : n.inputs) trace(v, x, phase);
}

void Lowering::find_kept_rows() {
  if (!domain_.reduces_columns) return;
  for (const ir::NodeId node : group_.reductions) {
    const ValueId x = graph().nodes[node].inputs[0];
    trace(ir::kNone, x, phase_of(x));
  }
  for (const ValueId sink : group_.sinks) {
    if (!is_reduced_here(sink) && !is_row_level(sink)) trace(ir::kNone, sink, phase_of(sink));
  }
  const auto repeats = [&](ValueId v) { return phases_of_[v].size() > 1; };
  // Who asks for what is computed again, and what such a value asks for of its kind.
  std::unordered_map<ValueId, std::vector<ValueId>> readers, below;
  for (const Request& r : requests_) {
    if (!repeats(r.value)) continue;
    readers[r.value].push_back(r.reader);
    if (r.reader != ir::kNone) below[r.reader].push_back(r.value);
  }
  const auto cost_of = [&](ValueId v) {
    // The cost of v and of the values that are computed again for it. It stops where it knows that they are costly.
    std::vector<ValueId> seen{v};
    double cost = 0;
    for (size_t i = 0; i < seen.size() && cost < kCostly; ++i) {
      cost += op_cost(graph().op(seen[i]));
      for (const ValueId x : below[seen[i]]) {
        if (std::ranges::find(seen, x) == seen.end()) seen.push_back(x);
      }
    }
    return cost;
  };
  int end = 0;  // the last phase, after which nothing is read
  for (const ir::NodeId node : group_.reductions) end = std::max(end, phase_of(graph().nodes[node].inputs[0]));
  for (const ValueId sink : group_.sinks) end = std::max(end, is_reduced_here(sink) ? 0 : phase_of(sink));
  std::vector<ValueId> sinks_taken;
  for (const ValueId v : computed_) {
    if (!repeats(v)) continue;
    const bool wanted_outside =
        std::ranges::any_of(readers[v], [&](ValueId reader) { return reader == ir::kNone || !repeats(reader); });
    if (!wanted_outside || cost_of(v) < kCostly) continue;
    const int first = std::ranges::min(phases_of_[v]);
    KeptValue kept{v, ir::kNone};
    for (const ValueId sink : group_.sinks) {
      if (is_reduced_here(sink) || is_row_level(sink) || graph().dtype(sink) != graph().dtype(v)) continue;
      if (streams(sink)) continue;  // its lines are not to be in the cache
      const bool free = std::find(sinks_taken.begin(), sinks_taken.end(), sink) == sinks_taken.end();
      // Its own store must come after the last use. Only the last phase is sure to: `trace` stops at movement, which
      // over an extent of one leads back to the element that the loops are at.
      if (sink == v || (free && phase_of(sink) == end && phase_of(sink) > first)) {
        kept.in_sink = sink;
        if (sink == v) break;
      }
    }
    const int64_t bytes = vector_extent_.value * static_cast<int64_t>(itemsize(graph().dtype(v)));
    if (kept.in_sink == ir::kNone && program_.options.device == DeviceType::kCUDA && bytes > kMostOnDevice) continue;
    if (kept.in_sink != ir::kNone) sinks_taken.push_back(kept.in_sink);
    kept_.push_back(kept);
  }
  kept_buffer_.assign(kept_.size(), -1);
  kept_since_.assign(kept_.size(), -1);
}

Address Lowering::kept_address(size_t kept) {
  const KeptValue& k = kept_[kept];
  if (k.in_sink != ir::kNone) {
    const BufferInfo& info = program_.buffers[program_.buffer_of[k.in_sink]];
    return address(kept_buffer_[kept], position_in(info, index(full_)));
  }
  return address(kept_buffer_[kept], Linear::var(vector_var_));
}

LocalId Lowering::kept_or_computed(ValueId v, IndexId at) {
  const auto it = std::find_if(kept_.begin(), kept_.end(), [&](const KeptValue& k) { return k.value == v; });
  const auto k = static_cast<size_t>(it - kept_.begin());
  if (it != kept_.end() && kept_since_[k] >= 0 && kept_since_[k] < phase_) {
    Stmt load = make_statement(StmtKind::kLoad);
    buffer_args_[kept_buffer_[k]].read = true;
    load.address = kept_address(k);
    note_access(kept_buffer_[k], load.address, false, false, kCell);
    return emit(std::move(load), kCell, graph().dtype(v));
  }
  const LocalId x = compute(v, at);
  if (it == kept_.end() || kept_since_[k] >= 0 || locals_[x].level != kCell) return x;
  kept_since_[k] = phase_;
  if (it->in_sink == ir::kNone) {
    kept_buffer_[k] = static_cast<int>(buffers_.size());
    buffers_.push_back(-1);
    buffer_args_.push_back({graph().dtype(v), false, true});  // until it is
    scratch_rows_.push_back({kept_buffer_[k], vector_extent_, static_cast<int64_t>(itemsize(graph().dtype(v)))});
  } else {
    kept_buffer_[k] = buffer_arg(program_.buffer_of[it->in_sink], true);
    // The sink itself is stored in this phase, if it is the value.
    if (it->in_sink == v) return x;
  }
  Stmt store = make_statement(StmtKind::kStore);
  store.dtype = graph().dtype(v);
  store.args = {x};
  store.address = kept_address(k);
  note_access(kept_buffer_[k], store.address, true, false, kCell);
  cost_ += statement_cost(store) / 4;  // it stays in the first-level cache
  emit_effect(std::move(store), kCell);
  return x;
}

}  // namespace smolder::jit
