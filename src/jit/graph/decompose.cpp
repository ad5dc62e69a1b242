#include "smolder/jit/graph/decompose.h"

#include <algorithm>
#include <span>

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include "smolder/eager/dispatcher.h"
#include "smolder/ir/rewrite.h"
#include "smolder/jit/attributes.h"
#include "smolder/jit/device_target.h"
#include "smolder/jit/graph/short_rows.h"
#include "smolder/jit/library/library.h"
#include "smolder/jit/switches.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

namespace {

/// Sums and products of halves accumulate in float32 and round once: said in primitives, so that partial sums in
/// memory keep float32, too.
void widen_half_reductions(ir::Graph& g) {
  const auto narrow = [&](const ir::Node& n) {
    if (n.op != ir::Op::kReduce || !is_half(g.dtype(n.first_output))) return false;
    const ir::ReduceKind kind = ReduceAttributes(n).kind;
    return kind == ir::ReduceKind::kSum || kind == ir::ReduceKind::kProd;
  };
  if (std::none_of(g.nodes.begin(), g.nodes.end(), narrow)) return;
  g = ir::rewrite(g, [&](ir::Rewriter& r, const ir::Node& n) {
    if (!narrow(n)) return false;
    ir::Builder& b = r.builder();
    const ReduceAttributes a(n);
    const ir::Value wide = b.cast(b.wrap(r.now(n.inputs[0])), DType::kFloat32);
    const ir::Value sum = b.reduce_axis(a.kind, wide, a.axis, a.chunk);
    r.set(n.first_output, b.cast(sum, g.dtype(n.first_output)).id);
    return true;
  });
}

/// A kernel chooses among the parts of a cat for each element that it computes, and is compiled for each number of
/// parts.
constexpr size_t kMostParts = 16, kMostPartsOnDevice = 32;
/// How many parts that a loop made, one each turn, a kernel takes: with one turn more it would be another kernel, and
/// copying takes no longer.
constexpr size_t kMostAlike = 7;

/// Elements of a result, and parts, beyond which choosing takes the CPU longer than storing each part and copying it:
/// where what lies side by side of a part is worth a copy, and where it is not.
constexpr int64_t kLarge = 1 << 15;
constexpr size_t kMostOfRuns = 2, kMostOfElements = 4;

/// Is what lies side by side of each part of a cat long, on average?
bool has_runs(const ir::Graph& g, const ir::Node& cat) {
  constexpr int64_t kWorthACopy = 32;  // bytes
  const ir::SymDims& shape = g.shape(cat.first_output);
  auto run = static_cast<int64_t>(itemsize(g.dtype(cat.first_output)));
  for (int a = normalize_axis(cat.attrs[0].value, shape.size()); a < shape.size(); ++a) run *= shape[a].value;
  return run >= kWorthACopy * static_cast<int64_t>(cat.inputs.size());
}

/// Are all parts but the first and the last of one op of one line?
bool are_of_a_loop(const ir::Graph& g, const ir::Node& cat) {
  const auto line = [&](size_t i) {
    const ir::Node& n = g.producer(cat.inputs[i]);
    return std::pair(n.op, n.origin.source);
  };
  for (size_t i = 2; i + 1 < cat.inputs.size(); ++i) {
    if (line(i) != line(1)) return false;
  }
  return true;
}

/// The values that are in memory whatever kernels do: what the step gives, and what library calls read.
absl::flat_hash_set<ir::ValueId> stored_values(const ir::Graph& g) {
  absl::flat_hash_set<ir::ValueId> stored;
  const auto add = [&](ir::ValueId v) {
    if (v == ir::kNone) return;
    while (is_alias(g.op(v))) v = g.producer(v).inputs[0];
    stored.insert(v);
  };
  std::ranges::for_each(g.outputs, add);
  for (const ir::Node& n : g.nodes) {
    if (is_library(n.op)) std::ranges::for_each(n.inputs, add);
  }
  return stored;
}

/// Is the value a view of a leaf, or of the result of a library call? On a device only one without gaps counts, as a
/// launch copies many of these.
bool is_in_memory(ir::Graph& g, ir::ValueId v, bool on_cpu) {
  const auto memory = [&](ir::ValueId x) -> std::optional<StridedView> {
    const ir::Node& n = g.producer(x);
    if (is_library(n.op)) return identity_view(g.sym, g, x);
    if (n.op != ir::Op::kLeaf) return std::nullopt;
    const LeafAttributes a(n);
    return StridedView{x, g.shape(x), a.strides, a.offset};
  };
  const std::optional<StridedView> view = view_from(g.sym, g, v, memory);
  return view && (on_cpu || is_contiguous(g.sym, *view));
}

/// Are these, but for a small share of their elements, in memory?
bool are_mostly_in_memory(ir::Graph& g, std::span<const ir::ValueId> parts, bool on_cpu) {
  constexpr int64_t kShare = 16;
  int64_t all = 0, computed = 0;
  for (const ir::ValueId v : parts) {
    const int64_t elements = numel(g.shape(v).values());
    all += elements;
    if (!is_in_memory(g, v, on_cpu)) computed += elements;
  }
  return computed * kShare <= all;
}

/// Is the cat a copy of what is in memory? If it is stored no kernel has a use for it, and copying part by part takes
/// no masks.
bool only_copies(ir::Graph& g, const ir::Node& cat, bool on_cpu) {
  return has_runs(g, cat) && are_mostly_in_memory(g, cat.inputs, on_cpu);
}

/// The operand of the cast that a part is, if it is of `dtype`, where that is given.
std::optional<ir::ValueId> cast_from(const ir::Graph& g, ir::ValueId part, std::optional<DType> dtype) {
  while (is_alias(g.op(part))) part = g.producer(part).inputs[0];
  const ir::Node& n = g.producer(part);
  if (n.op != ir::Op::kCast) return std::nullopt;
  const DType from = g.dtype(n.inputs[0]);
  return from == dtype.value_or(from) ? std::optional(n.inputs[0]) : std::nullopt;
}

/// A stored cat of what is cast to more bytes becomes the cast of a cat that only copies: gradients that go to others
/// in float32, say.
void cast_after_cats(ir::Graph& g, bool on_cpu) {
  const auto is_cat = [](const ir::Node& n) { return n.op == ir::Op::kCat; };
  if (std::ranges::none_of(g.nodes, is_cat)) return;
  const absl::flat_hash_set<ir::ValueId> stored = stored_values(g);
  absl::flat_hash_map<ir::ValueId, std::vector<ir::ValueId>> sources;  // of the parts of cats
  for (const ir::Node& n : g.nodes) {
    if (!is_cat(n) || n.inputs.size() < 2 || !stored.contains(n.first_output) || !has_runs(g, n)) continue;
    std::vector<ir::ValueId> all;
    for (const ir::ValueId part : n.inputs) {
      const auto from = cast_from(g, part, all.empty() ? std::nullopt : std::optional(g.dtype(all[0])));
      if (!from) break;
      all.push_back(*from);
    }
    if (all.size() != n.inputs.size() || itemsize(g.dtype(all[0])) >= itemsize(g.dtype(n.first_output))) continue;
    if (!are_mostly_in_memory(g, all, on_cpu)) continue;
    sources[n.first_output] = std::move(all);
  }
  if (sources.empty()) return;
  g = ir::rewrite(g, [&](ir::Rewriter& r, const ir::Node& n) {
    const auto found = sources.find(n.first_output);
    if (found == sources.end()) return false;
    ir::Builder& b = r.builder();
    std::vector<ir::Value> parts;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      parts.push_back(b.reshape(b.wrap(r.now(found->second[i])), r.to().shape(r.now(n.inputs[i]))));
    }
    const ir::Value copied = b.cat(parts, static_cast<int>(n.attrs[0].value));
    r.to().nodes.back().op = ir::Op::kWideCat;
    r.set(n.first_output, b.cast(copied, r.results(n)[0].dtype).id);
    return true;
  });
}

