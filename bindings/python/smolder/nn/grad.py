"""Gradients of convolutions as functions: of the input, or of the weight, from the gradient of the result."""

from __future__ import annotations

from collections.abc import Sequence

from smolder import _core, autograd
from smolder._names import listing as _listing
from smolder._typing import Ints, Tensor
from smolder.nn import functional

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]
__dir__ = _listing(__name__)


def _gradient(convolution, shape, other, is_input, grad_output, options):
    """The gradient of the operand of that shape; that the other has a history counts where gradients are on."""
    with_history = _core.is_grad_enabled()
    with autograd.enable_grad():
        operand = other.new_zeros(tuple(shape)).requires_grad_()  # a convolution is linear: any value has this gradient
        out = convolution(*((operand, other) if is_input else (other, operand)), None, *options)
        return autograd.grad(out, operand, grad_output, create_graph=with_history)[0].contiguous()


def conv1d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of the input, of shape input_size, of conv1d."""
    options = stride, padding, dilation, groups
    return _gradient(functional.conv1d, input_size, weight, True, grad_output, options)


def conv1d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of the weight, of shape weight_size, of conv1d."""
    options = stride, padding, dilation, groups
    return _gradient(functional.conv1d, weight_size, input, False, grad_output, options)


def conv2d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of the input, of shape input_size, of conv2d."""
    options = stride, padding, dilation, groups
    return _gradient(functional.conv2d, input_size, weight, True, grad_output, options)


def conv2d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of the weight, of shape weight_size, of conv2d."""
    options = stride, padding, dilation, groups
    return _gradient(functional.conv2d, weight_size, input, False, grad_output, options)


def conv3d_input(
    input_size: Sequence[int],
    weight: Tensor,
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of the input, of shape input_size, of conv3d."""
    options = stride, padding, dilation, groups
    return _gradient(functional.conv3d, input_size, weight, True, grad_output, options)


def conv3d_weight(
    input: Tensor,
    weight_size: Sequence[int],
    grad_output: Tensor,
    stride: Ints = 1,
    padding: Ints = 0,
    dilation: Ints = 1,
    groups: int = 1,
) -> Tensor:
    """The gradient of the weight, of shape weight_size, of conv3d."""
    options = stride, padding, dilation, groups
    return _gradient(functional.conv3d, weight_size, input, False, grad_output, options)
