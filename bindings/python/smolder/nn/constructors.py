"""Constructors that layers have of a base that nobody names: errors of calls are to name the layer."""

import types

from smolder._device import on_device
from smolder._names import listing as _listing

__all__ = ["named_after"]
__dir__ = _listing(__name__)


def named_after(cls: type) -> None:
    """Gives a class of ours that has the constructor of a private base one of its own name."""
    if "__init__" in vars(cls) or cls.__name__.startswith("_") or not cls.__module__.startswith("smolder."):
        return
    owner = next(base for base in cls.__mro__ if "__init__" in vars(base))
    if owner.__name__.startswith("_") and isinstance(owner.__init__, types.FunctionType):
        cls.__init__ = _renamed(owner.__init__, f"{cls.__name__}.__init__")


def _renamed(function, name):
    if hasattr(function, "__wrapped__"):  # by on_device, alone among decorators of constructors
        return on_device(_renamed(function.__wrapped__, name))
    of = (function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    out = types.FunctionType(*of)
    out.__kwdefaults__, out.__doc__, out.__qualname__ = function.__kwdefaults__, function.__doc__, name
    return out
