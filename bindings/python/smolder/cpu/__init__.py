"""The CPU as a device, under torch's names, and what there is of mixed precision."""

from __future__ import annotations

import contextlib
from typing import Any

from smolder._names import listing as _listing
from smolder._typing import Device
from smolder.cpu import amp

__all__ = [
    "Event", "Stream", "StreamContext", "amp", "current_device", "current_stream", "device_count", "is_available",
    "is_initialized", "set_device", "stream", "synchronize",
]  # fmt: skip
__dir__ = _listing(__name__)


def is_available() -> bool:
    """True: tensors can always be on the CPU."""
    return True


def is_initialized() -> bool:
    """True: nothing is to be prepared."""
    return True


def device_count() -> int:
    """1: all processors are one device."""
    return 1


def current_device() -> str:
    """The name of the device."""
    return "cpu"


def set_device(device: Device) -> None:
    """Does nothing: there is one device."""


def synchronize(device: Device = None) -> None:
    """Does nothing, as torch's: a value is waited for by who reads it."""


class Stream:
    """The order in which the CPU works, which is that of the program."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Does nothing: what is in the program before is done before."""

    def record_event(self, event: Any = None) -> None:
        """Does nothing: what is in the program before is done before."""

    def wait_event(self, event: Any) -> None:
        """Does nothing: what is in the program before is done before."""


class Event:
    """A point in that order."""

    def query(self) -> bool:
        """True: work of the CPU is done when it is needed."""
        return True

    def record(self, stream: Any = None) -> None:
        """Does nothing: what is in the program before is done before."""

    def synchronize(self) -> None:
        """Does nothing: what is in the program before is done before."""

    wait = record


_stream = Stream()


def current_stream(device: Device = None) -> Stream:
    """The only stream."""
    return _stream


class StreamContext(contextlib.nullcontext[Any]):
    """A scope whose work goes to a stream, as all does."""


def stream(stream: Any) -> StreamContext:
    """The same."""
    return StreamContext(stream)
