"""Objects that answer calls of functions of tensors themselves: __torch_function__, and modes that see every such call."""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from smolder import _core, _subclass, _wrappers
from smolder._names import listing as _listing
from smolder._typing import F

__all__ = [
    "BaseTorchFunctionMode", "DisableTorchFunction", "DisableTorchFunctionSubclass", "TorchFunctionMode",
    "get_default_nowrap_functions", "get_overridable_functions", "handle_torch_function", "has_torch_function",
    "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like", "is_tensor_method_or_property",
    "resolve_name", "wrap_torch_function",
]  # fmt: skip
__dir__ = _listing(__name__)

Tensor = _core.Tensor


class _State(threading.local):
    """The state of a thread: the modes that are on, innermost last, and how often overriding is switched off."""

    def __init__(self):
        self.modes, self.off, self.subclasses_off = [], 0, 0


_state = _State()


_disabled_torch_function_impl = _subclass._disabled  # of classes whose tensors are as any others


def _is_overriding(kind):
    method = getattr(kind, "__torch_function__", None)
    function = getattr(method, "__func__", method)
    return method is not None and function is not _disabled_torch_function_impl


def _answer(function, args, kwargs):
    """Answers a call of a bound function for C++; NotImplemented where the call is the function's own."""
    name = function.__name__
    private = name.startswith("_") and (name == "__init__" or not name.endswith("__"))
    if _state.off or name == "__init__" or name.startswith("_sparse_"):
        return NotImplemented
    relevant = [*_flat(args), *_flat(kwargs.values())]
    if private and not _answers_private(function, args, relevant):
        return NotImplemented
    if not _state.modes and (_state.subclasses_off or not _overriding(relevant)):
        return NotImplemented
    return handle_torch_function(function, relevant, *args, **kwargs)


def _answers_private(function, args, relevant):
    """Whether a class answers for functions that programs do not name: of tensors, and not of what else C++ has."""
    if type(function).__name__ == "nb_method" and not (args and isinstance(args[0], Tensor)):
        return False
    return any(getattr(type(x), "_answers_private", False) for x in relevant)


def _flat(values):
    for value in values:
        if type(value) in (list, tuple):
            yield from _flat(value)
        else:
            yield value


# -- what tensors answer by themselves


def _default(cls, func, types, args=(), kwargs=None):
    """Calls the function on tensors as they are, and makes the result of the class that was asked."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        out = func(*args, **(kwargs or {}))
    return out if func in get_default_nowrap_functions() else _converted(out, cls)


def _converted(out, cls):
    if cls is Tensor:
        return out
    if isinstance(out, Tensor) and not isinstance(out, cls):
        return out.as_subclass(cls)
    if isinstance(out, tuple | list):
        parts = [_converted(part, cls) for part in out]
        return type(out)(*parts) if hasattr(out, "_fields") else type(out)(parts)
    return out


_disabled_torch_dispatch_impl = _wrappers._disabled


def get_default_nowrap_functions() -> set[Any]:
    """Functions whose results are no tensors of the class that was asked."""
    return {Tensor._base.__get__, Tensor.grad.__get__} if hasattr(Tensor, "_base") else {Tensor.grad.__get__}


class _Off(contextlib.AbstractContextManager[Any]):
    _what = ""

    def __enter__(self) -> Self:
        setattr(_state, self._what, getattr(_state, self._what) + 1)
        return self

    def __exit__(self, *exception: object) -> None:
        setattr(_state, self._what, getattr(_state, self._what) - 1)


class DisableTorchFunction(_Off):
    """Within it no object and no mode is asked."""

    _what = "off"


class DisableTorchFunctionSubclass(_Off):
    """Within it no object is asked; modes are."""

    _what = "subclasses_off"


def _is_torch_function_enabled():
    return not _state.off and not _state.subclasses_off


# -- classes of tensors that answer


# torch's name of the function of an operator.
_OPERATORS = {"__add__": "add", "__radd__": "add", "__sub__": "sub", "__mul__": "mul", "__rmul__": "mul"}
_OPERATORS |= {"__matmul__": "matmul", "__truediv__": "div", "__neg__": "neg", "__abs__": "abs"}


def _wrapped_method(name, method):
    method = getattr(Tensor, _OPERATORS[name]) if name in _OPERATORS else method

    @functools.wraps(method)
    def ask(self, *args, **kwargs):
        relevant = [self, *_flat(args), *_flat(kwargs.values())]
        if has_torch_function(relevant):
            return handle_torch_function(method, relevant, self, *args, **kwargs)
        return method(self, *args, **kwargs)

    return ask


_NOT_ASKED = {"__torch_function__", "__init_subclass__", "__new__", "__init__", "__getattribute__", "__setattr__"}
_NOT_ASKED |= {"__delattr__", "__class__", "__dir__", "__subclasshook__", "__reduce__", "__reduce_ex__", "__hash__"}
_NOT_ASKED |= {"__sizeof__", "__getstate__", "__repr__", "__str__", "__format__", "as_subclass", "__del__"}


def _of_new_class(cls):
    """Makes the methods of a class of tensors, which answers calls itself, ask it. Functions in C++ do so anyway."""
    if not _is_overriding(cls):
        return
    _core._ask_class(cls)
    made_here = {name for base in cls.__mro__ if base is not Tensor and issubclass(base, Tensor) for name in vars(base)}
    for name, method in vars(Tensor).items():
        if name in made_here or name in _NOT_ASKED or not callable(method) or isinstance(method, type):
            continue
        if type(method).__name__ not in ("nb_func", "nb_method"):
            setattr(cls, name, _wrapped_method(name, method))


# -- functions in Python that ask


def _overriding(values):
    """Those whose classes answer calls, one of each class, classes before those that they derive from."""
    found = []
    for value in values:
        kind = type(value)
        if kind is Tensor or not _is_overriding(kind) or any(type(f) is kind for f in found):
            continue
        at = next((i for i, f in enumerate(found) if issubclass(kind, type(f))), len(found))
        found.insert(at, value)
    return found


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether a call with these arguments is not the function's own to answer."""
    if _state.off:
        return False
    return bool(_state.modes) or (not _state.subclasses_off and bool(_overriding(relevant_args)))


