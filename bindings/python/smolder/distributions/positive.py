"""Distributions of positive numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from smolder import _core, special
from smolder._creation import as_tensor
from smolder._names import listing as _listing
from smolder._samplers import _standard_gamma
from smolder._types import finfo
from smolder._typing import Tensor
from smolder.distributions import constraints
from smolder.distributions.distribution import OfParameters
from smolder.distributions.exp_family import ExponentialFamily
from smolder.distributions.utils import broadcast_all, times_log

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = ["Chi2", "Exponential", "FisherSnedecor", "Gamma", "GeneralizedPareto"]
__dir__ = _listing(__name__)


class Exponential(OfParameters, ExponentialFamily):
    """The exponential distribution: density rate exp(-rate x).

    Args:
        rate: How many events there are in a unit of time; samples are waiting times.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType({"rate": constraints.positive})
    support: Constraint = constraints.nonnegative  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True
    _mean_carrier_measure: ClassVar[float] = 0  # type: ignore[misc]
    rate: Tensor

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        """The mean: 1 / rate."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """The most likely value: 0."""
        return _core.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation: 1 / rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """The variance: 1 / rate²."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.rate.new_empty(tuple(self._extended_shape(sample_shape))).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        return self.rate.log() - self.rate * self._checked(value)

    def cdf(self, value: Tensor) -> Tensor:
        return 1 - (-self.rate * self._checked(value)).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return -(-x).log()


class Gamma(OfParameters, ExponentialFamily):
    """The gamma distribution: density rate^a x^(a-1) exp(-rate x) / Γ(a), of a = concentration.

    Args:
        concentration: a, the shape.
        rate: The inverse of the scale.

    Samples are exact (Marsaglia and Tsang 2000); gradients go through them to both parameters, to the concentration by
    differentiating the cdf (Figurnov, Mohamed and Mnih 2018).
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"concentration": constraints.positive, "rate": constraints.positive}
    )
    support: Constraint = constraints.nonnegative  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True
    _mean_carrier_measure: ClassVar[float] = 0  # type: ignore[misc]
    concentration: Tensor
    rate: Tensor

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, concentration=concentration, rate=rate)

    @property
    def mean(self) -> Tensor:
        """The mean: concentration / rate."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """The most likely value: (concentration - 1) / rate, at least 0."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """The variance: concentration / rate²."""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(as_tensor(value, dtype=self.rate.dtype, device=self.rate.device))
        a = self.concentration
        return times_log(a, self.rate) + times_log(a - 1, value) - self.rate * value - a.lgamma()

    def cdf(self, value: Tensor) -> Tensor:
        return special.gammainc(self.concentration, self.rate * self._checked(value))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - self.rate.log() + a.lgamma() + (1.0 - a) * a.digamma()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return (x + 1).lgamma() + (x + 1) * (-y.reciprocal()).log()


class Chi2(Gamma):
    """The chi-squared distribution: Gamma(df / 2, 1 / 2), of the sum of df squares of standard normal numbers.

    Args:
        df: The degrees of freedom.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType({"df": constraints.positive})
    _broadcast = ("concentration", "rate")

    def __init__(self, df: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2


class FisherSnedecor(OfParameters):
    """The F distribution: of (x1 / df1) / (x2 / df2), where x1 and x2 are chi-squared.

    Args:
        df1: The degrees of freedom of x1.
        df2: Those of x2.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"df1": constraints.positive, "df2": constraints.positive}
    )
    support: Constraint = constraints.positive  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Tensor | float, df2: Tensor | float, validate_args: bool | None = None) -> None:
        df1, df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(df1 * 0.5, df1, validate_args)
        self._gamma2 = Gamma(df2 * 0.5, df2, validate_args)
        self._set(validate_args, df1=df1, df2=df2)

    @property
    def mean(self) -> Tensor:
        """The mean: df2 / (df2 - 2); nan where df2 <= 2."""
        return _core.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        """The most likely value; nan where df1 <= 2."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return _core.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance; nan where df2 <= 4."""
        df1, df2 = self.df1, self.df2
        variance = 2 * df2.pow(2) * (df1 + df2 - 2) / (df1 * (df2 - 2).pow(2) * (df2 - 4))
        return _core.where(df2 > 4, variance, math.nan)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        x1 = self._gamma1.rsample(sample_shape)
        x2 = self._gamma2.rsample(sample_shape)
        return x1 / x2.clamp(min=finfo(x2.dtype).tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        constant = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        shape = half1 * ratio.log() + (half1 - 1) * value.log()
        return constant + shape - (half1 + half2) * (ratio * value).log1p()


class GeneralizedPareto(OfParameters):
    """The generalized Pareto distribution: cdf 1 - (1 + c z)^(-1/c) of z = (x - loc) / scale, c = concentration.

    Args:
        loc: The least value.
        scale: How wide.
        concentration: How heavy the tail is; 0 is an exponential distribution, and below values have an upper bound.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    )
    has_rsample = True
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    def __init__(
        self,
        loc: Tensor | float,
        scale: Tensor | float,
        concentration: Tensor | float,
        validate_args: bool | None = None,
    ) -> None:
        self._set(validate_args, loc=loc, scale=scale, concentration=concentration)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """Numbers from loc to inf, or where the concentration is negative to loc - scale / concentration."""
        high = self.loc - self.scale / self.concentration
        return constraints.interval(self.loc, _core.where(self.concentration < 0, high, math.inf))

    def _by_tail(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is 0, and the concentration, with 1 there so that it can be divided by."""
        thin = _core.isclose(self.concentration, _core.zeros_like(self.concentration))
        return thin, _core.where(thin, 1.0, self.concentration)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(self.loc.new_empty(tuple(self._extended_shape(sample_shape))).uniform_())

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        z = self._z(self._checked(value))
        thin, c = self._by_tail()
        heavy = -(1 / c + 1) * (c * z).log1p()
        return _core.where(thin, -z, heavy) - self.scale.log()

    def log_survival_function(self, value: Tensor) -> Tensor:
        """log(1 - cdf(value))."""
        z = self._z(self._checked(value))
        thin, c = self._by_tail()
        return _core.where(thin, -z, -(c * z).log1p() / c)

    def log_cdf(self, value: Tensor) -> Tensor:
        """log(cdf(value))."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        thin, c = self._by_tail()
        log_above = (-value).log1p()
        z = _core.where(thin, -log_above, _core.expm1(-c * log_above) / c)
        return self.loc + self.scale * z

    @property
    def mean(self) -> Tensor:
        """The mean: loc + scale / (1 - concentration); nan where the concentration is 1 or more."""
        c = self.concentration
        return _core.where(c < 1, self.loc + self.scale / (1 - c), math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance; nan where the concentration is 1/2 or more."""
        c = self.concentration
        return _core.where(c < 0.5, self.scale**2 / ((1 - c) ** 2 * (1 - 2 * c)), math.nan)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1

    @property
    def mode(self) -> Tensor:
        """The most likely value: loc."""
        return self.loc
