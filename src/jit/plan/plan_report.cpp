#include "smolder/jit/plan/plan_report.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numeric>

#include "smolder/jit/emit.h"
#include "smolder/jit/library/library.h"
#include "smolder/jit/plan/plan_impl.h"

namespace smolder::jit {

using ir::Op;
using ir::ValueId;

std::vector<ir::NodeId> nodes_of(const Program& p, std::span<const ValueId> values) {
  std::vector<ir::NodeId> nodes;
  std::vector<ValueId> todo(values.begin(), values.end());
  absl::flat_hash_set<ir::NodeId> seen;
  while (!todo.empty()) {
    const ir::NodeId id = p.graph.info(todo.back()).node;
    todo.pop_back();
    const ir::Node& n = p.graph.nodes[id];
    if (n.op == Op::kLeaf || n.op == Op::kParameter || n.op == Op::kConstant || !seen.insert(id).second) continue;
    nodes.push_back(id);
    for (const ValueId x : n.inputs) {
      if (x != ir::kNone && p.buffer_of[x] < 0) todo.push_back(x);
    }
  }
  std::ranges::sort(nodes);
  return nodes;
}

namespace {

int64_t value(const ir::Dim& d, std::span<const int64_t> evaluated) { return ir::SymTable::value(d, evaluated); }

int64_t numel(const ir::SymDims& shape, std::span<const int64_t> evaluated) {
  int64_t n = 1;
  for (const ir::Dim& d : shape) n *= value(d, evaluated);
  return n;
}

/// Adds `iterations` to each buffer argument for each of its loads and stores: elements that it may be asked for, were
/// all of them in the innermost loop.
void count_accesses(const Stmt& s, int64_t iterations, std::vector<int64_t>& out) {
  if (s.kind == StmtKind::kLoad || s.kind == StmtKind::kStore) out[s.address.buffer] += iterations;
  for (const Stmt& inner : s.body) count_accesses(inner, iterations, out);
}

}  // namespace

std::vector<TouchedBuffer> touched_buffers(const Program& p, const Step& step, std::span<const int64_t> evaluated) {
  std::vector<TouchedBuffer> out;
  const auto add = [&](BufferId b, bool written, int64_t elements) {
    const BufferInfo& info = p.buffers[b];
    const auto item = static_cast<int64_t>(itemsize(info.dtype));
    const int64_t whole = value(info.elements, evaluated) * item;
    auto known =
        std::ranges::find_if(out, [&](const TouchedBuffer& t) { return t.buffer == b && t.written == written; });
    if (known == out.end()) known = out.insert(out.end(), {b, written, 0});
    known->bytes = std::min(whole, known->bytes + elements * item);
  };
  if (step.kernel) {
    std::vector<int64_t> asked(step.kernel->buffers.size(), 0);
    count_accesses(step.kernel->kernel.root, value(step.kernel->elements, evaluated), asked);
    for (size_t i = 0; i < asked.size(); ++i) {
      const BufferArg& arg = step.kernel->kernel.buffers[i];
      if (step.kernel->buffers[i] < 0) continue;
      if (arg.read) add(step.kernel->buffers[i], false, asked[i]);
      if (arg.write) add(step.kernel->buffers[i], true, asked[i]);
    }
    return out;
  }
  const LibraryCall& call = *step.library;
  // An update moves what it writes; whether it copies the rest is known when it runs.
  const bool updates = !call.in_place.empty();
  for (size_t i = updates ? 1 : 0; i < call.inputs.size(); ++i) {
    const LibraryCall::Operand& x = call.inputs[i];
    if (x.kind == LibraryCall::Operand::kBuffer) add(x.buffer, false, numel(x.shape, evaluated));
  }
  const auto& written = updates ? call.inputs.back().shape : call.outputs[0].shape;
  for (const LibraryCall::Operand& x : call.outputs) {
    add(x.buffer, true, numel(updates ? written : x.shape, evaluated));
  }
  return out;
}

namespace {

class Reporter {
 public:
  Reporter(const Program& p, std::span<const int64_t> evaluated) : p_(p), g_(p.graph), evaluated_(evaluated) {}

