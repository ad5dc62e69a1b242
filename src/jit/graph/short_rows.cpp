#include "smolder/jit/graph/short_rows.h"

#include <array>

#include "smolder/ir/rewrite.h"
#include "smolder/jit/attributes.h"
#include "smolder/jit/loop/loop_ir.h"

namespace smolder::jit {

using ir::Value;

namespace {

constexpr int64_t kLongest = 4, kFewRows = 64;

/// The length of the rows that a node reduces, if they are short and many; else 0.
int64_t length_of(ir::Graph& g, const ir::Node& n) {
  if (n.op != ir::Op::kReduce) return 0;
  const ReduceAttributes a(n);
  const ir::SymDims& shape = g.shape(n.inputs[0]);
  const ir::Dim length = shape[a.axis];
  if (!(a.chunk == ir::Dim(0)) || length.value < 2 || length.value > kLongest) return 0;
  for (int i = a.axis + 1; i < shape.size(); ++i) {
    if (!(shape[i] == ir::Dim(1))) return 0;
  }
  if (numel(shape.values()) < kFewRows * length.value) return 0;
  return g.sym.equal(length, length.value) ? length.value : 0;
}

/// Lane i of the reduction begins with the identity and takes element i; lanes are combined by halving.
Value combined(ir::Builder& b, Value x, const ReduceAttributes& a, int64_t length) {
  const DType t = x.dtype();
  const ir::Op step = reduce_step(a.kind);
  const auto join = [&](Value l, Value r) { return b.elementwise_as(step, t, {l, r}); };
  std::array<Value, kLongest> lanes;
  for (int64_t i = 0; i < length; ++i) lanes[i] = b.slice(x, a.axis, i, i + 1);
  if (length > 2) lanes[0] = join(lanes[0], lanes[2]);
  if (length > 3) lanes[1] = join(lanes[1], lanes[3]);
  const Value all = join(lanes[0], lanes[1]);
  // A sum that begins with 0 is never -0.
  return a.kind == ir::ReduceKind::kSum && is_floating(t) ? join(all, b.constant(Scalar(0.0))) : all;
}

}  // namespace

void write_short_rows(ir::Graph& g) {
  std::vector<int64_t> lengths(g.nodes.size(), 0);
  bool any = false;
  for (size_t i = 0; i < g.nodes.size(); ++i) any |= (lengths[i] = length_of(g, g.nodes[i])) > 0;
  if (!any) return;
  g = ir::rewrite(g, [&](ir::Rewriter& r, const ir::Node& n) {
    const int64_t length = lengths[r.index(n)];
    if (length == 0) return false;
    r.set(n.first_output, combined(r.builder(), r.builder().wrap(r.now(n.inputs[0])), ReduceAttributes(n), length).id);
    return true;
  });
}

}  // namespace smolder::jit
