"""Patches while a function is traced: functions in Python look for proxies among their arguments.

Functions in C++ do so anyway where arguments do not fit. Those in Python would run on proxies, so they are given other
code while there may be any: whoever holds one, by whatever name, calls what looks. None is any slower at other times.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

from smolder import _core
from smolder._names import listing as _listing
from smolder.fx._naming import words

__all__ = ["AsLongAsItLives", "asking", "find_proxy", "is_method", "is_own_file", "plain", "replaced", "wrapped"]
__dir__ = _listing(__name__)

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
# Functions whose answers do not depend on what a proxy stands for, or which take other functions.
_NOT_ASKING = words(
    """is_tensor is_storage typename broadcast_shapes compile checked pure capture cond while_loop scan load save
explain set_printoptions manual_seed vmap is_grad_enabled upsample
upsample_bilinear upsample_nearest"""
)


def is_own_file(filename: str) -> bool:
    """Whether a file is one of this package's."""
    return filename.startswith(_PACKAGE)


def is_method(function: Any) -> bool:
    """Whether a function is a method of tensors."""
    if isinstance(function, types.FunctionType):
        return vars(_core.Tensor).get(function.__name__) is function
    return type(function).__name__ in ("nb_method", "method_descriptor", "wrapper_descriptor")


def find_proxy(*values: Any) -> Any:
    """The last proxy in values; None where there is none."""
    from smolder.fx.node import map_aggregate
    from smolder.fx.proxy import Proxy

    found = []
    map_aggregate(values, lambda a: found.append(a) if isinstance(a, Proxy) else None)
    return found[-1] if found else None


def wrapped(function: Callable[..., Any]) -> Any:
    """A function whose calls with proxies are nodes that call this one, where code is to wrap it again."""

    @functools.wraps(function)
    def ask(*args, **kwargs):
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return function(*args, **kwargs)
        out = proxy.tracer.create_proxy("call_function", function, args, kwargs)
        out.node.meta["is_wrapped"] = True
        return out

    ask._is_asking = True
    return ask


# -- functions of Smolder's that are in Python


@functools.cache
def plain(function: Any) -> Any:
    """A function that does what another does when nothing is traced."""
    code = next((code for f, code, _ in _functions() if f is function), None)
    return function if code is None else _with_code(function, code)


def _with_code(function, code):
    out = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    out.__kwdefaults__, out.__wrapped__ = function.__kwdefaults__, getattr(function, "__wrapped__", out)
    if out.__wrapped__ is out:
        del out.__wrapped__
    return out


def _asker(function):
    """Wraps a function while there may be proxies: the tracer of a proxy answers a call that has one."""
    before = _with_code(function, function.__code__)

    def ask(args, kwargs):
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return before(*args, **kwargs)
        if function.__name__ == "einsum" and len(args) == 2 and isinstance(args[1], list | tuple):
            args = (args[0], *args[1])  # torch's takes its list apart before it looks for proxies
        return type(proxy).__torch_function__(function, (type(proxy),), args, kwargs)

    return ask


def _calling(*args, **kwargs):
    ask = "what is called"  # in the place of this constant is the function to call
    return ask(args, kwargs)


def _code_that_asks(function):
    ask = _asker(function)
    code = _calling.__code__
    constants = tuple(ask if c == "what is called" else c for c in code.co_consts)
    return code.replace(co_consts=constants, co_freevars=function.__code__.co_freevars, co_name=function.__name__)


@functools.cache
def _functions():
    """(function, its code, code that looks for proxies) of Smolder's public functions and methods in Python."""
    import smolder
    from smolder import fft, linalg, special

    found, general = {}, (smolder, smolder.nn.functional)
    for place in (smolder, smolder.nn.functional, linalg, special, fft, _core.Tensor):
        for name, function in vars(place).items():
            if not isinstance(function, types.FunctionType) or (name in _NOT_ASKING and place in general):
                continue
            if name.startswith("_") and name != "_assert":
                continue
            if is_own_file(function.__code__.co_filename):
                found.setdefault(function)
    return [(f, f.__code__, _code_that_asks(f)) for f in found]


_count = 0  # how many hold that there may be proxies


def _change(by):
    global _count
    before, _count = _count, _count + by
    if (before == 0) != (_count == 0):
        for function, plain, that_asks in _functions():
            function.__code__ = that_asks if _count else plain


@contextlib.contextmanager
def asking() -> Iterator[None]:
    """Within it, functions in Python look for proxies; and functions in C++ do before they look at arguments."""
    from smolder._ops import OpOverload, _AtenOp

    _change(1)
    _core._count_modes(1)
    try:
        with contextlib.ExitStack() as undo:
            for kind in (_AtenOp, OpOverload):
                undo.enter_context(replaced(kind, "__call__", _op_call(kind.__call__)))
            yield
    finally:
        _core._count_modes(-1)
        _change(-1)


def _op_call(call):
    def ask(op, *args, **kwargs):
        proxy = find_proxy(args, kwargs)
        if proxy is None:
            return call(op, *args, **kwargs)
        return proxy.tracer.create_proxy("call_function", op, args, kwargs)

    return ask


class AsLongAsItLives:
    """As long as it lives, functions in Python look for proxies."""

    def __init__(self) -> None:
        _change(1)

    def __deepcopy__(self, memo: Any) -> AsLongAsItLives:
        return AsLongAsItLives()

    def __reduce__(self) -> tuple[Any, ...]:
        return AsLongAsItLives, ()

    def __del__(self) -> None:
        if not sys.is_finalizing():
            _change(-1)


# -- attributes and globals


@contextlib.contextmanager
def replaced(place: Any, name: str, value: Any) -> Iterator[None]:
    """A scope in which an attribute of a class or a module, or an entry of a dict, has another value."""
    space = place if isinstance(place, dict) else vars(place)
    existed, before = name in space, space.get(name)

    def put(new):
        if isinstance(place, dict):
            place[name] = new
        else:
            setattr(place, name, new)

    put(value)
    try:
        yield
    finally:
        if existed:
            put(before)
        elif isinstance(place, dict):
            place.pop(name, None)
        else:
            delattr(place, name)
