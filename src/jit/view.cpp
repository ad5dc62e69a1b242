#include "smolder/jit/view.h"

#include <utility>
#include <vector>

#include "smolder/jit/attributes.h"

namespace smolder::jit {

using ir::Dim;
using ir::Op;
using ir::SymDims;

StridedView identity_view(ir::SymTable& sym, const ir::Graph& g, ir::ValueId v) {
  return {v, g.shape(v), sym.contiguous_strides(g.shape(v)), 0};
}

ir::ValueId append_shaped(ir::Graph& g, Op op, ir::ValueId x, const ir::ValueInfo& result, ir::Origin origin) {
  const ir::ValueInfo info = result;  // which may be of the graph that grows
  std::vector<Dim> words{info.shape.size()};
  words.insert(words.end(), info.shape.begin(), info.shape.end());
  return g.append(op, {x}, std::move(words), {&info, 1}, origin);
}

bool is_contiguous(ir::SymTable& sym, const StridedView& v) {
  Dim expected = 1;
  for (int i = v.shape.size() - 1; i >= 0; --i) {
    if (v.shape[i] == Dim(0)) return true;  // no element is anywhere
    if (v.shape[i] == Dim(1)) continue;
    if (v.strides[i] != expected) return false;
    expected = sym.mul(expected, v.shape[i]);
  }
  return true;
}

namespace {

/// Strides of a reshaped view, walking both shapes from the right in groups of equal size.
std::optional<StridedView> reshape(ir::SymTable& sym, const StridedView& x, const SymDims& to) {
  StridedView out{x.root, to, to, x.offset};
  // Where there are no elements any strides will do. (That they are none is structure: see SymTable::symbol.)
  for (const Dim& d : to) {
    if (d.value == 0 && sym.equal(d, 0)) return out;
  }
  int i = x.shape.size() - 1;
  for (int o = to.size() - 1; o >= 0;) {
    if (to[o].value == 1) {
      out.strides[o--] = 0;
      continue;
    }
    while (i >= 0 && x.shape[i].value == 1) --i;
    if (i < 0) return std::nullopt;
    // The group: input dims from i down, output dims from o down, of one product.
    Dim in = x.shape[i], have = to[o];
    const Dim step = x.strides[i];
    Dim stride = step, reach = sym.mul(step, x.shape[i]);
    out.strides[o--] = stride;
    while (!sym.equal(in, have)) {
      if (have.value < in.value) {
        if (o < 0) return std::nullopt;
        out.strides[o] = sym.mul(step, have);
        have = sym.mul(have, to[o--]);
      } else {
        if (--i < 0) return std::nullopt;
        if (x.shape[i].value == 1) continue;
        // Dims join only where they walk on without a gap. An extent of 1 between them may be an expression.
        if (x.strides[i].value != reach.value || !sym.equal(x.strides[i], reach)) return std::nullopt;
        in = sym.mul(in, x.shape[i]);
        reach = sym.mul(reach, x.shape[i]);
      }
    }
    --i;
  }
  return out;
}

}  // namespace

std::optional<StridedView> apply_movement(ir::SymTable& sym, const ir::Graph& g, const ir::Node& n,
                                          const StridedView& x) {
  const SymDims& to = g.shape(n.first_output);
  StridedView out = x;
  out.shape = to;
  switch (n.op) {
    case Op::kBarrier:
      return out;
    case Op::kReshape:
      return reshape(sym, x, to);
    case Op::kPermute: {
      const Dims axes = axes_of(n);
      for (int i = 0; i < axes.size(); ++i) out.strides[i] = x.strides[axes[i]];
      return out;
    }
    case Op::kExpand: {
      const int lead = to.size() - x.shape.size();
      out.strides = to;
      for (int i = 0; i < to.size(); ++i) {
        out.strides[i] = i < lead || x.shape[i - lead].value == 1 ? Dim(0) : x.strides[i - lead];
      }
      return out;
    }
    case Op::kSlice: {
      const SliceAttributes a(n);
      out.offset = sym.add(x.offset, sym.mul(a.start, x.strides[a.axis]));
      out.strides[a.axis] = sym.mul(x.strides[a.axis], a.step);
      return out;
    }
    case Op::kFlip: {
      for (const int64_t axis : axes_of(n)) {
        out.offset = sym.add(out.offset, sym.mul(sym.sub(to[axis], 1), out.strides[axis]));
        out.strides[axis] = sym.sub(0, out.strides[axis]);
      }
      return out;
    }
    default:
      return std::nullopt;
  }
}

}  // namespace smolder::jit
