"""Checkpoints: values that a function keeps for backward are computed again instead."""

from __future__ import annotations

import contextlib
import functools
import itertools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from smolder import _core, autograd
from smolder._autocast import State as Autocast
from smolder._names import listing as _listing
from smolder._random import fork_rng
from smolder._typing import Tensor
from smolder._warn import warn
from smolder.autograd.graph import saved_tensors_hooks
from smolder.utils._selective import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)  # fmt: skip

if TYPE_CHECKING:
    from smolder._typing import Module

__all__ = [
    "CheckpointError", "CheckpointFunction", "CheckpointPolicy", "SelectiveCheckpointContext",
    "check_backward_validity", "checkpoint", "checkpoint_sequential", "create_selective_checkpoint_contexts",
    "detach_variable", "get_device_states", "noop_context_fn", "set_checkpoint_early_stop", "set_device_states",
]  # fmt: skip
__dir__ = _listing(__name__)

_early_stop = None  # for all checkpoints, where a scope says so
_outside = itertools.count(-1, -1)  # numbers of unpackings that are in no backward


class CheckpointError(RuntimeError):
    """The function did something else when it ran again."""


class _StopRecomputation(Exception):
    """All that was asked for is there."""


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Tensors without their history, of which the same ones require gradients."""
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, _core.Tensor) else x for x in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns where no input requires gradients."""
    if not any(x.requires_grad for x in inputs if isinstance(x, _core.Tensor)):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The indices of the CUDA devices that tensors in the arguments are on, and the states of their generators."""
    from smolder.cuda.random import get_rng_state
    from smolder.utils._pytree import tree_leaves

    tensors = [x for x in tree_leaves(args) if isinstance(x, _core.Tensor) and x.is_cuda]
    devices = sorted({x.get_device() for x in tensors})
    return devices, [get_rng_state(i) for i in devices]


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Puts the generators of devices where get_device_states found them."""
    from smolder.cuda.random import set_rng_state

    if device_type not in (None, "cuda") and devices:
        raise NotImplementedError(f"set_device_states: there are no devices {device_type!r}")
    for device, state in zip(devices, states, strict=True):
        set_rng_state(state, device)


def noop_context_fn() -> tuple[Any, Any]:
    """Two contexts that do nothing."""
    return contextlib.nullcontext(), contextlib.nullcontext()


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: Any) -> Iterator[None]:
    """Within it, whether recomputation stops at the last value that is needed, whatever checkpoint() is told."""
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


def _describe(t):
    return {"shape": t.shape, "dtype": t.dtype, "device": t.device}


_CHECKS = {"default": _describe, "none": lambda t: None}


@contextlib.contextmanager
def _again(rng_state, autocast):
    """Recomputation: not merged with the forward, in the regions of autocast that it was in, and random as it was."""
    with fork_rng(enabled=rng_state is not None), _core._Recomputing(), autograd.enable_grad(), autocast:
        if rng_state is not None:
            _core.default_generator.set_state(rng_state)
        yield


class _Holder:
    """Stands in the graph for a value that was not kept: in each backward, a handle on the value computed again."""

    __slots__ = ("__weakref__", "handles")

    def __init__(self):
        self.handles = {}


class _Handle:
    __slots__ = ("__weakref__",)


