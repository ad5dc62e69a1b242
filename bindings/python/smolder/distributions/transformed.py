"""Distributions of positive numbers and shares that are transforms of others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.distributions import constraints
from smolder.distributions.continuous import Cauchy, Normal, Uniform
from smolder.distributions.distribution import Distribution
from smolder.distributions.independent import Independent
from smolder.distributions.positive import Exponential, Gamma
from smolder.distributions.transformed_distribution import OfParametersTransformed, TransformedDistribution
from smolder.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ExpTransform,
    PowerTransform,
    StickBreakingTransform,
    Transform,
)
from smolder.distributions.utils import euler_constant

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = [
    "HalfCauchy", "HalfNormal", "InverseGamma", "Kumaraswamy", "LogNormal", "LogisticNormal", "Pareto", "Weibull",
]  # fmt: skip
__dir__ = _listing(__name__)

_LOC_SCALE = MappingProxyType({"loc": constraints.real, "scale": constraints.positive})


class LogNormal(TransformedDistribution):
    """The distribution of exp(x) of a normal x.

    Args:
        loc: The mean of x.
        scale: The standard deviation of x.
    """

    arg_constraints: Mapping[str, Constraint] = _LOC_SCALE
    support: Constraint = constraints.positive  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True  # pyright: ignore[reportAssignmentType]
    base_dist: Normal  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of x."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of x."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """The mean: exp(loc + scale² / 2)."""
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        """The most likely value: exp(loc - scale²)."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """The distribution of |x|, of an x that is as likely as -x."""

    arg_constraints: Mapping[str, Constraint] = MappingProxyType({"scale": constraints.positive})
    support: Constraint = constraints.nonnegative  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True  # pyright: ignore[reportAssignmentType]

    @property
    def scale(self) -> Tensor:
        """The scale of x."""
        return self.base_dist.scale  # type: ignore[attr-defined]

    @property
    def mode(self) -> Tensor:
        """The most likely value: 0."""
        return _core.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return _core.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        return 2 * self.base_dist.cdf(self._checked(value)) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The distribution of |x| of a normal x of mean 0.

    Args:
        scale: The standard deviation of x.
    """

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Normal(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: scale sqrt(2 / π)."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        """The variance: scale² (1 - 2 / π)."""
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The distribution of |x| of an x of Cauchy's distribution around 0; its mean is infinite.

    Args:
        scale: The scale of x.
    """

    def __init__(self, scale: Tensor | float, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """inf."""
        return self.scale.new_full(tuple(self._extended_shape()), math.inf)

    @property
    def variance(self) -> Tensor:
        """inf."""
        return self.base_dist.variance


class InverseGamma(TransformedDistribution):
    """The distribution of 1 / x, of an x of Gamma(concentration, rate).

    Args:
        concentration: The shape.
        rate: The scale of 1 / x.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"concentration": constraints.positive, "rate": constraints.positive}
    )
    support: Constraint = constraints.positive  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True  # pyright: ignore[reportAssignmentType]
    base_dist: Gamma  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, concentration: Tensor | float, rate: Tensor | float, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        inverse = PowerTransform(base.rate.new_tensor(-1.0))
        super().__init__(base, inverse, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The shape."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The scale."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """The mean: rate / (concentration - 1); inf where the concentration is 1 or less."""
        a = self.concentration
        return _core.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        """The most likely value: rate / (concentration + 1)."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """The variance; inf where the concentration is 2 or less."""
        a = self.concentration
        return _core.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Pareto(OfParametersTransformed):
    """Pareto's distribution: density alpha scale^alpha / x^(alpha + 1) from scale on.

    Args:
        scale: The least value.
        alpha: How fast the density falls.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"alpha": constraints.positive, "scale": constraints.positive}
    )
    scale: Tensor
    alpha: Tensor

    def __init__(self, scale: Tensor | float, alpha: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, scale=scale, alpha=alpha)

    def _made(self, validate_args: bool | None) -> tuple[Distribution, list[Transform]]:
        base = Exponential(self.alpha, validate_args=validate_args)
        return base, [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """Numbers from scale on."""
        return constraints.greater_than_eq(self.scale)

    @property
    def mean(self) -> Tensor:
        """The mean; inf where alpha is 1 or less."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """The most likely value: scale."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance; inf where alpha is 2 or less."""
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    def entropy(self) -> Tensor:
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(OfParametersTransformed):
    """Weibull's distribution: cdf 1 - exp(-(x / scale)^concentration).

    Args:
        scale: How wide.
        concentration: The shape.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"scale": constraints.positive, "concentration": constraints.positive}
    )
    support: Constraint = constraints.positive  # pyright: ignore[reportIncompatibleVariableOverride]
    scale: Tensor
    concentration: Tensor
    concentration_reciprocal: Tensor

    def __init__(self, scale: Tensor | float, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, scale=scale, concentration=concentration)

    def _made(self, validate_args: bool | None) -> tuple[Distribution, list[Transform]]:
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(_core.ones_like(self.scale), validate_args=validate_args)
        return base, [PowerTransform(exponent=self.concentration_reciprocal), AffineTransform(loc=0, scale=self.scale)]

    @property
    def mean(self) -> Tensor:
        """The mean: scale Γ(1 + 1 / concentration)."""
        return self.scale * (1 + self.concentration_reciprocal).lgamma().exp()

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        k = self.concentration_reciprocal
        return self.scale.pow(2) * ((1 + 2 * k).lgamma().exp() - (2 * (1 + k).lgamma()).exp())

    def entropy(self) -> Tensor:
        k = self.concentration_reciprocal
        return euler_constant * (1 - k) + (self.scale * k).log() + 1


class Kumaraswamy(OfParametersTransformed):
    """Kumaraswamy's distribution: cdf 1 - (1 - x^a)^b on (0, 1), of a = concentration1, b = concentration0.

    Args:
        concentration1: a.
        concentration0: b.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"concentration1": constraints.positive, "concentration0": constraints.positive}
    )
    support: Constraint = constraints.unit_interval  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True  # pyright: ignore[reportAssignmentType]
    concentration1: Tensor
    concentration0: Tensor

    def __init__(
        self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None
    ) -> None:
        self._set(validate_args, concentration1=concentration1, concentration0=concentration0)

    def _made(self, validate_args: bool | None) -> tuple[Distribution, list[Transform]]:
        base = Uniform(_core.zeros_like(self.concentration0), 1, validate_args=validate_args)
        return base, [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]

    def _moment(self, n: int) -> Tensor:
        """The mean of x^n: b B(1 + n / a, b)."""
        first, b = 1 + n / self.concentration1, self.concentration0
        return b * (first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The most likely value; nan where either concentration is below 1."""
        a, b = self.concentration1, self.concentration0
        mode = ((a - 1) / (a * b - 1)) ** a.reciprocal()
        return _core.where(_core.logical_or(a < 1, b < 1), math.nan, mode)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        less_a, less_b = 1 - self.concentration1.reciprocal(), 1 - self.concentration0.reciprocal()
        harmonic = (self.concentration0 + 1).digamma() + euler_constant
        return less_b + less_a * harmonic - self.concentration1.log() - self.concentration0.log()


class LogisticNormal(TransformedDistribution):
    """The distribution of shares that stick breaking makes of normal numbers; events have one element more than loc.

    Args:
        loc: The means.
        scale: The standard deviations.
    """

    arg_constraints: Mapping[str, Constraint] = _LOC_SCALE
    support: Constraint = constraints.simplex  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True  # pyright: ignore[reportAssignmentType]
    base_dist: Independent[Normal]  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand((1,))
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The means."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations."""
        return self.base_dist.base_dist.scale
