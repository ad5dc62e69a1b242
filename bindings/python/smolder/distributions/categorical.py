"""Distributions of categories: by number, as vectors with a 1, and how often each comes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from smolder import _core
from smolder._creation import arange, eye
from smolder._functions import broadcast_shapes
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._types import finfo
from smolder._typing import Tensor
from smolder.distributions import constraints
from smolder.distributions.discrete import Binomial
from smolder.distributions.distribution import Distribution, OfParameters
from smolder.distributions.utils import broadcast_all, lazy_property, logits_to_probs, one_of, probs_to_logits
from smolder.nn import functional as F

if TYPE_CHECKING:
    from smolder._typing import Constraint, Size

__all__ = ["Categorical", "Multinomial", "OneHotCategorical", "OneHotCategoricalStraightThrough"]
__dir__ = _listing(__name__)

_PROBS_OR_LOGITS = MappingProxyType({"probs": constraints.simplex, "logits": constraints.real_vector})


class Categorical(OfParameters):
    """Numbers from 0 on, each with a probability.

    Args:
        probs: The probabilities along the last dimension, or weights, which are divided by their sum.
        logits: Unnormalised log probabilities, in place of probs.
    """

    arg_constraints: Mapping[str, Constraint] = _PROBS_OR_LOGITS
    has_enumerate_support = True
    _num_events: int

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        if one_of(probs, logits):
            assert probs is not None
            if probs.dim() < 1:
                raise ValueError("`probs` parameter must be at least one-dimensional.")
            self.__dict__["probs"] = probs / probs.sum(-1, keepdim=True)
        else:
            assert logits is not None
            if logits.dim() < 1:
                raise ValueError("`logits` parameter must be at least one-dimensional.")
            self.__dict__["logits"] = logits - logits.logsumexp(-1, keepdim=True)
        self._num_events = self._param.size(-1)
        super().__init__(self._param.shape[:-1], (), validate_args)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @lazy_property
    def logits(self) -> Tensor:
        """The logarithms of the probabilities."""
        return probs_to_logits(self.probs)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits)

    @property
    def param_shape(self) -> Size:
        """The shape of probs, and of logits."""
        return self._param.size()

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        """The numbers of the categories."""
        return constraints.integer_interval(0, self._num_events - 1)

    @property
    def mean(self) -> Tensor:
        """nan: categories have no mean."""
        return self._param.new_full(tuple(self._extended_shape()), math.nan)

    @property
    def mode(self) -> Tensor:
        """The most likely category."""
        return self.probs.argmax(-1)

    @property
    def variance(self) -> Tensor:
        """nan: categories have no variance."""
        return self.mean

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        count = math.prod(sample_shape)
        with no_grad():
            rows = self.probs.reshape((-1, self._num_events))
            drawn = _core.multinomial(rows, count, True).t()
        return drawn.reshape(tuple(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        at = self._checked(value).long().unsqueeze(-1)
        shape = broadcast_shapes(tuple(at.shape[:-1]), tuple(self.logits.shape[:-1]))
        rows = self.logits.expand((*shape, self._num_events))
        return rows.gather(-1, at.expand((*shape, 1))).squeeze(-1)

    def entropy(self) -> Tensor:
        logits = self.logits.clamp(min=finfo(self.logits.dtype).min)
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = arange(self._num_events, device=self._param.device).reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class OfCategories(OfParameters):
    """Distributions of vectors with an element for each category of a Categorical within."""

    arg_constraints: Mapping[str, Constraint] = _PROBS_OR_LOGITS
    _categorical: Categorical

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """Their logarithms."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of probs, and of logits."""
        return self._categorical.param_shape


class OneHotCategorical(OfCategories):
    """As Categorical, of vectors with a 1 at the category and zeros elsewhere.

    Args:
        probs: The probabilities along the last dimension, or weights, which are divided by their sum.
        logits: Unnormalised log probabilities, in place of probs.
    """

    support: Constraint = constraints.one_hot  # pyright: ignore[reportIncompatibleVariableOverride]
    has_enumerate_support = True

    def __init__(
        self, probs: Tensor | None = None, logits: Tensor | None = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits, validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: the probabilities."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The most likely vector."""
        return F.one_hot(self.probs.argmax(-1), self._event_shape[0]).to(self.probs.dtype)

    @property
    def variance(self) -> Tensor:
        """The variances."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return F.one_hot(self._categorical.sample(sample_shape), self._event_shape[0]).to(self.probs.dtype)

    def log_prob(self, value: Tensor) -> Tensor:
        return self._categorical.log_prob(self._checked(value).argmax(-1))

    def entropy(self) -> Tensor:
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n, ones = self._event_shape[0], (1,) * len(self._batch_shape)
        values = eye(n, dtype=self._param.dtype, device=self._param.device).reshape((n, *ones, n))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose samples pass gradients straight to the probabilities (Bengio et al. 2013)."""

    has_rsample = True

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.sample(sample_shape) + (self.probs - self.probs.detach())


class Multinomial(OfCategories):
    """How often each category comes in total_count draws.

    Args:
        total_count: How many draws.
        probs: The probabilities along the last dimension, or weights, which are divided by their sum.
        logits: Unnormalised log probabilities, in place of probs.
    """

    total_count: int

    def __init__(
        self,
        total_count: int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs, logits, validate_args)
        self._binomial = Binomial(total_count, self.probs, validate_args=validate_args)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args)

    def _expand_part(self, name: str, part: Distribution, batch_shape: tuple[int, ...]) -> Distribution:
        return part.expand(batch_shape + (tuple(self._event_shape) if name == "_binomial" else ()))

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Constraint:
        """Counts whose sum is at most total_count."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """The means: probs total_count."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """The variances: total_count probs (1 - probs)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            drawn = self._categorical.sample((self.total_count, *sample_shape))  # total_count, samples, batch
            drawn = drawn.permute((*range(1, drawn.dim()), 0))
            counts = drawn.new_zeros(tuple(self._extended_shape(sample_shape)))
            return counts.scatter_add(-1, drawn, _core.ones_like(drawn)).type_as(self.probs)

    def entropy(self) -> Tensor:
        n = self._binomial.total_count.new_tensor(float(self.total_count))
        terms = n * self._categorical.entropy() - (n + 1).lgamma()
        support = self._binomial.enumerate_support(expand=False)[1:]
        weights = self._binomial.log_prob(support).exp()
        return terms + (weights * (support + 1).lgamma()).sum((0, -1))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        impossible = _core.logical_and(value == 0, logits == -math.inf)
        ways = (value.sum(-1) + 1).lgamma() - (value + 1).lgamma().sum(-1)
        return ways + (logits.masked_fill(impossible, 0.0) * value).sum(-1)
