// Scaling of gradients on a device: recorded ops, so that nobody waits for what they find.
#pragma once

#include <cstdint>

#include "smolder/lazy/tensor.h"

namespace smolder::amp {

/// Multiplies gradients, float tensors, by `inv_scale` in place, in float32 at least; `found_inf` becomes 1 where an
/// element of any was not finite, and stays as it is elsewhere. Both are float32 of one element. Throws RuntimeError
/// where they are not.
void non_finite_check_and_unscale(TensorList grads, const Tensor& found_inf, const Tensor& inv_scale);

/// The scale after a step, in place: times `backoff_factor` where `found_inf` is above 0; times `growth_factor`, unless
/// that is infinite, where it was not in `growth_interval` steps in a row, which `growth_tracker`, an int32, counts.
/// Throws RuntimeError where they are not of one element, or of other dtypes.
void update_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf, double growth_factor,
                  double backoff_factor, int64_t growth_interval);

}  // namespace smolder::amp
