"""smolder.profiler: spans cover what ran, nest, name the user's lines, and come out in torch's forms."""

import ast
import gzip
import inspect
import itertools
import json
import os
import pathlib
import threading

import pytest
from conftest import DEVICE, of_the_cpu
from torch_peer import needs_torch, run_torch

import smolder
from smolder import _core, _limits, nn
from smolder.profiler import (
    ProfilerAction,
    ProfilerActivity,
    profile,
    record_function,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)

QUEUED = of_the_cpu("a device runs kernels in a row of their own")


def model():
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = smolder.optim.SGD(net.parameters(), lr=0.1)
    x, y = smolder.randn(16, 32), smolder.randint(0, 8, (16,))

    def step():
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()

    for _ in range(3):
        step()  # the third finds its plan
    return step


def kinds(prof):
    return {event.kind for event in prof.events()}


def spans(prof, kind):
    return [event.span for event in prof.events() if event.kind == kind]


def test_off_keeps_nothing():
    step = model()
    assert not _core._profiling()
    step()
    session = _core._ProfileSession()
    kept, changes, dropped = session.log()
    assert (kept, changes, dropped) == ([], [], 0)
    session.stop()
    assert not _core._profiling()


def test_a_step_is_recorded_then_run_launch_by_launch():
    step = model()
    with profile() as prof:
        step()
    assert {"record", "sync", "launch", "kernel", "library"} <= kinds(prof)
    assert "compile" not in kinds(prof) and "plan" not in kinds(prof)
    record, sync = spans(prof, "record")[0], spans(prof, "sync")[0]
    assert record.end <= sync.begin and record.count > 10
    assert sync.name == "optimizer.step" and record.where.startswith(__file__)
    [run] = [s for s in spans(prof, "launch") if s.step < 0]
    steps = spans(prof, "kernel") + spans(prof, "library")
    assert {s.plan for s in steps} == {run.plan} and run.plan > 0
    assert sorted(s.step for s in steps) == list(range(len(steps)))
    assert all(s.where.startswith(__file__) and s.bytes > 0 and s.end >= s.begin for s in steps)


@QUEUED
def test_steps_fill_their_launches():
    step = model()
    with profile() as prof:
        step()
    [run] = [event for event in prof.events() if event.name == "run plan"]
    steps = [event for event in prof.events() if event.kind in ("kernel", "library")]
    assert all(event.cpu_parent is run for event in steps)
    for event in steps:
        assert run.span.begin <= event.span.begin <= event.span.end <= run.span.end
    assert sum(event.cpu_time_total for event in steps) <= run.cpu_time_total * 1.001
    [sync] = [event for event in prof.events() if event.kind == "sync"]
    assert run.cpu_parent is sync


@QUEUED
def test_steps_side_by_side_share_the_time_of_their_launch():
    x = [smolder.randn(300, 300) for _ in range(4)]
    smolder.mark_step()
    threads = smolder.get_num_threads()
    smolder.set_num_threads(2)
    try:
        for _ in range(3):
            with profile() as prof:
                y = [(v * 2).sum(1) for v in x]
                smolder.mark_step()
            del y
    finally:
        smolder.set_num_threads(threads)
    steps = spans(prof, "kernel")
    assert len(steps) == 4 and len({s.step for s in steps}) == 4
    assert all(s.own is not None and s.own > 0 for s in steps)
    [run] = spans(prof, "launch")
    assert sum(s.own for s in steps) <= run.end - run.begin


def test_self_times_add_up():
    step = model()
    with profile() as prof, record_function("all"):
        step()
    events = prof.events()
    roots = [e for e in events if e.cpu_parent is None]
    assert sum(e.self_cpu_time_total for e in events) == pytest.approx(sum(e.cpu_time_total for e in roots), rel=0.05)


