"""Profiling, by torch's names: what is profiled when, and what becomes of it."""

from __future__ import annotations

import contextlib
import enum
import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Self

from smolder import _core
from smolder._notebook import preformatted
from smolder._typing import Device, PathLike, Tensor
from smolder._warn import warn
from smolder.profiler import _events, _trace
from smolder.profiler._events import MemoryChange, ProfilerActivity, Span, supported_activities

if TYPE_CHECKING:
    from smolder._typing import EventList


class ProfilerAction(enum.Enum):
    """The action of a step of a schedule."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


_RECORDS = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A schedule: after `skip_first` steps, again and again `wait` idle ones, `warmup` ones and `active` profiled ones.
    `repeat` is how often, for ever when 0. A `skip_first_wait` other than 0 leaves out the first wait."""
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            f"Invalid profiler schedule arguments. Got wait={wait} (need >= 0), warmup={warmup} (need >= 0), "
            f"active={active} (need > 0), repeat={repeat} (need >= 0), skip_first={skip_first} (need >= 0)."
        )
    if warmup == 0:
        warn("Profiler won't be using warmup, this can skew profiler results")

    def action(step):
        if step < 0:
            raise AssertionError(f"Step must be non-negative. Got {step}.")
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait != 0:
            step += wait
        cycle = wait + warmup + active
        if repeat > 0 and step // cycle >= repeat:
            return ProfilerAction.NONE
        step %= cycle
        if step < wait:
            return ProfilerAction.NONE
        if step < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if step < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def _always(_):
    return ProfilerAction.RECORD


class record_function(contextlib.ContextDecorator):
    """Names a part of the program in profiles: a context, and a decorator of functions.

    Ops are recorded where they stand and run when their step does, so what is inside of it is the recording; kernels
    name the lines whose ops they run.
    """

    def __init__(self, name: str, args: tuple[Any, ...] | None = None) -> None:
        self.name = name
        self.args = args
        self._begun = []

    def __enter__(self) -> Self:
        self._begun.append(time.perf_counter_ns() if _core._profiling() else None)
        return self

    def __exit__(self, *_: object) -> None:
        begun = self._begun.pop()
        if begun is not None:
            _core._profile_span(self.name, begun, time.perf_counter_ns(), self.args or "")

    def _recreate_cm(self):
        return record_function(self.name, self.args)


