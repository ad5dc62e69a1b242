"""Continuous relaxations of discrete distributions (Maddison, Mnih and Teh 2017; Jang, Gu and Poole 2017)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._random_tensors import rand
from smolder._typing import Number, Tensor
from smolder.distributions import constraints
from smolder.distributions.categorical import Categorical, OfCategories
from smolder.distributions.discrete import OfLogOdds
from smolder.distributions.distribution import Distribution
from smolder.distributions.transformed_distribution import TransformedDistribution
from smolder.distributions.transforms import ExpTransform, SigmoidTransform
from smolder.distributions.utils import broadcast_all, clamp_probs

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = ["ExpRelaxedCategorical", "LogitRelaxedBernoulli", "RelaxedBernoulli", "RelaxedOneHotCategorical"]
__dir__ = _listing(__name__)

_BINARY = MappingProxyType({"probs": constraints.unit_interval, "logits": constraints.real})
_CATEGORIES = MappingProxyType({"probs": constraints.simplex, "logits": constraints.real_vector})


class LogitRelaxedBernoulli(OfLogOdds):
    """The distribution of the log odds of RelaxedBernoulli: (logits + log u - log(1 - u)) / temperature of a uniform u.

    Args:
        temperature: How far samples are from 0 and 1: the lower, the nearer.
        probs: The probability of 1.
        logits: Its log odds, in place of probs.
    """

    arg_constraints: Mapping[str, Constraint] = _BINARY
    support: Constraint = constraints.real  # pyright: ignore[reportIncompatibleVariableOverride]
    temperature: Tensor

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | Number | None = None,
        logits: Tensor | Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self.temperature = temperature
        self._set_either(probs, logits)
        Distribution.__init__(self, self._param.size(), (), validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(rand(tuple(shape), dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value.mul(self.temperature)
        return self.temperature.log() + away - 2 * away.exp().log1p()


class _Relaxed(TransformedDistribution):
    """A distribution on (0, 1) that is known by the one of its logarithms, or log odds."""

    has_rsample = True  # pyright: ignore[reportAssignmentType]
    base_dist: Any  # pyright: ignore[reportIncompatibleVariableOverride]

    @property
    def temperature(self) -> Tensor:
        """How far samples are from what is not relaxed: the lower, the nearer."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities, or the log odds of one."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities, or that of 1."""
        return self.base_dist.probs


class RelaxedBernoulli(_Relaxed):
    """A relaxed Bernoulli distribution, whose samples are in (0, 1) and have gradients.

    Args:
        temperature: How far samples are from 0 and 1: the lower, the nearer.
        probs: The probability of 1.
        logits: Its log odds, in place of probs.
    """

    arg_constraints: Mapping[str, Constraint] = _BINARY
    support: Constraint = constraints.unit_interval  # pyright: ignore[reportIncompatibleVariableOverride]
    base_dist: LogitRelaxedBernoulli  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | Number | None = None,
        logits: Tensor | Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = LogitRelaxedBernoulli(temperature, probs, logits, validate_args)
        super().__init__(base, SigmoidTransform(), validate_args=validate_args)


class ExpRelaxedCategorical(OfCategories):
    """The distribution of the logarithms of RelaxedOneHotCategorical.

    Args:
        temperature: How far samples are from the corners: the lower, the nearer.
        probs: The probabilities along the last dimension, or weights, which are divided by their sum.
        logits: Unnormalised log probabilities, in place of probs.
    """

    support: Constraint = constraints.real_vector  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True
    temperature: Tensor

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        self.temperature = temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(rand(tuple(shape), dtype=self.logits.dtype, device=self.logits.device))
        gumbels = -((-(u.log())).log())
        scores = (self.logits + gumbels) / self.temperature
        return scores - scores.logsumexp(-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        k = self._categorical._num_events
        value = self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        scale = _core.full_like(self.temperature, float(k)).lgamma() - self.temperature.log().mul(-(k - 1))
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(_Relaxed):
    """A relaxed OneHotCategorical, whose samples are shares and have gradients: softmax((logits + noise) / temperature).

    Args:
        temperature: How far samples are from the corners: the lower, the nearer.
        probs: The probabilities along the last dimension, or weights, which are divided by their sum.
        logits: Unnormalised log probabilities, in place of probs.
    """

    arg_constraints: Mapping[str, Constraint] = _CATEGORIES
    support: Constraint = constraints.simplex  # pyright: ignore[reportIncompatibleVariableOverride]
    base_dist: ExpRelaxedCategorical  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        temperature: Tensor,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)
