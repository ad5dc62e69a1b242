"""Distributions of shares: numbers between 0 and 1, and vectors of them whose sum is 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from smolder import _core
from smolder._names import listing as _listing
from smolder._samplers import log_dirichlet_draw
from smolder._types import finfo
from smolder._typing import Number, Tensor
from smolder.distributions import constraints
from smolder.distributions.discrete import OfLogOdds
from smolder.distributions.distribution import Distribution, OfParameters
from smolder.distributions.exp_family import ExponentialFamily
from smolder.distributions.utils import broadcast_all, clamp_probs, times_log
from smolder.nn import functional as F

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = ["Beta", "ContinuousBernoulli", "Dirichlet"]
__dir__ = _listing(__name__)


class Dirichlet(OfParameters, ExponentialFamily):
    """Dirichlet's distribution: density Π x_i^(a_i - 1) Γ(Σ a) / Π Γ(a_i) of shares x, of a = concentration.

    Args:
        concentration: a, along the last dimension.

    Samples are gamma draws divided by their sum, and gradients go through these (Figurnov, Mohamed and Mnih 2018).
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"concentration": constraints.independent(constraints.positive, 1)}
    )
    support: Constraint = constraints.simplex  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True
    concentration: Tensor

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        concentration = self.concentration.expand(self._extended_shape(sample_shape))
        drawn = log_dirichlet_draw(concentration).exp().to(concentration.dtype)
        limits = finfo(drawn.dtype)  # within the ends, where the density may be infinite
        return drawn.clamp(min=limits.tiny, max=1 - limits.eps / 2)

    def log_prob(self, value: Tensor) -> Tensor:
        a = self.concentration
        terms = times_log(a - 1.0, self._checked(value)).sum(-1)
        return terms + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    @property
    def mean(self) -> Tensor:
        """The mean: concentrations divided by their sum."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """The most likely shares; where all concentrations are below 1, the corner of the largest."""
        a = self.concentration
        above = (a - 1).clamp(min=0.0)
        corner = F.one_hot(a.argmax(-1), a.shape[-1]).to(a.dtype)
        return _core.where((a < 1).all(-1, keepdim=True), corner, above / above.sum(-1, True))

    @property
    def variance(self) -> Tensor:
        """The variances."""
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        constant = a.lgamma().sum(-1) - total.lgamma()
        return constant - (k - total) * total.digamma() - ((a - 1.0) * a.digamma()).sum(-1)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()


class Beta(OfParameters, ExponentialFamily):
    """The beta distribution: density x^(a-1) (1-x)^(b-1) Γ(a+b) / (Γ(a) Γ(b)), a = concentration1, b = concentration0.

    Args:
        concentration1: a.
        concentration0: b.

    Samples are the first share of Dirichlet ones, and have their gradients.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"concentration1": constraints.positive, "concentration0": constraints.positive}
    )
    support: Constraint = constraints.unit_interval  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True
    _dirichlet: Dirichlet

    def __init__(
        self, concentration1: Tensor | float, concentration0: Tensor | float, validate_args: bool | None = None
    ) -> None:
        if isinstance(concentration1, int | float) and isinstance(concentration0, int | float):
            both = _core.stack(broadcast_all(float(concentration1), float(concentration0)), -1)
        else:
            both = _core.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    @property
    def concentration1(self) -> Tensor:
        """a."""
        return self._dirichlet.concentration[..., 0]

    @property
    def concentration0(self) -> Tensor:
        """b."""
        return self._dirichlet.concentration[..., 1]

    @property
    def mean(self) -> Tensor:
        """The mean: a / (a + b)."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """The variance."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        return self._dirichlet.log_prob(_core.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        return self._dirichlet.entropy()

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma() + y.lgamma() - (x + y).lgamma()


