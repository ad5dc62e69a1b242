"""Profiles of what ran when, under torch.profiler's names: recording, compiling, launches, kernels, copies and syncs.

with smolder.profiler.profile() as prof:
    train_step()
print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
prof.export_chrome_trace("trace.json")
"""

from __future__ import annotations

from smolder._names import listing as _listing
from smolder.profiler._events import DeviceType, ProfilerActivity, supported_activities
from smolder.profiler._session import ProfilerAction, profile, record_function, schedule, tensorboard_trace_handler

__all__ = [
    "DeviceType", "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip
__dir__ = _listing(__name__)


def kineto_available() -> bool:
    """False: spans are the runtime's own."""
    return False
