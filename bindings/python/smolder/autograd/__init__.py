"""Gradients of recorded computations."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from smolder import _core
from smolder._modes import enable_grad, inference_mode, no_grad, set_grad_enabled
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder._warn import warn
from smolder.autograd import forward_ad, functional, graph
from smolder.autograd.anomaly_mode import detect_anomaly, set_detect_anomaly
from smolder.autograd.function import Function
from smolder.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from smolder.autograd.variable import Variable
from smolder.autograd.version_checks import set_version_checks

__all__ = [
    "Function", "GradcheckError", "Variable", "backward", "detect_anomaly", "enable_grad", "forward_ad", "functional",
    "grad", "gradcheck", "gradgradcheck", "graph", "inference_mode", "no_grad", "set_detect_anomaly",
    "set_grad_enabled", "set_multithreading_enabled", "set_version_checks",
]  # fmt: skip
__dir__ = _listing(__name__)


def __getattr__(name: str) -> Any:  # few programs ask for it
    if name == "profiler":
        import importlib

        return importlib.import_module("smolder.autograd.profiler")
    from smolder._missing import missing

    raise missing(__name__, name)


class set_multithreading_enabled(contextlib.ContextDecorator):
    """torch's switch of threads in backward, which here runs in the calling thread, whatever this says."""

    mode: bool

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass


def _is_checkpoint_valid():  # torch's, which libraries of checkpoints ask: they are valid in grad(), too
    return True


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


def backward(
    tensors: Tensor | Sequence[Tensor],
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Tensor | Sequence[Tensor | None] | None = None,
    inputs: Tensor | Sequence[Tensor] | None = None,
) -> None:
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
    inputs = () if inputs is None else _tuple(inputs) or _no_inputs()
    tensors = _tuple(tensors)
    if not tensors:
        return
    if create_graph:
        warn(
            "Using backward() with create_graph=True will create a reference cycle between the parameter and its "
            "gradient which can cause a memory leak. We recommend using autograd.grad when creating the graph to "
            "avoid this. If you have to use this function, make sure to reset the .grad fields of your parameters to "
            "None after use to break the cycle and avoid the leak."
        )
    retain = create_graph if retain_graph is None else retain_graph
    _core.backward(tensors, _gradients(grad_tensors, tensors, "gradients"), retain, create_graph, inputs)


def _no_inputs():
    raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]:
    """The gradients of the sum of outputs with respect to inputs, as a tuple; no tensor's grad changes.

    An input that was not used is an error; with allow_unused its gradient is None, with materialize_grads zeros.
    With is_grads_batched the first dimension of grad_outputs, and of what is returned, is over gradients to start
    from, as vmap has it.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if not only_inputs:
        warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of the graph, please use torch.autograd.backward.",
            FutureWarning,
        )
    outputs, inputs = _tuple(outputs), _tuple(inputs)
    if not inputs:
        raise ValueError("grad requires non-empty inputs.")
    for x in inputs:
        if not isinstance(x, _core.Tensor):
            raise RuntimeError(f"all inputs have to be Tensors, but got {type(x).__name__}")
    allow_unused = materialize_grads if allow_unused is None else allow_unused
    retain = create_graph if retain_graph is None else retain_graph
    seeds = _gradients(grad_outputs, outputs, "gradients")
    if is_grads_batched:
        found = _batched(outputs, inputs, seeds, retain, create_graph, allow_unused)
    else:
        found = _core.grad(outputs, inputs, seeds, retain, create_graph, allow_unused)
    if materialize_grads:
        found = tuple(_core.zeros_like(x) if g is None else g for x, g in zip(inputs, found, strict=True))
    return found


def _batched(outputs, inputs, seeds, retain, create_graph, allow_unused):
    """grad() for each of the gradients that seeds hold along their first dimension."""
    sizes = {s.shape[0] if s.dim() else None for s in seeds if s is not None}
    if not sizes or None in sizes or len(sizes) > 1:
        raise RuntimeError(
            "grad: with is_grads_batched=True every gradient in grad_outputs needs a first dimension, of one size"
        )
    for i, (out, seed) in enumerate(zip(outputs, seeds, strict=True)):
        if seed is not None and seed.shape[1:] != out.shape:
            raise RuntimeError(
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the remaining dimensions are expected to match the shape of corresponding "
                f"output, but a mismatch was detected: grad_output[{i}] has a shape of {list(seed.shape)} and "
                f"output[{i}] has a shape of {list(out.shape)}. If you only want some tensors in `grad_output` to be "
                "considered batched, consider using vmap."
            )
    if sizes == {0}:
        raise RuntimeError("grad: is_grads_batched=True needs at least one gradient")
    from smolder.func import vmap

    reached = []

    def one(*given):
        given = iter(given)
        found = _core.grad(
            outputs, inputs, [None if s is None else next(given) for s in seeds], retain, create_graph, allow_unused
        )
        reached.extend(g is not None for g in found)
        return tuple(g for g in found if g is not None)

    found = iter(vmap(one)(*(s for s in seeds if s is not None)))
    return tuple(next(found) if there else None for there in reached)