/// Is what the caller binds to this output to be written, though it is the memory of a leaf? (Strided ones are.)
bool is_strided_leaf(ir::Graph& g, ir::ValueId v) {
  while (is_alias(g.op(v))) v = g.producer(v).inputs[0];
  if (g.op(v) != ir::Op::kLeaf) return false;
  const LeafAttributes a(g.producer(v));
  return a.offset != ir::Dim(0) || !is_contiguous(g.sym, {v, g.shape(v), a.strides, 0});
}

/// Makes the plan one for these sizes of the node's operands and attributes alone: its shape rule speaks of numbers.
void fix_sizes(ir::Graph& g, const ir::Node& n) {
  const auto fix = [&](const ir::Dim& d) {
    if (!d.is_constant()) g.sym.equal(d, d.value);
  };
  for (const ir::ValueId x : n.inputs) {
    if (x == ir::kNone) continue;
    for (const ir::Dim& d : g.shape(x)) fix(d);
  }
  for (const ir::Dim& d : n.attrs) fix(d);
}

/// Whether something reads what attention's backward gives for its mask.
bool reads_mask_gradient(const ir::Graph& g, const ir::Node& n) {
  if (n.op != ir::Op::kAttentionBackward) return false;
  const ir::ValueId gradient = n.first_output + 3;
  const auto reads = [&](const ir::Node& user) {
    return std::ranges::find(user.inputs, gradient) != user.inputs.end();
  };
  return std::ranges::find(g.outputs, gradient) != g.outputs.end() || std::ranges::any_of(g.nodes, reads);
}

