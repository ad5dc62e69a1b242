"""Tensors without elements, of classes with a __torch_dispatch__: the class says what ops on them are.

The class is asked below autograd, with gradients off: history is recorded of the op itself, as of any other.
"""

from __future__ import annotations

import math
import threading
import types
from typing import TYPE_CHECKING

from smolder import _core, _ops
from smolder._device import usable_device
from smolder._layouts import contiguous_format, preserve_format, strided
from smolder._modes import no_grad

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

Tensor = _core.Tensor

_known: set[type] = set()  # the classes that were used


def _disabled(cls, func, types, args=(), kwargs=None):
    """Runs the op as it is."""
    return func(*args, **(kwargs or {}))


Tensor.__torch_dispatch__ = classmethod(_disabled)


def answers_ops(kind: type) -> bool:
    """Whether a class of tensors has a __torch_dispatch__ of its own."""
    method = getattr(kind, "__torch_dispatch__", None)
    return getattr(method, "__func__", method) is not _disabled


def has_class(tensor: Any) -> bool:
    """Whether an object is a tensor of such a class."""
    return type(tensor) in _known


def _add(cls):
    if cls in _known:
        return
    _known.add(cls)
    for base in cls.__mro__:  # attributes are kept in the dictionary, which objects of one value share
        if base is not Tensor and issubclass(base, Tensor) and base.__module__.partition(".")[0] != "smolder":
            for name, member in list(vars(base).items()):
                if isinstance(member, types.MemberDescriptorType):
                    delattr(base, name)
    _core._add_wrapper_class(cls)


_NOT_TAKEN = {
    "storage_offset": None, "pin_memory": False, "dispatch_sizes_strides_policy": None, "dispatch_device": False,
    "dispatch_layout": False, "_extra_dispatch_keys": None, "storage_size": None,
}  # fmt: skip


def _make_wrapper_subclass(
    cls, size, *, strides=None, memory_format=None, dtype=None, layout=None, device=None, requires_grad=False, **others
):
    """A tensor of a class with a __torch_dispatch__, of a shape, a dtype and a device, and without elements."""
    if not isinstance(cls, type):
        raise TypeError(f"cls must be a type (got {type(cls).__name__})")
    if not answers_ops(cls):
        raise TypeError(f"{cls.__name__} must define __torch_dispatch__")
    for name, value in others.items():
        if name not in _NOT_TAKEN:
            raise TypeError(f"_make_wrapper_subclass() got an unexpected keyword argument '{name}'")
        if value not in (_NOT_TAKEN[name], 0):
            raise NotImplementedError(f"_make_wrapper_subclass: {name}={value!r} is not supported: leave it out")
    if layout not in (None, strided):
        raise NotImplementedError(f"_make_wrapper_subclass: layout={layout} is not supported, only torch.strided is")
    if memory_format not in (None, contiguous_format, preserve_format):
        raise NotImplementedError(f"_make_wrapper_subclass: memory_format={memory_format}: give the strides instead")
    size = tuple(size)
    if strides is None:
        strides = [math.prod(size[d + 1 :]) for d in range(len(size))]
    _add(cls)
    where = usable_device(_core._creation_mode() if device is None else device)
    out = _core._make_wrapper(cls, size, tuple(strides), dtype or _core._default_dtype(), str(where))
    return out.requires_grad_() if requires_grad else out


Tensor._make_wrapper_subclass = staticmethod(_make_wrapper_subclass)


def _flat(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, list | tuple):
            yield from _flat(value)
        else:
            yield value


