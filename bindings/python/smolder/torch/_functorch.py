"""The module `functorch` under the alias: a package that comes with torch, whose functions moved to torch.func."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from smolder import nn, stack
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.func import functional_call, functionalize, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap

__all__ = [
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd",
    "jacrev", "jvp", "make_functional", "make_functional_with_buffers", "vjp", "vmap",
]  # fmt: skip
__dir__ = _listing(__name__)


class FunctionalModuleWithBuffers(nn.Module):
    """A module as a function of its parameters and buffers, which it is called with: f(params, buffers, *args)."""

    def __init__(self, stateless_model: nn.Module, param_names: Sequence[str], buffer_names: Sequence[str]) -> None:
        super().__init__()
        self.stateless_model = stateless_model
        self.param_names, self.buffer_names = tuple(param_names), tuple(buffer_names)

    def forward(self, params: Sequence[Tensor], buffers: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Calls the module with these. Changes to its buffers stay."""
        state = dict(zip((*self.param_names, *self.buffer_names), (*params, *buffers), strict=True))
        return functional_call(self.stateless_model, state, args, kwargs)


class FunctionalModule(FunctionalModuleWithBuffers):
    """A module without buffers as a function of its parameters: f(params, *args)."""

    def forward(self, params: Sequence[Tensor], *args: Any, **kwargs: Any) -> Any:
        """Calls the module with these."""
        return super().forward(params, (), *args, **kwargs)


def make_functional_with_buffers(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """The module as a function, and copies of its parameters and buffers."""
    return _split(FunctionalModuleWithBuffers, model, disable_autograd_tracking)


def make_functional(
    model: nn.Module, disable_autograd_tracking: bool = False
) -> tuple[FunctionalModule, tuple[Tensor, ...]]:
    """The module as a function, and copies of its parameters; raises of a module that has buffers."""
    if any(True for _ in model.buffers()):
        raise RuntimeError(
            "make_functional(model): `model` has buffers. Please use make_functional_with_buffers(model) instead."
        )
    function, params, _ = _split(FunctionalModule, model, disable_autograd_tracking)
    return function, params


def _split(kind, model, untracked):
    own = copy.deepcopy(model)
    params, buffers = dict(own.named_parameters()), dict(own.named_buffers())
    for p in params.values() if untracked else ():
        p.requires_grad_(False)
    return kind(own, params, buffers), tuple(params.values()), tuple(buffers.values())


def combine_state_for_ensemble(
    models: Sequence[nn.Module],
) -> tuple[FunctionalModuleWithBuffers, tuple[Tensor, ...], tuple[Tensor, ...]]:
    """One function for modules of the same class, and their parameters and buffers stacked, for vmap."""
    if not models:
        raise RuntimeError("combine_state_for_ensemble: Expected at least one model, got 0.")
    if any(m.training != models[0].training for m in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("combine_state_for_ensemble: Expected all models to be of the same class.")
    functions, params, buffers = zip(*(make_functional_with_buffers(m) for m in models), strict=True)
    return functions[0], tuple(map(_leaf, zip(*params, strict=True))), tuple(map(_leaf, zip(*buffers, strict=True)))


def _leaf(tensors):
    return stack(tensors).detach().requires_grad_(tensors[0].requires_grad)
