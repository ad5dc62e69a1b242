"""Distributions of matrices: covariances, and factors of correlations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar

from smolder import _core, linalg
from smolder._creation import arange
from smolder._functions import broadcast_shapes
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._types import finfo
from smolder._typing import Number, Tensor
from smolder._warn import warn
from smolder.distributions import constraints
from smolder.distributions.distribution import OfParameters
from smolder.distributions.exp_family import ExponentialFamily
from smolder.distributions.multivariate_normal import OfCovariance, half_log_det
from smolder.distributions.positive import Chi2
from smolder.distributions.shares import Beta
from smolder.distributions.utils import _standard_normal, broadcast_all
from smolder.special import multigammaln

if TYPE_CHECKING:
    from smolder._typing import Constraint

__all__ = ["LKJCholesky", "Wishart"]
__dir__ = _listing(__name__)


class LKJCholesky(OfParameters):
    """The distribution of Cholesky factors of correlation matrices M with density proportional to det(M)^(η - 1).

    Args:
        dim: The size of the matrices.
        concentration: η: 1 is uniform, and the larger the smaller are the correlations.

    Samples are made row by row by the onion method: the squared length of what is off the diagonal has a beta
    distribution, its direction is uniform (Lewandowski, Kurowicka and Joe 2009).
    """

    arg_constraints: Mapping[str, Constraint] = MappingProxyType({"concentration": constraints.positive})
    support: Constraint = constraints.corr_cholesky  # pyright: ignore[reportIncompatibleVariableOverride]
    dim: int
    concentration: Tensor

    def __init__(self, dim: int, concentration: Tensor | float = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.size(), (dim, dim), validate_args)
        self._beta = self._of_lengths()

    def _of_lengths(self) -> Beta:
        """The distribution of the squared lengths, row by row; the first row has none."""
        c = self.concentration
        after = arange(self.dim - 1, dtype=c.dtype, device=c.device)
        half = _core.cat([after.new_zeros((1,)), after]) / 2
        shorter = c.unsqueeze(-1) + 0.5 * (self.dim - 2) - half
        return Beta(half + 0.5, shorter, validate_args=False)

    def _expand_part(self, name: str, part: Beta, batch_shape: tuple[int, ...]) -> Beta:  # type: ignore[override]
        return part.expand((*batch_shape, self.dim))

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        with no_grad():
            square = self._beta.sample(sample_shape).unsqueeze(-1)
            noise = _standard_normal(
                self._extended_shape(sample_shape), self.concentration.dtype, self.concentration.device
            ).tril(-1)
            length = noise.pow(2).sum(-1, keepdim=True).sqrt()
            first = (arange(self.dim, device=noise.device) == 0).unsqueeze(-1)
            direction = noise / _core.where(first, 1.0, length)
            below = _core.where(first, 0.0, square.sqrt() * direction)
            least = finfo(below.dtype).tiny
            diagonal = (1 - below.pow(2).sum(-1)).clamp(min=least).sqrt()
            return below + diagonal.diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        diagonal = self._checked(value).diagonal(dim1=-1, dim2=-2)[..., 1:]
        c, n = self.concentration, self.dim
        order = arange(2, n + 1, dtype=c.dtype, device=c.device)
        powers = 2 * (c - 1).unsqueeze(-1) + n - order
        unnormalized = (powers * diagonal.log()).sum(-1)
        # The normalizer is that of the vines: a product of multivariate beta functions (page 1999 of the paper).
        rest = n - 1
        alpha = c + 0.5 * rest
        numerator = multigammaln(alpha - 0.5, rest)
        return unnormalized - (0.5 * rest * math.log(math.pi) + numerator - alpha.lgamma() * rest)


class Wishart(OfCovariance, ExponentialFamily):
    """Wishart's distribution of covariances: of sums of df products x x^T of normal vectors x of a covariance.

    Args:
        df: The degrees of freedom, more than the size of the matrices less 1.
        covariance_matrix: The covariance of x.
        precision_matrix: Its inverse, in place of it.
        scale_tril: Its Cholesky factor, in place of it.

    Samples are L A A^T L^T of lower triangles A with normal numbers below and roots of chi-squared ones on the diagonal
    (Bartlett 1933), through which gradients go.
    """

    support: Constraint = constraints.positive_definite  # pyright: ignore[reportIncompatibleVariableOverride]
    has_rsample = True
    _mean_carrier_measure: ClassVar[float] = 0  # type: ignore[misc]
    df: Tensor

    @property
    def arg_constraints(self) -> Mapping[str, Constraint]:
        """Matrices are positive-definite, df larger than their size less 1."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self._event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Tensor | Number,
        covariance_matrix: Tensor | None = None,
        precision_matrix: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        names = {"covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril}
        given = {name: matrix for name, matrix in names.items() if matrix is not None}
        if len(given) != 1:
            raise AssertionError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
        ((name, matrix),) = given.items()
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        df = df if isinstance(df, _core.Tensor) else matrix.new_full((), float(df))
        batch, event = broadcast_shapes(tuple(matrix.shape[:-2]), tuple(df.shape)), matrix.shape[-2:]
        self.df = df.expand(batch)
        self.__dict__[name] = matrix.expand((*batch, -1, -1))
        n = event[-1]
        if self._validate_args if validate_args is None else validate_args:
            if self.df.le(n - 1).any().item():
                raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {n - 1}.")
            if self.df.lt(n).any().item():
                warn("Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.")
        super().__init__(batch, event, validate_args)
        self._chi2 = self._of_diagonal()

    def _of_diagonal(self) -> Chi2:
        n = self._event_shape[-1]
        return Chi2(self.df.unsqueeze(-1) - arange(n, dtype=self.df.dtype, device=self.df.device), validate_args=False)

    def _expand_part(self, name: str, part: Chi2, batch_shape: tuple[int, ...]) -> Chi2:  # type: ignore[override]
        return part.expand((*batch_shape, self._event_shape[-1]))

    @property
    def mean(self) -> Tensor:
        """The mean: df covariance."""
        return self.df.unsqueeze(-1).unsqueeze(-1) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """The most likely matrix: (df - n - 1) covariance; nan where that is not positive."""
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = _core.where(factor <= 0, math.nan, factor)
        return factor.unsqueeze(-1).unsqueeze(-1) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variances of the elements."""
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        products = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.unsqueeze(-1).unsqueeze(-1) * (v.pow(2) + products)

    def rsample(self, sample_shape: Sequence[int] = (), max_try_correction: int | None = None) -> Tensor:
        """Samples through which gradients reach the parameters.

        Args:
            sample_shape: How many of each distribution.
            max_try_correction: For PyTorch's signature. There, as often are samples drawn again that rounded to singular
                matrices; None leaves it to the size. Roots of chi-squared draws do not round to 0 here, so none is.
        """
        shape = self._extended_shape(sample_shape)
        noise = _standard_normal(shape, self.df.dtype, self.df.device).tril(-1)
        diagonal = self._chi2.rsample(sample_shape).sqrt()
        chol = self.scale_tril @ (noise + diagonal.diag_embed())
        return chol @ chol.mT

    def log_prob(self, value: Tensor) -> Tensor:
        value = self._checked(value)
        df, n = self.df, self._event_shape[-1]
        batch = broadcast_shapes(tuple(value.shape[:-2]), tuple(self._batch_shape))
        triangle, wide = self.scale_tril.expand((*batch, n, n)), value.expand((*batch, n, n))
        factor = linalg.cholesky(wide)
        trace = linalg.solve_triangular(triangle, factor, upper=False).pow(2).sum((-2, -1))
        return (
            -df * (n * math.log(2.0) / 2 + half_log_det(self.scale_tril))
            - multigammaln(df / 2, n)
            + (df - n - 1) * half_log_det(factor)
            - trace / 2
        )

    def entropy(self) -> Tensor:
        df, n = self.df, self._event_shape[-1]
        return (
            (n + 1) * (n * math.log(2.0) / 2 + half_log_det(self.scale_tril))
            + multigammaln(df / 2, n)
            - (df - n - 1) / 2 * _multidigamma(df / 2, n)
            + df * n / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return -self.precision_matrix / 2, (self.df - self._event_shape[-1] - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        n = self._event_shape[-1]
        half = y + (n + 1) / 2
        return half * (-linalg.slogdet(-2 * x)[1] + math.log(2.0) * n) + multigammaln(half, n)


def _multidigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of multigammaln(x, p)."""
    total = x.digamma()
    for j in range(1, p):
        total = total + (x - 0.5 * j).digamma()
    return total
