"""Settings of cuDNN: `enabled`, `allow_tf32`, `benchmark` and `deterministic` of this module.

They are those of a build of torch's without cuDNN: `is_available()` is False, and nothing that is computed depends on them.
"""

import contextlib
import sys
import types

from smolder import _core

__all__ = ["flags", "is_available", "set_flags", "version"]

# Flag: what torch's setter of it is called.
_FLAGS = {
    "enabled": "set_enabled_cudnn",
    "allow_tf32": "set_allow_tf32_cudnn",
    "benchmark": "set_benchmark_cudnn",
    "deterministic": "set_deterministic_cudnn",
}


class _Module(types.ModuleType):
    """A module whose flags are attributes that may be set."""

    def __getattr__(self, name):
        if name in _FLAGS:
            return getattr(_core, f"_get_cudnn_{name}")()
        raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

    def __setattr__(self, name, value):
        if name not in _FLAGS:
            return super().__setattr__(name, value)
        if not isinstance(value, bool):
            raise RuntimeError(f"{_FLAGS[name]} expects a bool, but got {type(value).__name__}")
        getattr(_core, f"_set_cudnn_{name}")(value)


_module = sys.modules[__name__]
_module.__class__ = _Module


def is_available():
    """False: convolutions and attention are computed without cuDNN."""
    return False


def version():
    """None, as there is no cuDNN."""
    return None


def set_flags(_enabled=None, _benchmark=None, _deterministic=None, _allow_tf32=None):
    """Sets flags, but for those that are None; returns what they were before: enabled, benchmark, deterministic, allow_tf32."""
    given = {"enabled": _enabled, "benchmark": _benchmark, "deterministic": _deterministic, "allow_tf32": _allow_tf32}
    before = tuple(getattr(_module, name) for name in given)
    for name, value in given.items():
        if value is not None:
            setattr(_module, name, value)
    return before


@contextlib.contextmanager
def flags(enabled=False, benchmark=False, deterministic=False, allow_tf32=True):
    """Within it, flags are as given."""
    before = set_flags(enabled, benchmark, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)
