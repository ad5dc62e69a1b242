"""Tensors shared with other libraries, under their old names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder import from_dlpack
from smolder._names import listing as _listing

if TYPE_CHECKING:
    from typing import Any

    from smolder._typing import Tensor

__all__ = ["from_dlpack", "to_dlpack"]
__dir__ = _listing(__name__)


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule that others take over."""
    return tensor.__dlpack__()
