"""TorchScript, which there is none of: programs may ask whether they are scripted, and mark functions, as in torch.

What would script or trace raises; smolder.compile and smolder.export are the ways to go. Where PYTORCH_JIT=0 is in the
environment, which turns torch's off as well, script, trace and their kin return what they are given.
"""

import builtins
import contextlib
import functools
import os
import typing

from smolder._warn import warn
from smolder.cuda._refused import refused, refused_class

__all__ = [
    "Attribute",
    "Final",
    "ScriptFunction",
    "ScriptModule",  # noqa: F822 - made below, when it is asked for
    "TracerWarning",
    "annotate",
    "export",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "load",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
]

Final = typing.Final


class TracerWarning(Warning):
    """What torch's trace warns of."""


class Attribute(typing.NamedTuple):
    """A value and the type that a script should take it for."""

    value: object
    type: object


def is_scripting():
    """False: no function is being scripted."""
    return False


def is_tracing():
    """False: no function is being traced."""
    return False


# -- marks, which say what a script would make of a function


def _marked(function, modifier):
    for one in (function.fget, function.fset) if builtins.isinstance(function, property) else (function,):
        if one is not None:
            one._torchscript_modifier = modifier
    return function


def export(fn):
    """Marks a method that a script should have although nothing in it calls it."""
    return _marked(fn, "export (compile this function even if nothing calls it)")


def unused(fn):
    """Marks a function that a script should not have."""
    return _marked(fn, "unused (ignored and replaced with raising of an exception)")


def ignore(drop=False, **kwargs):
    """Marks a function that a script should call as Python's, or, with drop, not have."""
    left = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    if callable(drop):
        return _marked(drop, left)
    if not builtins.isinstance(drop, bool):
        raise RuntimeError(f"Argument to @smolder.jit.ignore must be a bool or a function but got {drop}")
    old = kwargs.pop("drop_on_export", None)
    if old or drop:
        warn(
            f"ignore({'drop_on_export=True' if old else 'True'}) has been deprecated. TorchScript will now drop the "
            "function call on compilation. Use smolder.jit.unused now.",
            FutureWarning,
        )
    return unused if old or drop else lambda fn: _marked(fn, left)


def _overload(func):
    """Marks one of the types that a function takes."""
    return func


_overload_method = _overload


def interface(obj):
    """Marks a class that says what methods a scripted module has."""
    if not builtins.isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    return obj


def annotate(the_type, the_value):
    """The value; a script would take it to be of the type."""
    return the_value


def script_if_tracing(fn):
    """The function, which would be scripted where one that calls it is traced."""

    @functools.wraps(fn)
    def call(*args, **kwargs):
        return fn(*args, **kwargs)

    return call


@contextlib.contextmanager
def optimized_execution(should_optimize):
    """Whether scripts that run within it are optimized; there are none."""
    yield


@contextlib.contextmanager
def fuser(name):
    """How scripts that run within it are fused; there are none."""
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3", "none"):
        raise Exception(f"unrecognized fuser option (name: {name})")
    yield


# -- what makes scripts

_WHY = "there is no TorchScript: use smolder.compile or smolder.export, or set PYTORCH_JIT=0, which changes no function"


def _disabled():
    return os.environ.get("PYTORCH_JIT", "1").lower() in ("0", "0v", "false", "no")


def _as_it_is(name, first):
    """A function that raises, or returns its first argument where torch's does too."""
    raises = refused(f"jit.{name}", _WHY)

    def call(*args, **kwargs):
        if not _disabled():
            raises()
        return args[0] if args else kwargs[first]

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Raises: {_WHY}."
    return call


script = _as_it_is("script", "obj")
script_method = _as_it_is("script_method", "fn")
trace = _as_it_is("trace", "func")
trace_module = _as_it_is("trace_module", "mod")

_FILES = "there is no TorchScript: smolder.export.save and load keep what smolder.export.export captured"
freeze = refused("jit.freeze", _WHY)
load = refused("jit.load", _FILES)
optimize_for_inference = refused("jit.optimize_for_inference", _WHY)
save = refused("jit.save", _FILES)
ScriptFunction = refused_class("jit.ScriptFunction", _WHY)


def __getattr__(name):
    if name != "ScriptModule":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}: there is no TorchScript")
    from smolder.nn import Module

    # As torch's: a module, where functions are left as they are.
    made = type(name, (Module,), {}) if _disabled() else refused_class("jit.ScriptModule", _WHY, Module)
    globals()[name] = made
    return made
