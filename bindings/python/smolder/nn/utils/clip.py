"""Helpers on the gradients and parameters of a model."""

from __future__ import annotations

import math
import types
from collections.abc import Iterable

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder._warn import warn

__all__ = [
    "clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm",
    "parameters_to_vector", "vector_to_parameters",
]  # fmt: skip
__dir__ = _listing(__name__)

# foreach says how torch computes a step: here all gradients go through the same few kernels whatever it is.


def _gradients(parameters):
    if isinstance(parameters, _core.Tensor):
        parameters = [parameters]
    return [g for g in (p.grad for p in parameters) if g is not None]


@no_grad()
def get_total_norm(
    tensors: Tensor | Iterable[Tensor],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The norm of tensors, taken as one vector. Reads nothing, unless it is to raise an error."""
    tensors = [tensors] if isinstance(tensors, _core.Tensor) else list(tensors)
    if not tensors:
        return _core.full((), 0.0, dtype=_core._default_dtype())
    order = float(norm_type)
    if any(hasattr(t, "_spec") for t in tensors):  # which processes hold parts of
        from smolder.distributed.tensor import _rules

        return _checked(_rules.total_norm(tensors, order), order, error_if_nonfinite)
    norms = [t.norm(order).to(tensors[0].device) for t in tensors]
    total = norms[0] if len(norms) == 1 else _core.stack(norms).norm(order)
    return _checked(total, order, error_if_nonfinite)


def _checked(total, order, error_if_nonfinite):
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be clipped. To "
            "disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Scales gradients whose norm is total_norm so that it is at most max_norm."""
    if hasattr(total_norm, "_spec"):  # a DTensor, which is the same on all processes
        total_norm = total_norm.to_local()
    factor = _core.clamp_max(float(max_norm) / (total_norm + 1e-6), 1.0)
    factors = {}  # by device
    for g in _gradients(parameters):
        if g.device not in factors:
            factors[g.device] = factor.to(g.device)
        g.mul_(factors[g.device])


def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scales gradients so that their norm, taken as one vector, is at most max_norm; returns what it was."""
    if not isinstance(parameters, _core.Tensor):
        once = isinstance(parameters, types.GeneratorType)
        parameters = list(parameters)
        if once and not parameters:
            warn("`parameters` is an empty generator, no gradient clipping will occur.")
    total = get_total_norm(_gradients(parameters), norm_type, error_if_nonfinite, foreach)
    clip_grads_with_norm_(parameters, max_norm, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensor | Iterable[Tensor],
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """The name that clip_grad_norm_ had."""
    warn("`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.", FutureWarning)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clamps gradients to [-clip_value, clip_value]."""
    for g in _gradients(parameters):
        _core.assign(g, _core.clamp(g, -float(clip_value), float(clip_value)))


def parameters_to_vector(parameters: Tensor | Iterable[Tensor]) -> Tensor:
    """All parameters, flattened and joined."""
    return _core.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Tensor | Iterable[Tensor]) -> None:
    """Makes slices of a vector the data of parameters, in order: they share its memory, and have its dtype."""
    if not isinstance(vec, _core.Tensor):
        raise TypeError(f"expected a tensor, but got: {type(vec).__name__}")
    at = 0
    for p in parameters:
        n = p.numel()
        p.data = vec[at : at + n].view_as(p).data
        at += n
