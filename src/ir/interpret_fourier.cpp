#include "smolder/ir/interpret_fourier.h"

#include <cmath>
#include <complex>
#include <numbers>
#include <vector>

#include "smolder/ir/attrs.h"

namespace smolder::ir::reference {
namespace {

using Complex = std::complex<double>;

/// Complex numbers of a shape, row-major.
struct Numbers {
  Dims shape;
  std::vector<Complex> elements;
};

/// `f(row)` for each row along `axis`; rows have `extent` elements afterwards.
Numbers along(const Numbers& x, int axis, int64_t extent, auto f) {
  Numbers out{x.shape, {}};
  out.shape[axis] = extent;
  out.elements.resize(static_cast<size_t>(numel(out.shape)));
  int64_t inner = 1;
  for (int a = axis + 1; a < x.shape.size(); ++a) inner *= x.shape[a];
  const int64_t n = x.shape[axis], rows = numel(x.shape) / n;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t outer = r / inner, rest = r % inner;
    std::vector<Complex> row;
    for (int64_t i = 0; i < n; ++i) row.push_back(x.elements[(outer * n + i) * inner + rest]);
    row = f(row);
    for (int64_t i = 0; i < extent; ++i) out.elements[(outer * extent + i) * inner + rest] = row[i];
  }
  return out;
}

std::vector<Complex> sums(const std::vector<Complex>& row, bool forward) {
  const auto n = static_cast<int64_t>(row.size());
  std::vector<Complex> out(row.size());
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t j = 0; j < n; ++j) {
      const double angle = 2 * std::numbers::pi * static_cast<double>(j * k % n) / static_cast<double>(n);
      out[k] += row[j] * std::polar(1.0, forward ? -angle : angle);
    }
  }
  return out;
}

/// The whole spectrum of n real numbers; those that are their own conjugates have no imaginary part.
std::vector<Complex> whole(std::vector<Complex> half, int64_t n) {
  half[0] = half[0].real();
  if (n % 2 == 0) half[n / 2] = half[n / 2].real();
  for (auto k = static_cast<int64_t>(half.size()); k < n; ++k) half.push_back(std::conj(half[n - k]));
  return half;
}

Numbers numbers_of(const std::vector<double>& x, const Dims& shape, bool pairs) {
  Numbers out{shape, {}};
  if (pairs) out.shape.pop_back();
  for (size_t i = 0; i < x.size(); i += pairs ? 2 : 1) out.elements.emplace_back(x[i], pairs ? x[i + 1] : 0.0);
  return out;
}

}  // namespace

std::vector<double> transform(Op op, const std::vector<double>& x, const Dims& shape, std::span<const int64_t> attrs) {
  AttrReader words(attrs);
  const Dims dim = words.integers();
  const int64_t normalization = words.integer(), last = op == Op::kFftC2r ? words.size() : 0;
  const bool forward = words.boolean();
  if (x.empty()) return {};
  Numbers now = numbers_of(x, shape, op != Op::kFftR2c);
  double count = 1;
  for (int i = 0; i < dim.size(); ++i) {
    const auto axis = static_cast<int>(dim[i]);
    const bool restores = op == Op::kFftC2r && i + 1 == dim.size();
    const int64_t n = restores ? last : now.shape[axis];
    count *= static_cast<double>(n);
    now = along(now, axis, n,
                [&](const std::vector<Complex>& row) { return sums(restores ? whole(row, n) : row, forward); });
  }
  if (op == Op::kFftR2c) {
    const auto axis = static_cast<int>(dim.back());
    now = along(now, axis, now.shape[axis] / 2 + 1, [](const std::vector<Complex>& row) { return row; });
  }
  const double scale = normalization == 0 ? 1 : normalization == 1 ? 1 / std::sqrt(count) : 1 / count;
  std::vector<double> out;
  for (const Complex& z : now.elements) {
    out.push_back(z.real() * scale);
    if (op != Op::kFftC2r) out.push_back(z.imag() * scale);
  }
  return out;
}

}  // namespace smolder::ir::reference
