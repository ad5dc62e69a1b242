// Movement primitives over memory, as strides: how library calls read transposed, sliced, broadcast and
// batched operands without a copy.
#pragma once

#include <optional>
#include <vector>

#include "smolder/ir/graph.h"

namespace smolder::jit {

/// A value as a strided walk through the memory of another.
struct StridedView {
  ir::ValueId root = ir::kNone;
  ir::SymDims shape, strides;
  ir::Dim offset;  ///< in elements, from the root's first
};

/// A contiguous value as a view of itself.
StridedView identity_view(ir::SymTable& sym, const ir::Graph& g, ir::ValueId v);
/// The view that `node` makes of a view of its input; empty when it moves elements in a way strides can't say.
std::optional<StridedView> apply_movement(ir::SymTable& sym, const ir::Graph& g, const ir::Node& node,
                                          const StridedView& x);
/// `v` as a walk through the memory that it is moved from; empty when strides can't say it. `memory` says how a value
/// lies in memory; empty where it is not there, but is movement of what is.
std::optional<StridedView> view_from(ir::SymTable& sym, const ir::Graph& g, ir::ValueId v, auto&& memory);
/// Is the walk row-major without gaps (so that its elements are a block of memory)?
bool is_contiguous(ir::SymTable& sym, const StridedView& v);

/// Appends movement that is given the shape of its result alone: kReshape, or kExpand, which for the shape that `x` has
/// is a copy.
ir::ValueId append_shaped(ir::Graph& g, ir::Op op, ir::ValueId x, const ir::ValueInfo& result, ir::Origin origin);

/// Movement that moves nothing: the result is the same bytes in the same order.
inline bool is_alias(ir::Op op) { return op == ir::Op::kReshape || op == ir::Op::kBarrier; }
/// Primitives whose results are elements of their first input, placed anew.
inline bool is_movement(ir::Op op) {
  return is_alias(op) || op == ir::Op::kPermute || op == ir::Op::kExpand || op == ir::Op::kSlice || op == ir::Op::kFlip;
}
/// Zero-dim numbers that kernels compute where they need them.
inline bool is_number(const ir::Graph& g, ir::ValueId v) {
  const ir::Op op = g.op(v);
  return g.info(v).weak || op == ir::Op::kConstant || op == ir::Op::kParameter || op == ir::Op::kExtent;
}

std::optional<StridedView> view_from(ir::SymTable& sym, const ir::Graph& g, ir::ValueId v, auto&& memory) {
  std::vector<const ir::Node*> path;
  std::optional<StridedView> view;
  while (!(view = memory(v))) {
    const ir::Node& n = g.producer(v);
    if (!is_movement(n.op)) return std::nullopt;
    path.push_back(&n);
    v = n.inputs[0];
  }
  for (auto n = path.rbegin(); view && n != path.rend(); ++n) view = apply_movement(sym, g, **n, *view);
  return view;
}

}  // namespace smolder::jit
