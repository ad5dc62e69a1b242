"""Streams and events of CUDA. A device has one queue: streams are names of it, so what programs order is in order."""

from __future__ import annotations

from typing import Any

from smolder import _core
from smolder._device import device
from smolder._names import listing as _listing
from smolder._typing import Device
from smolder.cuda._index import used_index

__all__ = ["Event", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream"]
__dir__ = _listing(__name__)


def _device_of(where):
    return device("cuda", used_index(where))


class Event:
    """A point in the order of a device's work, which one can wait for, and, with enable_timing, measure from."""

    device: device

    def __init__(
        self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False
    ) -> None:
        if interprocess or external:
            raise NotImplementedError("Event: interprocess and external events are not supported")
        self.device = _device_of(None)
        self._timed = enable_timing
        self._event = None  # until it is recorded

    def record(self, stream: Stream | None = None) -> None:
        """Runs what is recorded for the stream's device; the event is after that."""
        where = current_stream().device if stream is None else stream.device
        if self._event is None:
            self.device = where
        elif self.device != where:
            raise RuntimeError(
                f"Event device {self.device.index} does not match recording stream's device {where.index}."
            )
        _core._cuda_run_recorded("cuda event", where.index)
        if self._event is None:
            self._event = _core._CudaEvent(where.index, self._timed)
        self._event.record(where.index)

    def wait(self, stream: Stream | None = None) -> None:
        """A stream's later work comes after the event. On the event's device it does anyway."""
        where = current_stream().device if stream is None else stream.device
        if self._event is not None and where != self.device:
            self._event.wait(where.index)

    def query(self) -> bool:
        """Whether all work before the event is done; so it is of one that was not recorded."""
        return self._event is None or self._event.done()

    def synchronize(self) -> None:
        """Waits until all work before the event is done."""
        if self._event is not None:
            self._event.synchronize()

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another, of which the work is done."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._event is None or end_event._event is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return end_event._event.milliseconds_since(self._event)

    def __repr__(self) -> str:
        return f"<smolder.cuda.Event {'uninitialized' if self._event is None else hex(id(self._event))}>"


class Stream:
    """The queue of a device under another name: work on all streams goes in program order."""

    device: device

    def __init__(self, device: Device = None, priority: int = 0, **kwargs: Any) -> None:
        if kwargs:
            raise NotImplementedError(f"Stream: {', '.join(kwargs)} is not supported")
        self.device = _device_of(device)

    @property
    def cuda_stream(self) -> int:
        """The driver's handle of the queue, as a number, for libraries that are to queue work in its order."""
        return _core._cuda_stream(self.device.index)

    def synchronize(self) -> None:
        """Runs what is recorded and waits for it."""
        _core._cuda_run_recorded("cuda stream", self.device.index)
        _core._cuda_synchronize(self.device.index)

    def query(self) -> bool:
        """Whether all work that was queued is done."""
        return _core._cuda_idle(self.device.index)

    def record_event(self, event: Event | None = None) -> Event:
        """Records an event, a new one unless it is given."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event: Event) -> None:
        """Has later work wait for the event, as it does anyway on the same device."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Has later work wait for what the stream was given, as it does anyway on the same device."""
        if stream.device != self.device:
            self.wait_event(stream.record_event())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash(("stream", self.device))

    def __repr__(self) -> str:
        return f"<smolder.cuda.Stream device={self.device}>"


def current_stream(device: Device = None) -> Stream:
    """The stream that work goes to."""
    return Stream(device)


default_stream = current_stream


def set_stream(stream: Stream | None) -> None:
    """Makes the stream's device the current one: all streams of a device are one queue."""
    if stream is not None:
        _core._cuda_set_current_device(stream.device.index)


class StreamContext:
    """A scope in which the stream's device is the current one."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        self._before = _core._cuda_current_device()
        set_stream(self.stream)

    def __exit__(self, *_: object) -> None:
        if self.stream is not None:
            _core._cuda_set_current_device(self._before)


def stream(stream: Stream | None) -> StreamContext:
    """A scope in which the stream's device is the current one; None changes nothing."""
    return StreamContext(stream)
