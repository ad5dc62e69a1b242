"""Transforms of vectors and matrices, and of the parts of a tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from smolder import _core, linalg
from smolder._creation import arange, eye
from smolder._tensor import Size
from smolder._types import finfo
from smolder._typing import Tensor
from smolder.distributions import constraints
from smolder.distributions._number_transforms import _OfNumbers
from smolder.distributions.transforms import Transform
from smolder.distributions.utils import tril_matrix_to_vec, vec_to_tril_matrix
from smolder.nn import functional as F

if TYPE_CHECKING:
    from smolder._typing import Constraint
    from smolder.distributions.distribution import Distribution


class SoftmaxTransform(_OfNumbers):
    """y = softmax of vectors x; not bijective, as adding a number to x changes nothing: the inverse is log(y)."""

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return _core.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _of_dims(shape, 1)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return _of_dims(shape, 1)


def _of_dims(shape: Sequence[int], dims: int) -> Sequence[int]:
    if len(shape) < dims:
        raise ValueError("Too few dimensions on input")
    return shape


class StickBreakingTransform(_OfNumbers):
    """Vectors x of n numbers as n + 1 shares y of a stick: y_i = z_i * (what y_0 ... y_(i-1) leave).

    z_i = sigmoid(x_i - log(n - i)), so that x = 0 gives equal shares.
    """

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.simplex
    bijective = True

    def _offsets(self, x: Tensor) -> Tensor:
        n = x.shape[-1]
        return arange(n, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        at = x - self._offsets(x)
        limits = finfo(x.dtype)
        z = at.sigmoid().clamp(min=limits.tiny, max=1.0 - limits.eps)
        left = (1 - z).cumprod(-1)
        return F.pad(z, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        shares = y[..., :-1]
        left = (1 - shares.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return shares.log() - left.log() + self._offsets(shares)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # dy_i/dx_i = y_i (1 - z_i), and the matrix is triangular.
        at = x - self._offsets(x)
        return (F.logsigmoid(-at) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        _of_dims(shape, 1)
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        _of_dims(shape, 1)
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_OfNumbers):
    """Matrices as lower triangles with a positive diagonal: what is above is dropped, the diagonal is exp of x's."""

    domain: Constraint = constraints.independent(constraints.real, 2)
    codomain: Constraint = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_OfNumbers):
    """Matrices as positive-definite ones: L L^T of the lower triangle L that LowerCholeskyTransform makes."""

    domain: Constraint = constraints.independent(constraints.real, 2)
    codomain: Constraint = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """Vectors x of n (n - 1) / 2 numbers as Cholesky factors of n by n correlation matrices.

    tanh(x) are canonical partial correlations, row by row below the diagonal (Lewandowski, Kurowicka and Joe 2009):
    element j of a row is its correlation times the square root of what the elements before leave of 1.
    """

    domain: Constraint = constraints.real_vector
    codomain: Constraint = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        r = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r**2).cumprod(-1).sqrt()
        r = r + _identity(r)
        return r * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = (1 - (y * y).cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        left = F.pad(left[..., :-1], [1, 0], value=1)
        r = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (r.log1p() - r.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        # Each element is tanh(x) times what the row has left before it; both factors are of x in front of it alone.
        left = 1 - (y * y).cumsum(-1)
        below = tril_matrix_to_vec(F.pad(left[..., :-1], [1, 0], value=1), diag=-1)
        of_rows = 0.5 * below.log().sum(-1)
        of_tanh = -2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)
        return of_rows + of_tanh

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        _of_dims(shape, 1)
        count = shape[-1]
        n = round((0.25 + 2 * count) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != count:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        _of_dims(shape, 2)
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        n = shape[-1]
        return Size((*shape[:-2], n * (n - 1) // 2))


def _identity(like: Tensor) -> Tensor:
    return eye(like.shape[-1], dtype=like.dtype, device=like.device)


class _OfParts(Transform):
    """Transforms of the parts of a tensor along a dimension."""

    transforms: list[Transform]
    dim: int

    def _set(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("All elements of tseq must be Transform instances")
        Transform.__init__(self, cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether all parts are."""
        return all(t.bijective for t in self.transforms)

    def _check_dim(self, x: Tensor) -> None:
        if not -x.dim() <= self.dim < x.dim():
            raise AssertionError(f"dim {self.dim} out of range for tensor with {x.dim()} dimensions")


class CatTransform(_OfParts):
    """Transforms of parts of a tensor, whose results are concatenated.

    Args:
        tseq: The transforms.
        dim: The dimension along which the parts lie.
        lengths: How many elements along it each part has; one by default.
        cache_size: As of Transform.
    """

    lengths: list[int]

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        self._set(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"lengths ({len(self.lengths)}) must match transforms ({len(self.transforms)})")

    @property
    def event_dim(self) -> int:
        """The most dimensions that a part's events have."""
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """How many elements there are along dim."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Tensor, name: str = "x") -> Sequence[Tensor]:
        self._check_dim(x)
        if x.size(self.dim) != self.length:
            raise AssertionError(f"{name}.size({self.dim}) = {x.size(self.dim)} must equal length {self.length}")
        return x.split(self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return _core.cat([t(p) for t, p in zip(self.transforms, self._parts(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return _core.cat([t.inv(p) for t, p in zip(self.transforms, self._parts(y, "y"), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for t, a, b in zip(self.transforms, self._parts(x), self._parts(y, "y"), strict=True):
            term = t.log_abs_det_jacobian(a, b)
            more = self.event_dim - t.event_dim
            terms.append(term.sum(tuple(range(-more, 0))) if more else term)
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        dim += self.event_dim
        if dim < 0:
            return _core.cat(terms, dim)
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return total

    @constraints.dependent_property
    def domain(self) -> Constraint:
        """Those of the parts."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        """Those of the parts."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_OfParts):
    """Transforms of the slices along a dimension.

    Args:
        tseq: The transforms, one for each slice.
        dim: The dimension.
        cache_size: As of Transform.
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        self._set(tseq, dim, cache_size)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, x: Tensor, name: str = "x") -> Sequence[Tensor]:
        self._check_dim(x)
        if x.size(self.dim) != len(self.transforms):
            raise AssertionError(
                f"{name}.size({self.dim}) = {x.size(self.dim)} must equal len(transforms) = {len(self.transforms)}"
            )
        return x.unbind(self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return _core.stack([t(s) for t, s in zip(self.transforms, self._slices(x), strict=True)], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return _core.stack([t.inv(s) for t, s in zip(self.transforms, self._slices(y, "y"), strict=True)], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        slices = zip(self.transforms, self._slices(x), self._slices(y, "y"), strict=True)
        return _core.stack([t.log_abs_det_jacobian(a, b) for t, a, b in slices], self.dim)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        """Those of the slices."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        """Those of the slices."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """y = the cumulative distribution function of a distribution; its inverse is icdf.

    Args:
        distribution: The distribution.
        cache_size: As of Transform.
    """

    bijective = True
    codomain: Constraint = constraints.unit_interval
    distribution: Distribution

    def __init__(self, distribution: Distribution, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def sign(self) -> int:
        """1: probabilities grow with x."""
        return +1

    @property
    def domain(self) -> Constraint:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The support of the distribution."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
