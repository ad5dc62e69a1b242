#include "smolder/jit/decompose.h"

#include <algorithm>

#include "smolder/eager/dispatcher.h"
#include "smolder/ir/builder.h"
#include "smolder/jit/attributes.h"
#include "smolder/jit/cuda/attention.h"
#include "smolder/jit/library.h"
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
  ir::Graph to;
  to.sym = g.sym;
  ir::Builder b(to);
  std::vector<ir::ValueId> now(g.values.size(), ir::kNone);
  for (const ir::Node& n : g.nodes) {
    b.set_origin(n.origin);
    std::vector<ir::ValueId> inputs = n.inputs;
    for (ir::ValueId& x : inputs) x = now[x];
    if (narrow(n)) {
      const ReduceAttributes a(n);
      const ir::Value sum = b.reduce_axis(a.kind, b.cast(b.wrap(inputs[0]), DType::kFloat32), a.axis, a.chunk);
      now[n.first_output] = b.cast(sum, g.dtype(n.first_output)).id;
      continue;
    }
    const ir::ValueId first =
        to.append(n.op, std::move(inputs), n.attrs, {g.values.data() + n.first_output, n.num_outputs}, n.origin);
    for (int k = 0; k < n.num_outputs; ++k) now[n.first_output + k] = first + k;
  }
  for (const ir::ValueId v : g.outputs) to.outputs.push_back(now[v]);
  g = std::move(to);
}

/// A kernel chooses among the parts of a cat for each element that it computes, and is compiled for each number of
/// parts.
constexpr size_t kMostParts = 16, kMostPartsOnDevice = 32;

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

}  // namespace

void take_wide_cats_whole(Program& program) {
  const size_t most = program.options.device == DeviceType::kCPU ? kMostParts : kMostPartsOnDevice;
  for (ir::Node& n : program.graph.nodes) {
    if (n.op == ir::Op::kCat && n.inputs.size() > most) n.op = ir::Op::kWideCat;
  }
}

void decompose(Program& program) {
  const ir::Graph from = std::move(program.graph);
  ir::Graph& to = program.graph = {};
  to.sym = from.sym;
  to.nodes.reserve(from.nodes.size() * 4);
  to.values.reserve(from.values.size() * 4);
  ir::Builder builder(to);
  builder.set_device(program.options.device.type);
  std::vector<ir::ValueId> now(from.values.size(), ir::kNone);
  for (const ir::Node& n : from.nodes) {
    ir::Node node = n;
    for (ir::ValueId& x : node.inputs) {
      if (x != ir::kNone) x = now[x];
    }
    const std::span<const ir::ValueInfo> results(from.values.data() + n.first_output, n.num_outputs);
    const ir::OpInfo& row = ir::info(n.op);
    const ir::Origin origin{n.origin.source, n.op};
    // Somebody's own kernel for one of our ops takes it whole. One of theirs is decomposed, if it says how.
    node.op = eager::resolve(eager::DispatchKey::kCPU, n.op);
    const bool whole = node.op != n.op || (!row.flags.primitive && !ir::is_user_op(n.op) &&
                                           eager::find_kernel(eager::DispatchKey::kCPU, n.op));
    if (whole || (ir::is_user_op(n.op) && !row.decompose)) fix_sizes(to, node);
    if (!whole && program.options.device == DeviceType::kCUDA &&
        cuda::takes_attention(program.options.device.index, to, node, reads_mask_gradient(from, n),
                              program.options.precision.allow_tf32())) {
      builder.set_origin(origin);
      node.origin = origin;
      // All results but the last are of heads. What the user reads of them is stored so; what goes on in the step
      // mostly comes to rows of all heads.
      const auto is_of_heads = [&](ir::ValueId v) {
        return v >= n.first_output && v + 1 < n.first_output + n.num_outputs;
      };
      const bool rows_first = std::ranges::none_of(from.outputs, is_of_heads);
      cuda::append_attention(builder, to, node, rows_first, now.data() + n.first_output);
    } else if (row.decompose && !whole) {
      builder.set_origin(origin);
      row.decompose(builder, node, results, now.data() + n.first_output);
    } else {
      SMOLDER_CHECK(row.flags.primitive || whole, NotImplementedError, "op '", row.name,
                    "' has neither a decomposition nor a kernel");
      const ir::ValueId first = to.append(node.op, std::move(node.inputs), std::move(node.attrs), results, origin);
      for (int i = 0; i < n.num_outputs; ++i) now[n.first_output + i] = first + i;
    }
    for (int i = 0; i < n.num_outputs; ++i) {
      const ir::ValueInfo& made = to.info(now[n.first_output + i]);
      SMOLDER_CHECK(made.dtype == results[i].dtype && made.shape.values() == results[i].shape.values(), InternalError,
                    "internal error: the decomposition of '", row.name, "' gives ", name(made.dtype),
                    made.shape.values(), ", recorded was ", name(results[i].dtype), results[i].shape.values());
    }
  }
  for (const ir::ValueId v : from.outputs) {
    ir::ValueId out = now[v];
    if (is_strided_leaf(to, out)) out = append_shaped(to, ir::Op::kExpand, out, to.info(out), {});
    to.outputs.push_back(out);
  }
  widen_half_reductions(to);
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
