"""Distributions of 0 and 1, and of counts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from smolder import _core
from smolder._creation import arange
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._samplers import binomial, poisson_unchecked
from smolder._types import finfo
from smolder._typing import Number, Tensor
from smolder.distributions import constraints
from smolder.distributions.distribution import Distribution, OfParameters
from smolder.distributions.exp_family import ExponentialFamily
from smolder.distributions.positive import Gamma
from smolder.distributions.utils import (
    broadcast_all,
    lazy_property,
    logits_to_probs,
    one_of,
    probs_to_logits,
    times_log,
)
from smolder.nn import functional as F

if TYPE_CHECKING:
    from smolder._typing import Constraint, Size

__all__ = ["Bernoulli", "Binomial", "Geometric", "NegativeBinomial", "OfLogOdds", "Poisson"]
__dir__ = _listing(__name__)

_PROBS_OR_LOGITS = MappingProxyType({"probs": constraints.unit_interval, "logits": constraints.real})


class OfLogOdds(OfParameters):
    """Given by probs or by logits, their log odds; the other is made when it is first asked for."""

    def _set_either(self, probs: Any, logits: Any, **others: Any) -> bool:
        """Sets what was given of probs and logits, broadcast with the others; whether it is probs."""
        of_probs = one_of(probs, logits)
        name, given = ("probs", probs) if of_probs else ("logits", logits)
        if not isinstance(given, _core.Tensor):
            given = float(given) if isinstance(given, int) else given
        values = broadcast_all(given, *others.values())
        self.__dict__.update(zip((name, *others), values, strict=True))
        return of_probs

    @lazy_property
    def logits(self) -> Tensor:
        """The log odds."""
        return probs_to_logits(self.probs, is_binary=True)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=True)

    @property
    def _param(self) -> Tensor:
        return self.__dict__["probs"] if "probs" in self.__dict__ else self.__dict__["logits"]

    @property
    def param_shape(self) -> Size:
        """The shape of probs, and of logits."""
        return self._param.size()


class Bernoulli(OfLogOdds, ExponentialFamily):
    """1 with probability probs, else 0.

    Args:
        probs: The probability of 1.
        logits: Its log odds, in place of probs.
    """

    arg_constraints: Mapping[str, Constraint] = _PROBS_OR_LOGITS
    support: Constraint = constraints.boolean  # pyright: ignore[reportIncompatibleVariableOverride]
    has_enumerate_support = True
    _mean_carrier_measure: ClassVar[float] = 0  # type: ignore[misc]

    def __init__(
        self,
        probs: Tensor | Number | None = None,
        logits: Tensor | Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_either(probs, logits)
        Distribution.__init__(self, self._param.size(), (), validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: probs."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier value; nan where both are as likely."""
        likelier = (self.probs >= 0.5).to(self.probs.dtype)
        return likelier.masked_fill(self.probs == 0.5, math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return _core.bernoulli(self.probs.expand(tuple(self._extended_shape(sample_shape))))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = self._param.new_tensor([0, 1]).reshape((2,) + (1,) * len(self._batch_shape))
        return values.expand((2, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (_core.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return F.softplus(x)


class Geometric(OfLogOdds):
    """How many trials fail before the first that succeeds: probability (1 - probs)^k probs of k.

    Args:
        probs: The probability that a trial succeeds, in (0, 1].
        logits: Its log odds, in place of probs.
    """

    arg_constraints: Mapping[str, Constraint] = _PROBS_OR_LOGITS
    support: Constraint = constraints.nonnegative_integer  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(
        self,
        probs: Tensor | Number | None = None,
        logits: Tensor | Number | None = None,
        validate_args: bool | None = None,
    ) -> None:
        given = self._set_either(probs, logits)
        Distribution.__init__(self, self._param.size(), (), validate_args)
        if self._validate_args and given:
            value = self.probs
            valid = value > 0
            if not valid.all().item():
                invalid = value.masked_select(_core.logical_not(valid))
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to be positive but found invalid values:\n{invalid}"
                )

    @property
    def mean(self) -> Tensor:
        """The mean: 1 / probs - 1."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        """The most likely value: 0."""
        return _core.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        """The variance: (1 / probs - 1) / probs."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            u = self.probs.new_empty(tuple(shape)).uniform_(finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs.expand(shape)).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        value, probs = broadcast_all(self._checked(value), self.probs)
        certain = _core.logical_and(probs == 1, value == 0)
        return value * (-_core.where(certain, 0.0, probs)).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return F.binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs


class Poisson(OfParameters, ExponentialFamily):
    """Poisson's distribution: probability rate^k exp(-rate) / k! of k.

    Args:
        rate: The mean, not negative.

    Samples are exact: by inversion for rates below 10, by rejection (Hörmann 1993) above.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType({"rate": constraints.nonnegative})
    support: Constraint = constraints.nonnegative_integer  # pyright: ignore[reportIncompatibleVariableOverride]
    rate: Tensor

    def __init__(self, rate: Tensor | Number, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        """The mean: rate."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The most likely value: rate, rounded down."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """The variance: rate."""
        return self.rate

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return poisson_unchecked(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        rate, value = broadcast_all(self.rate, self._checked(value))
        return times_log(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.rate.log(),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.exp()


class Binomial(OfLogOdds):
    """How many of total_count trials succeed.

    Args:
        total_count: How many trials there are.
        probs: The probability that one succeeds.
        logits: Its log odds, in place of probs.

    Samples are exact: by inversion where few successes or failures are to be expected, else by rejection (Hörmann 1993).
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"total_count": constraints.nonnegative_integer, **_PROBS_OR_LOGITS}
    )
    has_enumerate_support = True
    total_count: Tensor

    def __init__(
        self,
        total_count: Tensor | int = 1,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_either(probs, logits, total_count=total_count)
        self.total_count = self.total_count.type_as(self._param)
        Distribution.__init__(self, self._param.size(), (), validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        """Integers from 0 to total_count."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """The mean: total_count probs."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        """The variance: total_count probs (1 - probs)."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def _log_ways(self, value: Tensor) -> Tensor:
        """log of how many choices of `value` there are among total_count."""
        n = self.total_count
        return (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        # value log p + (n - value) log(1 - p) = value * logits - n log(1 + exp(logits))
        n, logits = self.total_count, self.logits
        return self._log_ways(value) + value * logits - n * F.softplus(logits)

    def _count(self) -> int:
        """total_count, where it is the same everywhere."""
        count = int(self.total_count.max().item())
        if self.total_count.min().item() != count:
            raise NotImplementedError("Inhomogeneous total count not supported by `{}`.")
        return count

    def entropy(self) -> Tensor:
        try:
            self._count()
        except NotImplementedError as error:
            raise NotImplementedError(str(error).format("entropy")) from None
        log_prob = self.log_prob(self.enumerate_support(False))
        return -(log_prob.exp() * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        try:
            count = self._count()
        except NotImplementedError as error:
            raise NotImplementedError(str(error).format("enumerate_support")) from None
        values = arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        values = values.reshape((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class NegativeBinomial(OfLogOdds):
    """How many trials succeed before total_count of them fail.

    Args:
        total_count: How many failures end it; need not be an integer.
        probs: The probability that a trial succeeds, in [0, 1).
        logits: Its log odds, in place of probs.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {
            "total_count": constraints.greater_than_eq(0),
            "probs": constraints.half_open_interval(0.0, 1.0),
            "logits": constraints.real,
        }
    )
    support: Constraint = constraints.nonnegative_integer  # pyright: ignore[reportIncompatibleVariableOverride]
    total_count: Tensor

    def __init__(
        self,
        total_count: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        self._set_either(probs, logits, total_count=total_count)
        self.total_count = self.total_count.type_as(self._param)
        Distribution.__init__(self, self._param.size(), (), validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: total_count exp(logits)."""
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        """The variance: the mean divided by 1 - probs."""
        return self.mean / _core.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        return Gamma(concentration=self.total_count, rate=(-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            return poisson_unchecked(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        n = self.total_count
        log_unnormalized = n * F.logsigmoid(-self.logits) + value * F.logsigmoid(self.logits)
        ways = -(n + value).lgamma() + (1.0 + value).lgamma() + n.lgamma()
        return log_unnormalized - ways.masked_fill(n + value == 0, 0.0)
