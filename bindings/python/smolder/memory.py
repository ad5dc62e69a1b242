"""Memory of tensors and plans: how much there is, what is alive and which line it is of, and how a plan's is laid out.

Functions with an underscore have torch's names (torch.cuda.memory) and forms; all take the device, the CPU at first.
"""

from __future__ import annotations

import collections
import os
import pickle
import sys
import time
from typing import Any, NamedTuple

from smolder import _core
from smolder._arena_picture import draw
from smolder._lines import parts
from smolder._names import listing as _listing
from smolder._notebook import Report
from smolder._typing import Device, PathLike

__all__ = ["alive", "arenas", "draw_arena", "memory_stats", "memory_summary", "report"]
__dir__ = _listing(__name__)


class Held(NamedTuple):
    """One block that is held. `what` is the op whose result it holds, or the part of the runtime that it is for."""

    address: int
    device: str
    bytes: int
    size: int
    what: str
    where: str
    at: int


_MOST_EVENTS = 1 << 20
_BEFORE = "taken before the history was started"
_UNKNOWN = "not said"


def _device(device):
    name = str(device or "cpu")
    if name.partition(":")[0] not in ("cpu", "cuda"):
        raise NotImplementedError(f"memory of device '{name}' is not supported: that of 'cpu' and 'cuda' is")
    return "cpu" if name.startswith("cpu") else name


def _index(device):
    from smolder.cuda._index import used_index

    return used_index(device)


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Numbers of the allocator under torch's names: "allocated_bytes.all.peak" and the like. On the CPU what was asked
    for is not counted, and each block is a segment."""
    stats = _core._cpu_memory() if _device(device) == "cpu" else _core._cuda_memory(_index(device))
    if _device(device) == "cpu":
        stats = {name: n for name, n in stats.items() if not name.startswith("requested")}
    return collections.OrderedDict(sorted(stats.items()))


_SUMMARY = (
    ("allocated_bytes", "Allocated memory"),
    ("active_bytes", "Active memory"),
    ("requested_bytes", "Requested memory"),
    ("reserved_bytes", "{} reserved memory"),
    ("inactive_split_bytes", "Non-releasable memory"),
    ("allocation", "Allocations"),
    ("active", "Active allocs"),
    ("segment", "{} reserved segments"),
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


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """memory_stats() as a table."""
    kind = _device(device)
    title = "Smolder CPU memory summary" if kind == "cpu" else f"Smolder CUDA memory summary, device ID {_index(kind)}"
    retries = "retries" if kind == "cpu" else "cudaMalloc retries"
    return summary_table(memory_stats(device), kind, title, retries, abbreviated)


def summary_table(stats: Any, kind: str, title: str, retries: int, abbreviated: bool) -> str:
    """The table of memory_summary(), of a device's numbers."""
    where, ooms = ("CPU", "CPU OOMs") if kind == "cpu" else ("GPU", "CUDA OOMs")
    lines = [
        "=" * 75,
        f" {'':16} {title:<56} ",
        "-" * 75,
        f"  {'':9} {ooms:>9}: {stats['num_ooms']:<12d} |{retries:>26}: {stats['num_alloc_retries']:<8d}  ",
        "=" * 75,
        "        Metric         | Cur Usage  | Peak Usage | Tot Alloc  | Tot Freed  ",
    ]
    columns = ("current", "peak", "allocated", "freed")

    def row(name, prefix, like):
        is_bytes = "bytes" in prefix
        cells = (_scaled(stats[f"{prefix}.{c}"], stats[f"{like}.{c}"], is_bytes) for c in columns)
        lines.append(f" {name:<21} | " + " | ".join(cells) + " ")

    for name, text in _SUMMARY:
        if f"{name}.all.current" not in stats:
            continue
        lines.append("-" * 75)
        row(text.format(where), f"{name}.all", f"{name}.all")
        if not abbreviated:
            row("      from large pool", f"{name}.large_pool", f"{name}.all")
            row("      from small pool", f"{name}.small_pool", f"{name}.all")
    for name, text in (
        ("oversize_allocations", "Oversize allocations"),
        ("oversize_segments", f"Oversize {where} segments"),
    ):
        lines.append("-" * 75)
        row(text, name, name)
    lines.append("=" * 75)
    return "|" + "|\n|".join(lines) + "|\n"


