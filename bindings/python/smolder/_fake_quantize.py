"""Numbers rounded to those that integers with a scale stand for: what training for quantized weights computes."""

from __future__ import annotations

from smolder import _core
from smolder._autocast import listed
from smolder._tensor import Tensor
from smolder._typing import Number

__all__ = ["fake_quantize_per_channel_affine", "fake_quantize_per_tensor_affine"]


def _rounded(input, scale, zero_point, low, high):
    if low > high:
        raise RuntimeError("`quant_min` should be less than or equal to `quant_max`.")
    integers = (input / scale).round() + zero_point
    inside = (integers >= low) & (integers <= high)
    out = (integers.clamp(low, high) - zero_point) * scale
    # The gradient is that of the input, where it is not clamped.
    passed = _core.where(inside, input, 0.0)
    return (passed + (out - passed).detach()).to(input.dtype) if input.requires_grad else out.to(input.dtype)


@listed("fake_quantize_per_tensor_affine")
def fake_quantize_per_tensor_affine(
    input: Tensor, scale: Number | Tensor, zero_point: int | Tensor, quant_min: int, quant_max: int
) -> Tensor:
    """(clamp(round(input / scale) + zero_point, quant_min, quant_max) - zero_point) * scale, with the gradient of input
    where it is not clamped.
    """
    return _rounded(input, scale, zero_point, quant_min, quant_max)


def fake_quantize_per_channel_affine(
    input: Tensor, scale: Tensor, zero_point: Tensor, axis: int, quant_min: int, quant_max: int
) -> Tensor:
    """fake_quantize_per_tensor_affine with a scale and a zero point for each place along axis."""
    if scale.dim() != 1 or scale.numel() != input.size(axis):
        raise RuntimeError("dimensions of scale and zero-point are not consistent with input tensor")
    shape = [-1 if i == axis % input.dim() else 1 for i in range(input.dim())]
    return _rounded(input, scale.reshape(shape), zero_point.reshape(shape), quant_min, quant_max)
