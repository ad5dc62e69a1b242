"""Activations as functions: rows of the op table with torch's `inplace`."""

from __future__ import annotations

from typing import Any

from smolder import _core
from smolder._core import glu, hardshrink, logsigmoid, prelu, softshrink, softsign, tanhshrink
from smolder._typing import DType, Tensor
from smolder._warn import warn

__all__ = [
    "celu", "celu_", "elu", "elu_", "glu", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "hardtanh_", "leaky_relu", "leaky_relu_", "log_softmax", "logsigmoid", "mish", "prelu", "relu", "relu6", "relu_",
    "rrelu", "rrelu_", "selu", "selu_", "silu", "softmax", "softmin", "softshrink", "softsign", "tanhshrink",
    "threshold", "threshold_",
]  # fmt: skip


def written(input: Tensor, out: Tensor, inplace: bool) -> Tensor:
    """out; or input, into which it was written."""
    if not inplace or out is input:
        return out
    _core.assign(input, out)
    return input


def _axis(dim, input, name):
    if dim is not None:
        return dim
    message = (
        f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X as an argument."
    )
    warn(message)
    return 0 if input.dim() in (0, 1, 3) else 1  # torch's rule


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0)."""
    return input.relu_() if inplace else _core.relu(input)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Elements brought into [0, 6]."""
    return written(input, _core.relu6(input), inplace)


def rrelu(
    input: Tensor, lower: float = 1.0 / 8, upper: bool = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Tensor:
    """x where positive, else x times a slope drawn from [lower, upper); in evaluation their mean is the slope."""
    return written(input, _core.rrelu(input, lower, upper, training), inplace)


def gumbel_softmax(
    logits: Tensor | float, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor:
    """softmax((logits + Gumbel noise) / tau); with hard 1 at the largest, 0 elsewhere, with the gradient of the soft one."""
    if eps != 1e-10:
        warn("`eps` parameter is deprecated and has no effect.")
    noise = -_core.zeros_like(logits.detach()).exponential_().log()
    soft = _core.softmax((logits + noise) / tau, dim)
    if not hard:
        return soft
    largest = _core.zeros_like(soft.detach()).scatter(dim, soft.argmax(dim, keepdim=True), 1.0)
    return largest - soft.detach() + soft


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x * sigmoid(x)."""
    return written(input, _core.silu(input), inplace)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * tanh(softplus(x))."""
    return written(input, _core.mish(input), inplace)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else alpha * (exp(x) - 1)."""
    return written(input, _core.elu(input, alpha), inplace)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """elu with the scale and the alpha of self-normalising networks."""
    return written(input, _core.selu(input), inplace)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x where positive, else alpha * (exp(x / alpha) - 1)."""
    return written(input, _core.celu(input, alpha), inplace)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x where positive, else negative_slope * x."""
    return written(input, _core.leaky_relu(input, negative_slope), inplace)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Elements brought into [min_val, max_val]."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return written(input, _core.hardtanh(input, min_val, max_val), inplace)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x * hardsigmoid(x)."""
    return written(input, _core.hardswish(input), inplace)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """(x + 3) / 6, brought into [0, 1]."""
    return written(input, _core.hardsigmoid(input), inplace)


def threshold(input: Tensor, threshold: float, value: Any, inplace: bool = False) -> Tensor:
    """x where it is above threshold, else value."""
    return written(input, _core.threshold(input, threshold, value), inplace)


def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """exp(x) / sum(exp(x)) along dim."""
    return _core.softmax(input, _axis(dim, input, "softmax"), dtype=dtype)


def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """softmax(-x) along dim."""
    return _core.softmax(-input, _axis(dim, input, "softmin"), dtype=dtype)


def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DType | None = None) -> Tensor:
    """log(softmax(x)) along dim."""
    return _core.log_softmax(input, _axis(dim, input, "log_softmax"), dtype=dtype)


# -- the same, in place


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """celu, in place."""
    return celu(input, alpha, True)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """elu, in place."""
    return elu(input, alpha, True)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """hardtanh, in place."""
    return hardtanh(input, min_val, max_val, True)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """leaky_relu, in place."""
    return leaky_relu(input, negative_slope, True)


def relu_(input: Tensor) -> Tensor:
    """relu, in place."""
    return relu(input, True)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: bool = 1.0 / 3, training: bool = False) -> Tensor:
    """rrelu, in place."""
    return rrelu(input, lower, upper, training, True)


def selu_(input: Tensor) -> Tensor:
    """selu, in place."""
    return selu(input, True)


def threshold_(input: Tensor, threshold: float, value: Any) -> Tensor:
    """threshold, in place."""
    return written(input, _core.threshold(input, threshold, value), True)
