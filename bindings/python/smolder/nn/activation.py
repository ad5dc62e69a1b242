"""Activations as modules."""

from __future__ import annotations

from typing import Any

from smolder import _core
from smolder._device import on_device
from smolder._names import listing as _listing
from smolder._typing import Device, DType, Tensor
from smolder._warn import warn
from smolder.nn import functional as F
from smolder.nn import init
from smolder.nn.module import Module
from smolder.nn.parameter import Parameter

__all__ = [
    "CELU", "ELU", "GELU", "GLU", "SELU", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "LeakyReLU",
    "LogSigmoid", "LogSoftmax", "Mish", "PReLU", "RReLU", "ReLU", "ReLU6", "SiLU", "Sigmoid", "Softmax", "Softmax2d",
    "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold",
]  # fmt: skip
__dir__ = _listing(__name__)


def _shown(module, *names):
    """`name=value` of each, and inplace where it is asked for."""
    shown = [f"{name}={getattr(module, name)}" for name in names]
    return ", ".join([*shown, "inplace=True"] if getattr(module, "inplace", False) else shown)


class _InPlace(Module):
    """An activation whose one option is to write into its input."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        return _shown(self)


class ReLU(_InPlace):
    """max(x, 0)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu(input, self.inplace)


class ReLU6(_InPlace):
    """Elements brought into [0, 6]."""

    def forward(self, input: Tensor) -> Tensor:
        return F.relu6(input, self.inplace)


class SELU(_InPlace):
    """ELU with the scale and the alpha of self-normalising networks."""

    def forward(self, input: Tensor) -> Tensor:
        return F.selu(input, self.inplace)


class SiLU(_InPlace):
    """x * sigmoid(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.silu(input, self.inplace)


class Mish(_InPlace):
    """x * tanh(softplus(x))."""

    def forward(self, input: Tensor) -> Tensor:
        return F.mish(input, self.inplace)


class Hardswish(_InPlace):
    """x * hardsigmoid(x)."""

    def extra_repr(self) -> str:
        return ""  # as torch

    def forward(self, input: Tensor) -> Tensor:
        return F.hardswish(input, self.inplace)


class Hardsigmoid(_InPlace):
    """(x + 3) / 6, brought into [0, 1]."""

    def extra_repr(self) -> str:
        return ""  # as torch

    def forward(self, input: Tensor) -> Tensor:
        return F.hardsigmoid(input, self.inplace)


class RReLU(Module):
    """x where positive, else x times a slope drawn from [lower, upper); in evaluation their mean is the slope."""

    lower: float
    upper: bool
    inplace: bool

    def __init__(self, lower: float = 1.0 / 8, upper: bool = 1.0 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower, self.upper, self.inplace = lower, upper, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.rrelu(input, self.lower, self.upper, self.training, self.inplace)

    def extra_repr(self) -> str:
        return _shown(self, "lower", "upper")


class LeakyReLU(Module):
    """x where positive, else negative_slope * x."""

    negative_slope: float
    inplace: bool

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope, self.inplace = negative_slope, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.leaky_relu(input, self.negative_slope, self.inplace)

    def extra_repr(self) -> str:
        return _shown(self, "negative_slope")


class ELU(Module):
    """x where positive, else alpha * (exp(x) - 1)."""

    alpha: float
    inplace: bool

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha, self.inplace = alpha, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.elu(input, self.alpha, self.inplace)

    def extra_repr(self) -> str:
        return _shown(self, "alpha")


class CELU(ELU):
    """x where positive, else alpha * (exp(x / alpha) - 1)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.celu(input, self.alpha, self.inplace)


class PReLU(Module):
    """x where positive, else weight * x; the weights, one or one a channel, are learnt."""

    num_parameters: int
    init: float
    weight: Parameter

    @on_device
    def __init__(
        self, num_parameters: int = 1, init: float = 0.25, device: Device = None, dtype: DType | None = None
    ) -> None:
        super().__init__()
        self.num_parameters, self.init = num_parameters, init
        self.weight = Parameter(_core.full((num_parameters,), float(init), dtype=dtype or _core._default_dtype()))

    def reset_parameters(self) -> None:
        """Sets the weights to `init` again."""
        init.constant_(self.weight, self.init)

    def forward(self, input: Tensor) -> Tensor:
        return F.prelu(input, self.weight)

    def extra_repr(self) -> str:
        return _shown(self, "num_parameters")


