"""What distributions share, and several of them taken as one."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from smolder import _core
from smolder._functions import broadcast_tensors
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._tensor import Size
from smolder.distributions import constraints

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self

    from smolder._typing import Constraint, Tensor

__all__ = [
    "Distribution",
    "Independent",
    "OfParameters",
    "parameters",
]
__dir__ = _listing(__name__)


class Distribution:
    """A batch of distributions of events. Unless validate_args is False, arguments are read and checked, which ends the step."""

    arg_constraints = None
    has_rsample = False
    has_enumerate_support = False
    _validate_args = True

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are checked where validate_args does not say."""
        if value not in (True, False):
            raise ValueError
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if not self._validate_args:
            return
        for name, constraint in self.arg_constraints.items():
            value = self.__dict__.get(name)
            if value is None or constraint.check(value).all().item():
                continue
            raise ValueError(
                f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
            )

    @property
    def batch_shape(self) -> Size:
        """How many distributions there are."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of a sample of one."""
        return self._event_shape

    @property
    def support(self) -> Constraint:
        """The values that samples have."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples without a gradient: sample_shape of each distribution."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Samples through which gradients reach the parameters."""
        raise NotImplementedError

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density, or probability, of value."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of at most value."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of cdf."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """The entropy, in nats."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return self.entropy().exp()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a first dimension."""
        raise NotImplementedError

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """The same distributions, broadcast to a batch shape."""
        raise NotImplementedError

    def _extended_shape(self, sample_shape=()):
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value):
        if not isinstance(value, _core.Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        events = value.dim() - len(self._event_shape)
        if tuple(value.shape[events:]) != tuple(self._event_shape):
            raise ValueError(
                "The right-most size of value must match event_shape: "
                f"{tuple(value.shape)} vs {tuple(self._event_shape)}."
            )
        whole = self._batch_shape + self._event_shape
        for i, j in zip(reversed(tuple(value.shape)), reversed(tuple(whole)), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {tuple(value.shape)} vs {tuple(whole)}."
                )
        if not self.support.check(value).all().item():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support "
                f"({self.support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        given = {name: self.__dict__[name] for name in self.arg_constraints or () if name in self.__dict__}
        shown = [f"{name}: {v if v.numel() == 1 else v.size()}" for name, v in given.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


def parameters(*values: Tensor | float) -> tuple[Tensor, ...]:
    """Parameters, of which some may be numbers, broadcast together."""
    first = next((v for v in values if isinstance(v, _core.Tensor)), None)
    first = _core.zeros(()) if first is None else first
    return broadcast_tensors(*(v if isinstance(v, _core.Tensor) else first.new_full((), v) for v in values))


class OfParameters(Distribution):
    """Distributions of numbers whose parameters, by the names in arg_constraints, have the batch's shape."""

    def _set(self, validate_args, **given):
        self.__dict__.update(zip(given, parameters(*given.values()), strict=True))
        super().__init__(next(iter(self.__dict__.values())).size(), (), validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        kind = type(self)
        names = [name for name in self.arg_constraints if name in self.__dict__]
        return kind(**{n: getattr(self, n).expand(tuple(batch_shape)) for n in names}, validate_args=False)


class Independent(Distribution):
    """A distribution whose last batch dimensions are taken as dimensions of the event."""

    base_dist: Distribution
    reinterpreted_batch_ndims: int

    arg_constraints: MappingProxyType[str, Constraint] = MappingProxyType({})

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
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

    @property
    def has_rsample(self) -> bool:
        """Whether the base has gradients through samples."""
        return self.base_dist.has_rsample

    @property
    def support(self) -> Constraint:
        """The values that samples have."""
        return constraints.independent(self.base_dist.support, self.reinterpreted_batch_ndims)

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

    def _summed(self, x):
        return x.sum(tuple(range(-self.reinterpreted_batch_ndims, 0))) if self.reinterpreted_batch_ndims else x

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._summed(self.base_dist.log_prob(value))

    def entropy(self) -> Tensor:
        return self._summed(self.base_dist.entropy())

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        n = self.reinterpreted_batch_ndims
        return Independent(self.base_dist.expand((*batch_shape, *self.event_shape[:n])), n)

    def __repr__(self) -> str:
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"
