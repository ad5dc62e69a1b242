"""Weights that are computed before each call: a direction times a length, or over their largest singular value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder.nn.parameter import Parameter

if TYPE_CHECKING:
    from smolder._typing import Module

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]
__dir__ = _listing(__name__)


def _norm_except(v, dim):
    """Norms of the slices of v along dim, which keep their places; dim None is that of all."""
    if dim is None or dim == -1:
        return v.norm()
    axes = [i for i in range(v.dim()) if i != dim]
    return v.norm(2, axes, keepdim=True) if axes else v.abs()


class _Reparametrization:
    """A hook that sets the attribute `name` of a module before each call of it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, module: Module, inputs: tuple[Any, ...]) -> None:
        setattr(module, self.name, self.compute(module))


def _attach(module, hook):
    for other in module._forward_pre_hooks.values():
        if isinstance(other, type(hook)) and other.name == hook.name:
            raise RuntimeError(f"Cannot register two {hook.called} hooks on the same parameter {hook.name}")
    module.register_forward_pre_hook(hook)


def _detach(module, kind, name):
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, kind) and hook.name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"{kind.called} of '{name}' not found in {module}")


class _WeightNorm(_Reparametrization):
    called = "weight_norm"

    def __init__(self, name, dim):
        super().__init__(name)
        self.dim = -1 if dim is None else dim

    def compute(self, module):
        v, g = getattr(module, self.name + "_v"), getattr(module, self.name + "_g")
        return v * (g / _norm_except(v, self.dim))

    def remove(self, module):
        weight = self.compute(module)
        delattr(module, self.name)
        del module._parameters[self.name + "_g"], module._parameters[self.name + "_v"]
        setattr(module, self.name, Parameter(weight.detach()))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Makes a parameter the product of name_g, its lengths along dim, and of the directions of name_v."""
    hook = _WeightNorm(name, dim)
    weight = getattr(module, name)
    _attach(module, hook)
    del module._parameters[name]
    with no_grad():
        lengths = _norm_except(weight, hook.dim).detach()
    module.register_parameter(name + "_g", Parameter(lengths))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    setattr(module, name, hook.compute(module))
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Makes what weight_norm took apart a parameter again."""
    return _detach(module, _WeightNorm, name)


def _matrix(weight, dim):
    """The weight as a matrix whose rows are its slices along dim."""
    weight = weight if dim == 0 else weight.movedim(dim, 0)
    return weight.reshape((weight.size(0), -1))


def _normalize(v, eps):
    return v / v.norm().clamp_min(eps)


class _SpectralNorm(_Reparametrization):
    """Power iteration: u and v, vectors of the largest singular value, come nearer to it with each call in training."""

    called = "spectral_norm"

    def __init__(self, name, n_power_iterations, dim, eps):
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        super().__init__(name)
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim, eps

    def compute(self, module, iterate=None):
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = _matrix(weight, self.dim)
        if module.training if iterate is None else iterate:
            with no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(_normalize(_core.mv(matrix.t(), u), self.eps))
                    u.copy_(_normalize(_core.mv(matrix, v), self.eps))
                # Copies: what the gradient saves must not change with the next call.
                u, v = u.clone(), v.clone()
        return weight / _core.dot(u, _core.mv(matrix, v))

    def remove(self, module):
        with no_grad():
            weight = self.compute(module, iterate=False)
        delattr(module, self.name)
        for part in ("_u", "_v"):
            delattr(module, self.name + part)
        delattr(module, self.name + "_orig")
        module.register_parameter(self.name, Parameter(weight.detach()))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Makes a parameter name_orig over its largest singular value, found by power iteration."""
    if dim is None:
        transposed = type(module).__name__ in ("ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d")
        dim = 1 if transposed else 0
    hook = _SpectralNorm(name, n_power_iterations, dim, eps)
    weight = module._parameters[name]
    if weight is None:
        raise ValueError(f"`SpectralNorm` cannot be applied as parameter `{name}` is None")
    _attach(module, hook)
    with no_grad():
        rows, columns = _matrix(weight, hook.dim).shape
        u, v = (_normalize(_core.randn((n,), dtype=weight.dtype).to(weight.device), eps) for n in (rows, columns))
    del module._parameters[name]
    module.register_parameter(name + "_orig", weight)
    setattr(module, name, weight.data)
    module.register_buffer(name + "_u", u)
    module.register_buffer(name + "_v", v)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Makes what spectral_norm divides a parameter again."""
    return _detach(module, _SpectralNorm, name)