class _Frame:
    """One call of a checkpointed function."""

    def __init__(self, function, args, kwargs, rng_state, context, describe, early_stop):
        self.function, self.context, self.rng_state = function, context, rng_state
        self.describe, self.early_stop, self.autocast = describe, early_stop, Autocast()
        # Through the hooks of an outer checkpoint, which then need not keep them either.
        self.args = [_kept(a) for a in args]
        self.kwargs = {k: _kept(a) for k, a in kwargs.items()}
        self.holders, self.described = [], []
        self.complete = self.partial = False
        self.computed = {}  # by backward: values by handle, which dies with the last use

    def pack(self, t):
        holder = _Holder()
        self.holders.append(weakref.ref(holder))
        self.described.append(self.describe(t))
        return holder

    def unpack(self, holder):
        run = _core._current_backward() or next(_outside)
        if run not in self.computed:
            self.compute(run)
        handle = holder.handles.get(run)
        if handle is None:
            raise CheckpointError(
                "smolder.utils.checkpoint: Unpack is being triggered for a tensor that was either never recomputed, or "
                "already unpacked once. If you are calling ctx.saved_tensors in backward, make sure to do so only "
                "once. Otherwise please open an issue with details on your use case."
            )
        holder.handles[run] = None
        return self.computed[run].pop(handle)

    def compute(self, run):
        if not self.complete:  # backward within the function: what comes later was not kept yet
            self.partial = True
        found = self.computed[run] = weakref.WeakKeyDictionary()
        count = 0

        def pack(t):
            nonlocal count
            count += 1
            if count > len(self.holders):
                raise CheckpointError(
                    "smolder.utils.checkpoint: trying to save more tensors during recomputation than during the "
                    "original forward pass."
                )
            holder = self.holders[count - 1]()
            if holder is not None:
                handle = holder.handles[run] = _Handle()
                found[handle] = t
            if count == len(self.holders) and (self.early_stop or not self.complete):
                raise _StopRecomputation
            return t

        args = [_given(a) for a in self.args]
        kwargs = {k: _given(a) for k, a in self.kwargs.items()}
        try:
            with _again(self.rng_state, self.autocast), self.context, saved_tensors_hooks(pack, lambda t: t):
                self.function(*args, **kwargs)
        except _StopRecomputation:
            pass
        if not self.partial:
            self.check(run, count)

    def check(self, run, count):
        if count != len(self.holders):
            raise CheckpointError(
                "smolder.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.holders)}\n"
                f"Number of tensors saved during recomputation: {count}."
            )
        differing = ""
        for i, (holder, before) in enumerate(zip(self.holders, self.described, strict=True)):
            if (holder := holder()) is None:
                continue
            now = self.describe(self.computed[run][holder.handles[run]])
            if now != before:
                differing += f"tensor at position {i}:\nsaved metadata: {before}\nrecomputed metadata: {now}\n"
        if differing:
            raise CheckpointError(
                "smolder.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass.\n{differing}"
            )


def _kept(argument):
    return _core._KeptTensor(argument) if isinstance(argument, _core.Tensor) else argument


def _given(kept):
    return kept.unpack() if isinstance(kept, _core._KeptTensor) else kept


class CheckpointFunction(autograd.Function):
    """The reentrant kind: runs without history, then again in backward, where it has a backward of its own."""

    @staticmethod
    def forward(ctx: Any, run_function: Callable[..., Any], preserve_rng_state: Any, *args: Any) -> Any:
        """The function's results; of its arguments, the tensors are kept."""
        if not any(isinstance(a, _core.Tensor) and a.requires_grad for a in args):
            warn("None of the inputs have requires_grad=True. Gradients will be None")
        ctx.run_function, ctx.autocast = run_function, Autocast()
        ctx.rng_state = _core.default_generator.get_state() if preserve_rng_state else None
        ctx.inputs = [None if isinstance(a, _core.Tensor) else a for a in args]
        ctx.tensor_indices = [i for i, a in enumerate(args) if isinstance(a, _core.Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.tensor_indices))
        return run_function(*args)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple[None, None, *tuple[Tensor | None, ...]]:
        """Runs the function again, and backward through it."""
        if _core._backward_is_partial():
            raise RuntimeError(
                "When use_reentrant=True, smolder.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.inputs)
        for i, t in zip(ctx.tensor_indices, ctx.saved_tensors, strict=True):
            inputs[i] = t.detach().requires_grad_(t.requires_grad)
        with _again(ctx.rng_state, ctx.autocast):
            outputs = ctx.run_function(*inputs)
        outputs = (outputs,) if isinstance(outputs, _core.Tensor) else outputs
        wanted = [
            (out, g)
            for out, g in zip(outputs, grads, strict=True)
            if isinstance(out, _core.Tensor) and out.requires_grad
        ]
        if not wanted:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        autograd.backward([out for out, _ in wanted], [g for _, g in wanted])
        return None, None, *(t.grad if isinstance(t, _core.Tensor) else None for t in inputs)


def _without_reentrant(function, args, kwargs, preserve, context_fn, determinism_check, early_stop):
    if determinism_check not in _CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_CHECKS)}, but got {determinism_check}")
    forward_context, again_context = context_fn()
    if not _core.is_grad_enabled():
        with forward_context:
            return function(*args, **kwargs)
    state = _core.default_generator.get_state() if preserve else None
    stop = early_stop if _early_stop is None else _early_stop
    frame = _Frame(function, args, kwargs, state, again_context, _CHECKS[determinism_check], stop)
    with saved_tensors_hooks(frame.pack, frame.unpack), forward_context:
        out = function(*args, **kwargs)
    frame.complete = True
    return out