/// Throws unless what the node's results became has the dtypes and sizes that were recorded.
void check_results(ir::Rewriter& r, const ir::Node& n) {
  for (uint32_t i = 0; i < n.num_outputs; ++i) {
    const ir::ValueInfo &made = r.to().info(r.now(n.first_output + i)), &recorded = r.results(n)[i];
    SMOLDER_CHECK(made.dtype == recorded.dtype && made.shape.values() == recorded.shape.values(), InternalError,
                  "internal error: the decomposition of '", ir::name(n.op), "' gives ", name(made.dtype),
                  made.shape.values(), ", recorded was ", name(recorded.dtype), recorded.shape.values());
  }
}

}  // namespace

void take_wide_cats_whole(Program& program) {
  const bool on_cpu = program.options.device == DeviceType::kCPU;
  const size_t most = on_cpu ? kMostParts : kMostPartsOnDevice;
  const auto is_cat = [](const ir::Node& n) { return n.op == ir::Op::kCat; };
  if (std::ranges::none_of(program.graph.nodes, is_cat)) return;
  const absl::flat_hash_set<ir::ValueId> stored = stored_values(program.graph);
  for (ir::Node& n : program.graph.nodes) {
    if (n.op != ir::Op::kCat) continue;
    const bool large = on_cpu && numel(program.graph.shape(n.first_output).values()) >= kLarge;
    const size_t most_of_large = has_runs(program.graph, n) ? kMostOfRuns : kMostOfElements;
    const bool many = n.inputs.size() > (large ? most_of_large : most);
    const bool alike = n.inputs.size() > kMostAlike && are_of_a_loop(program.graph, n);
    const bool copied = stored.contains(n.first_output) && only_copies(program.graph, n, on_cpu);
    if (many || alike || copied) n.op = ir::Op::kWideCat;
  }
}

void decompose(Program& program) {
  const ir::Graph from = std::move(program.graph);
  ir::Rewriter rewriter(from);
  rewriter.to().nodes.reserve(from.nodes.size() * 4);
  rewriter.to().values.reserve(from.values.size() * 4);
  rewriter.builder().set_device(program.options.device.type);
  DeviceTarget* const target = DeviceTarget::of(program.options.device.type);
  ir::rewrite_nodes(rewriter, [&](ir::Rewriter& r, const ir::Node& n) {
    ir::Graph& to = r.to();
    ir::Node node = n;
    node.inputs = r.inputs(n);
    node.origin = {n.origin.source, n.op};
    r.builder().set_origin(node.origin);
    const ir::OpInfo& row = ir::info(n.op);
    // Somebody's own kernel for one of our ops takes it whole. One of theirs is decomposed, if it says how.
    node.op = eager::resolve(eager::DispatchKey::kCPU, n.op);
    const bool whole = node.op != n.op || (!row.flags.primitive && !ir::is_user_op(n.op) &&
                                           eager::find_kernel(eager::DispatchKey::kCPU, n.op));
    if (whole || (ir::is_user_op(n.op) && !row.decompose)) fix_sizes(to, node);
    if (!whole && target &&
        target->takes_attention(program.options.device.index, to, node, reads_mask_gradient(from, n),
                                program.options.precision.allow_tf32())) {
      // All results but the last are of heads. What the user reads of them is stored so; what goes on in the step
      // mostly comes to rows of all heads.
      const auto is_of_heads = [&](ir::ValueId v) {
        return v >= n.first_output && v + 1 < n.first_output + n.num_outputs;
      };
      const bool rows_first = std::ranges::none_of(from.outputs, is_of_heads);
      target->append_attention(r.builder(), to, node, rows_first, r.now_of(n));
    } else if (row.decompose && !whole) {
      row.decompose(r.builder(), node, r.results(n), r.now_of(n));
    } else {
      SMOLDER_CHECK(row.flags.primitive || whole, NotImplementedError, "op '", row.name,
                    "' has neither a decomposition nor a kernel");
      r.copy(node, std::move(node.inputs));
    }
    check_results(r, n);
    return true;
  });
  std::vector<ir::ValueId> outputs;
  for (const ir::ValueId v : from.outputs) {
    ir::Graph& to = rewriter.to();
    ir::ValueId out = rewriter.now(v);
    if (is_strided_leaf(to, out)) out = append_shaped(to, ir::Op::kExpand, out, to.info(out), {});
    outputs.push_back(out);
  }
  program.graph = rewriter.finish(std::move(outputs));
  widen_half_reductions(program.graph);
  if (!is_disabled("short_rows")) write_short_rows(program.graph, target ? &target->reduce_order() : nullptr);
  cast_after_cats(program.graph, program.options.device == DeviceType::kCPU);
  take_wide_cats_whole(program);
}

std::optional<ir::Op> find_fallback(const ir::Graph& graph, DeviceType device) {
  Program p;
  p.options.device = device;
  p.graph = graph;
  decompose(p);
  const auto found = std::ranges::find_if(p.graph.nodes, [&](const ir::Node& n) { return is_fallback(device, n.op); });
  return found == p.graph.nodes.end() ? std::nullopt : std::optional(found->op);
}

}  // namespace smolder::jit
