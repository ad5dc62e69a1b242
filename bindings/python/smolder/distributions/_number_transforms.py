"""Transforms of single numbers."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from smolder import _core
from smolder._functions import broadcast_shapes
from smolder._tensor import Size
from smolder._types import finfo
from smolder._typing import Number, Tensor
from smolder.distributions import constraints
from smolder.distributions.transforms import Transform
from smolder.distributions.utils import _sum_rightmost, broadcast_all, lazy_property
from smolder.nn import functional as F

if TYPE_CHECKING:
    from smolder._typing import Constraint


class _OfNumbers(Transform):
    """Transforms of single numbers without parameters: two of a class are equal."""

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return object.__hash__(self)


class ExpTransform(_OfNumbers):
    """y = exp(x)."""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.positive
    bijective = True
    sign: ClassVar[int] = +1  # type: ignore[misc]

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(Transform):
    """y = x ** exponent, of positive numbers.

    Args:
        exponent: The exponent.
        cache_size: As of Transform.
    """

    domain: Constraint = constraints.positive
    codomain: Constraint = constraints.positive
    bijective = True
    exponent: Tensor

    def __init__(self, exponent: Tensor | Number, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

    @lazy_property
    def sign(self) -> int | Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The sign of the exponent."""
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all().item())

    def __hash__(self) -> int:
        return object.__hash__(self)

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _broadcast(shape, self.exponent)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _broadcast(shape, self.exponent)


def _broadcast(shape: Sequence[int], *others: Any) -> Size:
    return Size(broadcast_shapes(tuple(shape), *(tuple(getattr(o, "shape", ())) for o in others)))


class SigmoidTransform(_OfNumbers):
    """y = 1 / (1 + exp(-x)), kept within (0, 1) where it would round to an end."""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.unit_interval
    bijective = True
    sign: ClassVar[int] = +1  # type: ignore[misc]

    def _call(self, x: Tensor) -> Tensor:
        limits = finfo(x.dtype)
        return x.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        limits = finfo(y.dtype)
        y = y.clamp(min=limits.tiny, max=1.0 - limits.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x) - F.softplus(x)


class SoftplusTransform(_OfNumbers):
    """y = log(1 + exp(x)); x itself where x > 20."""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.positive
    bijective = True
    sign: ClassVar[int] = +1  # type: ignore[misc]

    def _call(self, x: Tensor) -> Tensor:
        return F.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -F.softplus(-x)


class TanhTransform(_OfNumbers):
    """y = tanh(x). Large y have no exact inverse: a cache keeps x, as composing Sigmoid with affine ones does not."""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.interval(-1.0, 1.0)
    bijective = True
    sign: ClassVar[int] = +1  # type: ignore[misc]

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.atanh()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # log(1 - tanh(x)^2), without the cancellation
        return 2.0 * (math.log(2.0) - x - F.softplus(-2.0 * x))


class AbsTransform(_OfNumbers):
    """y = |x|, which is not bijective: its inverse is y."""

    domain: Constraint = constraints.real
    codomain: Constraint = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """y = loc + scale * x.

    Args:
        loc: What is added.
        scale: What x is multiplied by.
        event_dim: The dimensions of an event: 0 for numbers, 1 for vectors, 2 for matrices.
        cache_size: As of Transform.
    """

    bijective = True
    loc: Any
    scale: Any

    def __init__(self, loc: Tensor | float, scale: Tensor | float, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        """The dimensions of an event."""
        return self._event_dim

    def _of_reals(self) -> Constraint:
        return constraints.independent(constraints.real, self._event_dim) if self._event_dim else constraints.real

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        """Numbers, in as many dimensions as an event has."""
        return self._of_reals()

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        """The same."""
        return self._of_reals()

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self._event_dim, cache_size=cache_size)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _are_equal(self.loc, other.loc) and _are_equal(self.scale, other.scale)

    def __hash__(self) -> int:
        return object.__hash__(self)

    @property
    def sign(self) -> int | Tensor:
        """The sign of scale."""
        if isinstance(self.scale, bool | int | float):
            return 1 if self.scale > 0 else -1 if self.scale < 0 else 0
        return self.scale.sign()

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        shape, scale, n = tuple(x.shape), self.scale, self._event_dim
        if isinstance(scale, bool | int | float):
            result = _core.full_like(x, math.log(abs(scale)))
        else:
            result = scale.abs().log()
        if n:
            result = _sum_rightmost(result.expand(_broadcast(shape, result)), n)
            shape = shape[:-n]
        return result.expand(_broadcast(shape, result))

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _broadcast(shape, self.loc, self.scale)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _broadcast(shape, self.loc, self.scale)


def _are_equal(a: Any, b: Any) -> bool:
    same = operator.eq(a, b)
    return bool(same.all().item()) if isinstance(same, _core.Tensor) else bool(same)
