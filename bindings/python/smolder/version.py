"""The version, and that of CUDA's compiler where there is one."""

from __future__ import annotations

from typing import Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._version import __version__

__all__ = ["__version__", "cuda", "git_version", "hip", "rocm", "xpu"]  # noqa: F822 - cuda is asked for below
__dir__ = _listing(__name__)

hip = rocm = xpu = None  # tensors are on no device of AMD's or Intel's
git_version = "Unknown"  # builds are told apart by __version__


def __getattr__(name: str) -> Any:
    if name == "cuda":
        return _core._cuda_toolkit_version() or None if _core._cuda_is_available() else None
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
