"""The gradient graph, and what is kept in it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Tensor

__all__ = [
    "GradientEdge", "Node", "get_gradient_edge", "increment_version", "register_multi_grad_hook", "save_on_cpu",
    "saved_tensors_hooks",
]  # fmt: skip
__dir__ = _listing(__name__)

Node = _core.Node


class GradientEdge(NamedTuple("GradientEdge", [("node", _core.Node), ("output_nr", int)])):
    """Where the gradient of a tensor flows to."""

    __slots__ = ()


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The node, and its output, that the gradient of a tensor flows to."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*_core._gradient_node(tensor))


class _Within(threading.local):
    def __init__(self):
        self.stack = []


_within = _Within()


class saved_tensors_hooks:
    """Within it, what ops keep for backward is pack_hook(tensor), and unpack_hook gives the tensor back."""

    pack_hook: Callable[..., Any]
    unpack_hook: Callable[..., Any]

    def __init__(self, pack_hook: Callable[..., Any], unpack_hook: Callable[..., Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        _core._push_saved_tensor_hooks(self.pack_hook, self.unpack_hook)
        _within.stack.append(self)

    def __exit__(self, *exception: object) -> None:
        _within.stack.pop()
        _core._pop_saved_tensor_hooks()


def _innermost_hooks():
    """Those that are asked now, for hooks within them that leave something to them; None outside."""
    return _within.stack[-1] if _within.stack else None


class save_on_cpu(saved_tensors_hooks):
    """Within it, what ops keep for backward waits on the CPU, in pinned memory if asked for. Each is a copy and a wait."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(t):
            if not t.is_cuda:
                return None, t
            return t.device, t.cpu().pin_memory() if pin_memory else t.cpu()

        def unpack(packed):
            where, t = packed
            return t if where is None else t.to(where, non_blocking=pin_memory)

        super().__init__(pack, unpack)


def increment_version(tensor: Tensor) -> NoReturn:
    """torch's note of a write from outside: values here are immutable, so there is none."""
    raise NotImplementedError("increment_version is not supported: write to the tensor itself")


class _Handles:
    """Takes hooks off again."""

    def __init__(self, handles):
        self.handles = handles

    def remove(self):
        """Takes the hooks off."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all") -> Any:
    """Calls fn once the gradients of all tensors are computed (a list, None for those without), or of the first."""
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    tensors = tuple(tensors)
    if not all(t.requires_grad for t in tensors):
        raise RuntimeError("Expected all tensors to require grad")
    lock = threading.Lock()
    state = {"run": None, "left": 0, "grads": []}

    def of(i):
        def hook(grad):
            with lock:
                run = _core._current_backward()
                if state["run"] != run:
                    wanted = [_core._backward_reaches(t) for t in tensors]
                    state.update(run=run, left=sum(wanted), grads=[None] * len(tensors), called=False)
                state["grads"][i] = grad
                state["left"] -= 1
                grads = list(state["grads"]) if state["left"] == 0 else None
                first = not state["called"]
                state["called"] = True
            if mode == "any":
                if first:
                    fn(grad)
            elif grads is not None:
                fn(grads)

        return hook

    return _Handles([t.register_hook(of(i)) for i, t in enumerate(tensors)])
