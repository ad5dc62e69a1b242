"""Spans as the JSON that chrome://tracing, Perfetto and TensorBoard's profiler read."""

from __future__ import annotations

import gzip
import json
import os
import socket
import threading
import time
from typing import Any

from smolder._typing import PathLike
from smolder.profiler._events import DeviceType

# Rows of this process besides those of its threads.
_RECORDING, _BESIDE = 1_000_000, 1_000_001

# torch's names of kinds, where it has them: TensorBoard goes by these.
_CATEGORIES = {
    "user": "user_annotation",
    "eager": "cpu_op",
    "kernel": "cpu_op",
    "library": "cpu_op",
    "copy": "cpu_op",
    "launch": "cuda_runtime",
}


def write(path: PathLike, events: Any, changes: Any, properties: Any, default_stream: Any) -> None:
    """Writes a trace of events and changes of memory."""
    trace = {
        "schemaVersion": 1,
        "deviceProperties": _devices(),
        **properties,
        "host_name": socket.gethostname(),
        "displayTimeUnit": "ms",
        # Times of events are microseconds since this one, which is on the wall's clock.
        "baseTimeNanoseconds": time.time_ns() - time.perf_counter_ns(),
        "traceEvents": _events(events, changes, default_stream),
        "traceName": os.fspath(path),
    }
    opened = gzip.open if os.fspath(path).endswith(".gz") else open
    with opened(path, "wt") as file:
        json.dump(trace, file)


def _devices():
    from smolder import _core

    if not _core._cuda_is_available():
        return []
    return [
        {
            "id": index,
            "name": p["name"],
            "totalGlobalMem": p["total_memory"],
            "computeMajor": p["major"],
            "computeMinor": p["minor"],
            "maxThreadsPerMultiprocessor": p["max_threads_per_multi_processor"],
            "warpSize": p["warp_size"],
            "numSms": p["multi_processor_count"],
        }
        for index, p in enumerate(_core._cuda_properties(i) for i in range(_core._cuda_device_count()))
    ]


def _events(events, changes, default_stream):
    pid, out = os.getpid(), []
    beside = _rows_beside(events)
    for event in events:
        on_device = event.device_type is not DeviceType.CPU
        # Collectives run on a stream of their group's, beside the plan's.
        stream = default_stream + 1 if event.name.startswith("nccl: ") else default_stream
        if on_device:
            row = {"pid": event.device_index, "tid": stream}
        elif event.kind == "record":
            row = {"pid": pid, "tid": _RECORDING}
        else:
            row = {"pid": pid, "tid": beside.get(event.id, event.thread)}
        start, end = event.time_range.start, event.time_range.end
        category = _CATEGORIES.get(event.kind, event.kind)
        if on_device:
            category = "gpu_memcpy" if event.kind == "copy" else "kernel"
        out.append(
            {
                "ph": "X",
                "cat": category,
                "name": event.name,
                **row,
                "ts": start,
                "dur": end - start,
                "args": _args(event, on_device, stream),
            }
        )
        if event.flow:  # an arrow from what queued it to where it ran
            arrow = {"ph": "f", "bp": "e"} if on_device else {"ph": "s"}
            out.append({**arrow, "id": event.flow, "cat": "ac2g", "name": "ac2g", **row, "ts": start})
    for change in changes:
        out += _memory(change, pid)
    return _names(out, pid) + out


def _args(event, on_device, stream):
    """The details that a click on an event shows."""
    span = event.span
    args = {"External id": event.id}
    if on_device:
        args |= {"device": event.device_index, "stream": stream}
    if event.flow:
        args["correlation"] = event.flow
    said = {
        "line": event.where,
        "plan": span.plan,
        "bytes": span.bytes,
        "why": span.detail,
        "shapes": list(span.shapes),
    }
    args |= {name: value for name, value in said.items() if value}
    if span.step >= 0:
        args["step of plan"] = span.step
    if event.flops:
        args["FLOPs"] = event.flops
    if event.bandwidth:
        args["GB/s"] = round(event.bandwidth, 2)
    if span.count:
        args[{"record": "ops", "launch": "launches"}.get(event.kind, "kernels")] = span.count
    if span.own is not None:
        args["own part, us"] = span.own / 1e3
    if event.input_shapes:
        args["Input Dims"] = event.input_shapes
        args["Input type"] = [shape[: shape.index("[")] for shape in span.shapes]
    return args


def _rows_beside(events):
    """A row for each kernel of the CPU that began before the one before it had ended: they share no row."""
    rows, ends = {}, {}
    for event in events:
        if event.span.own is None:
            continue
        lanes = ends.setdefault(event.thread, [])
        lane = next((i for i, end in enumerate(lanes) if end <= event.span.begin), len(lanes))
        lanes[lane : lane + 1] = [event.span.end]
        if lane > 0:
            rows[event.id] = _BESIDE + lane
    return rows


def _memory(change, pid):
    """A counter, and the event that TensorBoard makes its curves of."""
    at = change.at / 1e3
    device = -1 if change.device == "cpu" else int(change.device.partition(":")[2] or 0)
    yield {
        "ph": "C",
        "cat": "memory",
        "name": f"memory of {change.device}",
        "pid": pid,
        "ts": at,
        "args": {"bytes": change.live},
    }
    yield {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "name": "[memory]",
        "pid": pid,
        "tid": change.thread,
        "ts": at,
        "args": {
            "Total Allocated": change.live,
            "Bytes": change.bytes,
            "Device Id": device,
            "Device Type": 0 if device < 0 else 1,
        },
    }


def _names(out, pid):
    """The names of rows, and their order."""
    threads = {thread.native_id: thread.name for thread in threading.enumerate()}
    rows = dict.fromkeys((e["pid"], e["tid"]) for e in out if "tid" in e)
    names = []

    def name(of, value, **row):
        key = "sort_index" if of.endswith("sort_index") else "name"
        names.append({"ph": "M", "name": of, "ts": 0, "tid": 0, **row, "args": {key: value}})

    for owner in dict.fromkeys(p for p, _ in rows):
        name("process_name", "smolder" if owner == pid else f"cuda:{owner}", pid=owner)
        name("process_sort_index", 0 if owner == pid else owner + 1, pid=owner)
    for owner, row in rows:
        if owner != pid:
            title = f"stream {row}"
        elif row == _RECORDING:
            title = "steps being recorded"
        elif row >= _BESIDE:
            title = f"kernels beside others ({row - _BESIDE})"
        else:
            title = f"thread {row} ({threads.get(row, 'worker')})"
        name("thread_name", title, pid=owner, tid=row)
        order = {_RECORDING: 0}.get(row, row)
        name("thread_sort_index", order, pid=owner, tid=row)
    return names