def test_a_new_plan_says_why_it_was_built_and_what_was_compiled():
    x = smolder.randn(5, 7)
    smolder.mark_step()
    smolder.forget_traces()
    with profile() as prof:
        (x * 3 + 1).cos().sum().item()
    [build] = [s for s in spans(prof, "plan") if s.name == "build plan"]
    assert build.detail and build.plan > 0 and build.where.startswith(__file__)
    stages = [s.name for s in spans(prof, "plan") if s.name != "build plan"]
    assert stages == ["decompose", "simplify", "fuse", "lower", "schedule", "emit"]
    _core._build_kernels_anew(True)
    try:
        smolder.forget_traces()
        with profile() as prof:
            (x * 5 - 1).sin().sum().item()
    finally:
        _core._build_kernels_anew(False)
    compiled = spans(prof, "compile")
    assert compiled and compiled[0].where.startswith(__file__)


@QUEUED
def test_eager_ops_and_copies():
    x = smolder.tensor([[1.0, 2.0], [3.0, 4.0]])
    with profile(record_shapes=True) as prof:
        with smolder.eager():
            x + x
        smolder.tensor([1.0, 2.0, 3.0])
        (x * 2).tolist()
    [add] = [e for e in prof.events() if e.kind == "eager"]
    assert add.name == "add" and add.bytes == 48 and add.input_shapes == [[2, 2], [2, 2]]
    assert ("tensor from data", 12) in [(s.name, s.bytes) for s in spans(prof, "copy")]


@QUEUED
@pytest.mark.runs_op_by_op
@pytest.mark.filterwarnings("ignore:a step could not run as a plan")
def test_a_step_that_runs_op_by_op_has_spans_of_its_ops():
    x = smolder.randn(40, 40)
    smolder.mark_step()
    with profile() as prof:
        y = (x @ x).exp()
        _core._fail_allocation_after(1)
        try:
            smolder.mark_step()
        finally:
            _core._fail_allocation_after(0)
    ops = spans(prof, "eager")
    assert [s.name for s in ops] == ["matmul", "exp"] and y.shape == (40, 40)
    assert all(s.where.startswith(__file__) and s.bytes > 0 for s in ops)


def test_record_function_nests_and_decorates():
    @record_function("decorated")
    def inner(n):
        return n + 1

    with profile() as prof, record_function("outer", "some arguments"):
        assert inner(1) == 2
        with record_function("inner"):
            pass
    names = {e.name: e for e in prof.events() if e.kind == "user"}
    assert names["decorated"].cpu_parent is names["outer"] and names["inner"].cpu_parent is names["outer"]
    assert names["outer"].span.detail == "some arguments"
    with record_function("unseen"):
        pass
    assert "unseen" not in {e.name for e in prof.events()}


def test_threads_have_spans_of_their_own():
    def work():
        with record_function("elsewhere"):
            pass

    with profile() as prof:
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        with record_function("here"):
            pass
    named = {e.name: e.thread for e in prof.events()}
    assert named["here"] == threading.get_native_id() != named["elsewhere"]


def test_two_profiles_at_once():
    with profile() as outer:
        with record_function("a"):
            pass
        with profile() as inner, record_function("b"):
            pass
    assert [e.name for e in inner.events()] == ["b"]
    assert [e.name for e in outer.events() if e.kind == "user"] == ["a", "b"]


def test_the_table():
    step = model()
    with profile(record_shapes=True, with_stack=True, profile_memory=True) as prof:
        step()
    averages = prof.key_averages()
    text = averages.table(sort_by="self_cpu_time_total", row_limit=3)
    lines = text.splitlines()
    assert lines[0] == lines[2] == lines[6] and set(lines[0]) == {"-", " "}
    assert lines[1].split("  ")[-3:] != [] and "Self CPU %" in lines[1] and "# of Calls" in lines[1]
    assert "CPU Mem" in lines[1] and "GB/s" in lines[1]
    assert lines[7].startswith("Self CPU time total: ") and len(lines) == 8 + (DEVICE != "cpu")
    assert "Input Shapes" not in text and "Source Location" not in text
    assert "[[16, 32], [64, 32], [64]]" in prof.key_averages(group_by_input_shape=True).table()
    assert "Source Location" in prof.key_averages(group_by_stack_n=1).table()
    names = [line[: lines[0].index(" ")].strip() for line in lines[3:6]]
    order = sorted(averages, key=lambda e: -e.self_cpu_time_total)
    assert names == [e.key if len(e.key) < 52 else e.key[:52] + "..." for e in order[:3]]
    with pytest.raises(AttributeError, match="'FunctionEventAvg' object has no attribute 'nope'"):
        averages.table(sort_by="nope")
    assert averages.total_average().count == len(prof.events())


