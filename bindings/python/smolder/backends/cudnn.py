"""Settings of cuDNN: `enabled`, `allow_tf32`, `benchmark` and `deterministic` of this module.

cuDNN is opened when it is first needed; without it, convolutions and attention are kernels of ours. Unlike torch's, its
plans give the same bits in each run whatever `deterministic` says, unless `benchmark` is True: then those that are fast
in a trial are taken, and with `deterministic` False also those whose bits may differ.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

from smolder import _core
from smolder._names import listing as _listing

__all__ = ["flags", "is_available", "set_flags", "version"]
__dir__ = _listing(__name__)

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


def is_available() -> bool:
    """Whether there is cuDNN; it is looked for as the other libraries of CUDA are."""
    return version() is not None


def version() -> int | None:
    """Its version, 10000 * major + 100 * minor + patch; None where there is none."""
    return _core._cudnn_version() or None


def set_flags(
    _enabled: bool | None = None,
    _benchmark: bool | None = None,
    _deterministic: bool | None = None,
    _allow_tf32: bool | None = None,
) -> tuple[Any, ...]:
    """Sets flags, but for those that are None; returns what they were before: enabled, benchmark, deterministic, allow_tf32."""
    given = {"enabled": _enabled, "benchmark": _benchmark, "deterministic": _deterministic, "allow_tf32": _allow_tf32}
    before = tuple(getattr(_module, name) for name in given)
    for name, value in given.items():
        if value is not None:
            setattr(_module, name, value)
    return before


@contextlib.contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> Iterator[None]:
    """Within it, flags are as given."""
    before = set_flags(enabled, benchmark, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)
