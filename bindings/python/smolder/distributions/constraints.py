"""Constraints: the values that parameters and samples may have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Number, Tensor
from smolder.distributions import _matrix_checks

__all__ = [
    "Constraint", "MixtureSameFamilyConstraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property",
    "greater_than", "greater_than_eq", "half_open_interval", "independent", "integer_interval", "interval",
    "is_dependent", "less_than", "lower_cholesky", "lower_triangular", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_definite", "positive_integer", "positive_semidefinite",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip
__dir__ = _listing(__name__)


class Constraint:
    """A set of values; check(value) says, batch by batch, which are in it.

    is_discrete is whether its values are apart from each other; event_dim, how many dimensions one value has.
    """

    is_discrete: bool = False
    event_dim: int = 0
    # The attributes that __repr__ shows.
    _shown: tuple[str, ...] = ()

    def check(self, value: Any) -> Tensor:
        """Whether values, or the events that their last event_dim dimensions are, are in the set."""
        raise NotImplementedError

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__.removeprefix('_')}({shown})"


class _Dependent(Constraint):
    """A set that depends on other values, so that nothing can be checked."""

    _is_discrete: Any
    _event_dim: Any

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether values are apart; raises where that depends too."""
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(".is_discrete cannot be determined statically")
        return self._is_discrete

    @property
    def event_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """How many dimensions a value has; raises where that depends too."""
        if self._event_dim is NotImplemented:
            raise NotImplementedError(".event_dim cannot be determined statically")
        return self._event_dim

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """The same with what is known of it."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Any) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


def is_dependent(constraint: object) -> bool:
    """Whether a constraint depends on other values."""
    return isinstance(constraint, _Dependent)


class _DependentProperty(property, _Dependent):
    """Decorates a method into a property that is a dependent constraint on the class, and a constraint on an instance."""

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: bool | None = NotImplemented,
        event_dim: int | None = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Callable[..., Any]) -> _DependentProperty:  # type: ignore[override]
        """The property of a method, where what is known was said first."""
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


class _IndependentConstraint(Constraint):
    """The same of events with more dimensions: all values within one are in the set."""

    base_constraint: Constraint
    reinterpreted_batch_ndims: int

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, got {type(base_constraint).__name__}")
        if not (isinstance(reinterpreted_batch_ndims, int) and reinterpreted_batch_ndims >= 0):
            raise AssertionError(
                f"reinterpreted_batch_ndims must be a non-negative int, got {reinterpreted_batch_ndims}"
            )
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the base's values are apart."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The base's, and those that were batches."""
        return self.base_constraint.event_dim + self.reinterpreted_batch_ndims

    def check(self, value: Any) -> Tensor:
        fine = self.base_constraint.check(value)
        if fine.dim() < self.reinterpreted_batch_ndims:
            expected = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(f"Expected value.dim() >= {expected} but got {value.dim()}")
        for _ in range(self.reinterpreted_batch_ndims):
            fine = fine.all(-1)
        return fine

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The support of a mixture whose components have base_constraint: values that every component may have."""

    base_constraint: Constraint

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(f"base_constraint must be a Constraint, got {type(base_constraint).__name__}")
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the components' values are apart."""
        return self.base_constraint.is_discrete

    @property
    def event_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The components' dimensions."""
        return self.base_constraint.event_dim

    def check(self, value: Any) -> Tensor:
        """Whether each value is in every component's set; a value has no dimension for components."""
        n = self.event_dim
        if value.dim() < n:
            raise ValueError(f"Expected value.dim() >= {n} but got {value.dim()}")
        fine = self.base_constraint.check(value.unsqueeze(-1 - n))
        return fine.reshape((*fine.shape[: value.dim() - n], -1)).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


class _Boolean(Constraint):
    """0 and 1."""

    is_discrete = True

    def check(self, value: Any) -> Tensor:
        return _core.logical_or(value == 0, value == 1)


class _OneHot(Constraint):
    """Vectors with a 1 and zeros elsewhere."""

    is_discrete = True
    event_dim = 1

    def check(self, value: Any) -> Tensor:
        return _core.logical_and(boolean.check(value).all(-1), value.sum(-1) == 1)


class _Between(Constraint):
    """Values between bounds."""

    lower_bound: Any
    upper_bound: Any
    _shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Number | Tensor, upper_bound: Number | Tensor) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Any) -> Tensor:
        return _core.logical_and(value >= self.lower_bound, value <= self.upper_bound)


class _Above(Constraint):
    """Values above a bound."""

    lower_bound: Any
    _shown = ("lower_bound",)

    def __init__(self, lower_bound: Number | Tensor) -> None:
        self.lower_bound = lower_bound


class _Below(Constraint):
    """Values below a bound."""

    upper_bound: Any
    _shown = ("upper_bound",)

    def __init__(self, upper_bound: Number | Tensor) -> None:
        self.upper_bound = upper_bound


class _Interval(_Between):
    """Numbers from lower_bound to upper_bound."""


class _HalfOpenInterval(_Between):
    """Numbers from lower_bound up to, not including, upper_bound."""

    def check(self, value: Any) -> Tensor:
        return _core.logical_and(value >= self.lower_bound, value < self.upper_bound)


class _IntegerInterval(_Between):
    """Integers from lower_bound to upper_bound."""

    is_discrete = True

    def check(self, value: Any) -> Tensor:
        return _core.logical_and(value % 1 == 0, super().check(value))


class _IntegerLessThan(_Below):
    """Integers up to upper_bound."""

    is_discrete = True

    def check(self, value: Any) -> Tensor:
        return _core.logical_and(value % 1 == 0, value <= self.upper_bound)