def _record_memory_history(
    enabled="all",
    context="all",
    stacks="all",
    max_entries=sys.maxsize,
    device=None,
    clear_history=False,
    compile_context=False,
    global_record_annotations=False,
    skip_actions=None,
    record_pinned_host_memory=False,
    record_cuda=True,
):
    """Keeps, of every block that is taken from now on, the op and the line that it is for; with "all", and not "state",
    also what is taken and given back, a million events at most. None ends it. It is kept for all devices.

    Of stacks there is the user's line.
    """
    if enabled not in ("all", "state", None):
        raise ValueError(f"Invalid value for `enabled`: {enabled}. It should be None, 'state' or 'all'")
    if context not in ("all", "alloc", "state"):
        raise NotImplementedError(f"context={context!r} of _record_memory_history is not supported: lines are kept")
    if stacks not in ("all", "python"):
        raise ValueError(f"Invalid value for `stacks`: {stacks}. It should be 'python' or 'all'")
    for name, value in (
        ("compile_context", compile_context),
        ("global_record_annotations", global_record_annotations),
        ("skip_actions", skip_actions),
        ("record_pinned_host_memory", record_pinned_host_memory),
        ("record_cuda=False", not record_cuda),
    ):
        if value:
            raise NotImplementedError(f"{name} of _record_memory_history is not supported")
    if enabled is None:
        _core._stop_memory_history()
    else:
        most = min(max_entries, _MOST_EVENTS) if enabled == "all" else 0
        _core._start_memory_history(most, not clear_history)


def _known(where):
    """Blocks and events of a device; without an index of all of its kind."""
    held, events = _core._memory_history()
    held = [Held(*block) for block in held]
    events = [(what, Held(*block)) for what, block in events]

    def is_there(block):
        return where in (block.device, block.device.partition(":")[0])

    return [b for b in held if is_there(b)], [e for e in events if is_there(e[1])]


def alive(device: Device = None) -> list[Held]:
    """Blocks that are held and were taken since `_record_memory_history()`, the largest first."""
    return sorted(_known(_device(device))[0], key=lambda block: -block.size)


def report(device: Device = None, limit: int = 30) -> str:
    """A report of the memory that is alive: what tensors and plans hold of a device, for which op of which line."""
    kind = _device(device)
    blocks = alive(kind)
    groups = collections.defaultdict(list)
    for block in blocks:
        groups[block.what or _UNKNOWN, block.where].append(block.size)
    devices = [f"cuda:{i}" for i in range(_core._cuda_device_count())] if kind == "cuda" else [kind]
    live = sum(memory_stats(where)["allocated_bytes.all.current"] for where in devices)
    older = live - sum(block.size for block in blocks)
    rows = sorted(((sum(sizes), len(sizes), what, where) for (what, where), sizes in groups.items()), reverse=True)
    shown = rows if limit is None else rows[:limit]
    lines = [f"{kind}: {_mebibytes(live)} alive", f"{'size':>12}  {'share':>6}  {'blocks':>6}  what, and where"]
    for size, count, what, where in shown:
        lines.append(f"{_mebibytes(size):>12}  {size / max(live, 1):6.1%}  {count:6d}  {what}  {where}".rstrip())
    rest = rows[len(shown) :]
    if rest:
        size, count = sum(row[0] for row in rest), sum(row[1] for row in rest)
        lines.append(f"{_mebibytes(size):>12}  {size / max(live, 1):6.1%}  {count:6d}  {len(rest)} other lines")
    if older > 0:
        lines.append(f"{_mebibytes(older):>12}  {older / max(live, 1):6.1%}  {'':>6}  {_BEFORE}")
    return Report("\n".join(lines) + "\n")


def _mebibytes(size):
    return f"{size / (1 << 20):.2f} MiB"


def _frames(what, where):
    """The op, then the user's line, as torch has frames."""
    frames = [{"filename": "smolder", "line": 0, "name": what or _UNKNOWN}]
    if where:
        name, line, function = parts(where)
        frames.append({"filename": name, "line": line, "name": function})
    return frames


