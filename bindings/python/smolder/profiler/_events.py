"""Spans as torch's events: a tree a thread, averages of what has one name, and lists that print as tables."""

from __future__ import annotations

import bisect
import collections
import enum
from collections.abc import Iterable
from typing import Any, Self

from smolder import _core, _limits
from smolder._notebook import preformatted
from smolder._typing import PathLike, Tensor
from smolder.profiler._table import build_table, format_time


class DeviceType(enum.Enum):
    """Where an event ran."""

    CPU = 0
    CUDA = 1


class ProfilerActivity(enum.Enum):
    """The activities that are profiled: the host's, to which kernels on the CPU belong, or a device's."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


def supported_activities() -> set[ProfilerActivity]:
    """Those that this process can profile."""
    return {ProfilerActivity.CPU} | ({ProfilerActivity.CUDA} if _core._cuda_is_available() else set())


#: As _core._ProfileSession gives them; times are nanoseconds of time.perf_counter_ns().
Span = collections.namedtuple(
    "Span", "kind name where begin end own thread device queued bytes plan step flow count detail shapes flops"
)
MemoryChange = collections.namedtuple("MemoryChange", "at device bytes live thread")

#: Kinds whose name alone would not say what they are.
_SAID = ("sync", "plan", "compile", "copy")


def title(span: Any) -> str:
    """The name of a span in tables and timelines."""
    if span.kind in _SAID and not span.name.startswith(span.kind):
        return f"{span.kind}: {span.name}"
    return span.name


def _dims(shape):
    """[2, 3] of "float32[2, 3]"."""
    inside = shape[shape.index("[") + 1 : -1]
    return [int(n) for n in inside.split(",")] if inside else []


def _microseconds(name):
    return property(lambda self: format_time(getattr(self, name)))


class _Times:
    cpu_time_str: property = _microseconds("cpu_time")
    cpu_time_total_str: property = _microseconds("cpu_time_total")
    self_cpu_time_total_str: property = _microseconds("self_cpu_time_total")
    device_time_str: property = _microseconds("device_time")
    device_time_total_str: property = _microseconds("device_time_total")
    self_device_time_total_str: property = _microseconds("self_device_time_total")

    @property
    def cpu_time(self) -> float:
        """Microseconds a call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """Microseconds a call."""
        return self.device_time_total / self.count if self.count else 0.0

    @property
    def cuda_time(self) -> float:
        """Microseconds a call on the device."""
        return self.device_time

    @property
    def bandwidth(self) -> float:
        """Bytes a nanosecond, which are gigabytes a second, of what moved some; else 0."""
        own = self.self_device_time_total or self.self_cpu_time_total
        return self.bytes / own / 1e3 if self.bytes and own else 0.0

    @property
    def bandwidth_share(self) -> float:
        """That beside what plain loops over as many bytes reach, once the machine's limits were measured, as
        smolder.explain does; else 0."""
        limits = _limits.measured("cuda" if self.device_type == DeviceType.CUDA else "cpu")
        return self.bandwidth * 1e9 / limits.bandwidth(self.bytes / self.count) if limits and self.bandwidth else 0.0


