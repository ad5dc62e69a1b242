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

/// Axes of more than one element.
std::vector<int> long_axes(const SymDims& shape) {
  std::vector<int> out;
  for (int i = 0; i < shape.size(); ++i) {
    if (!(shape[i] == Dim(1))) out.push_back(i);
  }
  return out;
}

/// Which axis of what `x` reshapes its axis is, where the shapes differ in axes of one element (which is a guard); else
/// -1.
int reshaped_axis(Value x, int axis) {
  const SymDims to = x.shape(), from = operand(x, 0).shape();
  const std::vector<int> after = long_axes(to), before = long_axes(from);
  if (after.size() != before.size()) return -1;
  int found = -1;
  for (size_t i = 0; i < after.size(); ++i) {
    if (!x.b->sym().equal(to[after[i]], from[before[i]])) return -1;
    if (after[i] == axis) found = before[i];
  }
  return found;
}

}  // namespace

std::vector<int> permuted_axes(Value x) {
  std::vector<int> out;
  for (const int64_t a : NodeAttrReader(producer(x).attrs).integers()) out.push_back(normalize_axis(a, x.rank()));
  return out;
}

bool repeats(Value x, int axis) {
  for (;;) {
    if (x.shape()[axis] == Dim(1)) return true;
    switch (producer(x).op) {
      case Op::kLeaf: {
        const SymDims strides = leaf_strides(x);  // none in graphs of files, whose leaves are row-major
        return !strides.empty() && strides[axis] == Dim(0);
      }
      case Op::kExpand:
        axis -= x.rank() - operand(x, 0).rank();
        if (axis < 0) return true;
        break;
      case Op::kReshape:
        axis = reshaped_axis(x, axis);
        if (axis < 0) return false;
        break;
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
