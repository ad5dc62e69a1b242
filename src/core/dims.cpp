#include "smolder/core/dims.h"

#include <algorithm>
#include <ostream>
#include <sstream>

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

std::ostream& operator<<(std::ostream& out, const Dims& d) {
  out << '[';
  for (int i = 0; i < d.size(); ++i) out << (i ? ", " : "") << d[i];
  return out << ']';
}

std::string to_string(const Dims& d) {
  std::ostringstream out;
  out << d;
  return out.str();
}

int normalize_axis(int64_t axis, int rank) {
  const int64_t n = std::max(rank, 1);
  SMOLDER_CHECK(axis >= -n && axis < n, IndexError, "Dimension out of range (expected to be in range of [", -n, ", ",
                n - 1, "], but got ", axis, ")");
  return static_cast<int>(axis < 0 ? axis + n : axis);
}

Dims broadcast_shapes(const Dims& a, const Dims& b, std::string_view op) {
  const int rank = std::max(a.size(), b.size());
  Dims out = Dims::filled(rank, 1);
  for (int i = 0; i < rank; ++i) {
    const int ia = i - (rank - a.size()), ib = i - (rank - b.size());
    const int64_t ea = ia < 0 ? 1 : a[ia], eb = ib < 0 ? 1 : b[ib];
    SMOLDER_CHECK(ea == eb || ea == 1 || eb == 1, RuntimeError, op, ": The size of tensor a (", ea,
                  ") must match the size of tensor b (", eb, ") at non-singleton dimension ", i, "; shapes are ", a,
                  " and ", b);
    out[i] = ea == 1 ? eb : ea;
  }
  return out;
}

}  // namespace smolder
