"""Batch norms folded into the layers before them, in evaluation."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.nn.parameter import Parameter

if TYPE_CHECKING:
    from smolder._typing import Module

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]
__dir__ = _listing(__name__)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """The weight and bias of a convolution that does what one and the batch norm after it do."""
    bias = _core.zeros_like(bn_rm) if conv_b is None else conv_b
    scale = (_core.ones_like(bn_rm) if bn_w is None else bn_w) * (bn_rv + bn_eps).rsqrt()
    shift = _core.zeros_like(bn_rm) if bn_b is None else bn_b
    shape = [1, -1] if transpose else [-1, 1]
    weight = (conv_w * scale.reshape(shape + [1] * (conv_w.dim() - 2))).to(conv_w.dtype)
    bias = ((bias - bn_rm) * scale + shift).to(bias.dtype if conv_b is not None else conv_w.dtype)
    trains = conv_b.requires_grad if conv_b is not None else conv_w.requires_grad
    return Parameter(weight, conv_w.requires_grad), Parameter(bias, trains)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """The same of a linear layer."""
    return fuse_conv_bn_weights(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def _check(layer: Any, bn: Any) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")
    return copy.deepcopy(layer)


def fuse_conv_bn_eval(conv: Module, bn: Module, transpose: bool = False) -> Module:
    """A convolution that does what one and the batch norm after it do; both have to be in evaluation mode."""
    fused = _check(conv, bn)
    of_bn = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused.weight, fused.bias = fuse_conv_bn_weights(fused.weight, fused.bias, *of_bn, transpose)
    return fused


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Module:
    """The same of a linear layer."""
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("To fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    fused = _check(linear, bn)
    of_bn = bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    fused.weight, fused.bias = fuse_linear_bn_weights(fused.weight, fused.bias, *of_bn)
    return fused
