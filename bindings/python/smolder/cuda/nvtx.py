"""Named ranges of a program, under the names of NVIDIA's: smolder.profiler shows them beside what runs, as it does
record_function's. Kernels are named after their ops, so that NVIDIA's own tools need no marks."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing

if TYPE_CHECKING:
    from smolder.profiler import record_function

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]
__dir__ = _listing(__name__)

_nested = threading.local()
_handles = itertools.count(1)
_started: dict[int, record_function] = {}


def _entered(msg):
    from smolder.profiler import record_function  # which few programs ask for

    out = record_function(msg)
    out.__enter__()
    return out


def _open():
    if not hasattr(_nested, "ranges"):
        _nested.ranges = []
    return _nested.ranges


def range_push(msg: str) -> int:
    """Begins a range within those of this thread that are open; returns how many there were."""
    ranges = _open()
    ranges.append(_entered(msg))
    return len(ranges) - 1


def range_pop() -> int:
    """Ends the innermost range of this thread; returns how many are left, -2 where none was open."""
    ranges = _open()
    if not ranges:
        return -2
    ranges.pop().__exit__()
    return len(ranges)


def range_start(msg: str) -> int:
    """Begins a range that any thread may end, by the number that this returns."""
    handle = next(_handles)
    _started[handle] = _entered(msg)
    return handle


def range_end(range_id: int) -> None:
    """Ends a range that range_start began."""
    found = _started.pop(range_id, None)
    if found is not None:
        found.__exit__()


def mark(msg: str) -> None:
    """A range without length."""
    _entered(msg).__exit__()


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range for a `with` statement, or a decorator; the arguments are put into the message by its format."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