@QUEUED
def test_flops_and_limits():
    a, b = smolder.randn(64, 32), smolder.randn(32, 16)
    smolder.mark_step()
    with profile(with_flops=True) as prof:
        smolder.matmul(a, b).tolist()
    [product] = [e for e in prof.events() if e.name == "matmul"]
    assert product.flops == 2 * 64 * 32 * 16
    averages = prof.key_averages()
    assert "Total KFLOPs" in averages.table()
    _limits.limits("cpu")
    assert "% of limit" in averages.table() and product.bandwidth_share > 0


def test_the_timeline_is_json_with_a_row_for_each_place(tmp_path):
    step = model()
    with profile(profile_memory=True) as prof:
        step()
    prof.add_metadata("run", "seven")
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    prof.export_chrome_trace(str(tmp_path / "trace.json.gz"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    with gzip.open(tmp_path / "trace.json.gz", "rt") as file:
        assert json.load(file)["traceEvents"] == trace["traceEvents"]
    assert trace["schemaVersion"] == 1 and trace["run"] == "seven" and trace["displayTimeUnit"] == "ms"
    events = trace["traceEvents"]
    whole = [e for e in events if e["ph"] == "X"]
    assert len(whole) == len(prof.events())
    assert all(e["dur"] >= 0 and e["ts"] > 0 and {"pid", "tid", "cat", "name", "args"} <= e.keys() for e in whole)
    kernel = next(e for e in whole if e["name"] == "sgd_step")
    assert kernel["args"]["line"].startswith(__file__) and kernel["args"]["bytes"] > 0
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in whole} == named
    counted = [e for e in events if e["ph"] == "C"]
    assert counted and all(e["args"]["bytes"] >= 0 for e in counted)
    if DEVICE != "cpu":
        sources = {e["id"] for e in events if e["ph"] == "s"}
        assert sources and sources == {e["id"] for e in events if e["ph"] == "f"}


def test_events_of_a_row_nest(tmp_path):
    """Else a timeline shows them wrong: those of one row do not overlap but one in another."""
    step = model()
    with profile() as prof:
        for _ in range(3):
            with record_function("step"):
                step()
    prof.export_chrome_trace(str(tmp_path / "trace.json"))
    rows = {}
    for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"]:
        if e["ph"] == "X":
            rows.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    slack = 0.002  # of rounding, in microseconds
    for row in rows.values():
        ends = []
        for begin, end in sorted(row, key=lambda e: (e[0], -e[1])):
            while ends and ends[-1] <= begin + slack:
                ends.pop()
            assert not ends or end <= ends[-1] + slack
            ends.append(end)


def test_a_schedule_profiles_its_steps(tmp_path):
    ready = []

    def on_ready(prof):
        ready.append((prof.step_num, [e.name for e in prof.events() if e.kind == "user"]))

    with profile(schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=on_ready) as prof:
        for _ in range(10):
            prof.step()
    assert ready == [(4, ["ProfilerStep#2", "ProfilerStep#3"]), (8, ["ProfilerStep#6", "ProfilerStep#7"])]
    with pytest.warns(UserWarning, match="won't be using warmup"):
        action = schedule(wait=1, warmup=0, active=1, skip_first=1)
    assert [action(i) for i in range(4)] == [
        ProfilerAction.NONE,
        ProfilerAction.NONE,
        ProfilerAction.RECORD_AND_SAVE,
        ProfilerAction.NONE,
    ]
    with pytest.raises(AssertionError, match="Invalid profiler schedule arguments"):
        schedule(wait=0, warmup=0, active=0)
    handler = tensorboard_trace_handler(str(tmp_path / "logs"), worker_name="me", use_gzip=True)
    with profile(on_trace_ready=handler):
        pass
    [name] = os.listdir(tmp_path / "logs")
    assert name.startswith("me.") and name.endswith(".pt.trace.json.gz")


def test_stacks(tmp_path):
    step = model()
    with profile(with_stack=True) as prof:
        step()
    prof.export_stacks(str(tmp_path / "stacks"))
    for line in (tmp_path / "stacks").read_text().splitlines():
        stack, count = line.rsplit(" ", 1)
        assert int(count) > 0 and " " not in stack
    with profile() as prof:
        pass
    with pytest.raises(AssertionError, match="requires with_stack=True"):
        prof.export_stacks(str(tmp_path / "stacks"))


def test_what_is_not_there_says_so(tmp_path):
    for name in ("with_modules", "experimental_config", "execution_trace_observer"):
        with pytest.raises(NotImplementedError, match=f"{name} of profile is not supported"):
            profile(**{name: True})
    with pytest.raises(NotImplementedError, match="XPU"):
        profile(activities=[ProfilerActivity.XPU])
    with pytest.raises(AssertionError, match="No valid profiler activities found"):
        profile(activities=[])
    with pytest.raises(AssertionError, match="must be initialized before getting key averages"):
        profile().key_averages()
    with profile() as prof:
        pass
    with pytest.raises(NotImplementedError, match="export_memory_timeline is not supported"):
        prof.export_memory_timeline(str(tmp_path / "memory.html"))


def test_activities():
    assert ProfilerActivity.CPU in supported_activities()
    if ProfilerActivity.CUDA not in supported_activities():
        with pytest.warns(UserWarning, match="CUDA is not available, disabling CUDA profiling"):
            prof = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
        assert prof.activities == {ProfilerActivity.CPU}


@pytest.mark.skipif(DEVICE == "cpu", reason="of a device")
def test_a_device_times_what_was_queued_on_it():
    step = model()
    with profile() as prof:
        step()
    queued = [e for e in prof.events() if e.span.queued]
    assert queued and all(e.self_device_time_total >= 0 and e.self_cpu_time_total == 0 for e in queued)
    hosts = {e.flow for e in prof.events() if not e.span.queued and e.flow}
    assert {e.flow for e in queued} == hosts
    order = [e.span for e in queued]
    assert all(a.end <= b.begin + 2000 for a, b in itertools.pairwise(order))
    assert "Self CUDA" in prof.key_averages().table(sort_by="cuda_time_total")
    with profile(activities=[ProfilerActivity.CPU]) as prof:
        step()
    assert not any(e.span.queued for e in prof.events())


@needs_torch
def test_parameters_are_those_of_torch():
    theirs = run_torch(
        """
import inspect
import torch.profiler as p
def of(f):
    return [n for n in inspect.signature(f).parameters if n != "self"]
out = {"profile": of(p.profile.__init__), "schedule": of(p.schedule), "handler": of(p.tensorboard_trace_handler),
       "record_function": of(p.record_function.__init__), "key_averages": of(p.profile.key_averages),
       "export_stacks": of(p.profile.export_stacks)}
E = torch.autograd.profiler_util.EventList
out["table"] = of(E.table)
"""
    )

    def ours(f):
        return [name for name in inspect.signature(f).parameters if name != "self"]

    from smolder.profiler._events import EventList

    mine = {
        "profile": ours(profile.__init__),
        "schedule": ours(schedule),
        "handler": ours(tensorboard_trace_handler),
        "record_function": ours(record_function.__init__),
        "key_averages": ours(profile.key_averages),
        "export_stacks": ours(profile.export_stacks),
        "table": ours(EventList.table),
    }
    for name, parameters in mine.items():
        assert set(parameters) <= set(theirs[name]) or set(theirs[name]) <= set(parameters), name


def test_the_older_names():
    from smolder.autograd import profiler

    with profiler.profile(with_stack=True) as prof, profiler.record_function("named"):
        smolder.ones(3).add(1).tolist()
    assert "named" in str(prof) and prof.self_cpu_time_total > 0
    assert prof.function_events and prof.key_averages() and prof.total_average().count == len(prof.function_events)
    with profiler.profile(enabled=False) as none:
        pass
    assert none is None
    with pytest.raises(NotImplementedError, match="use_device='xpu'"):
        profiler.profile(use_device="xpu")


def test_examples_in_the_docs_are_python():
    page = pathlib.Path(__file__).parents[2] / "docs" / "profiler.md"
    blocks = page.read_text().split("```python\n")[1:]
    assert blocks
    for block in blocks:
        ast.parse(block.split("```")[0])