  PlanReport run(const std::vector<Lifetime>& lifetimes, const Placement& placement) {
    out_.device = p_.options.device;
    for (const BufferInfo& b : p_.buffers) report(b);
    out_.arena_bytes = placement.bytes;
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      ReportedBuffer& b = out_.buffers[lifetimes[i].buffer];
      if (placement.hosts[i] < 0) b.arena_offset = placement.offsets[i];
      b.first_launch = lifetimes[i].first;
      b.last_launch = lifetimes[i].last;
    }
    for (size_t s = 0; s < p_.steps.size(); ++s) report(s);
    for (const Refusal& r : p_.refusals) report(r);
    return std::move(out_);
  }

 private:
  int64_t elements(ValueId v) const { return numel(g_.shape(v), evaluated_); }
  double count(ValueId v) const { return static_cast<double>(elements(v)); }
  double extent(ValueId v, int from_last) const {
    const ir::SymDims& shape = g_.shape(v);
    return static_cast<double>(value(shape[shape.size() - from_last], evaluated_));
  }

  void report(const BufferInfo& b) {
    ReportedBuffer r;
    r.kind = static_cast<ReportedBuffer::Kind>(b.kind);
    r.number = b.number;
    r.dtype = b.dtype;
    for (const ir::Dim& d : b.shape) r.shape.push_back(value(d, evaluated_));
    r.bytes = value(b.elements, evaluated_) * static_cast<int64_t>(itemsize(b.dtype));
    out_.buffers.push_back(r);
  }

  void report(size_t s) {
    const Step& step = p_.steps[s];
    ReportedStep r;
    const OpSite site = site_of(p_, step);
    r.name = site.op;
    r.source = site.source;
    if (s > 0 && p_.launch_of[s] != p_.launch_of[s - 1]) ++out_.launches;
    r.launch = s == 0 ? 0 : out_.launches - 1;
    if (s == 0) out_.launches = 1;
    if (step.kernel) {
      r.kernel = step.kernel->code;
      r.key = key_of(step.kernel->kernel);
      const DeviceKernel* const device = p_.kernels[static_cast<size_t>(r.kernel)].device.get();
      constexpr ReportedStep::Kind kOfTiers[] = {ReportedStep::kInterpreted, ReportedStep::kQuick,
                                                 ReportedStep::kKernel};
      if (device) r.kind = kOfTiers[static_cast<int>(device->tier())];
      const auto built = std::ranges::find(p_.built, r.key, &BuiltKernel::key);
      if (built != p_.built.end()) r.built_ms = built->milliseconds;
    } else {
      const bool fallback = is_fallback(p_.options.device.type, step.library->op);
      r.kind = fallback ? ReportedStep::kFallback : ReportedStep::kLibrary;
      out_.runs_user_code |= is_users(step.library->op);
    }
    for (const TouchedBuffer& t : touched_buffers(p_, step, evaluated_)) {
      r.moves.push_back({t.buffer, t.written, t.bytes});
      r.bytes += t.bytes;
    }
    const std::vector<ir::NodeId> nodes = nodes_in(step);
    for (const ir::NodeId id : nodes) add_flops(g_.nodes[id], r);
    add_ops(nodes, r);
    for (const ir::NodeId id : nodes) steps_of_[id].push_back(static_cast<int>(s));
    out_.steps.push_back(std::move(r));
  }