class FunctionEvent(_Times):
    """A span, with what is inside of it. Times are microseconds."""

    def __init__(self, id: int, span: Any, with_stack: bool = False) -> None:
        self.id = id
        self.span = span
        self.name = self.key = title(span)
        self.trace_name = span.name
        self.kind = span.kind
        self.thread = span.thread
        self.time_range = Interval(span.begin / 1e3, span.end / 1e3)
        self.device_type = DeviceType.CUDA if span.queued else DeviceType.CPU
        self.device_index = int(span.device.partition(":")[2] or 0)
        self.is_user_annotation = span.kind == "user"
        self.is_async = False
        self.is_remote = False
        self.is_legacy = False
        self.node_id = -1
        self.overload_name = ""
        self.use_device = "cuda" if span.device.startswith("cuda") else None
        self.count = 1
        self.input_shapes = [_dims(s) for s in span.shapes]
        self.stack = [span.where] if with_stack and span.where else []
        self.where = span.where
        self.bytes = span.bytes
        self.plan, self.step, self.flow = span.plan, span.step, span.flow
        self.flops = span.flops
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.cpu_parent = None
        self.cpu_children = []
        self.kernels = []  # events of the device that it queued itself

    @property
    def _elapsed(self):
        """Its own part where it ran side by side with others, so that parts add up."""
        return (self.span.end - self.span.begin if self.span.own is None else self.span.own) / 1e3

    @property
    def cpu_time_total(self) -> float:
        """Microseconds, with what is inside of it."""
        return self._elapsed if self.device_type == DeviceType.CPU else 0.0

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds, without."""
        if self.device_type != DeviceType.CPU:
            return 0.0
        return max(0.0, self._elapsed - sum(child.cpu_time_total for child in self.cpu_children))

    @property
    def self_device_time_total(self) -> float:
        """Microseconds that it ran on a device."""
        return 0.0 if self.device_type == DeviceType.CPU else self._elapsed

    @property
    def device_time_total(self) -> float:
        """The same, and what it queued, and what is inside of it."""
        if self.device_type != DeviceType.CPU:
            return self._elapsed
        queued = sum(kernel._elapsed for kernel in self.kernels)
        return queued + sum(child.device_time_total for child in self.cpu_children)

    cuda_time_total = device_time_total
    self_cuda_time_total = self_device_time_total

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} device_type={self.device_type} "
            f"cpu_time={self.cpu_time_str} start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[child.id for child in self.cpu_children]} thread={self.thread} "
            f"input_shapes={self.input_shapes} bytes={self.bytes} where={self.where}>"
        )


class Interval:
    """From a time to another, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        return self.end - self.start


class FunctionEventAvg(_Times):
    """Events of one name, added up."""

    key: Any
    is_user_annotation: bool
    use_device: Any
    input_shapes: Any
    stack: Any
    kind: Any
    cpu_parent: Any
    cpu_children: Any

    _SUMS = (
        "cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total", "cpu_memory_usage",
        "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage", "count", "bytes", "flops",
    )  # fmt: skip

    def __init__(self) -> None:
        self.key = None
        self.node_id = -1
        self.overload_name = ""
        self.is_async = self.is_remote = self.is_legacy = self.is_user_annotation = False
        self.use_device = None
        self.device_type = DeviceType.CPU
        self.input_shapes = None
        self.stack = None
        self.kind = None
        self.cpu_parent = None
        self.cpu_children = None
        for name in self._SUMS:
            setattr(self, name, 0)

    def add(self, other: Tensor) -> Self:
        """Adds an event, or another average, of the same name."""
        if self.key is None:
            for name in ("key", "node_id", "use_device", "device_type", "kind", "input_shapes", "stack"):
                setattr(self, name, getattr(other, name))
            self.is_user_annotation = other.is_user_annotation
            self.cpu_parent = other.cpu_parent
        assert isinstance(other, (FunctionEvent, FunctionEventAvg)) and other.key == self.key
        self.use_device = self.use_device or other.use_device
        for name in self._SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def __iadd__(self, other: Tensor) -> Self:
        return self.add(other)

    def __getattr__(self, name: str) -> Any:
        if name.startswith(("cuda_", "self_cuda_")):
            return getattr(self, name.replace("cuda", "device", 1))
        raise AttributeError(f"'FunctionEventAvg' object has no attribute '{name}'")

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str}  self_cuda_time={self.self_device_time_total_str} "
            f"cuda_time={self.device_time_str} input_shapes={self.input_shapes or ''} "
            f"cpu_memory_usage={self.cpu_memory_usage} cuda_memory_usage={self.device_memory_usage}>"
        )


