"""Distributions of what transforms make of other distributions' values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._typing import Number, Tensor
from smolder.distributions import constraints
from smolder.distributions.distribution import Distribution, OfParameters, ours
from smolder.distributions.independent import Independent
from smolder.distributions.transforms import ComposeTransform, Transform
from smolder.distributions.utils import _sum_rightmost, broadcast_all

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = ["OfParametersTransformed", "TransformedDistribution"]
__dir__ = _listing(__name__)


class TransformedDistribution(Distribution):
    """The distribution of t(x), where x is of a base distribution.

    log p(y) = log p_base(x) - log |det dy/dx| at x = t^-1(y).

    Args:
        base_distribution: The distribution of x.
        transforms: The transform, or a list of them in the order in which they are applied.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType({})
    transforms: list[Transform]
    base_dist: Distribution

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | list[Transform],
        validate_args: bool | None = None,
    ) -> None:
        if isinstance(transforms, Transform):
            self.transforms = [transforms]
        elif not isinstance(transforms, list):
            raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
        elif not all(isinstance(t, Transform) for t in transforms):
            raise ValueError("transforms must be a Transform or a list of Transforms")
        else:
            self.transforms = transforms
        whole = ComposeTransform(self.transforms)
        base, needed = base_distribution, whole.domain.event_dim
        shape = base.batch_shape + base.event_shape
        if len(shape) < needed:
            raise ValueError(f"base_distribution needs to have shape with size at least {needed}, but got {shape}.")
        out = whole.forward_shape(shape)
        full = whole.inverse_shape(out)  # which parameters of the transforms may have made larger
        if tuple(full) != tuple(shape):
            base = base.expand(tuple(full[: len(full) - len(base.event_shape)]))
        more = needed - len(base.event_shape)
        self.base_dist = Independent(base, more) if more > 0 else base
        event = whole.codomain.event_dim + max(len(self.base_dist.event_shape) - needed, 0)
        cut = len(out) - event
        super().__init__(out[:cut], out[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(ours(type(self)), _instance)
        shape: Sequence[int] = (*batch_shape, *self._event_shape)
        for t in reversed(self.transforms):
            shape = t.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(tuple(shape[: len(shape) - len(self.base_dist.event_shape)]))
        new.transforms = self.transforms
        Distribution.__init__(new, tuple(batch_shape), self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Constraint:
        """The values that the last transform makes."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self._event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the base has gradients through samples."""
        return self.base_dist.has_rsample

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x: Tensor) -> Tensor:
        for t in self.transforms:
            x = t(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        y, dims, changes = self._checked(value), len(self._event_shape), None
        for t in reversed(self.transforms):
            x = t.inv(y)
            dims += t.domain.event_dim - t.codomain.event_dim
            change = _sum_rightmost(t.log_abs_det_jacobian(x, y), dims - t.domain.event_dim)
            changes = change if changes is None else changes + change
            y = x
        density = _sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))
        return density if changes is None else density - changes

    def _turned(self, probability: Tensor) -> Tensor:
        """p, or 1 - p where the transforms reverse the order of values."""
        sign: Any = 1
        for t in self.transforms:
            sign = sign * t.sign
        if isinstance(sign, int) and sign == 1:
            return probability
        return sign * (probability - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        for t in reversed(self.transforms):
            value = t.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._turned(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        return self._forward(self.base_dist.icdf(self._turned(value)))


class OfParametersTransformed(TransformedDistribution, OfParameters):
    """Distributions that are transforms of another, by parameters: a class says `_made`, of the parameters it has."""

    def _made(self, validate_args: bool | None) -> tuple[Distribution, Transform | list[Transform]]:
        """The base and the transforms."""
        raise NotImplementedError

    def _set(self, validate_args: bool | None, **given: Tensor | Number) -> None:
        self.__dict__.update(zip(given, broadcast_all(*given.values()), strict=True))
        base, transforms = self._made(validate_args)
        TransformedDistribution.__init__(self, base, transforms, validate_args=validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return OfParameters.expand(self, batch_shape, _instance)

    def _expand_into(self, new: Any, batch_shape: tuple[int, ...]) -> None:
        for name in self.arg_constraints:
            new.__dict__[name] = self.__dict__[name].expand(batch_shape)
        base, transforms = new._made(False)
        TransformedDistribution.__init__(new, base, transforms, validate_args=False)