  /// The computation of a step. A product that took over the kernel behind it (join_bias.h) computes its own sums
  /// besides.
  std::vector<ir::NodeId> nodes_in(const Step& step) const {
    std::vector<ValueId> values = p_.groups[step.group].sinks;
    if (step.library && step.library->op == Op::kDot) {
      for (size_t i = 0; i < values.size(); ++i) {
        const ir::Node& n = g_.producer(values[i]);
        for (const ValueId x : n.inputs) {
          if (x == ir::kNone || n.op == Op::kDot) continue;
          const bool unwritten = p_.buffer_of[x] < 0 || !is_written(p_.buffer_of[x]);
          if (unwritten && g_.op(x) != Op::kLeaf) values.push_back(x);
        }
      }
    }
    return nodes_of(p_, values);
  }

  bool is_written(BufferId b) const {
    return p_.buffers[b].kind == BufferInfo::kLeaf || std::ranges::any_of(p_.steps, [&](const Step& s) {
             return std::ranges::find(s.writes, b) != s.writes.end();
           });
  }

  void add_flops(const ir::Node& n, ReportedStep& r) const {
    const ValueId out = n.first_output;
    const auto product = [&](double flops, DType dtype) {
      r.product_flops += flops;
      r.product_dtype = dtype;
    };
    // Multiplications and additions of the products that attention is made of: of queries with keys, and of those sums
    // with values. A backward does five such products.
    const auto attention = [&](size_t query, double products) {
      const ValueId q = n.inputs[query], k = n.inputs[query + 1], v = n.inputs[query + 2];
      const bool causal = n.attrs[0].value != 0;
      const double pairs = count(q) / std::max(1.0, extent(q, 1)) * extent(k, 2) * (causal ? 0.5 : 1);
      product(pairs * (extent(q, 1) + extent(v, 1)) * products, g_.dtype(q));
    };
    const std::string_view name = ir::name(n.op);
    if (n.op == Op::kDot) {
      product(2 * count(out) * extent(n.inputs[0], 1), g_.dtype(n.inputs[0]));
    } else if (n.op == Op::kConvForward || n.op == Op::kConvBackwardInput) {
      const ValueId weight = n.inputs[1];
      const ValueId sums = n.op == Op::kConvForward ? out : n.inputs[0];
      product(2 * count(sums) * count(weight) / std::max(1.0, extent(weight, 4)), g_.dtype(weight));
    } else if (n.op == Op::kConvBackwardWeight) {
      product(2 * count(n.inputs[0]) * count(out) / std::max(1.0, extent(out, 4)), g_.dtype(out));
    } else if (name == "flash_attention" || name == "flash_attention_masked") {
      attention(0, 2);
    } else if (name.starts_with("flash_attention_backward")) {
      attention(1, 5);
    } else if (name.starts_with("fft_")) {  // 2.5 a real number and level, as is usual
      double points = 1;
      const ValueId longer = n.op == Op::kFftC2r ? out : n.inputs[0];
      const int rank = g_.shape(longer).size();
      for (int64_t i = 1; i <= n.attrs[0].value; ++i)
        points *= extent(longer, rank - static_cast<int>(n.attrs[i].value));
      r.other_flops += 2.5 * count(longer) * std::log2(points);
    } else if (n.op == Op::kReduce || n.op == Op::kScan) {
      r.other_flops += count(n.inputs[0]);
    } else if (ir::info(n.op).flags.elementwise && n.op != Op::kCast) {
      r.other_flops += count(out) * (n.op == Op::kFma ? 2 : 1);
    }
  }

