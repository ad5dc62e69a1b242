"""Settings of cuDNN: `enabled`, `allow_tf32`, `benchmark` and `deterministic` of this module.

cuDNN is opened when it is first needed; without it, convolutions and attention are kernels of ours. Unlike torch's, its
plans give the same bits in each run whatever `deterministic` says, unless `benchmark` is True: then those that are fast
in a trial are taken, and with `deterministic` False also those whose bits may differ.
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
    """Whether there is cuDNN; it is looked for as the other libraries of CUDA are."""
    return version() is not None


def version():
    """Its version, 10000 * major + 100 * minor + patch; None where there is none."""
    return _core._cudnn_version() or None


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
