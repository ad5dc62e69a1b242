"""Distributions with a density."""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import TYPE_CHECKING

from smolder import _core, linalg
from smolder._creation import rand, randn
from smolder._functions import broadcast_shapes
from smolder._names import listing as _listing
from smolder.distributions import constraints
from smolder.distributions.distribution import Distribution, OfParameters

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, Self

    from smolder._typing import Constraint, Tensor

__all__ = [
    "Exponential",
    "Laplace",
    "MultivariateNormal",
    "Normal",
    "Uniform",
]
__dir__ = _listing(__name__)


class _Around(OfParameters):
    """Symmetric around loc, scale wide."""

    arg_constraints: MappingProxyType[str, Constraint]

    arg_constraints = MappingProxyType({"loc": constraints.real, "scale": constraints.positive})
    support: Constraint = constraints.real
    has_rsample = True

    def __init__(self, loc: Tensor | float, scale: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, loc=loc, scale=scale)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    mode = mean


class Normal(_Around):
    """Of mean loc and standard deviation scale."""

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale**2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = randn(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + noise * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        away = (value - self.loc) ** 2 / (2 * self.scale**2)
        return -away - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 0.5 * (1 + _core.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        return self.loc + self.scale * _core.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * math.log(2 * math.pi) + self.scale.log()


class Uniform(OfParameters):
    """Of numbers from low to high."""

    arg_constraints: MappingProxyType[str, Constraint]

    arg_constraints = MappingProxyType({"low": constraints.real, "high": constraints.real})
    has_rsample = True

    def __init__(self, low: Tensor | float, high: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, low=low, high=high)
        if self._validate_args and not (self.low < self.high).all().item():
            raise ValueError("Uniform is not defined when low>= high")

    @property
    def support(self) -> Constraint:
        """The values that samples have."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """nan: no value is more likely."""
        return self.low * math.nan

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (self.high - self.low) ** 2 / 12

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        at = rand(tuple(self._extended_shape(sample_shape)), dtype=self.low.dtype, device=self.low.device)
        return self.low + at * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        inside = _core.logical_and(self.low <= value, self.high > value).to(self.low.dtype)
        return inside.log() - (self.high - self.low).log()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return (self.high - self.low).log()


class Exponential(OfParameters):
    """Of waiting times, rate of which end in a unit of time."""

    arg_constraints: MappingProxyType[str, Constraint]

    arg_constraints = MappingProxyType({"rate": constraints.positive})
    support: Constraint = constraints.nonnegative
    has_rsample = True

    def __init__(self, rate: Tensor | float, validate_args: bool | None = None) -> None:
        self._set(validate_args, rate=rate)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.rate.reciprocal()

    stddev = mean

    @property
    def mode(self) -> Tensor:
        """The most likely value: 0."""
        return _core.zeros_like(self.rate)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.rate**-2

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        drawn = self.rate.new_zeros(tuple(self._extended_shape(sample_shape))).exponential_()
        return drawn / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 1 - (-self.rate * value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        return -(-value).log1p() / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - self.rate.log()


class Laplace(_Around):
    """Two exponential distributions back to back at loc."""

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return 2 * self.scale**2

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        u = rand(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype, device=self.loc.device) * 2 - 1
        return self.loc - self.scale * u.sign() * (-u.abs().clamp(max=1 - 1e-7)).log1p()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -(2 * self.scale).log() - (value - self.loc).abs() / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * _core.expm1(-away.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        term = value - 0.5
        return self.loc - self.scale * term.sign() * (-2 * term.abs()).log1p()

    def entropy(self) -> Tensor:
        return 1 + (2 * self.scale).log()


class MultivariateNormal(Distribution):
    """Of vectors with mean loc, given by their covariance or by the lower triangle that it is the square of."""

    arg_constraints: MappingProxyType[str, Constraint]
    loc: Tensor

    arg_constraints = MappingProxyType(
        {
            "loc": constraints.real_vector,
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
        }
    )
    support: Constraint = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor | float,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        if sum(m is not None for m in (covariance_matrix, precision_matrix, scale_tril)) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        given = next(m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None)
        if given.dim() < 2:
            raise ValueError("the matrix must be at least two-dimensional, with optional leading batch dimensions")
        batch = broadcast_shapes(tuple(given.shape[:-2]), tuple(loc.shape[:-1]))
        event = loc.shape[-1:]
        self.loc = loc.expand((*batch, *event))
        names = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        for name, matrix in names.items():
            if matrix is not None:
                self.__dict__[name] = matrix.expand((*batch, *event, *event))
        super().__init__(batch, event, validate_args)

    def __getattr__(self, name: str) -> Tensor:
        if name == "scale_tril":
            whole = self.__dict__.get("covariance_matrix")
            made = linalg.cholesky(linalg.inv(self.precision_matrix) if whole is None else whole)
        elif name == "covariance_matrix":
            made = self.scale_tril @ self.scale_tril.transpose(-2, -1)
        elif name == "precision_matrix":
            made = linalg.inv(self.covariance_matrix)
        else:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        self.__dict__[name] = made
        return made

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    mode = mean

    @property
    def variance(self) -> Tensor:
        """The variances: the diagonal of the covariance."""
        return (self.scale_tril**2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = randn(tuple(self._extended_shape(sample_shape)), dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def _half_log_det(self):
        return self.scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        away = linalg.solve_triangular(self.scale_tril, (value - self.loc).unsqueeze(-1), upper=False).squeeze(-1)
        n = self._event_shape[0]
        return -0.5 * (n * math.log(2 * math.pi) + (away**2).sum(-1)) - self._half_log_det()

    def entropy(self) -> Tensor:
        n = self._event_shape[0]
        return (0.5 * n * (1.0 + math.log(2 * math.pi)) + self._half_log_det()).expand(self._batch_shape)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        lead, n = tuple(batch_shape), self._event_shape[0]
        triangle = self.scale_tril.expand((*lead, n, n))
        return MultivariateNormal(self.loc.expand((*lead, n)), scale_tril=triangle, validate_args=False)
