"""The older names of torch.profiler: a profile that is its table."""

from smolder.profiler import ProfilerActivity, record_function
from smolder.profiler import profile as _profile

__all__ = ["profile", "record_function"]


class profile:
    """Profiles a block when `enabled`: smolder.profiler.profile without a schedule. `use_device` may be "cuda"."""

    def __init__(
        self,
        enabled=True,
        *,
        use_device=None,
        record_shapes=False,
        with_flops=False,
        profile_memory=False,
        with_stack=False,
        with_modules=False,
        use_kineto=False,
        use_cpu=True,
        experimental_config=None,
        acc_events=False,
        custom_trace_id_callback=None,
    ):
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

    def __enter__(self):
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self._profile.start()
        return self

    def __exit__(self, *_):
        if self.enabled:
            self._profile.stop()
        return False

    @property
    def function_events(self):
        """All spans; None before the block ended."""
        return self._profile.events() if self._profile._spans is not None else None

    @property
    def self_cpu_time_total(self):
        """Microseconds of the host in all."""
        return self._profile.events().self_cpu_time_total

    def table(self, *args, **kwargs):
        return self._profile.events().table(*args, **kwargs)

    def key_averages(self, group_by_input_shape=False, group_by_stack_n=0, group_by_overload_name=False):
        return self._profile.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self):
        return self._profile.events().total_average()

    def export_chrome_trace(self, path):
        return self._profile.export_chrome_trace(path)

    def export_stacks(self, path, metric="self_cpu_time_total"):
        return self._profile.export_stacks(path, metric)

    def __str__(self):
        return self.table() if self.entered else "<unfinished profiler_legacy.profile>"
