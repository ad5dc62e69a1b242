"""Tensors shared with other libraries, under their old names."""

from smolder import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor):
    """A capsule that others take over."""
    return tensor.__dlpack__()
