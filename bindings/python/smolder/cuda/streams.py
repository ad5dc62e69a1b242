"""Streams and events of CUDA. A device has one queue: streams are names of it, so what programs order is in order."""

from smolder import _core
from smolder._device import CUDA, device, usable_device

__all__ = ["Event", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream", "stream"]


def _device_of(where):
    where = CUDA if where is None else device(where)
    if where.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {where}")
    usable_device(where)
    return CUDA


class Event:
    """A point in the order of a device's work, which one can wait for, and, with enable_timing, measure from."""

    def __init__(self, enable_timing=False, blocking=False, interprocess=False, external=False):
        if interprocess or external:
            raise NotImplementedError("Event: interprocess and external events are not supported")
        self.device = _device_of(None)
        self._timed = enable_timing
        self._event = None  # until it is recorded

    def record(self, stream=None):
        """Runs what is recorded; the event is after that."""
        _core._cuda_run_recorded("cuda event")
        if self._event is None:
            self._event = _core._CudaEvent(0, self._timed)
        self._event.record(0)

    def wait(self, stream=None):
        """Does nothing: a stream's later work comes after the event anyway."""

    def query(self):
        """Whether all work before the event is done; so it is of one that was not recorded."""
        return self._event is None or self._event.done()

    def synchronize(self):
        """Waits until all work before the event is done."""
        if self._event is not None:
            self._event.synchronize()

    def elapsed_time(self, end_event):
        """Milliseconds from this event to another, of which the work is done."""
        if not (self._timed and end_event._timed):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if self._event is None or end_event._event is None:
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        if not (self.query() and end_event.query()):
            raise RuntimeError("Both events must be completed before calculating elapsed time.")
        return end_event._event.milliseconds_since(self._event)

    def __repr__(self):
        return f"<smolder.cuda.Event {'uninitialized' if self._event is None else hex(id(self._event))}>"


class Stream:
    """The queue of a device under another name: work on all streams goes in program order."""

    def __init__(self, device=None, priority=0, **kwargs):
        if kwargs:
            raise NotImplementedError(f"Stream: {', '.join(kwargs)} is not supported")
        self.device = _device_of(device)

    @property
    def cuda_stream(self):
        """The driver's handle of the queue, as a number, for libraries that are to queue work in its order."""
        return _core._cuda_stream(0)

    def synchronize(self):
        """Runs what is recorded and waits for it."""
        _core._cuda_run_recorded("cuda stream")
        _core._cuda_synchronize(0)

    def query(self):
        """Whether all work that was queued is done."""
        return _core._cuda_idle(0)

    def record_event(self, event=None):
        """Records an event, a new one unless it is given."""
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        """Does nothing: what comes later is after the event anyway."""

    def wait_stream(self, stream):
        """Does nothing: what comes later is after the stream's work anyway."""

    def __eq__(self, other):
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self):
        return hash(("stream", self.device))

    def __repr__(self):
        return f"<smolder.cuda.Stream device={self.device}>"


def current_stream(device=None):
    """The stream that work goes to."""
    return Stream(device)


default_stream = current_stream


def set_stream(stream):
    """Does nothing: all streams of a device are one queue."""


class StreamContext:
    """A scope in which work goes to a stream, as it does anyway."""

    def __init__(self, stream):
        self.stream = stream

    def __enter__(self):
        return None

    def __exit__(self, *_):
        return None


def stream(stream):
    """A scope in which work goes to a stream, as it does anyway; None changes nothing."""
    return StreamContext(stream)
