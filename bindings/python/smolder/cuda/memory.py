"""Memory of CUDA's devices, which comes from a pool, under torch's names."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from smolder import _core, memory
from smolder._device import usable_device
from smolder._names import listing as _listing
from smolder._typing import Device
from smolder._warn import warn
from smolder.cuda._index import index_of, used_index
from smolder.memory import summary_table

__all__ = [
    "empty_cache", "get_per_process_memory_fraction", "host_memory_stats", "max_memory_allocated", "max_memory_cached",
    "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached", "memory_reserved", "memory_snapshot",
    "memory_stats", "memory_stats_as_nested_dict", "memory_summary", "reset_accumulated_memory_stats",
    "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_host_memory_stats", "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]  # fmt: skip
__dir__ = _listing(__name__)


def _index(device):
    """The number of a device, which has to be there if any is."""
    return used_index(device) if _core._cuda_is_available() else index_of(device)


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Numbers of the pool that memory comes from, under torch's names: "allocated_bytes.all.peak" and the like.

    Allocations and their bytes are what tensors and plans hold, "requested_bytes" what they asked for, "reserved_bytes"
    and "segment" what was taken from the driver, "inactive_split" free pieces between others.
    """
    return collections.OrderedDict(sorted(_core._cuda_memory(_index(device)).items()))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """memory_stats() with a dictionary for each part of a name."""
    nested = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        at = nested
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return nested


def memory_allocated(device: Device = None) -> int:
    """Bytes that tensors and plans hold now."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes that they held at a time, since the start or `reset_peak_memory_stats()`."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: Device = None) -> int:
    """Bytes taken from the driver: those that tensors and plans hold, and those kept free for the next."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes that were, since the start or `reset_peak_memory_stats()`."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device: Device = None) -> None:
    """Lets peaks start from what is held now."""
    _core._cuda_reset_peak_memory(_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Lets what was allocated and freed in all, and the counts of retries and failures, start anew."""
    _core._cuda_reset_total_memory(_index(device))


def _renamed(old, new, function) -> Callable[..., Any]:
    def call(device=None):
        warn(f"smolder.cuda.{old} now calls smolder.cuda.{new}", FutureWarning)
        return function(device)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"Deprecated: {new}()."
    return call


reset_max_memory_allocated: Callable[..., Any] = _renamed(
    "reset_max_memory_allocated", "reset_peak_memory_stats", reset_peak_memory_stats
)
reset_max_memory_cached: Callable[..., Any] = _renamed(
    "reset_max_memory_cached", "reset_peak_memory_stats", reset_peak_memory_stats
)
memory_cached: Callable[..., Any] = _renamed("memory_cached", "memory_reserved", memory_reserved)
max_memory_cached: Callable[..., Any] = _renamed("max_memory_cached", "max_memory_reserved", max_memory_reserved)


def empty_cache() -> None:
    """Gives memory of all devices that is kept free, that of plans and pinned memory too, back to the system."""
    if _core._cuda_is_available():
        _core._cuda_empty_cache()


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Free and total bytes of a device."""
    usable_device("cuda")
    return tuple(_core._cuda_memory_info(_index(device)))


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Lets tensors and plans have no more than this part of a device's memory."""
    usable_device("cuda")
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _core._cuda_set_memory_fraction(fraction, _index(device))


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The share of a device's memory that tensors and plans may have."""
    usable_device("cuda")
    return _core._cuda_memory_fraction(_index(device))


def host_memory_stats() -> dict[str, Any]:
    """Numbers of pinned memory: "allocated_bytes" are those pinned, "active_bytes" those that tensors hold."""
    return collections.OrderedDict(sorted(_core._cuda_host_memory().items()))


def reset_peak_host_memory_stats() -> None:
    """Lets peaks of pinned memory start from what is held now."""
    _core._cuda_reset_peak_host_memory()


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """memory_stats() as a table."""
    title = f"Smolder CUDA memory summary, device ID {_index(device)}"
    return summary_table(memory_stats(device), "cuda", title, "cudaMalloc retries", abbreviated)


def memory_snapshot(mempool_id: Any = None, include_traces: bool = True) -> Any:
    """Segments of the pool, and what each is divided into: `_snapshot()["segments"]`."""
    if mempool_id is not None or not include_traces:
        raise NotImplementedError("memory_snapshot of one pool, or without traces, is not supported")
    usable_device("cuda")
    return memory._snapshot("cuda")["segments"]


_record_memory_history = memory._record_memory_history


def _snapshot(device=None, augment_with_fx_traces=False):
    """A snapshot of what holds CUDA's memory: see smolder.memory._snapshot()."""
    usable_device("cuda")
    _index(device)
    return memory._snapshot("cuda", augment_with_fx_traces)


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces=False):
    """Writes `_snapshot()` to a file that torch's viewer of memory opens."""
    usable_device("cuda")
    memory._dump_snapshot(filename, augment_with_fx_traces, "cuda")
