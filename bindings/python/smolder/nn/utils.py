"""Helpers on the gradients and parameters of a model."""

import math

from smolder import _core
from smolder._modes import no_grad


def _gradients(parameters):
    if isinstance(parameters, _core.Tensor):
        parameters = [parameters]
    return [g for g in (p.grad for p in parameters) if g is not None]


@no_grad()
def clip_grad_norm_(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False):
    """Scales gradients so that their norm, taken as one vector, is at most max_norm; returns what it was."""
    gradients = _gradients(parameters)
    if not gradients:
        return _core.full((), 0.0)
    order = float(norm_type)
    norms = [g.norm(order) for g in gradients]
    total = norms[0] if len(norms) == 1 else _core.stack(norms).norm(order)
    if error_if_nonfinite and not math.isfinite(total.item()):
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    factor = _core.clamp_max(max_norm / (total + 1e-6), 1.0)
    for g in gradients:
        g.mul_(factor)
    return total


@no_grad()
def clip_grad_value_(parameters, clip_value):
    """Clamps gradients to [-clip_value, clip_value]."""
    for g in _gradients(parameters):
        _core.assign(g, _core.clamp(g, -float(clip_value), float(clip_value)))


def parameters_to_vector(parameters):
    """All parameters, flattened and joined."""
    return _core.cat([p.reshape(-1) for p in parameters])


@no_grad()
def vector_to_parameters(vec, parameters):
    """Copies slices of a vector into parameters, in order."""
    at = 0
    for p in parameters:
        n = p.numel()
        p.copy_(vec[at : at + n].reshape(tuple(p.shape)))
        at += n
