"""Modes and classes of tensors that see ops below autograd: what a mode or a class answers becomes the results."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any, Self

from smolder import _core, _ops, _wrappers
from smolder._modes import no_grad


class _State(threading.local):
    """The modes of a thread that are on, innermost last."""

    def __init__(self):
        self.modes = []


_state = _State()


@contextlib.contextmanager
def _popped():
    mode = _state.modes.pop()
    _core._set_asking(bool(_state.modes))
    try:
        yield mode
    finally:
        _state.modes.append(mode)
        _core._set_asking(True)


class TorchDispatchMode:
    """Within it, __torch_dispatch__ of the mode is given every op that is recorded, and answers with its result."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        if _dispatch_key is not None:
            raise NotImplementedError(f"TorchDispatchMode(_dispatch_key={_dispatch_key!r}): there are no such keys")

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        _state.modes.append(self)
        _core._set_asking(True)
        return self

    def __exit__(self, *exception: object) -> None:
        _state.modes.pop()
        _core._set_asking(bool(_state.modes))

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """A mode, as it was entered once."""
        return cls(*args, **kwargs)


def current_modes() -> list[TorchDispatchMode]:
    """The modes of this thread that are on, innermost last."""
    return list(_state.modes)


# -- ops as torch has them


def _linear(input, weight, bias=None):
    rows = input if input.dim() == 2 else input.reshape(-1, input.shape[-1])
    out = _core.mm(rows, weight.t()) if bias is None else _core.addmm(bias, rows, weight.t())
    return out if input.dim() == 2 else out.reshape(*input.shape[:-1], weight.shape[0])


def _matmul(self, other):
    if self.dim() == 1:
        return _core.matmul(self.unsqueeze(0), other).squeeze(-2)
    if other.dim() == 1:
        return _core.matmul(self, other.unsqueeze(1)).squeeze(-1)
    if other.dim() == 2:
        rows = self.reshape(-1, self.shape[-1])
        return _core.mm(rows, other).reshape(*self.shape[:-1], other.shape[1])
    rows, inner, columns = self.shape[-2], self.shape[-1], other.shape[-1]
    batch = _broadcast(self.shape[:-2], other.shape[:-2])
    left = self.expand(*batch, rows, inner).reshape(-1, rows, inner)
    right = other.expand(*batch, inner, columns).reshape(-1, inner, columns)
    return _core.bmm(left, right).reshape(*batch, rows, columns)


def _broadcast(a, b):
    import smolder

    return smolder.broadcast_shapes(a, b)


def _product(self, other):
    """torch's name of a product of matrices, or of batches of them."""
    if self.dim() == other.dim() == 2:
        return "mm"
    return "bmm" if self.dim() == other.dim() == 3 and self.shape[0] == other.shape[0] else None


def _convolved(self, weight, stride, padding, dilation, groups):
    return (self, weight, None, stride, padding, dilation, False, [0] * len(stride), groups)


def _convolve(core):
    """Runs a convolution by torch's arguments, of which these are the recorded ones."""
    run = _ops.CoreCall(core)
    return lambda self, weight, bias, stride, padding, dilation, transposed, output_padding, groups: run(
        self, weight, stride, padding, dilation, groups
    )


# Ops that are one here and several in torch, as which they are recorded and seen while a mode is on.
_PARTS = {"linear": _linear, "matmul": _matmul}

# Ops by another name there, with the same arguments.
_NAMES = {
    "attention": "_scaled_dot_product_flash_attention_for_cpu",
    "attention_backward": "_scaled_dot_product_flash_attention_for_cpu_backward",
    "cast": "_to_copy",
    "conv_forward": "convolution",
    "flash_attention": "_scaled_dot_product_flash_attention",
    "flash_attention_backward": "_scaled_dot_product_flash_attention_backward",
    "flash_attention_backward_masked": "_scaled_dot_product_efficient_attention_backward",
    "flash_attention_masked": "_scaled_dot_product_efficient_attention",
    "layer_norm": "native_layer_norm",
    "layer_norm_backward": "native_layer_norm_backward",
    "max_dim": "max",
    "min_dim": "min",
    "reshape": "view",
}


@functools.cache
def _known(name):
    """The op of that name as programs name it, and what runs it as it was recorded."""
    from smolder.torch import is_op

    core, there = _core._find_op(name), _NAMES.get(name, name)
    op = _ops.aten(there) if is_op(there) else _ops.own(name)
    return op, _convolve(core) if name == "conv_forward" else _ops.CoreCall(core)


def ask(core: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer to an op that was called: of the innermost mode, or, without any, of the classes of its tensors."""
    if core.is_user_op:
        op, run = _ops.known.get(core.name) or _ops.OpOverload(core), None
    elif core.name == "matmul" and (name := _product(*args)):
        op, run = _ops.aten(name), _known("matmul")[1]
    elif core.name in _PARTS:
        with _wrappers.below_functions():
            return _PARTS[core.name](*args)
    else:
        op, run = _known(core.name)
    if core.name == "conv_forward":
        args = _convolved(*args)
    with contextlib.ExitStack() as stack:
        answer = stack.enter_context(_asked_mode()) if _state.modes else _wrappers.ask_as_torch
        called, args = _wrappers.called_as(op, args)
        if run is None or called is not op:
            return answer(called, args, kwargs)
        _ops.asked.calls.append((op, run))
        try:
            return answer(op, args, kwargs)
        finally:
            _ops.asked.calls.pop()


def ask_of(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same of an op that is not recorded, below autograd."""
    if not _state.modes:
        return _wrappers.ask(op, args, kwargs)
    with _wrappers.below_functions(), no_grad(), _asked_mode() as answer:
        return answer(op, args, kwargs)


@contextlib.contextmanager
def _asked_mode():
    with _popped() as mode:
        yield lambda op, args, kwargs: mode.__torch_dispatch__(op, _wrappers.classes(args, kwargs), args, kwargs)
