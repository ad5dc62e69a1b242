"""Flags about oneDNN: our kernels are generated, and none is from that library."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from smolder._names import listing as _listing

__all__ = ["deterministic", "enabled", "flags", "is_acl_available", "is_available", "set_flags"]
__dir__ = _listing(__name__)

enabled: bool = False
deterministic: bool = False
allow_tf32: bool = False
fp32_precision: str = "none"


def is_available() -> bool:
    """False: the library is not used."""
    return False


def is_acl_available() -> bool:
    """The same of its kernels for Arm."""
    return False


def set_flags(*flags: Any, **named: Any) -> tuple[bool, bool, bool, str]:
    """The settings as they are: nothing reads them."""
    return enabled, deterministic, allow_tf32, fp32_precision


@contextlib.contextmanager
def flags(*given: Any, **named: Any) -> Iterator[None]:
    """Within it, whatever it is given changes nothing."""
    yield
