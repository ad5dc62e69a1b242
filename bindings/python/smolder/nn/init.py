"""Initialisers: they fill a tensor in place, without history, from a generator or the default one."""

from __future__ import annotations

import math
from collections.abc import Callable

from smolder import _core, linalg
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._typing import Generator, Tensor
from smolder._warn import warn

__all__ = [
    "calculate_gain", "constant", "constant_", "dirac", "dirac_", "eye", "eye_", "kaiming_normal", "kaiming_normal_",
    "kaiming_uniform", "kaiming_uniform_", "normal", "normal_", "ones_", "orthogonal", "orthogonal_", "sparse",
    "sparse_", "trunc_normal_", "uniform", "uniform_", "xavier_normal", "xavier_normal_", "xavier_uniform",
    "xavier_uniform_", "zeros_",
]  # fmt: skip
__dir__ = _listing(__name__)

_GAINS = {"linear": 1.0, "conv1d": 1.0, "conv2d": 1.0, "conv3d": 1.0, "sigmoid": 1.0}
_GAINS |= {"tanh": 5.0 / 3, "relu": math.sqrt(2.0), "selu": 3.0 / 4}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor by which a nonlinearity asks for larger weights."""
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"Unsupported nonlinearity {nonlinearity}")
    return _GAINS[nonlinearity]


def _calculate_fan_in_and_fan_out(tensor):  # torch has no public name for it either, and people use it
    if tensor.dim() < 2:
        raise ValueError("Fan in and fan out can not be computed for tensor with fewer than 2 dimensions")
    field = math.prod(tensor.shape[2:])
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor, mode):
    mode = mode.lower()
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"Mode {mode} not supported, please use one of ['fan_in', 'fan_out']")
    return _calculate_fan_in_and_fan_out(tensor)[mode == "fan_out"]


@no_grad()
def uniform_(tensor: Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform in [a, b)."""
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor: Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal of a mean and a deviation."""
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def trunc_normal_(
    tensor: Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> Tensor:
    """Normal, drawn from between a and b, by the inverse of the distribution's tails."""
    low, high = (math.erf((x - mean) / std / math.sqrt(2.0)) for x in (a, b))
    u = _core.rand(tuple(tensor.shape), dtype=_core.float32, generator=generator)
    u = u * (high - low) + low  # uniform in erf's values
    values = _erfinv(u) * (std * math.sqrt(2.0)) + mean
    return tensor.copy_(_core.clamp(values, a, b))


def _erfinv(y):
    """Inverse of erf: Winitzki's approximation, then two Newton steps in float32."""
    y = _core.clamp(y, -0.9999999, 0.9999999)
    k = _core.log1p(-y * y)
    t = 2.0 / (math.pi * 0.147) + 0.5 * k
    x = _core.sign(y) * _core.sqrt(_core.sqrt(t * t - k / 0.147) - t)
    for _ in range(2):
        x = x - (_core.erf(x) - y) * (math.sqrt(math.pi) / 2) * _core.exp(x * x)
    return x


@no_grad()
def constant_(tensor: Tensor, val: float) -> Tensor:
    """Every element val."""
    return tensor.fill_(val)


def ones_(tensor: Tensor) -> Tensor:
    """Every element 1."""
    return constant_(tensor, 1.0)


def zeros_(tensor: Tensor) -> Tensor:
    """Every element 0."""
    return constant_(tensor, 0.0)


@no_grad()
def eye_(tensor: Tensor) -> Tensor:
    """Ones on the diagonal of a matrix, zeros elsewhere."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    return tensor.copy_(_core.eye(tensor.size(0), tensor.size(1), dtype=tensor.dtype))


def xavier_uniform_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Uniform, by Glorot and Bengio: keeps the variance of activations and of gradients."""
    bound = gain * math.sqrt(6.0 / sum(_calculate_fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: Tensor, gain: float = 1.0, generator: Generator | None = None) -> Tensor:
    """Normal, by Glorot and Bengio: keeps the variance of activations and of gradients."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(_calculate_fan_in_and_fan_out(tensor))), generator)


def kaiming_uniform_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Uniform, by He and others: for rectifiers of slope a below zero."""
    bound = math.sqrt(3.0) * calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode))
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> Tensor:
    """Normal, by He and others: for rectifiers of slope a below zero."""
    return normal_(
        tensor, 0.0, calculate_gain(nonlinearity, a) / math.sqrt(_calculate_correct_fan(tensor, mode)), generator
    )


@no_grad()
def orthogonal_(tensor: Tensor, gain: float = 1, generator: Generator | None = None) -> Tensor:
    """A matrix, of the first dimension by all others, with orthonormal rows or columns, times gain. Reads, so ends the step."""
    if tensor.dim() < 2:
        raise ValueError("Only tensors with 2 or more dimensions are supported")
    if tensor.numel() == 0:
        return tensor
    rows = tensor.size(0)
    columns = tensor.numel() // rows
    drawn = _core.randn((rows, columns), dtype=tensor.dtype, generator=generator)
    q, r = linalg.qr(drawn.t() if rows < columns else drawn)
    q = q * _core.sign(_core.diag(r))  # so that every one is as likely
    return tensor.copy_((q.t() if rows < columns else q).reshape(tensor.shape) * gain)


@no_grad()
def dirac_(tensor: Tensor, groups: int = 1) -> Tensor:
    """The weight of a convolution that passes its channels on, as many as there are of both, in each group."""
    if tensor.dim() not in (3, 4, 5):
        raise ValueError("Only tensors with 3, 4, or 5 dimensions are supported")
    if tensor.size(0) % groups != 0:
        raise ValueError("dim 0 must be divisible by groups")
    filters = tensor.size(0) // groups
    center = tuple(n // 2 for n in tensor.shape[2:])
    tensor.zero_()
    for g in range(groups):
        for d in range(min(filters, tensor.size(1))):
            tensor[(g * filters + d, d, *center)] = 1
    return tensor


@no_grad()
def sparse_(tensor: Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> Tensor:
    """Normal, with a share of zeros in each column of a matrix."""
    if tensor.dim() != 2:
        raise ValueError("Only tensors with 2 dimensions are supported")
    zeros = math.ceil(sparsity * tensor.size(0))
    tensor.normal_(0, std, generator=generator)
    for column in range(tensor.size(1)):
        tensor[_core.randperm(tensor.size(0))[:zeros], column] = 0
    return tensor


def _renamed(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function under the name that it had, without the underscore."""
    old = function.__name__.removesuffix("_")

    def renamed(*args, **kwargs):
        warn(f"`nn.init.{old}` is now deprecated in favor of `nn.init.{old}_`.", FutureWarning)
        return function(*args, **kwargs)

    renamed.__name__, renamed.__doc__ = old, f"The name that {old}_ had."
    return renamed


uniform: Callable[..., Tensor] = _renamed(uniform_)
normal: Callable[..., Tensor] = _renamed(normal_)
constant: Callable[..., Tensor] = _renamed(constant_)
eye: Callable[..., Tensor] = _renamed(eye_)
dirac: Callable[..., Tensor] = _renamed(dirac_)
xavier_uniform: Callable[..., Tensor] = _renamed(xavier_uniform_)
xavier_normal: Callable[..., Tensor] = _renamed(xavier_normal_)
kaiming_uniform: Callable[..., Tensor] = _renamed(kaiming_uniform_)
kaiming_normal: Callable[..., Tensor] = _renamed(kaiming_normal_)
orthogonal: Callable[..., Tensor] = _renamed(orthogonal_)
sparse: Callable[..., Tensor] = _renamed(sparse_)