def _warn_of_no_choice(name):
    warn(
        f"smolder.utils.{name}: the use_reentrant parameter should be passed explicitly. In a future release, calling "
        "checkpoint without use_reentrant will raise an exception. use_reentrant=False is recommended, but if you need "
        "to preserve the current default behavior, you can pass use_reentrant=True. Refer to docs for more details on "
        "the differences between the two variants."
    )


def checkpoint(
    function: Callable[..., Any] | None = None,
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    respect_saved_tensors_hooks: bool | None = None,
    **kwargs: Any,
) -> Any:
    """function(*args, **kwargs), which keeps its tensor arguments alone for backward and then runs again.

    Random numbers repeat, unless preserve_rng_state is False. context_fn makes two contexts: for the function and for
    its running again. That must keep values of the same shapes and dtypes, unless determinism_check is "none", and
    stops at the last one needed, unless early_stop is False. Without a function, the result is a decorator.

    The kind with use_reentrant=True knows neither keyword arguments nor autograd.grad.
    """
    if function is None and not args:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        given = {"use_reentrant": use_reentrant, "preserve_rng_state": preserve_rng_state, "context_fn": context_fn}
        given |= {"determinism_check": determinism_check, "debug": debug, "early_stop": early_stop}
        given["respect_saved_tensors_hooks"] = respect_saved_tensors_hooks
        return lambda f: functools.wraps(f)(functools.partial(checkpoint, f, **given))
    if use_reentrant is None:
        _warn_of_no_choice("checkpoint")
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False or respect_saved_tensors_hooks is not None:
            raise ValueError(
                "Passing `context_fn`, `debug`, or `respect_saved_tensors_hooks` is only supported when "
                "use_reentrant=False."
            )
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if debug:
        raise NotImplementedError("checkpoint: debug=True is not supported: ops are not logged")
    if respect_saved_tensors_hooks is not None:
        raise NotImplementedError(
            "checkpoint: respect_saved_tensors_hooks is not supported: nothing is kept selectively"
        )
    return _without_reentrant(function, args, kwargs, preserve_rng_state, context_fn, determinism_check, early_stop)


def checkpoint_sequential(
    functions: Module | Sequence[Callable[..., Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    **kwargs: Any,
) -> Any:
    """functions applied one after another, in segments that are checkpoints, but for the last."""
    if use_reentrant is None:
        _warn_of_no_choice("checkpoint_sequential")
        use_reentrant = True
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    from smolder.nn import Sequential  # which needs the hooks that lie beside this

    functions = list(functions.children()) if isinstance(functions, Sequential) else functions

    def run(part):
        def forward(input):
            for f in part:
                input = f(input)
            return input

        return forward

    size, end = len(functions) // segments, 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(run(functions[start:end]), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return run(functions[end:])(input)
