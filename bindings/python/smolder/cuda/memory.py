"""Memory of CUDA's devices, which comes from a pool, under torch's names."""

import collections

from smolder import _core
from smolder._device import usable_device
from smolder._warn import warn
from smolder.cuda._index import index_of

__all__ = [
    "empty_cache",
    "get_per_process_memory_fraction",
    "host_memory_stats",
    "max_memory_allocated",
    "max_memory_cached",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_cached",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_max_memory_allocated",
    "reset_max_memory_cached",
    "reset_peak_host_memory_stats",
    "reset_peak_memory_stats",
    "set_per_process_memory_fraction",
]


def memory_stats(device=None):
    """Numbers of the pool that memory comes from, under torch's names: "allocated_bytes.all.peak" and the like.

    Allocations and their bytes are what tensors and plans hold, "requested_bytes" what they asked for, "reserved_bytes"
    and "segment" what was taken from the driver, "inactive_split" free pieces between others.
    """
    return collections.OrderedDict(sorted(_core._cuda_memory(index_of(device)).items()))


def memory_stats_as_nested_dict(device=None):
    """memory_stats() with a dictionary for each part of a name."""
    nested = {}
    for name, value in memory_stats(device).items():
        *path, last = name.split(".")
        at = nested
        for part in path:
            at = at.setdefault(part, {})
        at[last] = value
    return nested


def memory_allocated(device=None):
    """Bytes that tensors and plans hold now."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device=None):
    """The most bytes that they held at a time, since the start or `reset_peak_memory_stats()`."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device=None):
    """Bytes taken from the driver: those that tensors and plans hold, and those kept free for the next."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device=None):
    """The most bytes that were, since the start or `reset_peak_memory_stats()`."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device=None):
    """Lets peaks start from what is held now."""
    _core._cuda_reset_peak_memory(index_of(device))


def reset_accumulated_memory_stats(device=None):
    """Lets what was allocated and freed in all, and the counts of retries and failures, start anew."""
    _core._cuda_reset_total_memory(index_of(device))


def _renamed(old, new, function):
    def call(device=None):
        warn(f"smolder.cuda.{old} now calls smolder.cuda.{new}", FutureWarning)
        return function(device)

    call.__name__ = call.__qualname__ = old
    call.__doc__ = f"Deprecated: {new}()."
    return call


reset_max_memory_allocated = _renamed("reset_max_memory_allocated", "reset_peak_memory_stats", reset_peak_memory_stats)
reset_max_memory_cached = _renamed("reset_max_memory_cached", "reset_peak_memory_stats", reset_peak_memory_stats)
memory_cached = _renamed("memory_cached", "memory_reserved", memory_reserved)
max_memory_cached = _renamed("max_memory_cached", "max_memory_reserved", max_memory_reserved)


def empty_cache():
    """Gives memory that is kept free, that of plans and pinned memory too, back to the system."""
    if _core._cuda_is_available():
        _core._cuda_empty_cache(0)


def mem_get_info(device=None):
    """Free and total bytes of a device."""
    usable_device("cuda")
    return tuple(_core._cuda_memory_info(index_of(device)))


def set_per_process_memory_fraction(fraction, device=None):
    """Lets tensors and plans have no more than this part of a device's memory."""
    usable_device("cuda")
    if not isinstance(fraction, float):
        raise TypeError("Invalid type for fraction argument, must be `float`")
    if not 0 <= fraction <= 1:
        raise ValueError(f"Invalid fraction value: {fraction}. Allowed range: 0~1")
    _core._cuda_set_memory_fraction(fraction, index_of(device))


def get_per_process_memory_fraction(device=None):
    """What part of a device's memory tensors and plans may have."""
    usable_device("cuda")
    return _core._cuda_memory_fraction(index_of(device))


def host_memory_stats():
    """Numbers of pinned memory: "allocated_bytes" are those pinned, "active_bytes" those that tensors hold."""
    return collections.OrderedDict(sorted(_core._cuda_host_memory().items()))


def reset_peak_host_memory_stats():
    """Lets peaks of pinned memory start from what is held now."""
    _core._cuda_reset_peak_host_memory()


def memory_snapshot(*_, **__):
    """Raises: the pool keeps no record of single blocks."""
    raise NotImplementedError("memory_snapshot is not supported: memory_stats() and memory_summary() are")


_SUMMARY = (
    ("allocated_bytes", "Allocated memory"),
    ("active_bytes", "Active memory"),
    ("requested_bytes", "Requested memory"),
    ("reserved_bytes", "GPU reserved memory"),
    ("inactive_split_bytes", "Non-releasable memory"),
    ("allocation", "Allocations"),
    ("active", "Active allocs"),
    ("segment", "GPU reserved segments"),
    ("inactive_split", "Non-releasable allocs"),
)


def _scaled(value, like, is_bytes):
    """A number in the unit in which `like` is short, as torch prints it."""
    units, step, most = (("B  ", "KiB", "MiB", "GiB", "TiB", "PiB"), 1024, 768 * 1024)
    if not is_bytes:
        units, step, most = ((" ", "K", "M"), 1000, 750 * 1000)
    at = 0
    while like >= most and at + 1 < len(units):
        at, value, like = at + 1, value // step, like / step
    return f"{value:6d} {units[at]}" if is_bytes else f"{value:7d} {units[at]} "


def memory_summary(device=None, abbreviated=False):
    """memory_stats() as a table."""
    stats = memory_stats(device)
    lines = [
        "=" * 75,
        f" {'':16} Smolder CUDA memory summary, device ID {index_of(device):<17d} ",
        "-" * 75,
        f"  {'':9} CUDA OOMs: {stats['num_ooms']:<12d} | {'':6} cudaMalloc retries: {stats['num_alloc_retries']:<8d}  ",
        "=" * 75,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    columns = ("current", "peak", "allocated", "freed")

    def row(title, prefix, like):
        is_bytes = "bytes" in prefix
        cells = (_scaled(stats[f"{prefix}.{c}"], stats[f"{like}.{c}"], is_bytes) for c in columns)
        lines.append(f" {title:<21} | " + " | ".join(cells) + " ")

    for name, title in _SUMMARY:
        lines.append("-" * 75)
        row(title, f"{name}.all", f"{name}.all")
        if not abbreviated:
            row("      from large pool", f"{name}.large_pool", f"{name}.all")
            row("      from small pool", f"{name}.small_pool", f"{name}.all")
    for name, title in (
        ("oversize_allocations", "Oversize allocations"),
        ("oversize_segments", "Oversize GPU segments"),
    ):
        lines.append("-" * 75)
        row(title, name, name)
    lines.append("=" * 75)
    return "|" + "|\n|".join(lines) + "|\n"
