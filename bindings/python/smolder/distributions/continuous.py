"""Distributions of real numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._random_tensors import normal, rand
from smolder._types import finfo
from smolder._typing import Tensor
from smolder.distributions import constraints
from smolder.distributions.distribution import Distribution, OfParameters
from smolder.distributions.exp_family import ExponentialFamily
from smolder.distributions.positive import Chi2
from smolder.distributions.transformed_distribution import OfParametersTransformed
from smolder.distributions.transforms import AffineTransform, ExpTransform, Transform
from smolder.distributions.utils import _standard_normal, broadcast_all, euler_constant

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = ["Cauchy", "Gumbel", "Laplace", "Normal", "StudentT", "Uniform"]
__dir__ = _listing(__name__)

_LOC_SCALE = MappingProxyType({"loc": constraints.real, "scale": constraints.positive})


class _Around(OfParameters):
    """Symmetric around loc, scale wide."""

    arg_constraints: Mapping[str, Constraint] = _LOC_SCALE
    support: Constraint = constraints.real  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        """The mean: loc."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The most likely value: loc."""
        return self.loc


class Normal(_Around, ExponentialFamily):
    """The normal distribution: density exp(-((x - loc) / scale)² / 2) / (scale sqrt(2π)).

    Args:
        loc: The mean.
        scale: The standard deviation.
    """

    _mean_carrier_measure: ClassVar[float] = 0  # type: ignore[misc]

    @property
    def stddev(self) -> Tensor:
        """The standard deviation: scale."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance: scale²."""
        return self.scale.pow(2)

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        away = (self._checked(value) - self.loc) ** 2 / (2 * self.scale**2)
        return -away - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        away = (self._checked(value) - self.loc) * self.scale.reciprocal()
        return 0.5 * (1 + _core.erf(away / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * _core.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return -0.25 * x.pow(2) / y + 0.5 * (-math.pi / y).log()


class Laplace(_Around):
    """Laplace's distribution: density exp(-|x - loc| / scale) / (2 scale).

    Args:
        loc: The mean.
        scale: The mean distance from it.
    """

    @property
    def variance(self) -> Tensor:
        """The variance: 2 scale²."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape, dtype = self._extended_shape(sample_shape), self.loc.dtype
        u = rand(tuple(shape), dtype=dtype, device=self.loc.device) * 2 - 1
        return self.loc - self.scale * u.sign() * (-u.abs().clamp(max=1 - finfo(dtype).eps / 2)).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        return -(2 * self.scale).log() - (self._checked(value) - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        away = self._checked(value) - self.loc
        return 0.5 - 0.5 * away.sign() * _core.expm1(-away.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class Cauchy(_Around):
    """Cauchy's distribution: density 1 / (π scale (1 + ((x - loc) / scale)²)); it has no mean.

    Args:
        loc: The median and mode.
        scale: Half of the width at half of the largest density.
    """

    @property
    def mean(self) -> Tensor:
        """nan: there is none."""
        return self.loc.new_full(tuple(self._extended_shape()), math.nan)

    @property
    def variance(self) -> Tensor:
        """inf."""
        return self.loc.new_full(tuple(self._extended_shape()), math.inf)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = self.loc.new_empty(tuple(self._extended_shape(sample_shape))).cauchy_()
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        away = (self._checked(value) - self.loc) / self.scale
        return -math.log(math.pi) - self.scale.log() - (away**2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return ((self._checked(value) - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()


class StudentT(OfParameters):
    """Student's t: density proportional to (1 + y² / df)^(-(df + 1) / 2) of y = (x - loc) / scale.

    Args:
        df: The degrees of freedom.
        loc: The middle.
        scale: How wide.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    )
    support: Constraint = constraints.real  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(
        self,
        df: Tensor | float,
        loc: Tensor | float = 0.0,
        scale: Tensor | float = 1.0,
        validate_args: bool | None = None,
    ) -> None:
        df, loc, scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(df, validate_args)
        self._set(validate_args, df=df, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        """loc; nan where df <= 1."""
        return _core.where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        """The most likely value: loc."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """scale² df / (df - 2); inf where df is in (1, 2], nan below."""
        df = self.df
        finite = self.scale.pow(2) * df / (df - 2)
        return _core.where(df > 2, finite, _core.where(df > 1, math.inf, math.nan))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        x = _standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * x * (z / self.df).rsqrt()

    def _log_scale(self) -> Tensor:
        df = self.df
        return self.scale.log() + 0.5 * df.log() + 0.5 * math.log(math.pi) + (df / 2).lgamma() - ((df + 1) / 2).lgamma()

    def log_prob(self, value: Tensor) -> Tensor:
        y = (self._checked(value) - self.loc) / self.scale
        return -0.5 * (self.df + 1) * (y**2 / self.df).log1p() - self._log_scale()

    def entropy(self) -> Tensor:
        df = self.df
        return 0.5 * (df + 1) * ((0.5 * (df + 1)).digamma() - (0.5 * df).digamma()) + self._log_scale()


class Uniform(OfParameters):
    """The uniform distribution: density 1 / (high - low) from low up to, not including, high.

    Args:
        low: The least value.
        high: What values are below.
    """

    has_rsample = True
    low: Tensor
    high: Tensor

    @property
    def arg_constraints(self) -> Mapping[str, Constraint]:
        """low is less than high, and high greater than low."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, low=low, high=high)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        """Numbers from low to high."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """nan: no value is more likely."""
        return math.nan * self.high

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        """The variance: (high - low)² / 12."""
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        at = rand(tuple(self._extended_shape(sample_shape)), dtype=self.low.dtype, device=self.low.device)
        return self.low + at * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        inside = _core.logical_and(self.low <= value, self.high > value).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        return ((self._checked(value) - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Gumbel(OfParametersTransformed):
    """Gumbel's distribution, of maxima: cdf exp(-exp(-(x - loc) / scale)).

    Args:
        loc: The mode.
        scale: How wide.
    """

    arg_constraints: Mapping[str, Constraint] = _LOC_SCALE
    support: Constraint = constraints.real  # pyright: ignore[reportIncompatibleVariableOverride]
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale)

    def _made(self, validate_args: bool | None) -> tuple[Distribution, list[Transform]]:
        limits = finfo(self.loc.dtype)
        low = _core.full_like(self.loc, limits.tiny)
        base = Uniform(low, _core.full_like(self.loc, 1 - limits.eps), validate_args=validate_args)
        # x = loc - scale log(-log u)
        ones = _core.ones_like(self.scale)
        minus_log = [ExpTransform().inv, AffineTransform(loc=0, scale=-ones)]
        return base, [*minus_log, ExpTransform().inv, AffineTransform(loc=self.loc, scale=-self.scale)]

    def log_prob(self, value: Tensor) -> Tensor:
        y = (self.loc - self._checked(value)) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self) -> Tensor:
        """loc and Euler's constant times scale."""
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        """The most likely value: loc."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """π scale / sqrt(6)."""
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        return self.scale.log() + (1 + euler_constant)