  /// Nodes that stand beside each other and are of one op and line become one op.
  void add_ops(const std::vector<ir::NodeId>& nodes, ReportedStep& r) const {
    absl::flat_hash_map<ir::NodeId, size_t> place;
    for (size_t i = 0; i < nodes.size(); ++i) place[nodes[i]] = i;
    std::vector<size_t> same(nodes.size());
    std::iota(same.begin(), same.end(), 0);
    const auto root = [&](size_t i) {
      while (same[i] != i) i = same[i];
      return i;
    };
    const auto each_input = [&](size_t i, const std::function<void(size_t, ValueId)>& f) {
      for (const ValueId x : g_.nodes[nodes[i]].inputs) {
        if (x == ir::kNone) continue;
        const auto at = place.find(g_.info(x).node);
        f(at == place.end() ? nodes.size() : at->second, x);
      }
    };
    for (size_t i = 0; i < nodes.size(); ++i) {
      each_input(i, [&](size_t j, ValueId) {
        if (j == nodes.size()) return;
        const ir::Node &a = g_.nodes[nodes[i]], &b = g_.nodes[nodes[j]];
        const bool one = a.origin.source == b.origin.source && a.origin_op() == b.origin_op();
        if (one) same[std::max(root(i), root(j))] = std::min(root(i), root(j));
      });
    }
    absl::flat_hash_map<size_t, int> number;
    for (size_t i = 0; i < nodes.size(); ++i) {
      const ir::Node& n = g_.nodes[nodes[i]];
      const auto [at, fresh] = number.try_emplace(root(i), static_cast<int>(r.ops.size()));
      if (fresh) r.ops.push_back({std::string(ir::name(n.origin_op())), n.origin.source, {}, {}, {}, {}});
      r.ops[at->second].primitives.emplace_back(ir::name(n.op));
    }
    const auto once = [](std::vector<int>& list, int x) {
      if (std::ranges::find(list, x) == list.end()) list.push_back(x);
    };
    for (size_t i = 0; i < nodes.size(); ++i) {
      ReportedOp& op = r.ops[number[root(i)]];
      each_input(i, [&](size_t j, ValueId x) {
        if (j < nodes.size() && number[root(j)] != number[root(i)]) once(op.inputs, number[root(j)]);
        if (j == nodes.size() && p_.buffer_of[x] >= 0) once(op.reads, p_.buffer_of[x]);
      });
      const ir::Node& n = g_.nodes[nodes[i]];
      for (int k = 0; k < n.num_outputs; ++k) {
        const BufferId b = p_.buffer_of[n.first_output + k];
        const bool moved =
            std::ranges::any_of(r.moves, [&](const ReportedMove& m) { return m.written && m.buffer == b; });
        if (moved) once(op.writes, b);
      }
    }
  }

  void report(const Refusal& refusal) {
    ReportedRefusal r;
    r.buffer = p_.buffer_of[refusal.value];
    const ir::Node &from = g_.producer(refusal.value), &to = g_.nodes[refusal.reader];
    const auto steps = [&](const ir::Node& n) -> std::span<const int> {
      const auto at = steps_of_.find(static_cast<ir::NodeId>(&n - g_.nodes.data()));
      return at == steps_of_.end() ? std::span<const int>() : std::span<const int>(at->second);
    };
    r.op = ir::name(from.origin_op());
    r.source = from.origin.source;
    r.reader = ir::name(to.origin_op());
    r.reader_source = to.origin.source;
    r.why = refusal.why;
    for (const int a : steps(from)) {
      for (const int b : steps(to)) {
        if (a == b) return;  // they are one step after all
        r.from = a;
        r.to = b;
      }
    }
    const auto same = [&](const ReportedRefusal& x) {
      return x.from == r.from && x.to == r.to && x.buffer == r.buffer && x.why == r.why;
    };
    if (r.from >= 0 && std::ranges::none_of(out_.refusals, same)) out_.refusals.push_back(std::move(r));
  }

  const Program& p_;
  const ir::Graph& g_;
  const std::span<const int64_t> evaluated_;
  absl::flat_hash_map<ir::NodeId, std::vector<int>> steps_of_;
  PlanReport out_;
};

}  // namespace

PlanReport InstanceImpl::report() const {
  PlanReport out = Reporter(plan_->program(), evaluated_).run(plan_->lifetimes(), plan_->place_at(evaluated_));
  out.plan = plan_->id();
  return out;
}

}  // namespace smolder::jit
