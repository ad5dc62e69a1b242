"""Parametrizations of weights: orthogonal ones, a direction times a length, or over their largest singular value."""

from __future__ import annotations

from smolder import _core, linalg
from smolder._creation import eye, zeros
from smolder._functions import allclose
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._reflectors import geqrf
from smolder._types import finfo
from smolder.nn.module import Module
from smolder.nn.utils import parametrize
from smolder.nn.utils.reparametrize import _matrix, _norm_except, _normalize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
__dir__ = _listing(__name__)


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / _norm_except(weight_v, self.dim))

    def right_inverse(self, weight):
        return _norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Makes a parameter the product of original0, its lengths along dim, and of the directions of original1."""
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def rename(state_dict, prefix, *_):
        """States of the older weight_norm have other names."""
        old, new = (f"{prefix}{name}_g", f"{prefix}{name}_v"), f"{prefix}parametrizations.{name}.original"
        if all(key in state_dict for key in old):
            for i, key in enumerate(old):
                state_dict[f"{new}{i}"] = state_dict.pop(key)

    module._register_load_state_dict_pre_hook(rename)
    return module


class _SpectralNorm(Module):
    """Power iteration: _u and _v, vectors of the largest singular value, come nearer to it when read in training."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        rank = weight.dim()
        if dim >= rank or dim < -rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [-{rank}, {rank - 1}] but got {dim})")
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.dim, self.eps = dim if dim >= 0 else dim + rank, eps
        if rank > 1:
            self.n_power_iterations = n_power_iterations
            matrix = _matrix(weight.detach(), self.dim)
            for part, n in zip(("_u", "_v"), matrix.shape, strict=True):
                start = _core.randn((n,), dtype=weight.dtype).to(weight.device)
                self.register_buffer(part, _normalize(start, eps))
            self._iterate(matrix, 15)

    def _iterate(self, matrix, times):
        with no_grad():
            for _ in range(times):
                self._u.copy_(_normalize(_core.mv(matrix, self._v), self.eps))
                self._v.copy_(_normalize(_core.mv(matrix.t(), self._u), self.eps))

    def forward(self, weight):
        if weight.dim() == 1:
            return _normalize(weight, self.eps)
        matrix = _matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        # Copies: what the gradient saves must not change with the next call.
        u, v = self._u.clone(), self._v.clone()
        return weight / _core.dot(u, _core.mv(matrix, v))

    def right_inverse(self, value):
        return value  # as near as it gets: a value of another norm is one of norm 1 then


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Makes a parameter what it was over its largest singular value, found by power iteration."""
    weight = getattr(module, name, None)
    if not isinstance(weight, _core.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        transposed = type(module).__name__ in ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
        dim = 1 if transposed else 0
    parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
    return module


def _is_orthogonal(q):
    product = q.mH @ q
    tolerance = 10.0 * q.size(-2) * finfo(q.dtype).eps
    return allclose(product, eye(q.size(-1), dtype=q.dtype, device=q.device), atol=tolerance)


def _orthogonal_factor(a):
    """Q of A = Q R where the diagonal of R is not negative, of a tall A."""
    factors, tau = geqrf(a)
    return linalg.householder_product(factors, tau) * _core.sgn(factors.diagonal(0, -2, -1)).unsqueeze(-2)


class _Orthogonal(Module):
    """Maps matrices to orthogonal ones, of which `base`, where there is one, is what those turn.

    Lezcano-Casado, Trivializations for Gradient-Based Optimization on Manifolds, 2019. Matrices that are wider than tall
    are maps of their transposes.
    """

    def __init__(self, weight, orthogonal_map, *, use_trivialization=True):
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            # No tau that follows from complex vectors makes their reflectors all of the unitary matrices.
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, X):
        wide = X.size(-2) < X.size(-1)
        tall = X.mT if wide else X
        q = self._reflected(tall) if self.orthogonal_map == "householder" else self._turned(tall)
        if hasattr(self, "base"):
            q = self.base @ q
        return q.mT if wide else q

    def _turned(self, x):
        """The first columns of what the map makes of a skew-Hermitian matrix."""
        rows, columns = x.shape[-2:]
        x = _core.tril(x)
        if rows != columns:
            rest = zeros((*x.shape[:-1], rows - columns), dtype=x.dtype, device=x.device)
            x = _core.cat([x, rest], -1)
        skew = x - x.mH
        if self.orthogonal_map == "matrix_exp":
            return linalg.matrix_exp(skew)[..., :columns]
        unit = eye(rows, dtype=x.dtype, device=x.device)
        return linalg.solve(unit - skew * 0.5, unit + skew * 0.5)[..., :columns]

    def _reflected(self, x):
        vectors = _core.tril(x, -1)
        signs = x.detach().diagonal(0, -2, -1).int()
        product = linalg.householder_product(vectors, 2.0 / (1.0 + vectors.square().sum(-2)))
        return product * signs.unsqueeze(-2)

    @no_grad()
    def right_inverse(self, Q):
        if Q.shape != self.shape:
            raise ValueError(
                f"Expected a matrix or batch of matrices of shape {self.shape}. Got a tensor of shape {Q.shape}."
            )
        wide = Q.size(-2) < Q.size(-1)
        tall = Q.mT if wide else Q
        if not hasattr(self, "base"):
            return self._reflectors_of(tall).mT if wide else self._reflectors_of(tall)
        rows, columns = tall.shape[-2:]
        if rows != columns:  # completed by columns at random
            rest = _core.randn((*tall.shape[:-2], rows, rows - columns), dtype=Q.dtype).to(Q.device)
            self.base = _orthogonal_factor(_core.cat([tall, rest], -1))
        else:
            self.base = tall.clone() if _is_orthogonal(tall) else _orthogonal_factor(tall)
        # Every map makes the first columns of the identity of this one.
        return -eye(*Q.shape[-2:], dtype=Q.dtype, device=Q.device).expand(Q.shape).clone()

    def _reflectors_of(self, q):
        if self.orthogonal_map != "householder":
            raise NotImplementedError(
                "It is not possible to assign to the matrix exponential or the Cayley parametrizations when "
                "use_trivialization=False."
            )
        factors, tau = geqrf(q)
        signs = factors.diagonal(0, -2, -1).sign()
        signs = _core.where(tau == 0, -signs, signs)  # LAPACK's for no reflection, where 2 / (1 + 0) is one
        factors.diagonal(0, -2, -1).copy_(signs)
        return factors


_MAPS = ("matrix_exp", "cayley", "householder")


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Makes a parameter a matrix, or a batch of them, whose columns are orthonormal, or rows where it has fewer.

    orthogonal_map: matrix_exp, cayley (of a skew-Hermitian matrix) or householder (a product of reflectors); by default
    householder for real matrices that are not square, else matrix_exp. With use_trivialization the map turns a matrix that
    is kept beside it, so that values can be assigned. Values that are not orthogonal are made so by QR.
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, _core.Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.size(-2) == weight.size(-1)
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in _MAPS:
        raise ValueError(
            f'orthogonal_map has to be one of "matrix_exp", "cayley", "householder". Got: {orthogonal_map}'
        )
    parametrize.register_parametrization(
        module, name, _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization), unsafe=True
    )
    return module
