"""Functions that are recorded once and then run without Python: smolder.compile, and what belongs to it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any, Self, overload

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import F
from smolder.compiler._record import Recorder, events
from smolder.nn import module as _modules

__all__ = [
    "allow_in_graph", "assume_constant_result", "checked", "compile", "cudagraph_mark_step_begin", "disable", "events",
    "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "list_mode_options", "pure",
    "register_backend", "reset", "substitute_in_graph",
]  # fmt: skip
__dir__ = _listing(__name__)

_MODES = ("default", "reduce-overhead", "max-autotune-no-cudagraphs", "max-autotune")
_backends = {"smolder": None, "eager": None}
_recorders = weakref.WeakSet()


@overload
def compile(
    model: None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "smolder",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Callable[[F], F]: ...
@overload
def compile(
    model: F,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "smolder",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> F: ...
def compile(
    model: Any = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable[..., Any] = "smolder",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
    _pure: bool = False,
) -> Any:
    """The function, recorded at a call and run without Python at calls like it; of a module, a module. Decorates too.

    docs/compile.md says what makes a call one like it, and what cannot be recorded. fullgraph=True makes that an error.
    """
    _check(backend, mode, options)
    if model is None:
        return lambda model: compile(
            model,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
            _pure=_pure,
        )
    if isinstance(model, _modules.Module):
        from smolder.compiler._module import OptimizedModule

        return OptimizedModule(model, (fullgraph, dynamic, backend, mode, disable, _pure))
    if not callable(model):
        raise RuntimeError("smolder.compile: expected a callable")
    return _compiled(model, fullgraph, dynamic, backend, mode, disable, _pure)


_modules._compile = compile


def _check(backend, mode, options):
    if mode is not None and mode not in _MODES:
        raise RuntimeError(f"Unrecognized mode={mode}, should be one of: {', '.join(_MODES)}")
    if options is not None:
        raise NotImplementedError("smolder.compile: options are not supported")
    if not callable(backend) and backend not in _backends:
        raise RuntimeError(f"Invalid backend: {backend!r}, should be one of: {', '.join(sorted(_backends))}")


def _run_mode(mode, dynamic):
    """How steps are compiled and run; None for what the process says."""
    tunes = mode is not None and mode.startswith("max-autotune")
    if not tunes and dynamic is not False:
        return None
    out = _core._RunMode.of_thread()
    out.constant_sizes = dynamic is False
    out.replays = mode != "max-autotune-no-cudagraphs"
    if tunes and _core._may_tune():
        out.tunes = True
        _core._use_tuning()
    return out


def pure(model: F, **options: Any) -> F:
    """compile() of a function that is pure: one of its arguments, modules' parameters and buffers, and generators alone.

    All else that it reads is a constant, with the value that it had when the function was recorded; what it does besides
    computing happens then only. Nothing is looked for, so that calls take the least time. `with smolder.checked():` finds
    who is not pure. Options are those of compile().
    """
    return compile(model, **options, _pure=True)


def _compiled(function, fullgraph, dynamic, backend, mode, disabled, pure):
    if disabled or backend == "eager":
        return function
    name = getattr(function, "__qualname__", type(function).__qualname__)
    called = backend if callable(backend) else _backends[backend]
    recorder = Recorder(function, name, fullgraph, called, _run_mode(mode, dynamic), pure)
    compiled = _core._Compiled(function, recorder)
    recorder.compiled = weakref.proxy(compiled)
    functools.update_wrapper(compiled, function, updated=())
    compiled._recorder = recorder
    recorder.every, compiled._until_check = checked._every, checked._every - 1
    _recorders.add(recorder)
    return compiled


class checked:
    """Within it, every so many hits of compiled functions are compared with the function itself, bit for bit.

    The recorded step runs first, then the function from the state there was before. A difference raises RuntimeError.
    """

    every: int

    _every = 0

    def __init__(self, every: int = 1) -> None:
        if not isinstance(every, int) or every < 1:
            raise ValueError(f"checked: every should be a positive integer, got {every!r}")
        self.every, self._before = every, []

    def __enter__(self) -> Self:
        self._before.append(checked._every)
        _core._pause_tuning()  # which changes bits
        self._set(self.every)
        return self

    def __exit__(self, *exception: object) -> None:
        self._set(self._before.pop())
        _core._resume_tuning()

    @staticmethod
    def _set(every):
        checked._every = every
        for recorder in list(_recorders):
            recorder.every, recorder.compiled._until_check = every, every - 1


def reset() -> None:
    """Forgets what all compiled functions have recorded."""
    for recorder in list(_recorders):
        recorder.forget()
    events.clear()


def is_compiling() -> bool:
    """Whether a function is being recorded."""
    return _core._is_capturing()


is_dynamo_compiling = is_compiling


def is_exporting() -> bool:
    """Whether a function is being captured as a graph, by smolder.capture, smolder.export or smolder.onnx."""
    from smolder import _graph

    return _graph.is_capturing()


def allow_in_graph(fn: F) -> F:
    """The function, or functions of a list: torch's compiler would not look into it, and Smolder's looks into none."""
    if isinstance(fn, list | tuple):
        return [allow_in_graph(f) for f in fn]
    if not callable(fn):
        raise TypeError("allow_in_graph expects a callable")
    return fn


def assume_constant_result(fn: F) -> F:
    """The function, whose result torch's compiler would take for a constant. A recorded step is not wrong where it is none."""
    if not callable(fn):
        raise TypeError("assume_constant_result expects a callable")
    return fn


def substitute_in_graph(
    original_fn: Callable[..., Any], *, can_constant_fold_through: bool = False, skip_signature_check: bool = False
) -> Callable[[F], F]:
    """A decorator that returns the function: torch's compiler would look into it instead of `original_fn`, in C."""
    if not callable(original_fn):
        raise TypeError(f"substitute_in_graph expects a function but got {type(original_fn)!r}")
    return lambda traceable_fn: traceable_fn


def cudagraph_mark_step_begin() -> None:
    """Says that an iteration begins, which lets torch overwrite results of the last. Here none is while it is alive."""


@overload
def disable(fn: None = None, recursive: bool = True, *, reason: str | None = None) -> Callable[[F], F]: ...
@overload
def disable(fn: F, recursive: bool = True, *, reason: str | None = None) -> F: ...
def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """A function that is part of no recorded step: one that calls it is recorded anew each time.

    With recursive=False torch may compile what the function calls. Here that runs as it is unless it was compiled itself.
    """
    if fn is None:
        return lambda fn: disable(fn, recursive, reason=reason)

    @functools.wraps(fn)
    def inside(*args, **kwargs):
        _core._note_break(reason or f"smolder.compiler.disable of {getattr(fn, '__qualname__', fn)}")
        return fn(*args, **kwargs)

    return inside


def list_backends() -> list[str]:
    """The names that backend= takes."""
    return sorted(_backends)


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, dict[str, Any]]:
    """Options that a mode stands for: none."""
    return {} if mode is not None else {m: {} for m in _MODES}


def register_backend(compiler_fn: Callable[..., Any] | None = None, name: str | None = None) -> Any:
    """Makes backend=name mean compiler_fn. Decorates too."""
    if compiler_fn is None:
        return lambda fn: register_backend(fn, name)
    _backends[name or compiler_fn.__name__] = compiler_fn
    return compiler_fn
