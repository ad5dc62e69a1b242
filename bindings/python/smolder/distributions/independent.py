"""Several distributions taken as one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.distributions import constraints
from smolder.distributions.distribution import Distribution
from smolder.distributions.utils import _sum_rightmost

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = ["Independent"]
__dir__ = _listing(__name__)

D = TypeVar("D", bound=Distribution)


class Independent(Distribution, Generic[D]):
    """A distribution whose last batch dimensions are taken as dimensions of the event.

    The density of an event is the product of those of its parts, so log_prob and entropy are sums over them.

    Args:
        base_distribution: The distributions of the parts.
        reinterpreted_batch_ndims: How many of their last batch dimensions an event has.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType({})
    base_dist: D
    reinterpreted_batch_ndims: int

    def __init__(self, base_distribution: D, reinterpreted_batch_ndims: int, validate_args: bool | None = None) -> None:
        n = reinterpreted_batch_ndims
        if n > len(base_distribution.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {n} vs {len(base_distribution.batch_shape)}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        batch = len(base_distribution.batch_shape) - n
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, n
        super().__init__(shape[:batch], shape[batch:], validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = self._get_checked_instance(Independent, _instance)
        batch_shape, n = tuple(batch_shape), self.reinterpreted_batch_ndims
        new.base_dist = self.base_dist.expand((*batch_shape, *self._event_shape[:n]))
        new.reinterpreted_batch_ndims = n
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def has_rsample(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the base has gradients through samples."""
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the base lists its values, of which this has all only where no dimension was taken."""
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @constraints.dependent_property
    def support(self) -> Constraint:
        """The values that samples have."""
        base, n = self.base_dist.support, self.reinterpreted_batch_ndims
        return constraints.independent(base, n) if n else base

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.base_dist.variance

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
