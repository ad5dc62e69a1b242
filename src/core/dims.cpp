#include "smolder/core/dims.h"

#include <algorithm>
#include <ostream>
#include <sstream>

namespace smolder {

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
