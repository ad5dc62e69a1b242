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


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Adds d(tensors)/d(leaf) to the grad of every leaf that the tensors depend on, or of `inputs` alone.

    grad_variables is an old name of grad_tensors.
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. "
                "Please only use `grad_tensors`."
            )
        grad_tensors = grad_variables
    if inputs is not None:
        _accumulate(_tuple(inputs), tensors, grad_tensors, retain_graph, create_graph)
        return
    tensors = _tuple(tensors)
    if not tensors:
        raise RuntimeError("backward() called with an empty list of tensors")
    retain = create_graph if retain_graph is None else retain_graph
    _core.backward(tensors, _gradients(grad_tensors, tensors, "gradients"), retain, create_graph)


def _accumulate(inputs, tensors, grad_tensors, retain_graph, create_graph):
    """backward() for `inputs` alone."""
    if not inputs:
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    found = grad(tensors, inputs, grad_tensors, retain_graph, create_graph, allow_unused=True)
    with set_grad_enabled(create_graph):
        for x, new in zip(inputs, found, strict=True):
            if new is None:
                continue
            if x.grad is None:
                x.grad = new
            elif create_graph:
                x.grad = x.grad + new
            else:
                x.grad.add_(new)


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """The gradients of the sum of outputs with respect to inputs, as a tuple; no tensor's grad changes.

    An input that was not used is an error; with allow_unused its gradient is None, with materialize_grads zeros.
    """
    if is_grads_batched:
        raise NotImplementedError("grad: is_grads_batched is not supported")
    if materialize_grads:
        if allow_unused is False:
            raise ValueError(
                "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
            )
        inputs = _tuple(inputs)
        found = grad(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused=True)
        return tuple(_core.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True))
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    if not inputs:
        raise ValueError("grad requires non-empty inputs.")
    retain = create_graph if retain_graph is None else retain_graph
    seeds = _gradients(grad_outputs, outputs, "gradients")
    return _core.grad(outputs, inputs, seeds, retain, create_graph, bool(allow_unused))
