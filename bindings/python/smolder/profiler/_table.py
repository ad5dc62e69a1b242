"""Averages of events as text, in torch's layout, with the bytes that they moved and how fast."""

from __future__ import annotations

import math
from typing import Any

_WIDTH = 12  # of a column of numbers


def format_time(us: Any) -> str:
    """Microseconds, in the unit in which they are short."""
    if us >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def format_memory(nbytes: Any) -> str:
    """Bytes, in the unit in which they are few."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(nbytes) >= size:
            return f"{nbytes / size:.2f} {unit}"
    return f"{nbytes} B"


def _share(time, total):
    return f"{time * 100 / total:.2f}%" if total else "NaN"


def _in_unit(us, unit):
    if unit is None:
        return format_time(us)
    if unit not in ("s", "ms", "us"):
        raise ValueError(f"time_unit should be 's', 'ms' or 'us', found {unit!r}")
    return f"{us / {'s': 1e6, 'ms': 1e3, 'us': 1}[unit]:.3f}{unit}"


def _flops_unit(flops):
    """A prefix in which so many are few, and what it stands for."""
    step = min(int(math.log10(max(flops, 1)) / 3), 5)
    return ["", "K", "M", "G", "T", "P"][step], 1000.0**step


def _trimmed(path, width):
    return path if len(path) <= width else "..." + path[len(path) - width + 3 :]


class _Columns:
    """Headers, widths, and a function of an event for each."""

    def __init__(self):
        self.headers, self.widths, self.cells, self.left = [], [], [], []

    def add(self, header, cell, width=_WIDTH, left=False):
        self.headers.append(header)
        self.widths.append(width)
        self.cells.append(cell)
        self.left.append(left)

    def line(self, values):
        cells = (
            f" {v:<{w - 1}}" if left else f"{v:>{w}}" for v, w, left in zip(values, self.widths, self.left, strict=True)
        )
        return "  ".join(cells) + "  "

    def rule(self):
        return "  ".join("-" * w for w in self.widths) + "  "


def build_table(
    events: Any,
    use_device: str | None,
    profile_memory: bool,
    with_flops: bool,
    row_limit: int,
    max_src_column_width: Any,
    max_name_column_width: Any,
    max_shapes_column_width: Any,
    header: Any,
    top_level_events_only: Any,
    time_unit: str,
) -> str:
    """The table of EventList.table()."""
    if not events:
        return ""

    def width_of(texts, most):
        width = max(map(len, texts)) + 4
        return width if most is None else min(width, most)

    def time(name):
        return lambda event: _in_unit(getattr(event, name), time_unit)

    name_width = width_of([event.key for event in events], max_name_column_width)
    on_host = sum(event.self_cpu_time_total for event in events)
    on_device = sum(event.self_device_time_total for event in events)
    device = (use_device or "cuda").upper()

    columns = _Columns()
    columns.add("Name", lambda e: e.key if len(e.key) < name_width - 3 else e.key[: name_width - 3] + "...", name_width)
    columns.add("Self CPU %", lambda e: _share(e.self_cpu_time_total, on_host))
    columns.add("Self CPU", time("self_cpu_time_total"))
    columns.add("CPU total %", lambda e: _share(e.cpu_time_total, on_host))
    columns.add("CPU total", time("cpu_time_total"))
    columns.add("CPU time avg", time("cpu_time"))
    if on_device:
        columns.add(f"Self {device}", time("self_device_time_total"))
        columns.add(f"Self {device} %", lambda e: _share(e.self_device_time_total, on_device))
        columns.add(f"{device} total", time("device_time_total"))
        columns.add(f"{device} time avg", time("device_time"))
    if profile_memory:
        columns.add("CPU Mem", lambda e: format_memory(e.cpu_memory_usage))
        columns.add("Self CPU Mem", lambda e: format_memory(e.self_cpu_memory_usage))
        if any(e.self_device_memory_usage > 0 for e in events):
            columns.add(f"{device} Mem", lambda e: format_memory(e.device_memory_usage))
            columns.add(f"Self {device} Mem", lambda e: format_memory(e.self_device_memory_usage))
    columns.add("# of Calls", lambda e: str(e.count))
    if any(e.bytes for e in events):
        columns.add("Moved", lambda e: format_memory(e.bytes) if e.bytes else "--")
        columns.add("GB/s", lambda e: f"{e.bandwidth:.2f}" if e.bandwidth else "--")
        if any(e.bandwidth_share for e in events):
            columns.add("% of limit", lambda e: f"{e.bandwidth_share:.1%}" if e.bandwidth_share else "--")
    if any(e.input_shapes for e in events):
        shapes_width = width_of([str(e.input_shapes) for e in events], max_shapes_column_width)
        columns.add("Input Shapes", lambda e: str(e.input_shapes)[:shapes_width], shapes_width)
    counted = [e.flops for e in events if e.flops > 0] if with_flops else []
    if counted:
        prefix, scale = _flops_unit(min(counted))
        columns.add(f"Total {prefix}FLOPs", lambda e: f"{e.flops / scale:8.3f}" if e.flops > 0 else "--")
    stacks = [entry for e in events for entry in e.stack or ()]
    if stacks:
        src_width = width_of(stacks, max_src_column_width)
        columns.add(
            "Source Location", lambda e: _trimmed(e.stack[0], src_width - 1) if e.stack else "", src_width, True
        )

    rule = columns.rule()
    lines = []
    if header is not None:
        lines += ["=" * (len(rule) - 2), header]
    if top_level_events_only:
        lines += ["=" * (len(rule) - 2), "This report only display top-level ops statistics"]
    lines += [rule, columns.line(columns.headers), rule]
    shown = [e for e in events if not (top_level_events_only and e.cpu_parent is not None)]
    for event in shown if row_limit < 0 else shown[:row_limit]:
        lines.append(columns.line([cell(event) for cell in columns.cells]))
    lines += [rule, f"Self CPU time total: {_in_unit(on_host, time_unit)}"]
    if on_device:
        lines.append(f"Self {device} time total: {_in_unit(on_device, time_unit)}")
    return "\n".join(lines) + "\n"
