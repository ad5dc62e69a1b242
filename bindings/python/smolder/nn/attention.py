"""Which of torch's ways to compute attention may be used.

On the CPU one way does what any of them does. On CUDA, MATH alone has scores in memory; with any other way allowed that
takes the operands a kernel that keeps none is used, whichever is faster, ours or cuDNN's.
"""

from __future__ import annotations

import contextlib
import enum
from collections.abc import Iterator
from typing import Any

from smolder import _core
from smolder._names import listing as _listing

__all__ = ["SDPBackend", "sdpa_kernel"]
__dir__ = _listing(__name__)


class SDPBackend(enum.IntEnum):
    """torch's ways to compute scaled_dot_product_attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


def _bits(backends):
    return sum(1 << b for b in set(backends) if SDPBackend.MATH <= b <= SDPBackend.CUDNN_ATTENTION)


@contextlib.contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Within it, attention may be computed in these ways alone. set_priority says nothing: the fastest of them is taken."""
    if not isinstance(backends, list | SDPBackend):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    before = _core._get_attention_ways()
    _core._set_attention_ways(_bits([backends] if isinstance(backends, SDPBackend) else backends))
    try:
        yield {}
    finally:
        _core._set_attention_ways(before)
