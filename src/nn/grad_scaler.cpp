#include "smolder/nn/grad_scaler.h"

#include <string_view>
#include <vector>

#include "smolder/core/error.h"
#include "smolder/lazy/ops.h"  // generated
#include "smolder/lazy/record.h"

namespace smolder::amp {
namespace {

void check_one(std::string_view name, const Tensor& t, DType dtype, std::string_view kind) {
  SMOLDER_CHECK(t.numel() == 1, RuntimeError, name, " must be a 1-element tensor.");
  SMOLDER_CHECK(t.dtype() == dtype, RuntimeError, name, " must be ", kind, " tensor.");
}

}  // namespace

void non_finite_check_and_unscale(TensorList grads, const Tensor& found_inf, const Tensor& inv_scale) {
  check_one("inv_scale", inv_scale, DType::kFloat32, "a float");
  check_one("found_inf", found_inf, DType::kFloat32, "a float");
  if (grads.size() == 0) return;
  const lazy::GradMode off(false);
  std::vector<Tensor> finite;
  for (size_t i = 0; i < grads.size(); ++i) finite.push_back(all(isfinite(grads.data()[i])));
  const Tensor fine = finite.size() == 1 ? finite[0] : all(stack(finite));
  lazy::assign(found_inf, where(fine, found_inf, Scalar(1.0)));
  for (size_t i = 0; i < grads.size(); ++i) {
    const Tensor& g = grads.data()[i];
    const Tensor wide = g.dtype() == DType::kFloat64 ? g : g.to(DType::kFloat32);
    lazy::assign(g, (wide * inv_scale).to(g.dtype()));
  }
}

void update_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf, double growth_factor,
                  double backoff_factor, int64_t growth_interval) {
  check_one("growth_tracker", growth_tracker, DType::kInt32, "an int");
  check_one("current_scale", scale, DType::kFloat32, "a float");
  check_one("found_inf", found_inf, DType::kFloat32, "a float");
  const lazy::GradMode off(false);
  const Tensor found = found_inf > Scalar(0.0), fine = growth_tracker + Scalar(int64_t{1});
  const Tensor grows = fine == Scalar(growth_interval), grown = scale * Scalar(growth_factor);
  const Tensor kept = where(logical_and(grows, isfinite(grown)), grown, scale);
  lazy::assign(scale, where(found, scale * Scalar(backoff_factor), kept));
  lazy::assign(growth_tracker, where(logical_or(found, grows), zeros_like(fine), fine));
}

}  // namespace smolder::amp
