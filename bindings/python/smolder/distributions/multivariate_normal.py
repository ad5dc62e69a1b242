"""Normal distributions of vectors."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from smolder import linalg
from smolder._creation import eye
from smolder._functions import broadcast_shapes
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.distributions import constraints
from smolder.distributions.distribution import OfParameters
from smolder.distributions.utils import _standard_normal, lazy_property

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = ["LowRankMultivariateNormal", "MultivariateNormal", "OfCovariance"]
__dir__ = _listing(__name__)


def squared_lengths(triangle: Tensor, x: Tensor) -> Tensor:
    """x^T M^-1 x of vectors x, where M = L L^T of lower triangles L; batches broadcast."""
    batch = broadcast_shapes(tuple(triangle.shape[:-2]), tuple(x.shape[:-1]))
    n = x.shape[-1]
    own = tuple(triangle.shape[:-2])
    if math.prod(own) == 1:  # one matrix: all vectors are columns of one right side
        columns = x.reshape((-1, n)).t()
        return linalg.solve_triangular(triangle.reshape((n, n)), columns, upper=False).pow(2).sum(0).reshape(batch)
    wide = triangle.expand((*batch, n, n))
    solved = linalg.solve_triangular(wide, x.expand((*batch, n)).unsqueeze(-1), upper=False)
    return solved.squeeze(-1).pow(2).sum(-1)


def half_log_det(triangle: Tensor) -> Tensor:
    """log det L of lower triangles: half of that of L L^T."""
    return triangle.diagonal(dim1=-2, dim2=-1).log().sum(-1)


def triangle_of_inverse(precision: Tensor) -> Tensor:
    """The lower triangle L with L L^T = P^-1, by the Cholesky factor of P flipped."""
    flipped = linalg.cholesky(precision.flip((-2, -1)))
    upper = flipped.flip((-2, -1)).mT
    unit = eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return linalg.solve_triangular(upper, unit.expand(tuple(precision.shape)), upper=False)


# Names of torch's that libraries import.
_batch_mahalanobis = squared_lengths
_precision_to_scale_tril = triangle_of_inverse


class OfCovariance(OfParameters):
    """Given by a covariance, its inverse or its Cholesky factor; the others are made when they are first asked for."""

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower triangle L with L L^T = covariance."""
        triangle = self._unbroadcasted_scale_tril
        return triangle.expand(tuple(self._batch_shape) + tuple(triangle.shape[-2:]))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        n = self._unbroadcasted_scale_tril.shape[-1]
        unit = eye(n, dtype=self._unbroadcasted_scale_tril.dtype, device=self._unbroadcasted_scale_tril.device)
        inverse = linalg.solve_triangular(
            self._unbroadcasted_scale_tril, unit.expand(tuple(self._unbroadcasted_scale_tril.shape)), upper=False
        )
        return inverse.mT @ inverse

    @lazy_property
    def _unbroadcasted_scale_tril(self) -> Tensor:
        """scale_tril, by torch's name of it. What computes asks for this one, as scale_tril is printed once it was asked for."""
        if "scale_tril" in self.__dict__:
            return self.scale_tril
        if "covariance_matrix" in self.__dict__:
            return linalg.cholesky(self.covariance_matrix)
        return triangle_of_inverse(self.precision_matrix)


class MultivariateNormal(OfCovariance):
    """The normal distribution of vectors, of a mean and a covariance, which one of three matrices gives.

    Args:
        loc: The mean.
        covariance_matrix: The covariance.
        precision_matrix: Its inverse.
        scale_tril: Its Cholesky factor, which is what is computed with.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {
            "loc": constraints.real_vector,
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
        }
    )
    support: Constraint = constraints.real_vector  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True
    loc: Tensor

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        names = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: matrix for name, matrix in names.items() if matrix is not None}
        if len(given) != 1:
            raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            what = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{what} must be at least two-dimensional, with optional leading batch dimensions")
        batch = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1]))
        self.loc = loc.expand((*batch, -1))
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        super().__init__(batch, self.loc.shape[-1:], validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: loc."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The most likely value: loc."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variances: the diagonal of the covariance."""
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        noise = _standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        square = squared_lengths(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + square) - half_log_det(
            self._unbroadcasted_scale_tril
        )

    def entropy(self) -> Tensor:
        constant = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (constant + half_log_det(self._unbroadcasted_scale_tril)).expand(tuple(self._batch_shape))