class ContinuousBernoulli(OfLogOdds, ExponentialFamily):
    """The continuous Bernoulli distribution (Loaiza-Ganem and Cunningham 2019): density proportional to p^x (1-p)^(1-x).

    Args:
        probs: p, in (0, 1), which is not the mean.
        logits: Its log odds, in place of probs.
        lims: Between them, around 1/2, where the formulas divide 0 by 0, series are used.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {"probs": constraints.unit_interval, "logits": constraints.real}
    )
    support: Constraint = constraints.unit_interval  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True
    _mean_carrier_measure: ClassVar[float] = 0  # type: ignore[misc]

    def __init__(
        self,
        probs: Tensor | Number | None = None,
        logits: Tensor | Number | None = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        given = self._set_either(probs, logits)
        self._lims = lims
        if given:
            # Only where it was asked for: by default what is not between 0 and 1 is clamped.
            if validate_args and not self.arg_constraints["probs"].check(self.probs).all().item():
                raise ValueError("The parameter probs has invalid values")
            self.__dict__["probs"] = clamp_probs(self.probs)
        Distribution.__init__(self, self._param.size(), (), validate_args)

    def _is_apart(self) -> Tensor:
        """Whether probs are far enough from 1/2 for the formulas."""
        return _core.logical_or(self.probs <= self._lims[0], self.probs > self._lims[1])

    def _apart(self, probs: Tensor) -> Tensor:
        """probs, and something far enough from 1/2 in place of what is near."""
        return _core.where(self._is_apart(), probs, self._lims[0])

    def _log_constant(self) -> Tensor:
        """log of what p^x (1-p)^(1-x) is multiplied by: 2 atanh(1 - 2p) / (1 - 2p)."""
        p = self._apart(self.probs)
        below = _core.where(p <= 0.5, p, 0.0)
        above = _core.where(p >= 0.5, p, 1.0)
        size = _core.where(p <= 0.5, (-2.0 * below).log1p(), (2.0 * above - 1.0).log())
        constant = ((-p).log1p() - p.log()).abs().log() - size
        x = (self.probs - 0.5).pow(2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return _core.where(self._is_apart(), constant, series)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        p = self._apart(self.probs)
        mean = p / (2.0 * p - 1.0) + 1.0 / ((-p).log1p() - p.log())
        x = self.probs - 0.5
        return _core.where(self._is_apart(), mean, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        p = self._apart(self.probs)
        variance = p * (p - 1.0) / (1.0 - 2.0 * p).pow(2) + 1.0 / ((-p).log1p() - p.log()).pow(2)
        x = (self.probs - 0.5).pow(2)
        return _core.where(self._is_apart(), variance, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        return self.icdf(self.probs.new_empty(tuple(self._extended_shape(sample_shape))).uniform_())

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        logits, value = broadcast_all(self.logits, value)
        return -F.binary_cross_entropy_with_logits(logits, value, reduction="none") + self._log_constant()

    def cdf(self, value: Tensor) -> Tensor:
        value, p = self._checked(value), self._apart(self.probs)
        share = (p.pow(value) * (1.0 - p).pow(1.0 - value) + p - 1.0) / (2.0 * p - 1.0)
        share = _core.where(self._is_apart(), share, value)
        return _core.where(value <= 0.0, 0.0, _core.where(value >= 1.0, 1.0, share))

    def icdf(self, value: Tensor) -> Tensor:
        p = self._apart(self.probs)
        odds = (-p + value * (2.0 * p - 1.0)).log1p() - (-p).log1p()
        return _core.where(self._is_apart(), odds / (p.log() - (-p).log1p()), value)

    def entropy(self) -> Tensor:
        log_less = (-self.probs).log1p()
        return self.mean * (log_less - self.probs.log()) - self._log_constant() - log_less

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        """The logarithm of (exp(x) - 1) / x, by its series where p is near 1/2."""
        apart = _core.logical_or(x <= self._lims[0] - 0.5, x > self._lims[1] - 0.5)
        cut = _core.where(apart, x, self._lims[0] - 0.5)
        return _core.where(apart, cut.expm1().abs().log() - cut.abs().log(), 0.5 * x + x.pow(2) / 24.0)
