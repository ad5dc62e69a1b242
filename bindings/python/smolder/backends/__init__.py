"""Settings of the libraries that compute for devices, under torch's names."""

from __future__ import annotations

from typing import Any

from smolder._names import listing as _listing
from smolder.backends import cuda, cudnn

__all__ = ["cuda", "cudnn", "mps"]
__dir__ = _listing(__name__)


def __getattr__(name: str) -> Any:
    if name == "mps":
        import importlib

        return importlib.import_module("smolder.backends.mps")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
