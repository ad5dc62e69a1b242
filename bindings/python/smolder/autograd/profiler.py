"""The older names of torch.profiler: a profile that is its table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from smolder._names import listing as _listing
from smolder._typing import PathLike
from smolder.profiler import ProfilerActivity, record_function
from smolder.profiler import profile as _profile

if TYPE_CHECKING:
    from smolder._typing import EventList

__all__ = ["profile", "record_function"]
__dir__ = _listing(__name__)


class profile:
    """Profiles a block when `enabled`: smolder.profiler.profile without a schedule. `use_device` may be "cuda"."""

    entered: bool

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Callable[[], str] | None = None,
    ) -> None:
        if use_device not in (None, "cuda"):
            raise NotImplementedError(f"use_device={use_device!r} of profile is not supported")
        if not use_cpu and use_device is None:
            raise AssertionError("No activities specified for the profiler")
        activities = ([ProfilerActivity.CPU] if use_cpu else []) + ([ProfilerActivity.CUDA] if use_device else [])
        self.enabled = enabled
        self.entered = False
        self._profile = _profile(
            activities=activities,
            record_shapes=record_shapes,
            with_flops=with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_modules=with_modules,
            experimental_config=experimental_config,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
        )

    def __enter__(self) -> Self:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._profile.start()
        return self

    def __exit__(self, *_: object) -> bool:
        if self.enabled:
            self._profile.stop()
        return False

    @property
    def function_events(self) -> Any:
        """All spans; None before the block ended."""
        return self._profile.events() if self._profile._spans is not None else None

    @property
    def self_cpu_time_total(self) -> int:
        """Microseconds of the host in all."""
        return self._profile.events().self_cpu_time_total

    def table(self, *args: Any, **kwargs: Any) -> str:
        return self._profile.events().table(*args, **kwargs)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        return self._profile.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> Any:
        return self._profile.events().total_average()

    def export_chrome_trace(self, path: PathLike) -> None:
        return self._profile.export_chrome_trace(path)

    def export_stacks(self, path: PathLike, metric: str = "self_cpu_time_total") -> None:
        return self._profile.export_stacks(path, metric)

    def __str__(self) -> str:
        return self.table() if self.entered else "<unfinished profiler_legacy.profile>"
