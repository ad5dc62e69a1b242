"""Flags about OpenMP: our threads are a pool of Smolder's."""

from smolder._names import listing as _listing

__all__ = ["is_available"]
__dir__ = _listing(__name__)


def is_available() -> bool:
    """False."""
    return False
