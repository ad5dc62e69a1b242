// The functions behind the rows of sampling.toml.
#include <limits>

#include "smolder/lazy/op_support.h"
#include "smolder/lazy/ops.h"
#include "smolder/lazy/random.h"

namespace smolder::lazy {

Tensor multinomial(const Tensor& weights, int64_t count, bool replacement, Generator* generator) {
  SMOLDER_CHECK(weights.dim() == 1 || weights.dim() == 2, RuntimeError, "prob_dist must be 1 or 2 dim");
  SMOLDER_CHECK(is_floating(weights.dtype()), RuntimeError,
                "multinomial only supports floating-point dtypes for input, got: ", name(weights.dtype()));
  SMOLDER_CHECK(count > 0, RuntimeError, "cannot sample n_sample <= 0 samples");
  const int64_t n = weights.size(-1);
  SMOLDER_CHECK(replacement || count <= n, RuntimeError,
                "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
  SMOLDER_CHECK(n > 0, RuntimeError, "multinomial: there are no categories to draw from, got shape ", weights.shape());
  const Tensor w = weights.detach(), p = w.to(compute_type(w.dtype()));
  Dims shape = p.shape();
  shape.back() = replacement ? count : n;
  const auto [seed, offset] = draw_from(generator, numel(shape));
  const Tensor noise = random_uniform(shape, seed, offset, 0.0, 1.0, p.dtype());
  if (!replacement) {  // the first of exponential clocks to ring are such a draw
    const Tensor clocks = neg(log1p(neg(noise)));
    return checked_samples(std::get<1>(topk(p / clocks, count, -1)), w);
  }
  const Tensor sums = cumsum(p.to(DType::kFloat64), -1), total = slice(sums, -1, n - 1);
  const Tensor at = search(sums, noise.to(DType::kFloat64) * total, true, false, {});
  return checked_samples(clamp_max(at, n - 1), w);
}

void check_drawn(std::string_view op, int64_t low, int64_t high, DType dtype) {
  constexpr std::string_view kTypes[] = {"bool", "unsigned char", "signed char", "short int", "int"};
  constexpr int64_t kMostOfHalf = 65504;
  const bool is_half = dtype == DType::kFloat16;
  if (!is_half && dtype >= DType::kInt64) return;
  const std::string_view type = is_half ? "c10::Half" : kTypes[static_cast<int>(dtype)];
  const int64_t least = is_half ? -kMostOfHalf : lowest_integer(dtype);
  const int64_t most = is_half ? kMostOfHalf : highest_integer(dtype);
  SMOLDER_CHECK(least <= low && low <= most, RuntimeError, op, ": from is out of bounds for ", type);
  SMOLDER_CHECK(least <= high - 1 && high - 1 <= most, RuntimeError, op, ": to - 1 is out of bounds for ", type);
}

Tensor random_fill(const Tensor& x, int64_t low, std::optional<int64_t> to, Generator* generator) {
  int64_t high = 0;
  if (to) {
    high = *to;
  } else {  // the integers that the dtype holds all of
    switch (x.dtype()) {
      case DType::kBool:
        high = 2;
        break;
      case DType::kUInt8:
        high = 256;
        break;
      case DType::kInt8:
      case DType::kInt16:
      case DType::kInt32:
        high = highest_integer(x.dtype()) + 1;
        break;
      case DType::kInt64:
        high = std::numeric_limits<int64_t>::max();
        break;
      case DType::kFloat16:
        high = (1 << 11) + 1;
        break;
      case DType::kBFloat16:
        high = (1 << 8) + 1;
        break;
      case DType::kFloat32:
        high = (1 << 24) + 1;
        break;
      case DType::kFloat64:
        high = (int64_t{1} << 53) + 1;
        break;
      case DType::kComplex64:
      case DType::kComplex128:
        raise<NotImplementedError>("random_ is not supported for ", name(x.dtype()));
    }
  }
  SMOLDER_CHECK(low < high, RuntimeError, "random_ expects 'from' to be less than 'to', but got from=", low,
                " >= to=", high);
  check_drawn("random", low, high, x.dtype());
  const auto [seed, offset] = draw_from(generator, x.numel());
  return random_int(x.shape(), seed, offset, low, high, DType::kInt64).to(x.dtype());
}

}  // namespace smolder::lazy
