// The functions of dims.h that count elements and compute strides. They check for overflow.
#include <algorithm>

#include "smolder/core/dims.h"
#include "smolder/core/size.h"

namespace smolder {

int64_t numel(const Dims& shape) {
  int64_t n = 1;
  for (const int64_t e : shape) {
    SMOLDER_CHECK(!__builtin_mul_overflow(n, e, &n), RuntimeError, "numel: integer multiplication overflow of ", shape);
  }
  return n;
}

Dims contiguous_strides(const Dims& shape) {
  Dims s = Dims::filled(shape.size(), 1);
  for (int i = shape.size() - 2; i >= 0; --i) s[i] = (Size(s[i + 1]) * std::max<int64_t>(shape[i + 1], 1)).value();
  return s;
}

bool is_contiguous(const Dims& shape, const Dims& strides) {
  int64_t expected = 1;
  for (int i = shape.size() - 1; i >= 0; --i) {
    if (shape[i] == 0) return true;
    if (shape[i] != 1 && strides[i] != expected) return false;
    expected = (Size(expected) * shape[i]).value();
  }
  return true;
}

}  // namespace smolder