class EventList(list[Any]):
    """Events, or averages of them."""

    def __init__(
        self,
        events: Iterable[Any] = (),
        use_device: str | None = None,
        profile_memory: bool = False,
        with_flops: bool = False,
    ) -> None:
        super().__init__(events)
        self._use_device = use_device
        self._profile_memory = profile_memory
        self._with_flops = with_flops

    def _like(self, events):
        return EventList(events, self._use_device, self._profile_memory, self._with_flops)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return preformatted(self.table())

    @property
    def self_cpu_time_total(self) -> int:
        """Microseconds of the host in all."""
        return sum(event.self_cpu_time_total for event in self)

    def supported_export_stacks_metrics(self) -> list[str]:
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as text. `sort_by` names an attribute, as "self_cpu_time_total", "cuda_time_total" or "bytes"."""
        events = self
        if sort_by is not None:
            name = sort_by.replace("cuda", "device")
            events = self._like(sorted(self, key=lambda event: getattr(event, name), reverse=True))
        return build_table(
            events,
            self._use_device,
            self._profile_memory,
            self._with_flops,
            row_limit,
            max_src_column_width,
            max_name_column_width,
            max_shapes_column_width,
            header,
            top_level_events_only,
            time_unit,
        )

    def key_averages(
        self,
        group_by_input_shapes: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList:
        """Events of one name together; of one name and shapes, or one name and line, where asked for. (Ops have no
        overload names, and functions of Python are not among the events.)"""
        groups = {}
        for event in self:
            key = [event.key, event.device_type, event.is_user_annotation]
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            if group_by_stack_n > 0:
                key += event.stack[:group_by_stack_n]
            groups.setdefault(tuple(key), FunctionEventAvg()).add(event)
        for average in groups.values():
            average.stack = average.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
        return self._like(groups.values())

    def total_average(self) -> FunctionEventAvg:
        """All of them as one."""
        total = FunctionEventAvg()
        for event in self:
            total.key = event.key
            total.add(event)
        total.key = "Total"
        return total

    def export_stacks(self, path: PathLike, metric: str) -> None:
        """Writes a line "file.py:12 in f;kernel 34" for each event that took some of `metric`, in microseconds: what
        tools that draw flame graphs read."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(f"metric should be one of: {self.supported_export_stacks_metrics()}")
        totals = collections.Counter()
        for event in self:
            if event.stack:
                frames = [event.name, *event.stack]
                stack = ";".join(f.translate(str.maketrans(" ;\t\n", "____")) for f in reversed(frames))
                totals[stack] += getattr(event, metric.replace("cuda", "device"), 0)
        with open(path, "w") as file:
            for stack, value in totals.items():
                if int(value) > 0:
                    print(f"{stack} {int(value)}", file=file)


def events_of(
    spans: Any,
    changes: Any = (),
    with_stack: bool = False,
    use_device: str | None = None,
    profile_memory: bool = False,
    with_flops: bool = False,
) -> EventList:
    """An EventList of spans: each knows what it is in, what it queued, and what memory was taken in it."""
    order = sorted(spans, key=lambda s: (s.begin, -s.end))
    events = EventList(
        (FunctionEvent(i, span, with_stack) for i, span in enumerate(order)), use_device, profile_memory, with_flops
    )
    threads = collections.defaultdict(list)
    for event in events:
        if not event.span.queued:
            threads[event.thread].append(event)
    for thread in threads.values():
        _nest(thread)
    _link_queued(events)
    if profile_memory:
        _add_memory(threads, changes)
    return events


def _nest(thread):
    """Finds the parents of a thread's events, which are in order of their beginning."""
    open_events = []
    for event in thread:
        while open_events and open_events[-1].span.end <= event.span.begin:
            open_events.pop()
        inside = [e for e in open_events if e.span.end >= event.span.end and e.span.own is None]
        if inside:
            event.cpu_parent = inside[-1]
            inside[-1].cpu_children.append(event)
        open_events.append(event)


def _link_queued(events):
    launches = {event.flow: event for event in events if event.flow and not event.span.queued}
    for event in events:
        if event.span.queued and event.flow in launches:
            launches[event.flow].kernels.append(event)


def _add_memory(threads, changes):
    """Gives each change of memory to the innermost event that it was in."""
    for number, thread in threads.items():
        begins = [event.span.begin for event in thread]
        for change in changes:
            if change.thread != number:
                continue
            at = bisect.bisect_right(begins, change.at) - 1
            event = thread[at] if at >= 0 else None
            while event and event.span.end < change.at:
                event = event.cpu_parent
            if not event:
                continue
            kind = "cpu" if change.device == "cpu" else "device"
            name = f"self_{kind}_memory_usage"
            setattr(event, name, getattr(event, name) + change.bytes)
            while event:
                name = f"{kind}_memory_usage"
                setattr(event, name, getattr(event, name) + change.bytes)
                event = event.cpu_parent
