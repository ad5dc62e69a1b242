#include "smolder/nn/resampling.h"

#include <cmath>

#include "smolder/lazy/ops.h"  // generated

namespace smolder::nn {

UpsampleImpl::UpsampleImpl(UpsampleOptions options) : options_(std::move(options)) {
  SMOLDER_CHECK(options_.size.empty() || options_.scale_factor.empty(), ValueError,
                "only one of size or scale_factor should be defined");
  SMOLDER_CHECK(!options_.size.empty() || !options_.scale_factor.empty(), ValueError,
                "either size or scale_factor should be defined");
}

Tensor UpsampleImpl::forward(const Tensor& x) const {
  const int dims = x.dim() - 2;
  const auto check = [&](size_t given) {
    SMOLDER_CHECK(given == 1 || static_cast<int>(given) == dims, ValueError,
                  "Input and output must have the same number of spatial dimensions, but got input ", x.shape(),
                  " and ", given, " sizes");
  };
  if (!options_.size.empty()) {
    check(options_.size.size());
    return interpolate_to(x, Dims(std::span<const int64_t>(options_.size)), options_.mode, options_.align_corners);
  }
  const std::vector<double>& factors = options_.scale_factor;
  check(factors.size());
  Dims size;
  std::optional<double> scales[3];
  for (int i = 0; i < dims; ++i) {
    const double factor = factors[factors.size() == 1 ? 0 : static_cast<size_t>(i)];
    size.push_back(static_cast<int64_t>(std::floor(static_cast<double>(x.size(2 + i)) * factor)));
    scales[3 - dims + i] = factor;
  }
  return interpolate_to(x, size, options_.mode, options_.align_corners, false, scales[0], scales[1], scales[2]);
}

Tensor PixelShuffleImpl::forward(const Tensor& x) const { return pixel_shuffle(x, factor_); }
Tensor PixelUnshuffleImpl::forward(const Tensor& x) const { return pixel_unshuffle(x, factor_); }

PadBase::PadBase(int dims, const Dims& padding, std::string mode, double value)
    : padding_(padding), mode_(std::move(mode)), value_(value) {
  SMOLDER_CHECK(padding.size() == 1 || padding.size() == 2 * dims, ValueError, "expected one size or ", 2 * dims,
                ", got ", padding);
  if (padding.size() == 1) padding_ = Dims::filled(2 * dims, padding[0]);
}

Tensor PadBase::forward(const Tensor& x) const { return pad(x, padding_, mode_, value_); }

}  // namespace smolder::nn
