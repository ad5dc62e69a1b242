"""Parametrizations of weights: a direction times a length, or over their largest singular value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder.cuda._refused import refused
from smolder.nn.module import Module
from smolder.nn.utils import parametrize
from smolder.nn.utils.reparametrize import _matrix, _norm_except, _normalize

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]
__dir__ = _listing(__name__)

orthogonal: Callable[..., Any] = refused(
    "nn.utils.parametrizations.orthogonal", "there is no product of Householder reflections"
)


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