def _snapshot(device=None, augment_with_fx_traces=False):
    """A snapshot of memory and its holders, in the form of torch's snapshots, which its viewer shows.

    A frame before the user's line says the op, or the part of the runtime, that a block is for.
    """
    if augment_with_fx_traces:
        raise NotImplementedError("augment_with_fx_traces of _snapshot is not supported")
    kind = _device(device)
    held, events = _known(kind)
    by_address = {block.address: block for block in held}
    devices = range(_core._cuda_device_count()) if kind == "cuda" else [_index(kind)] if kind != "cpu" else []
    segments = _cpu_segments(by_address) if kind == "cpu" else _cuda_segments(by_address, devices)
    return {
        "segments": segments,
        "device_traces": [list(_trace(events))],
        "external_annotations": [],
        "allocator_settings": {},
    }


def _block(address, size, requested, held):
    state = "inactive" if requested is None else "active_allocated"
    frames = _frames(held.what, held.where) if held and requested is not None else []
    return {"address": address, "size": size, "requested_size": requested or 0, "state": state, "frames": frames}


def _segment(address, small, blocks, device=0):
    used = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    return {
        "device": device,
        "address": address,
        "total_size": sum(block["size"] for block in blocks),
        "allocated_size": used,
        "active_size": used,
        "requested_size": sum(block["requested_size"] for block in blocks),
        "stream": 0,
        "segment_type": "small" if small else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    }


def _cuda_segments(held, devices):
    out = []
    for device in devices:
        for small, _, pieces in _core._cuda_segments(device):
            blocks = [
                _block(address, size, None if free else requested, held.get(address))
                for address, size, requested, free in pieces
            ]
            out.append(_segment(pieces[0][0], small, blocks, device))
    return out


def _cpu_segments(held):
    """A segment for each block that is known, one for all others, and one for what is kept free."""
    stats = memory_stats("cpu")
    out = [_segment(b.address, b.size <= 1 << 20, [_block(b.address, b.size, b.bytes, b)]) for b in held.values()]
    live = stats["allocated_bytes.all.current"]
    older = live - sum(b.size for b in held.values())
    if older > 0:
        out.append(_segment(0, False, [_block(0, older, older, Held(0, "cpu", older, older, _BEFORE, "", 0))]))
    free = stats["reserved_bytes.all.current"] - live
    if free > 0:
        out.append(_segment(1, False, [_block(1, free, None, None)]))
    return out


def _trace(events):
    """The events of memory, taken and given back, in torch's words. Memory that another op's result reuses is in both."""
    offset = time.time_ns() - time.perf_counter_ns()
    owners = {}
    for what, block in events:
        frames = _frames(block.what, block.where)
        common = {"addr": block.address, "size": block.size, "stream": 0, "time_us": (block.at + offset) // 1000}
        if what != "taken":
            old = owners.pop(block.address, frames)
            yield {"action": "free_requested", **common, "frames": old}
            yield {"action": "free_completed", **common, "frames": old}
        if what != "given back":
            owners[block.address] = frames
            yield {"action": "alloc", **common, "frames": frames}


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces=False, device=None):
    """Writes `_snapshot()` to a file that torch's viewer of memory opens."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(device, augment_with_fx_traces), file)


def arenas() -> list[Any]:
    """Plans that are known and have an arena, the largest first: (number of the plan, bytes of its arena)."""
    return sorted(
        ((p["plan"], p["arena_bytes"]) for p in _core._known_plans() if p["arena_bytes"]), key=lambda a: -a[1]
    )


def draw_arena(path: PathLike, plan: Any = None) -> None:
    """Draws the arena of a plan, that with the largest one unless it is named by its number, to a file of SVG, or of
    HTML where the name ends so: each value that the plan keeps for itself as a rectangle, over the launches in which it
    is needed and the bytes that it takes."""
    plans = [p for p in _core._known_plans() if p["arena_bytes"] and plan in (None, p["plan"])]
    if not plans:
        raise ValueError(f"no plan {plan} with an arena is known" if plan else "no plan with an arena is known")
    picture = draw(max(plans, key=lambda p: p["arena_bytes"]))
    if os.fspath(path).endswith((".html", ".htm")):
        picture = f"<!doctype html>\n<meta charset='utf-8'>\n<title>Arena of a plan</title>\n{picture}"
    with open(path, "w") as file:
        file.write(picture)
