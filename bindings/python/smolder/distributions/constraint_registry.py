"""Transforms that reach all values of a constraint, by the kind of constraint."""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.distributions import constraints, transforms

if TYPE_CHECKING:
    from smolder._typing import Constraint
    from smolder.distributions.transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]
__dir__ = _listing(__name__)


class ConstraintRegistry:
    """Functions from constraints to transforms of unconstrained tensors into their values, by the constraint's class."""

    _registry: dict[type[Constraint], Callable[[Any], Transform]]

    def __init__(self) -> None:
        self._registry = {}
        super().__init__()

    def register(
        self, constraint: type[Constraint] | Constraint, factory: Callable[[Any], Transform] | None = None
    ) -> Any:
        """Sets the function for a class of constraints; without one, a decorator of it.

        Args:
            constraint: The class, or a constraint of it.
            factory: Given a constraint of the class, the transform.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        if isinstance(constraint, constraints.Constraint):
            constraint = type(constraint)
        if not isinstance(constraint, type) or not issubclass(constraint, constraints.Constraint):
            raise TypeError(f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}")
        self._registry[constraint] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """The transform into a constraint's values."""
        try:
            factory = self._registry[type(constraint)]
        except KeyError:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints") from None
        return factory(constraint)


biject_to: ConstraintRegistry = ConstraintRegistry()
transform_to: ConstraintRegistry = ConstraintRegistry()


def _both(*kinds: type[Constraint] | Constraint) -> Callable[[Callable[[Any], Transform]], Callable[[Any], Transform]]:
    def register(factory: Callable[[Any], Transform]) -> Callable[[Any], Transform]:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return register


@_both(constraints.real)
def _to_real(constraint: Any) -> Transform:
    return transforms.identity_transform


@biject_to.register(constraints.independent)
def _biject_to_independent(constraint: Any) -> Transform:
    base = biject_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@transform_to.register(constraints.independent)
def _transform_to_independent(constraint: Any) -> Transform:
    base = transform_to(constraint.base_constraint)
    return transforms.IndependentTransform(base, constraint.reinterpreted_batch_ndims)


@_both(constraints.greater_than, constraints.greater_than_eq)
def _to_greater_than(constraint: Any) -> Transform:
    shift = transforms.AffineTransform(constraint.lower_bound, 1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


@_both(constraints.less_than)
def _to_less_than(constraint: Any) -> Transform:
    negate = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), negate])


@_both(constraints.interval, constraints.half_open_interval)
def _to_interval(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if _is(low, 0) and _is(high, 1):
        return transforms.SigmoidTransform()
    stretch = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), stretch])


def _is(bound: Tensor | float, number: float) -> bool:
    return isinstance(bound, numbers.Number) and bound == number


@biject_to.register(constraints.simplex)
def _biject_to_simplex(constraint: Any) -> Transform:
    return transforms.StickBreakingTransform()


@transform_to.register(constraints.simplex)
def _transform_to_simplex(constraint: Any) -> Transform:
    return transforms.SoftmaxTransform()


@transform_to.register(constraints.lower_cholesky)
def _transform_to_lower_cholesky(constraint: Any) -> Transform:
    return transforms.LowerCholeskyTransform()


@transform_to.register(constraints.positive_definite)
@transform_to.register(constraints.positive_semidefinite)
def _transform_to_positive_definite(constraint: Any) -> Transform:
    return transforms.PositiveDefiniteTransform()


@_both(constraints.corr_cholesky)
def _to_corr_cholesky(constraint: Any) -> Transform:
    return transforms.CorrCholeskyTransform()


@biject_to.register(constraints.cat)
def _biject_to_cat(constraint: Any) -> Transform:
    return transforms.CatTransform([biject_to(c) for c in constraint.cseq], constraint.dim, constraint.lengths)


@transform_to.register(constraints.cat)
def _transform_to_cat(constraint: Any) -> Transform:
    return transforms.CatTransform([transform_to(c) for c in constraint.cseq], constraint.dim, constraint.lengths)


@biject_to.register(constraints.stack)
def _biject_to_stack(constraint: Any) -> Transform:
    return transforms.StackTransform([biject_to(c) for c in constraint.cseq], constraint.dim)


@transform_to.register(constraints.stack)
def _transform_to_stack(constraint: Any) -> Transform:
    return transforms.StackTransform([transform_to(c) for c in constraint.cseq], constraint.dim)