class LowRankMultivariateNormal(OfParameters):
    """The normal distribution of vectors whose covariance is W W^T + diag(d): of few columns W, and a diagonal d.

    By the lemmas of Woodbury and of determinants only the capacitance 1 + W^T diag(1/d) W is factored, of W's columns.

    Args:
        loc: The mean.
        cov_factor: W.
        cov_diag: d.
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType(
        {
            "loc": constraints.real_vector,
            "cov_factor": constraints.independent(constraints.real, 2),
            "cov_diag": constraints.independent(constraints.positive, 1),
        }
    )
    support: Constraint = constraints.real_vector  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True
    loc: Tensor
    cov_factor: Tensor
    cov_diag: Tensor

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if tuple(cov_factor.shape[-2:-1]) != tuple(event):
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event[0]} x m")
        if tuple(cov_diag.shape[-1:]) != tuple(event):
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event}")
        batch = broadcast_shapes(tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]), tuple(cov_diag.shape[:-1]))
        self.loc = loc.expand((*batch, -1))
        self.cov_factor = cov_factor.expand((*batch, -1, -1))
        self.cov_diag = cov_diag.expand((*batch, -1))
        super().__init__(batch, event, validate_args)

    @property
    def _capacitance_tril(self) -> Tensor:
        """The Cholesky factor of 1 + W^T diag(1/d) W."""
        rank = self.cov_factor.shape[-1]
        unit = eye(rank, dtype=self.cov_factor.dtype, device=self.cov_factor.device)
        return linalg.cholesky(unit + (self.cov_factor.mT / self.cov_diag.unsqueeze(-2)) @ self.cov_factor)

    @property
    def mean(self) -> Tensor:
        """The mean: loc."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The most likely value: loc."""
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The variances: the diagonal of the covariance."""
        return (self.cov_factor.pow(2).sum(-1) + self.cov_diag).expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        root = self.cov_diag.sqrt().unsqueeze(-1)
        scaled = self.cov_factor / root
        unit = eye(self._event_shape[0], dtype=scaled.dtype, device=scaled.device)
        return root * linalg.cholesky(scaled @ scaled.mT + unit)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed()

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        by_diag = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        half = linalg.solve_triangular(self._capacitance_tril, by_diag, upper=False)
        return self.cov_diag.reciprocal().diag_embed() - half.mT @ half

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        of_factor = _standard_normal((*shape[:-1], self.cov_factor.shape[-1]), self.loc.dtype, self.loc.device)
        of_diag = _standard_normal(shape, self.loc.dtype, self.loc.device)
        return self.loc + (self.cov_factor @ of_factor.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * of_diag

    def _log_det(self) -> Tensor:
        return 2 * half_log_det(self._capacitance_tril) + self.cov_diag.log().sum(-1)

    def _squared_length(self, x: Tensor) -> Tensor:
        """x^T covariance^-1 x."""
        shares = ((self.cov_factor.mT / self.cov_diag.unsqueeze(-2)) @ x.unsqueeze(-1)).squeeze(-1)
        return (x.pow(2) / self.cov_diag).sum(-1) - squared_lengths(self._capacitance_tril, shares)

    def log_prob(self, value: Tensor) -> Tensor:
        square = self._squared_length(self._checked(value) - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + square)

    def entropy(self) -> Tensor:
        constant = self._event_shape[0] * (1.0 + math.log(2 * math.pi))
        return (0.5 * (constant + self._log_det())).expand(tuple(self._batch_shape))