def tensorboard_trace_handler(
    dir_name: PathLike, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[Any], None]:
    """For `on_trace_ready`: writes each trace to a file in `dir_name`, named as TensorBoard's profiler looks for it."""
    _refuse("tensorboard_trace_handler", use_python_export=use_python_export)

    def handler(prof):
        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        suffix = ".gz" if use_gzip else ""
        prof.export_chrome_trace(os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json{suffix}"))

    return handler


def _refuse(where, **arguments):
    """Raises for those that are set."""
    for name, value in arguments.items():
        if value:
            raise NotImplementedError(f"{name} of {where} is not supported")


class _KinetoProfile:
    """A profile without a schedule: from start() to stop()."""

    activities: set[ProfilerActivity] | set[Any]
    metadata: dict[Any, Any]

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        _refuse(
            "profile",
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.activities = supported_activities() if activities is None else set(activities)
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        for activity in self.activities:
            if activity not in (ProfilerActivity.CPU, ProfilerActivity.CUDA):
                raise NotImplementedError(f"profiling {activity!r} is not supported")
        if ProfilerActivity.CUDA in self.activities and not _core._cuda_is_available():
            warn("CUDA is not available, disabling CUDA profiling")
            self.activities.discard(ProfilerActivity.CUDA)
        self.record_shapes = record_shapes
        self.profile_memory = profile_memory
        self.with_stack = with_stack
        self.with_flops = with_flops
        self.with_modules = with_modules
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.metadata = {}
        self._session = None
        self._spans = None  # None: nothing was profiled yet
        self._changes = []
        self._dropped = 0
        self._events = None
        self._trace_id = None

    def start(self) -> None:
        """Begins, once what was recorded before has run."""
        self.prepare_trace()
        self.start_trace()

    def stop(self) -> None:
        """Runs what was recorded, and ends."""
        self.stop_trace()

    def prepare_trace(self) -> None:
        """Does nothing: no part of a session takes long to begin with."""

    def start_trace(self) -> None:
        _core._run_recorded("profiler")
        if not self.acc_events or self._spans is None:
            self._spans, self._changes = [], []
        self._events = None
        self._trace_id = self.custom_trace_id_callback() if self.custom_trace_id_callback else uuid.uuid4().hex.upper()
        self._session = _core._ProfileSession(
            shapes=self.record_shapes,
            memory=self.profile_memory,
            flops=self.with_flops,
            devices=ProfilerActivity.CUDA in self.activities,
        )

    def stop_trace(self) -> None:
        if self._session is None:
            raise AssertionError("Profiler must be initialized before stopping trace")
        _core._run_recorded("profiler")
        spans, changes, self._dropped = self._session.stop()
        self._session = None
        spans = (Span(*span) for span in spans)
        self._spans += (s for s in spans if s.queued or ProfilerActivity.CPU in self.activities)
        self._changes += (MemoryChange(*change) for change in changes)
        if self._dropped:
            warn(f"the profile has no room for {self._dropped} spans, which are not in it: profile fewer steps")

    def _profiled(self, what):
        if self._spans is None:
            raise AssertionError(f"Profiler must be initialized before {what}")

    def __repr__(self) -> str:
        return object.__repr__(self) if self._spans is None or self._session else self.key_averages().table()

    def _repr_html_(self) -> str:
        return preformatted(repr(self))

    def events(self) -> EventList:
        """All spans, as an EventList."""
        self._profiled("accessing events")
        if self._events is None:
            device = "cuda" if ProfilerActivity.CUDA in self.activities else None
            self._events = _events.events_of(
                self._spans, self._changes, self.with_stack, device, self.profile_memory, self.with_flops
            )
        return self._events

    def key_averages(
        self,
        group_by_input_shape: bool = False,
        group_by_stack_n: int = 0,
        group_by_overload_name: bool = False,
        include_python_functions: bool = False,
    ) -> EventList:
        """Spans of one name together; of one name and shapes (`record_shapes`) or line (`with_stack`) where asked."""
        self._profiled("getting key averages")
        return self.events().key_averages(
            group_by_input_shape, group_by_stack_n, group_by_overload_name, include_python_functions
        )

    def export_chrome_trace(
        self,
        path: PathLike,
        use_python_export: bool = False,
        cuda_graph_annotations: Any = None,
        graph_lanes: str = "none",
        default_stream: int = 7,
    ) -> None:
        """Writes the spans as JSON for chrome://tracing, Perfetto and TensorBoard; compressed where the name ends in
        ".gz"."""
        _refuse(
            "export_chrome_trace",
            use_python_export=use_python_export,
            cuda_graph_annotations=cuda_graph_annotations,
            graph_lanes=graph_lanes != "none",
        )
        self._profiled("exporting chrome trace")
        flags = {
            "trace_id": self._trace_id,
            "with_stack": int(self.with_stack),
            "profile_memory": int(self.profile_memory),
            "record_shapes": int(self.record_shapes),
            "with_flops": int(self.with_flops),
        }
        _trace.write(path, self.events(), self._changes, {**flags, **self.metadata}, default_stream)

    def export_stacks(self, path: PathLike, metric: str = "self_cpu_time_total") -> None:
        """Writes the user's lines with what their spans took, for tools that draw flame graphs."""
        self._profiled("exporting stacks")
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        return self.events().export_stacks(path, metric)

    def export_memory_timeline(self, path: PathLike, device: Device = None) -> None:
        """Raises: what memory is for is not known over time."""
        raise NotImplementedError(
            "export_memory_timeline is not supported: export_chrome_trace() has memory over time with "
            "profile_memory=True, and smolder.memory.snapshot() what each line holds"
        )

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[Any] | None) -> None:
        """Raises: what is profiled is said at the start."""
        raise NotImplementedError("toggle_collection_dynamic is not supported: start and stop a profile instead")

    def add_metadata(self, key: Tensor, value: Any) -> None:
        """Puts a string into the trace."""
        self.metadata[key] = str(value)

    def add_metadata_json(self, key: Tensor, value: Any) -> None:
        """Puts a value, given as JSON, into the trace."""
        self.metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def get_trace_id(self) -> str | None:
        """The trace's name; None before the start."""
        return self._trace_id


class profile(_KinetoProfile):
    """Profiles a block, or the steps of it that a schedule names; `step()` ends each.

    Starting and stopping run what is recorded, so what a profile has is what was recorded in it.
    """

    schedule: Callable[..., Any]
    record_steps: bool
    step_num: int
    current_action: Any

    def __init__(
        self,
        *,
        activities: Iterable[Any] | None = None,
        schedule: Callable[[int], Any] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            execution_trace_observer=execution_trace_observer,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.schedule = schedule or _always
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(0)
        self._step = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        self._change(ProfilerAction.NONE, self.current_action)
        self._begin_step()

    def stop(self) -> None:
        if self._session is None and self._spans is None and self.current_action in _RECORDS:
            raise AssertionError("Profiler must be initialized before stopping trace")
        self._end_step()
        self._change(self.current_action, None)

    def step(self) -> None:
        """Says that the next step begins."""
        self._end_step()
        before, self.step_num = self.current_action, self.step_num + 1
        self.current_action = self.schedule(self.step_num)
        self._change(before, self.current_action)
        self._begin_step()

    def _begin_step(self):
        if self.record_steps:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self):
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def _change(self, before, after):
        """Starts and stops where the schedule goes from one action to another; `after` is None at the end."""
        records = self._session is not None
        if records and (after not in _RECORDS or before is ProfilerAction.RECORD_AND_SAVE):
            if before is ProfilerAction.RECORD and after is not None:
                warn("Incorrect schedule: RECORD followed by " + after.name)
            self.stop_trace()
            records = False
            if (before is ProfilerAction.RECORD_AND_SAVE or after is None) and self.on_trace_ready:
                self.on_trace_ready(self)
        if after in _RECORDS and not records:
            self.start_trace()
