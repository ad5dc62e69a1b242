"""torch's questions about Apple's devices: there are none that tensors could be on."""

from __future__ import annotations

from typing import NoReturn

from smolder._names import listing as _listing

__all__ = ["is_available", "is_built", "is_macos13_or_newer", "is_macos_or_newer"]
__dir__ = _listing(__name__)


def is_built() -> bool:
    """False: there are no kernels for them."""
    return False


def is_available() -> bool:
    """False: tensors are on none."""
    return False


def is_macos_or_newer(major: int, minor: int) -> NoReturn:
    """Raises RuntimeError: there is no such device whose macOS could be asked for."""
    raise RuntimeError("Cannot execute isOnMacOSorNewer() without MPS backend.")


def is_macos13_or_newer(minor: int = 0) -> None:
    """Raises RuntimeError: there is no such device whose macOS could be asked for."""
    is_macos_or_newer(13, minor)