def has_torch_function_unary(arg: Any) -> bool:
    """The same of one argument."""
    return has_torch_function((arg,))


def has_torch_function_variadic(*args: Any) -> bool:
    """The same of arguments one by one."""
    return has_torch_function(args)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Asks the modes and the arguments about a call, and returns the first answer that is not NotImplemented."""
    found = [] if _state.subclasses_off else _overriding(relevant_args)
    types = tuple(map(type, found))
    if _state.modes:
        with _popped() as mode:
            out = mode.__torch_function__(public_api, types, args, kwargs)
        if out is not NotImplemented:
            return out
    for value in found:
        out = value.__torch_function__(public_api, types, args, kwargs)
        if out is not NotImplemented:
            return out
    name = f"{public_api.__module__}.{public_api.__name__}"
    text = f"no implementation found for '{name}' on types that implement __torch_function__: {[*map(type, found)]}"
    raise TypeError(text + (f" nor in mode {_state.modes[-1]}" if _state.modes else ""))


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[F], F]:
    """A decorator of functions in Python: dispatcher(*args, **kwargs) says which arguments are asked."""

    def decorate(func):
        @functools.wraps(func)
        def wrapped(*args, **kwargs):
            relevant = dispatcher(*args, **kwargs)
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


# -- modes


@contextlib.contextmanager
def _popped():
    mode = _state.modes.pop()
    try:
        yield mode
    finally:
        _state.modes.append(mode)


class TorchFunctionMode:
    """Within it, __torch_function__ of the mode is given every call of a function of tensors; outer modes come after."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Self:
        _state.modes.append(self)
        _core._count_modes(1)
        return self

    def __exit__(self, *exception: Any) -> None:
        _state.modes.pop()
        _core._count_modes(-1)

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Self:
        """A mode, as it was entered once."""
        warnings.warn("`Mode.push()` is no longer necessary and can be replaced with just `with Mode()`", stacklevel=2)
        return cls(*args, **kwargs)


class BaseTorchFunctionMode(TorchFunctionMode):
    """One that calls the function."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_function_mode():
    return _state.modes[-1] if _state.modes else None


def _get_current_function_mode_stack():
    return list(_state.modes)


# -- what there is to override


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or answers as one."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


@functools.cache
def get_overridable_functions() -> dict[Any, list[Callable[..., Any]]]:
    """By the module or class that has them, the functions that ask their arguments."""
    import smolder

    out = {}
    for place in (smolder, Tensor, smolder.nn.functional, smolder.linalg, smolder.special):
        names = getattr(place, "__all__", None) or dir(place)  # dir() also names modules that are not imported yet
        members = [getattr(place, n) for n in names if not n.startswith("_")]
        out[place] = [m for m in members if callable(m) and not isinstance(m, type)]
    return out


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether a function is a method of tensors, or reads one of their properties."""
    return any(func is f for f in get_overridable_functions()[Tensor]) or getattr(func, "__name__", "") == "__get__"


def resolve_name(f: Any) -> str | None:
    """How a function is named: `torch.Tensor.add`; None of one that is not overridable."""
    import smolder

    for place, functions in get_overridable_functions().items():
        if any(f is one for one in functions):
            name = place.__name__ if place is not Tensor else f"{smolder.__name__}.Tensor"
            return f"{name}.{f.__name__}"
    return None
