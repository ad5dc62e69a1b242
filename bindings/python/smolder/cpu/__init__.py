"""The CPU as a device, under torch's names, and what there is of mixed precision."""

import contextlib

from smolder.cpu import amp

__all__ = [
    "Event",
    "Stream",
    "StreamContext",
    "amp",
    "current_device",
    "current_stream",
    "device_count",
    "is_available",
    "is_initialized",
    "set_device",
    "stream",
    "synchronize",
]


def is_available():
    """True: tensors can always be on the CPU."""
    return True


def is_initialized():
    """True: nothing is to be prepared."""
    return True


def device_count():
    """1: all processors are one device."""
    return 1


def current_device():
    """The name of the device."""
    return "cpu"


def set_device(device):
    """Does nothing: there is one device."""


def synchronize(device=None):
    """Does nothing, as torch's: a value is waited for by who reads it."""


class Stream:
    """The order in which the CPU works, which is that of the program."""

    def __init__(self, priority=-1):
        pass

    def wait_stream(self, stream):
        """Does nothing: what is in the program before is done before."""

    record_event = wait_event = wait_stream


class Event:
    """A point in that order."""

    def query(self):
        """True: work of the CPU is done when it is needed."""
        return True

    def record(self, stream=None):
        """Does nothing: what is in the program before is done before."""

    def synchronize(self):
        """Does nothing: what is in the program before is done before."""

    wait = record


_stream = Stream()


def current_stream(device=None):
    """The only stream."""
    return _stream


class StreamContext(contextlib.nullcontext):
    """A scope whose work goes to a stream, as all does."""


def stream(stream):
    """The same."""
    return StreamContext(stream)