class GELU(Module):
    """x times the normal distribution function at x; or its tanh approximation."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: Tensor) -> Tensor:
        return F.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class Softplus(Module):
    """log(1 + exp(beta * x)) / beta; x itself where beta * x passes threshold."""

    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta, self.threshold = beta, threshold

    def forward(self, input: Tensor) -> Tensor:
        return F.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        return _shown(self, "beta", "threshold")


class Hardtanh(Module):
    """Elements brought into [min_val, max_val]."""

    min_val: float
    max_val: float
    inplace: bool

    def __init__(
        self,
        min_val: float = -1.0,
        max_val: float = 1.0,
        inplace: bool = False,
        min_value: float | None = None,
        max_value: float | None = None,
    ) -> None:
        super().__init__()
        if min_value is not None:
            warn("keyword argument `min_value` is deprecated and rename to `min_val`", FutureWarning)
            min_val = min_value
        if max_value is not None:
            warn("keyword argument `max_value` is deprecated and rename to `max_val`", FutureWarning)
            max_val = max_value
        self.min_val, self.max_val, self.inplace = min_val, max_val, inplace
        if not self.max_val > self.min_val:
            raise AssertionError("max_val must be larger than min_val")

    def forward(self, input: Tensor) -> Tensor:
        return F.hardtanh(input, self.min_val, self.max_val, self.inplace)

    def extra_repr(self) -> str:
        return _shown(self, "min_val", "max_val")


class Threshold(Module):
    """x where it is above threshold, else value."""

    threshold: float
    value: Any
    inplace: bool

    def __init__(self, threshold: float, value: Any, inplace: bool = False) -> None:
        super().__init__()
        self.threshold, self.value, self.inplace = threshold, value, inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.threshold(input, self.threshold, self.value, self.inplace)

    def extra_repr(self) -> str:
        return _shown(self, "threshold", "value")


class Softshrink(Module):
    """x brought nearer to 0 by lambd, and 0 where it is nearer than that."""

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: Tensor) -> Tensor:
        return F.softshrink(input, self.lambd)

    def extra_repr(self) -> str:
        return str(self.lambd)


class Hardshrink(Softshrink):
    """x, and 0 where it is within lambd of 0."""

    def forward(self, input: Tensor) -> Tensor:
        return F.hardshrink(input, self.lambd)


class Softsign(Module):
    """x / (1 + |x|)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.softsign(input)


class Tanhshrink(Module):
    """x - tanh(x)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanhshrink(input)


class LogSigmoid(Module):
    """log(sigmoid(x)), safe for large |x|."""

    def forward(self, input: Tensor) -> Tensor:
        return F.logsigmoid(input)


class Tanh(Module):
    """Hyperbolic tangent."""

    def forward(self, input: Tensor) -> Tensor:
        return F.tanh(input)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, input: Tensor) -> Tensor:
        return F.sigmoid(input)


class GLU(Module):
    """The first half along dim times the sigmoid of the second."""

    def __init__(self, dim: int | None = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return F.glu(input, self.dim)

    def extra_repr(self) -> str:
        return _shown(self, "dim")


class Softmax(Module):
    """exp(x) / sum(exp(x)) along dim."""

    _function = staticmethod(F.softmax)

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: Tensor) -> Tensor:
        return self._function(input, self.dim, _stacklevel=5)

    def extra_repr(self) -> str:
        return _shown(self, "dim")


class Softmin(Softmax):
    """softmax(-x) along dim."""

    _function = staticmethod(F.softmin)


class LogSoftmax(Softmax):
    """log(softmax(x)) along dim."""

    _function = staticmethod(F.log_softmax)


class Softmax2d(Module):
    """softmax over the channels of images."""

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in (3, 4):
            raise ValueError(f"Softmax2d: expected input to be 3D or 4D, got {input.dim()}D instead")
        return F.softmax(input, -3, _stacklevel=5)
