#include "smolder/jit/graph/short_rows.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "smolder/ir/rewrite.h"
#include "smolder/jit/attributes.h"
#include "smolder/jit/view.h"

namespace smolder::jit {

using ir::Value;

namespace {

/// Rows, and elements on a device, of which a launch more costs more than what is gained.
constexpr int64_t kLongest = 4, kFewRows = 64, kFewOnDevice = 1 << 17;

/// Are there no elements after the axis?
bool is_row(const ir::SymDims& shape, int axis) {
  return std::all_of(shape.begin() + axis + 1, shape.end(), [](const ir::Dim& d) { return d == ir::Dim(1); });
}

/// The most tensors that are stacked and reduced as so many operands.
constexpr int64_t kMostStacked = 16;

/// Is `v` a stack of tensors along the axis, or computed of one element by element?
bool is_stack(const ir::Graph& g, ir::ValueId v, int axis) {
  const ir::Node* n = &g.producer(v);
  while ((ir::is_elementwise_primitive(n->op) || n->op == ir::Op::kCast) && n->inputs.size() == 1) {
    n = &g.producer(n->inputs[0]);
  }
  if (n->op != ir::Op::kCat) return false;
  const ir::SymDims& shape = g.shape(n->first_output);
  return normalize_axis(n->attrs[0].value, shape.size()) == axis &&
         std::ranges::all_of(n->inputs, [&](ir::ValueId part) { return g.shape(part)[axis] == ir::Dim(1); });
}

/// The length of the rows that a node reduces, if they are short and many; else 0.
int64_t length_of(const ir::Graph& g, const ir::Node& n, bool on_device) {
  if (n.op != ir::Op::kReduce) return 0;
  const ReduceAttributes a(n);
  const ir::SymDims& shape = g.shape(n.inputs[0]);
  const ir::Dim length = shape[a.axis];
  if (!(a.chunk == ir::Dim(0)) || length.value < 2) return 0;
  if (!on_device && length.value <= kMostStacked && is_stack(g, n.inputs[0], a.axis) &&
      numel(shape.values()) >= kFewRows * length.value) {
    return length.value;
  }
  if (length.value > kLongest) return 0;
  if (!is_row(shape, a.axis)) return 0;
  return numel(shape.values()) < (on_device ? kFewOnDevice : kFewRows * length.value) ? 0 : length.value;
}

bool passes(const ir::Node& n) {
  return ir::is_elementwise_primitive(n.op) || n.op == ir::Op::kCast || is_movement(n.op);
}

/// Which reductions read the same values of as many elements as their operands have, if not by way of too many others.
std::vector<bool> with_common_values(const ir::Graph& g, const std::vector<int64_t>& lengths) {
  constexpr size_t kMostSteps = 32;
  std::vector<bool> common(lengths.size());
  std::vector<size_t> reader(g.values.size(), lengths.size());
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] == 0) continue;
    const int64_t elements = numel(g.shape(g.nodes[i].inputs[0]).values());
    std::vector<ir::ValueId> values = {g.nodes[i].inputs[0]};
    for (size_t k = 0; k < values.size(); ++k) {
      const ir::ValueId v = values[k];
      const ir::Node& n = g.producer(v);
      if (passes(n) && values.size() < kMostSteps) {
        std::ranges::copy_if(n.inputs, std::back_inserter(values), [&](ir::ValueId x) {
          return x != ir::kNone && std::ranges::find(values, x) == values.end();
        });
      } else if (numel(g.shape(v).values()) == elements) {
        if (reader[v] < lengths.size()) common[i] = common[reader[v]] = true;
        reader[v] = i;
      }
    }
  }
  return common;
}

