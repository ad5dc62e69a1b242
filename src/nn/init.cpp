#include "smolder/nn/init.h"

#include <cmath>

#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"

namespace smolder::nn::init {
namespace {

struct Fans {
  double in, out;
};

Fans fans(const Tensor& t) {
  SMOLDER_CHECK(t.dim() >= 2, ValueError,
                "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions; the shape is ",
                t.shape());
  const double field = static_cast<double>(t.numel()) / static_cast<double>(t.size(0) * t.size(1));
  return {static_cast<double>(t.size(1)) * field, static_cast<double>(t.size(0)) * field};
}

Tensor write(Tensor t, const Tensor& value) {
  const lazy::GradMode off(false);
  lazy::assign(t, value);
  return t;
}

}  // namespace

Tensor uniform_(const Tensor& t, double low, double high, Generator* generator) {
  const lazy::GradMode off(false);
  return write(t, rand(t.shape(), t.dtype(), generator) * (high - low) + low);
}

Tensor normal_(const Tensor& t, double mean, double std, Generator* generator) {
  const lazy::GradMode off(false);
  return write(t, randn(t.shape(), t.dtype(), generator) * std + mean);
}

Tensor constant_(const Tensor& t, double value) { return write(t, full(t.shape(), value, t.dtype())); }

Tensor xavier_uniform_(const Tensor& t, double gain, Generator* generator) {
  const Fans f = fans(t);
  const double bound = gain * std::sqrt(6.0 / (f.in + f.out));
  return uniform_(t, -bound, bound, generator);
}

Tensor kaiming_uniform_(const Tensor& t, double a, Generator* generator) {
  const double bound = std::sqrt(6.0 / ((1 + a * a) * fans(t).in));
  return uniform_(t, -bound, bound, generator);
}

}  // namespace smolder::nn::init
