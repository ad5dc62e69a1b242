"""What values parameters and samples may have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder import _core
from smolder._names import listing as _listing

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from smolder._typing import Number, Tensor

__all__ = [
    "Constraint",
    "boolean",
    "independent",
    "integer_interval",
    "interval",
    "lower_cholesky",
    "nonnegative",
    "one_hot",
    "positive",
    "positive_definite",
    "real",
    "real_vector",
    "simplex",
    "unit_interval",
]
__dir__ = _listing(__name__)


class Constraint:
    """A set of values; check(value) says, batch by batch, which are in it."""

    name: str
    holds: Callable[..., Any]
    event_dim: int
    is_discrete: bool

    def __init__(
        self, name: str, holds: Callable[[Tensor], Tensor], event_dim: int = 0, is_discrete: bool = False
    ) -> None:
        self.name, self.holds, self.event_dim, self.is_discrete = name, holds, event_dim, is_discrete

    def check(self, value: Any) -> Tensor:
        """Whether values, or the events that their last event_dim dimensions are, are in the set."""
        return self.holds(value)

    def __repr__(self) -> str:
        return self.name


def independent(base: Constraint, reinterpreted_batch_ndims: int) -> Constraint:
    """The same of events with more dimensions: all values within one are in the set."""

    def holds(value):
        fine = base.check(value)
        for _ in range(reinterpreted_batch_ndims):
            fine = fine.all(-1)
        return fine

    name = f"IndependentConstraint({base}, {reinterpreted_batch_ndims})"
    return Constraint(name, holds, base.event_dim + reinterpreted_batch_ndims, base.is_discrete)


def interval(lower_bound: Number | Tensor, upper_bound: Number | Tensor) -> Constraint:
    """Numbers from lower_bound to upper_bound."""
    name = f"Interval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, lambda x: _core.logical_and(x >= lower_bound, x <= upper_bound))


def integer_interval(lower_bound: Number | Tensor, upper_bound: Number | Tensor) -> Constraint:
    """Integers from lower_bound to upper_bound."""

    def holds(x):
        return _core.logical_and(x % 1 == 0, _core.logical_and(x >= lower_bound, x <= upper_bound))

    name = f"IntegerInterval(lower_bound={lower_bound}, upper_bound={upper_bound})"
    return Constraint(name, holds, is_discrete=True)


def _is_simplex(x):
    return _core.logical_and((x >= 0).all(-1), (x.sum(-1) - 1).abs() < 1e-6)


def _is_one_hot(x):
    return _core.logical_and(boolean.check(x).all(-1), x.sum(-1) == 1)


def _is_positive_definite(x):
    from smolder import linalg

    flat = x.detach().reshape((-1, *x.shape[-2:]))
    fine = [bool((m == m.t()).all().item()) and bool((linalg.eigvalsh(m) > 0).all().item()) for m in flat.unbind(0)]
    return x.new_full((), all(fine), dtype=_core.bool)


boolean: Constraint = Constraint("Boolean()", lambda x: _core.logical_or(x == 0, x == 1), is_discrete=True)
real: Constraint = Constraint("Real()", lambda x: x == x)
nonnegative: Constraint = Constraint("GreaterThanEq(lower_bound=0.0)", lambda x: x >= 0)
positive: Constraint = Constraint("GreaterThan(lower_bound=0.0)", lambda x: x > 0)
unit_interval: Constraint = Constraint(
    "Interval(lower_bound=0.0, upper_bound=1.0)", lambda x: _core.logical_and(x >= 0, x <= 1)
)
real_vector: Constraint = independent(real, 1)
simplex: Constraint = Constraint("Simplex()", _is_simplex, event_dim=1)
one_hot: Constraint = Constraint("OneHot()", _is_one_hot, event_dim=1, is_discrete=True)
positive_definite: Constraint = Constraint("PositiveDefinite()", _is_positive_definite, event_dim=2)
lower_cholesky: Constraint = Constraint(
    "LowerCholesky()",
    lambda x: _core.logical_and((x.tril() == x).all(-1).all(-1), (x.diagonal(dim1=-2, dim2=-1) > 0).all(-1)),
    event_dim=2,
)
