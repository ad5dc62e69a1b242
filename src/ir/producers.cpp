#include "smolder/ir/producers.h"

#include "smolder/ir/attrs.h"
#include "smolder/ir/infer.h"

namespace smolder::ir {
namespace {

SymDims leaf_strides(Value leaf) {
  NodeAttrReader attrs(producer(leaf).attrs);
  attrs.integer();  // which leaf
  attrs.size();     // where in its memory
  return attrs.sizes();
}

}  // namespace

std::vector<int> permuted_axes(Value x) {
  std::vector<int> out;
  for (const int64_t a : NodeAttrReader(producer(x).attrs).integers()) out.push_back(normalize_axis(a, x.rank()));
  return out;
}

std::vector<int> unit_axes(SymTable& sym, const SymDims& from, const SymDims& to) {
  const auto is_unit = [&](const Dim& d) { return d.value == 1 && sym.equal(d, 1); };
  std::vector<int> out(from.size(), -1);
  int j = 0;
  for (int i = 0; i < from.size(); ++i) {
    while (j < to.size() && is_unit(to[j]) && !(from[i] == to[j])) ++j;
    if (j < to.size() && from[i] == to[j]) {
      out[i] = j++;
    } else if (!is_unit(from[i])) {
      return {};
    }
  }
  for (; j < to.size(); ++j) {
    if (!is_unit(to[j])) return {};
  }
  return out;
}

bool repeats(Value x, int axis) {
  for (;;) {
    if (x.shape()[axis] == Dim(1)) return true;
    switch (producer(x).op) {
      case Op::kLeaf:
        return leaf_strides(x)[axis] == Dim(0);
      case Op::kExpand:
        axis -= x.rank() - operand(x, 0).rank();
        if (axis < 0) return true;
        break;
      case Op::kReshape: {
        const std::vector<int> axes = unit_axes(x.b->sym(), x.shape(), operand(x, 0).shape());
        if (axes.empty() || axes[axis] < 0) return false;
        axis = axes[axis];
        break;
      }
      case Op::kPermute:
        axis = permuted_axes(x)[axis];
        break;
      case Op::kCast:
      case Op::kSlice:
      case Op::kBarrier:
        break;
      default:
        return false;
    }
    x = operand(x, 0);
  }
}

}  // namespace smolder::ir
