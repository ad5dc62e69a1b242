"""Differentiable functions of values, most with an inverse, that say how they change volumes.

This module has what all transforms share and those made of others; it also names transforms of single numbers, of
`_number_transforms`, and of vectors and matrices, of `_vector_transforms`.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._tensor import Size
from smolder._typing import Tensor
from smolder.distributions import constraints
from smolder.distributions.utils import _sum_rightmost, lazy_property

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip
__dir__ = _listing(__name__)


class Transform:
    """A function y = t(x) of values in `domain` to values in `codomain`.

    A subclass says `domain`, `codomain`, `bijective`, `_call(x)`, `_inverse(y)` and, where it has one,
    `log_abs_det_jacobian(x, y)`; where it is monotone, `sign` is 1 or -1.

    Args:
        cache_size: 1 keeps the last x and y, so that the inverse of what was just computed is exact and costs nothing; 0
            keeps nothing.
    """

    bijective: bool = False
    domain: Constraint
    codomain: Constraint
    _cache_size: int
    _inv: Any

    def __init__(self, cache_size: int = 0) -> None:
        self._cache_size = cache_size
        self._inv = None
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cached_x_y: Any = (None, None)
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_inv": None}

    @property
    def event_dim(self) -> int:
        """The dimensions of an event, where x and y have as many."""
        if self.domain.event_dim == self.codomain.event_dim:
            return self.domain.event_dim
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Transform:
        """The inverse: t.inv(t(x)) is x where t is bijective."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> int | Tensor:
        """1 where larger x have larger y, -1 where they have smaller."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The same transform with a cache of that size."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __call__(self, x: Tensor) -> Tensor:
        """y of x."""
        if self._cache_size == 0:
            return self._call(x)
        if x is self._cached_x_y[0]:
            return self._cached_x_y[1]
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        if y is self._cached_x_y[1]:
            return self._cached_x_y[0]
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """log |det dy/dx|, one number for each event."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of y for x of a shape."""
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """The shape of x for y of a shape."""
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform; `inv` of it is that transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        """The values y that the transform has."""
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        """The values x that the transform takes."""
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As of the transform."""
        return self._inv.bijective

    @property
    def sign(self) -> int | Tensor:
        """As of the transform."""
        return self._inv.sign

    @property
    def inv(self) -> Transform:
        """The transform."""
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Transforms one after the other.

    Args:
        parts: The transforms, in the order in which they are applied. Without any, this is the identity.
        cache_size: As of Transform; 1 gives the parts caches too.
    """

    parts: list[Transform]

    def __init__(self, parts: list[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def __hash__(self) -> int:
        return object.__hash__(self)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        """The domain of the first part, with as many more dimensions as later parts need."""
        if not self.parts:
            return constraints.real
        domain = self.parts[0].domain
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        more = dims - domain.event_dim
        return constraints.independent(domain, more) if more else domain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        """The codomain of the last part, with as many more dimensions as earlier parts need."""
        if not self.parts:
            return constraints.real
        codomain = self.parts[-1].codomain
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        more = dims - codomain.event_dim
        return constraints.independent(codomain, more) if more else codomain

    @lazy_property
    def bijective(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether all parts are."""
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> int | Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The product of the parts' signs."""
        sign: int | Tensor = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    @property
    def inv(self) -> Transform:
        """The inverses, in reverse."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return _core.zeros_like(x)
        at = [x]
        for part in self.parts[:-1]:
            at.append(part(at[-1]))
        at.append(y)
        dims, total = self.domain.event_dim, None
        for part, before, after in zip(self.parts, at[:-1], at[1:], strict=True):
            term = _sum_rightmost(part.log_abs_det_jacobian(before, after), dims - part.domain.event_dim)
            total = term if total is None else total + term
            dims += part.codomain.event_dim - part.domain.event_dim
        assert total is not None
        return total

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    " + ",\n    ".join(repr(part) for part in self.parts) + "\n)"


identity_transform: ComposeTransform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose events have more dimensions: log determinants are summed over them.

    Args:
        base_transform: The transform of the parts of an event.
        reinterpreted_batch_ndims: How many more dimensions an event has.
        cache_size: As of Transform.
    """

    base_transform: Transform
    reinterpreted_batch_ndims: int

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        """The base's, of more dimensions."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        """The base's, of more dimensions."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """As of the base."""
        return self.base_transform.bijective

    @property
    def sign(self) -> int | Tensor:
        """As of the base."""
        return self.base_transform.sign

    def _checked(self, x: Tensor, dims: int) -> Tensor:
        if x.dim() < dims:
            raise ValueError("Too few dimensions on input")
        return x

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(self._checked(x, self.domain.event_dim))

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform.inv(self._checked(y, self.codomain.event_dim))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Events of one shape as events of another, with the same elements; its log determinant is 0.

    Args:
        in_shape: The shape of x's events.
        out_shape: The shape of y's.
        cache_size: As of Transform.
    """

    bijective = True
    in_shape: Size
    out_shape: Size

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        """Numbers in in_shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        """Numbers in out_shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _batch(self, shape: Sequence[int], event: Size) -> tuple[int, ...]:
        return tuple(shape[: len(shape) - len(event)])

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self._batch(x.shape, self.in_shape) + tuple(self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self._batch(y.shape, self.out_shape) + tuple(self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(self._batch(x.shape, self.in_shape))

    def _moved(self, shape: Sequence[int], old: Size, new: Size) -> Sequence[int]:
        if len(shape) < len(old):
            raise ValueError("Too few dimensions on input")
        cut = len(shape) - len(old)
        if tuple(shape[cut:]) != tuple(old):
            raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
        return Size((*shape[:cut], *new))

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._moved(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._moved(shape, self.out_shape, self.in_shape)


from smolder.distributions._number_transforms import (  # noqa: E402  (they are Transforms)
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
)
from smolder.distributions._vector_transforms import (  # noqa: E402  (they are Transforms)
    CatTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)
