"""Gradients of recorded computations."""

from smolder import _core
from smolder._modes import enable_grad, no_grad, set_grad_enabled

__all__ = ["backward", "enable_grad", "grad", "no_grad", "set_grad_enabled"]


def _tuple(x):
    if isinstance(x, _core.Tensor):
        return (x,)
    return tuple(x)


def _gradients(given, tensors, name):
    if given is None:
        return (None,) * len(tensors)
    given = (given,) if isinstance(given, _core.Tensor) else tuple(given)
    if len(given) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(given)} {name}")
    return given


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False):
    """Adds d(tensors)/d(leaf) to the grad of every leaf that the tensors depend on."""
    tensors = _tuple(tensors)
    if not tensors:
        raise RuntimeError("backward() called with an empty list of tensors")
    retain = create_graph if retain_graph is None else retain_graph
    _core.backward(tensors, _gradients(grad_tensors, tensors, "gradients"), retain, create_graph)


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, allow_unused=None):
    """The gradients of the sum of outputs with respect to inputs, as a tuple; no tensor's grad changes."""
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    if not inputs:
        raise ValueError("grad requires non-empty inputs.")
    retain = create_graph if retain_graph is None else retain_graph
    seeds = _gradients(grad_outputs, outputs, "gradients")
    return _core.grad(outputs, inputs, seeds, retain, create_graph, bool(allow_unused))
