// One step of the reference interpreter, and how its parts go over the elements of tensors.
#pragma once

#include <cstdint>
#include <vector>

#include "smolder/ir/builder.h"
#include "smolder/ir/plain_tensor.h"

namespace smolder::ir::reference {

/// One node with everything about it known.
struct Step {
  Op op;
  std::vector<const PlainTensor*> in;  ///< null where an optional operand is absent
  std::vector<int64_t> attrs;
  std::vector<Meta> out;

  const PlainTensor& operand(int i) const { return *in[i]; }
};

/// Calls `f(index, position)` for each index of `shape` in row-major order.
void for_each_index(const Dims& shape, auto f) {
  const int64_t n = numel(shape);
  Dims index = Dims::filled(shape.size(), 0);
  for (int64_t p = 0; p < n; ++p) {
    f(index, p);
    for (int a = shape.size() - 1; a >= 0 && ++index[a] == shape[a]; --a) index[a] = 0;
  }
}

/// Where the element at `index` of a tensor of `shape` is in row-major order.
inline int64_t position(const Dims& index, const Dims& shape) {
  int64_t p = 0;
  for (int a = 0; a < shape.size(); ++a) p = p * shape[a] + index[a];
  return p;
}

/// A tensor of the given metadata, element by element.
PlainTensor make(const Meta& m, auto element) {
  PlainTensor t{m.dtype, m.shape, {}, m.weak};
  t.elements.reserve(numel(m.shape));
  for_each_index(m.shape, [&](const Dims& index, int64_t p) { t.elements.push_back(element(index, p)); });
  return t;
}

}  // namespace smolder::ir::reference
