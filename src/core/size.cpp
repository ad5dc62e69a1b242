#include "smolder/core/size.h"

#include <algorithm>

namespace smolder {

int64_t Size::combine(char op, int64_t a, int64_t b) {
  int64_t out = 0;
  const bool overflows = op == '+'   ? __builtin_add_overflow(a, b, &out)
                         : op == '-' ? __builtin_sub_overflow(a, b, &out)
                                     : __builtin_mul_overflow(a, b, &out);
  SMOLDER_CHECK(!overflows, RuntimeError, "integer overflow: a size of ", a, ' ', op, ' ', b,
                " does not fit in 64 bits");
  return out;
}

int64_t storage_bytes(const Dims& shape, DType dtype) {
  auto bytes = static_cast<int64_t>(itemsize(dtype));
  bool is_empty = false;
  for (const int64_t n : shape) {
    is_empty |= n == 0;
    SMOLDER_CHECK(!__builtin_mul_overflow(bytes, std::max<int64_t>(n, 1), &bytes), RuntimeError,
                  "Storage size calculation overflowed with sizes=", shape);
  }
  return is_empty ? 0 : bytes;
}

}  // namespace smolder