class _IntegerGreaterThan(_Above):
    """Integers from lower_bound on."""

    is_discrete = True

    def check(self, value: Any) -> Tensor:
        return _core.logical_and(value % 1 == 0, value >= self.lower_bound)


class _Real(Constraint):
    """All numbers but nan."""

    def check(self, value: Any) -> Tensor:
        return value == value


class _GreaterThan(_Above):
    """Numbers above lower_bound."""

    def check(self, value: Any) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(_Above):
    """Numbers from lower_bound on."""

    def check(self, value: Any) -> Tensor:
        return value >= self.lower_bound


class _LessThan(_Below):
    """Numbers below upper_bound."""

    def check(self, value: Any) -> Tensor:
        return value < self.upper_bound


class _Simplex(Constraint):
    """Vectors of nonnegative numbers whose sum is 1."""

    event_dim = 1

    def check(self, value: Any) -> Tensor:
        return _core.logical_and((value >= 0).all(-1), (value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of nonnegative integers whose sum is at most upper_bound."""

    is_discrete = True
    event_dim = 1
    upper_bound: Any

    def __init__(self, upper_bound: int | Tensor) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Any) -> Tensor:
        return _core.logical_and((value >= 0).all(-1), value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    """Lower triangles of square matrices."""

    event_dim = 2

    def check(self, value: Any) -> Tensor:
        return _matrix_checks.is_lower(value)


class _LowerCholesky(Constraint):
    """Lower triangles with a positive diagonal."""

    event_dim = 2

    def check(self, value: Any) -> Tensor:
        return _core.logical_and(_matrix_checks.is_lower(value), _matrix_checks.has_positive_diagonal(value))


class _CorrCholesky(Constraint):
    """Lower triangles with a positive diagonal whose rows have length 1: factors of correlation matrices."""

    event_dim = 2

    def check(self, value: Any) -> Tensor:
        return _core.logical_and(_matrix_checks.has_unit_rows(value), lower_cholesky.check(value))


class _Square(Constraint):
    """Square matrices."""

    event_dim = 2

    def check(self, value: Any) -> Tensor:
        return _matrix_checks.is_square(value)


class _Symmetric(_Square):
    """Symmetric matrices, up to a tolerance of 1e-6."""

    def check(self, value: Any) -> Tensor:
        square = super().check(value)
        return _matrix_checks.is_symmetric(value) if value.shape[-1] == value.shape[-2] else square


class _PositiveSemidefinite(_Symmetric):
    """Symmetric matrices without negative eigenvalues."""

    def check(self, value: Any) -> Tensor:
        return _matrix_checks.and_of(super().check(value), value, _matrix_checks.is_semidefinite)


class _PositiveDefinite(_Symmetric):
    """Symmetric matrices whose eigenvalues are positive: those that have a Cholesky factor."""

    def check(self, value: Any) -> Tensor:
        return _matrix_checks.and_of(super().check(value), value, _matrix_checks.is_definite)


class _Parts(Constraint):
    """Constraints of parts of a tensor along a dimension."""

    cseq: list[Constraint]
    dim: int

    @property
    def is_discrete(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether values of any part are apart."""
        return any(c.is_discrete for c in self.cseq)

    def _set(self, cseq: Sequence[Constraint], dim: int) -> None:
        for c in cseq:
            if not isinstance(c, Constraint):
                raise AssertionError(f"All elements of cseq must be Constraint, got {type(c).__name__}")
        self.cseq, self.dim = list(cseq), dim


class _Cat(_Parts):
    """Constraints of parts, as many elements along dim as lengths say, that are concatenated."""

    lengths: list[int]

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self._set(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match cseq ({len(self.cseq)})")

    @property
    def event_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The most dimensions that a part's values have."""
        return max(c.event_dim for c in self.cseq)

    def check(self, value: Any) -> Tensor:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dimensions")
        checks, start = [], 0
        for c, length in zip(self.cseq, self.lengths, strict=True):
            checks.append(c.check(value.narrow(self.dim, start, length)))
            start += length
        return _core.cat(checks, self.dim)


class _Stack(_Parts):
    """Constraints of the slices along dim."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self._set(cseq, dim)

    @property
    def event_dim(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The most dimensions that a slice's values have, and one more where dim is among them."""
        most = max(c.event_dim for c in self.cseq)
        return most + 1 if self.dim + most < 0 else most

    def check(self, value: Any) -> Tensor:
        if not -value.dim() <= self.dim < value.dim():
            raise AssertionError(f"dim {self.dim} out of range for value with {value.dim()} dimensions")
        slices = zip(self.cseq, value.unbind(self.dim), strict=False)  # as many as there are of both
        return _core.stack([c.check(v) for c, v in slices], self.dim)


dependent: _Dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean: Constraint = _Boolean()
one_hot: Constraint = _OneHot()
nonnegative_integer: Constraint = _IntegerGreaterThan(0)
positive_integer: Constraint = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real: Constraint = _Real()
real_vector: Constraint = independent(real, 1)
positive: Constraint = _GreaterThan(0.0)
nonnegative: Constraint = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval: Constraint = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex: Constraint = _Simplex()
lower_triangular: Constraint = _LowerTriangular()
lower_cholesky: Constraint = _LowerCholesky()
corr_cholesky: Constraint = _CorrCholesky()
square: Constraint = _Square()
symmetric: Constraint = _Symmetric()
positive_semidefinite: Constraint = _PositiveSemidefinite()
positive_definite: Constraint = _PositiveDefinite()
cat = _Cat
stack = _Stack