/// Leaves out reductions of which one needs another's result for each element, as in a softmax, those that read the
/// same values, and those of an operand that is computed for others, too: one kernel has them all, and reads and
/// computes an element once.
void leave_out_joined(const ir::Graph& g, std::vector<int64_t>& lengths) {
  std::vector<bool> joined = with_common_values(g, lengths), needs(g.values.size()), is_needed(g.values.size());
  std::vector<int> readers(g.values.size());
  for (const ir::ValueId v : g.outputs) ++readers[v];
  for (size_t i = 0; i < g.nodes.size(); ++i) {
    const ir::Node& n = g.nodes[i];
    const bool some = std::ranges::any_of(n.inputs, [&](ir::ValueId x) { return x != ir::kNone && needs[x]; });
    if (lengths[i] > 0 && some) joined[i] = true;
    for (const ir::ValueId x : n.inputs) {
      if (x != ir::kNone && g.op(x) != ir::Op::kLeaf) ++readers[x];
    }
    needs[n.first_output] = lengths[i] > 0 || (some && passes(n));
  }
  for (size_t i = g.nodes.size(); i-- > 0;) {
    const ir::Node& n = g.nodes[i];
    const bool passed_on = is_needed[n.first_output];
    if (lengths[i] > 0) joined[i] = joined[i] || passed_on || readers[n.inputs[0]] > 1;
    if (lengths[i] == 0 && !(passed_on && passes(n))) continue;
    for (const ir::ValueId x : n.inputs) {
      if (x != ir::kNone) is_needed[x] = true;
    }
  }
  for (size_t i = 0; i < lengths.size(); ++i) {
    if (joined[i]) lengths[i] = 0;
  }
}

/// Each lane begins with the identity and takes its elements in order, which lanes without elements leave as it is;
/// lanes are combined by halving, on a device neighbour by neighbour. A column, of a stack, is one lane.
Value combined(ir::Builder& b, Value x, const ReduceAttributes& a, int64_t length, const ReduceOrder* order) {
  const DType t = x.dtype();
  const ir::Op step = reduce_step(a.kind);
  const auto join = [&](std::optional<Value>& to, const std::optional<Value>& other) {
    if (other) to = to ? b.elementwise_as(step, t, {*to, *other}) : other;
  };
  const ReduceOrder::Deal canonical{is_row(x.shape(), a.axis) ? kReduceLanes : 1, 1};
  const ReduceOrder::Deal deal = order ? order->deal(length) : canonical;
  std::vector<std::optional<Value>> lanes(static_cast<size_t>(deal.lanes));
  for (int64_t i = 0; i < length; ++i) {
    join(lanes[static_cast<size_t>(i / deal.unit % deal.lanes)], b.slice(x, a.axis, i, i + 1));
  }
  for (size_t pairs = lanes.size() / 2; pairs > 0; pairs /= 2) {
    for (size_t i = 0; i < pairs; ++i) {
      if (order) lanes[i] = std::exchange(lanes[2 * i], {});
      join(lanes[i], lanes[order ? 2 * i + 1 : i + pairs]);
    }
  }
  // A sum that begins with 0 is never -0.
  const bool is_sum = a.kind == ir::ReduceKind::kSum && is_floating(t);
  return is_sum ? b.elementwise_as(step, t, {*lanes[0], b.constant(Scalar(0.0))}) : *lanes[0];
}

}  // namespace

void write_short_rows(ir::Graph& g, const ReduceOrder* order) {
  std::vector<int64_t> lengths;
  for (const ir::Node& n : g.nodes) lengths.push_back(length_of(g, n, order != nullptr));
  if (order) leave_out_joined(g, lengths);
  for (size_t i = 0; i < lengths.size(); ++i) {
    const ir::Node& n = g.nodes[i];
    const auto length = [&] { return g.shape(n.inputs[0])[ReduceAttributes(n).axis]; };
    if (lengths[i] > 0 && !g.sym.equal(length(), lengths[i])) lengths[i] = 0;
  }
  if (std::ranges::none_of(lengths, [](int64_t n) { return n > 0; })) return;
  g = ir::rewrite(g, [&](ir::Rewriter& r, const ir::Node& n) {
    const int64_t length = lengths[r.index(n)];
    if (length == 0) return false;
    ir::Builder& b = r.builder();
    r.set(n.first_output, combined(b, b.wrap(r.now(n.inputs[0])), ReduceAttributes(n), length, order).id);
    return true;
  });
}

}  // namespace smolder::jit