def classes(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[type, ...]:
    """The classes that answer among those of arguments, the most derived first."""
    found: list[type] = []
    for kind in map(type, [*_flat(args), *_flat(kwargs.values())]):
        if kind in _known and kind not in found:
            at = next((i for i, f in enumerate(found) if issubclass(kind, f)), len(found))
            found.insert(at, kind)
    return tuple(found)


def below_functions() -> Any:
    """A scope in which __torch_function__ of no class is asked, as below autograd."""
    from smolder.overrides import DisableTorchFunctionSubclass

    return DisableTorchFunctionSubclass()


def ask(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of the classes of the arguments to an op: that of the most derived class first."""
    found = classes(args, kwargs)
    with below_functions(), no_grad():
        for kind in found:
            out = kind.__torch_dispatch__(op, found, args, kwargs)
            if out is not NotImplemented:
                return out
    listed = ", ".join(map(repr, found))
    raise TypeError(
        f"Multiple dispatch failed for '{op}'; all __torch_dispatch__ handlers returned NotImplemented:\n\n"
        f"  - tensor subclasses: {listed}"
    )


# -- functions that are recorded as no op


def _asked(name, args, kwargs):
    """The answer to torch's op of that name: of the innermost mode, or, without any, of the classes."""
    from smolder import _dispatch

    return _dispatch.ask_of(_ops.aten(name), args, kwargs)


def _detach(self):
    return _asked("detach", (self,), {})


def _write(name, args, kwargs):
    _check_history(name, args, kwargs)
    _asked(name, args, kwargs)
    return args[0]


def _copy(self, other, non_blocking=False):
    return _write("copy_", (self, other, non_blocking) if non_blocking else (self, other), {})


def _to_device(self, device, non_blocking=False):
    options = {"device": usable_device(device)} | ({"non_blocking": True} if non_blocking else {})
    return _asked("_to_copy", (self,), options)


def like(name: str, tensor: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """A new tensor by a function of torch's whose name ends in _like or begins with new_."""
    requires_grad = options.pop("requires_grad", False)
    given = {k: v for k, v in options.items() if v is not None and not (k == "pin_memory" and v is False)}
    out = _asked(name, (tensor, *args), given)
    return out.requires_grad_() if requires_grad else out


def _made_like(name):
    return lambda self, *args, **options: like(name, self, args, options)


_FUNCTIONS = {"detach": _detach, "copy_": _copy, "_to_device": _to_device}  # any other that ends in _ writes
for _name in ("zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like"):
    _FUNCTIONS[_name] = _made_like(_name)
_FUNCTIONS["zero_state"] = _made_like("zeros_like")  # of optimizers


# -- functions that are recorded as an op of another name


class _Called(threading.local):
    """The function of a thread that is an op of its own in torch, while what it is here is recorded."""

    def __init__(self):
        self.name = None


_called = _Called()
_OTHER_OPS = {"t"}
_NOT_WRITING = {"requires_grad_", "detach_", "retain_grad_"}  # of the handle


def called_as(op: Any, args: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
    """The op and its arguments as torch has them, where the program called it by another name."""
    name, _called.name = _called.name, None
    return (op, args) if name is None else (_ops.aten(name), args[:1])


def ask_as_torch(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The same as ask(), with a cast's dtype as a keyword."""
    if str(op) in ("aten.to.default", "aten._to_copy.default") and len(args) == 2:
        op, args, kwargs = _ops.aten("_to_copy"), args[:1], {**kwargs, "dtype": args[1]}
    return ask(op, args, kwargs)


def _check_history(name, args, kwargs):
    """Raises where a write would have history: the class's attributes change, and nothing links them to what they were."""
    if not _core.is_grad_enabled():
        return
    with below_functions():
        self = args[0]
        if self.requires_grad and self.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        if not _ops.any_requires_grad((args, tuple(kwargs.values()))):
            return
    raise NotImplementedError(
        f"{type(self).__name__}.{name}(): a write in place to a tensor of a class with a __torch_dispatch__ is not "
        f"supported where an operand requires grad: found one that does. Use the op that is not in place, or write "
        f"under no_grad()"
    )


def answer(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a call of a bound function with such tensors is, where ops that are recorded do not tell; else NotImplemented."""
    name = function.__name__
    if not args and "input" in kwargs:
        args, kwargs = (kwargs["input"],), {k: v for k, v in kwargs.items() if k != "input"}
    if args and type(args[0]) in _known:
        if name in _FUNCTIONS:
            return _FUNCTIONS[name](*args, **kwargs)
        if name.endswith("_") and name[0] != "_" and name not in _NOT_WRITING:
            return _write(name, args, kwargs)
    if name not in _OTHER_OPS or _called.name is not None:
        return NotImplemented
    _called.name = name
    try:
        return function(*args, **kwargs)
    finally:
        _called.name = None
