"""Mixtures of distributions of one kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.distributions import constraints
from smolder.distributions.categorical import Categorical
from smolder.distributions.distribution import Distribution, ours

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = ["MixtureSameFamily"]
__dir__ = _listing(__name__)


class MixtureSameFamily(Distribution):
    """A mixture: a component is chosen, and a value drawn from it.

    Args:
        mixture_distribution: Which component.
        component_distribution: The components, along the last dimension of its batch.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType({})
    has_rsample = False

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of smolder.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution need to be an instance of smolder.distributions.Distribution")
        chosen, batch = mixture_distribution.batch_shape, component_distribution.batch_shape[:-1]
        for a, b in zip(reversed(tuple(chosen)), reversed(tuple(batch)), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({chosen}) is not compatible with "
                    f"`component_distribution.batch_shape`({batch})"
                )
        km, kc = mixture_distribution.logits.shape[-1], component_distribution.batch_shape[-1]
        if km is not None and kc is not None and km != kc:
            raise ValueError(
                f"`mixture_distribution component` ({km}) does not equal `component_distribution.batch_shape[-1]` ({kc})"
            )
        self._num_component = km
        event = component_distribution.event_shape
        self._event_ndims = len(event)
        super().__init__(batch, event, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        batch_shape = tuple(batch_shape)
        new = self._get_checked_instance(ours(type(self)), _instance)
        new._component_distribution = self._component_distribution.expand((*batch_shape, self._num_component))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        Distribution.__init__(new, batch_shape, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @constraints.dependent_property
    def support(self) -> Constraint:
        """Values that the components have."""
        return constraints.MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """Which component."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The components."""
        return self._component_distribution

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape((*probs.shape, *(1 for _ in range(self._event_ndims))))

    @property
    def mean(self) -> Tensor:
        """The mean of the components' means."""
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """The mean of the components' variances, and the variance of their means."""
        at, weights = -1 - self._event_ndims, self._weights()
        within = (weights * self._component_distribution.variance).sum(at)
        away = self._component_distribution.mean - self.mean.unsqueeze(at)
        return within + (weights * away.pow(2)).sum(at)

    def cdf(self, value: Tensor) -> Tensor:
        below = self._component_distribution.cdf(self._padded(value))
        return (below * self._mixture_distribution.probs).sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        of_component = self._component_distribution.log_prob(self._padded(self._checked(value)))
        of_choice = _core.log_softmax(self._mixture_distribution.logits, -1)
        return (of_component + of_choice).logsumexp(-1)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            n = len(sample_shape)
            at = n + len(self._batch_shape)
            chosen = self._mixture_distribution.sample(sample_shape)
            chosen = chosen.expand((*sample_shape, *self._batch_shape)) if self._batch_shape else chosen
            drawn = self._component_distribution.sample(sample_shape)
            index = chosen.reshape((*chosen.shape, 1, *(1 for _ in self._event_shape)))
            index = index.expand((*chosen.shape, 1, *self._event_shape))
            return drawn.gather(at, index).squeeze(at)

    def _padded(self, x: Tensor) -> Tensor:
        """Values with a dimension for components."""
        return x.unsqueeze(-1 - self._event_ndims)

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self._mixture_distribution},\n  {self._component_distribution})"
