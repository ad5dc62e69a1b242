"""smolder.memory: what is alive adds up to what is held, is of the lines that took it, and has torch's forms."""

import inspect
import pickle
import re
import threading
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from conftest import DEVICE, of_the_cpu
from torch_peer import PYTHON, needs_torch, run_torch

import smolder
from smolder import _core, _trace_file, memory, nn

HERE = __file__
KIND = DEVICE.partition(":")[0]
CPU = of_the_cpu("of the allocator of the CPU")


@pytest.fixture(autouse=True)
def off_again():
    yield
    memory._record_memory_history(enabled=None)


def lines_of(tensor_sizes):
    """The bytes alive in blocks of such sizes."""
    return [(b.what, b.where) for b in memory.alive(DEVICE) if b.bytes in tensor_sizes]


def active(snapshot):
    return sum(segment["active_size"] for segment in snapshot["segments"])


def test_off_nothing_is_kept():
    memory._record_memory_history()
    memory._record_memory_history(enabled=None)
    before = len(memory.alive(DEVICE))
    kept = smolder.ones(1234)
    smolder.mark_step()
    assert len(memory.alive(DEVICE)) == before and kept.numel() == 1234
    assert not _core._memory_history_is_on()


def test_what_is_alive_is_of_the_line_that_recorded_it():
    smolder.mark_step()
    memory._record_memory_history()
    x = smolder.randn(33, 17)  # 2244 bytes
    y = x.sin() + 1
    smolder.mark_step()
    line = inspect.currentframe().f_lineno
    [(what, _)] = [(w, p) for w, p in lines_of({33 * 17 * 4}) if p.startswith(f"{HERE}:{line - 2} ")]
    assert what == "add"
    assert f"{HERE}:{line - 3} " in " ".join(p for _, p in lines_of({33 * 17 * 4}))
    text = memory.report(DEVICE)
    assert f"add  {HERE}:{line - 2} in test_what_is_alive" in text
    del x, y
    smolder.mark_step()
    smolder.ones(1).tolist()  # looks for the dead
    assert not lines_of({33 * 17 * 4})


def test_an_update_in_place_says_who_wrote_last():
    memory._record_memory_history()
    w = smolder.ones(4099)
    smolder.mark_step()
    before = inspect.currentframe().f_lineno
    w.mul_(3)
    smolder.mark_step()
    owners = lines_of({4099 * 4})
    assert [place for _, place in owners if f"{HERE}:{before + 1} " in place], owners


@CPU
def test_copies_and_arenas_are_said_as_such():
    _core.empty_cache()
    memory._record_memory_history()
    line = inspect.currentframe().f_lineno
    data = smolder.tensor([1.0] * 700)
    assert lines_of({2800}) == [("tensor from data", f"{HERE}:{line + 1} in test_copies_and_arenas_are_said_as_such")]
    x = smolder.randn(100, 300)
    ((x - x.mean(1, keepdim=True)).exp() @ x.t()).sum().item()
    assert any(b.what == "arena of plans" for b in memory.alive("cpu"))
    with smolder.eager():
        line = inspect.currentframe().f_lineno
        made = data + 1
    assert ("add", f"{HERE}:{line + 1} in test_copies_and_arenas_are_said_as_such") in lines_of({2800})
    del made


@CPU
def test_a_snapshot_adds_up_to_what_is_allocated():
    before = smolder.randn(1000)
    smolder.mark_step()
    memory._record_memory_history()
    kept = [smolder.randn(n, 10) for n in (10, 200, 3000)]
    smolder.mark_step()
    snapshot = memory._snapshot()
    assert active(snapshot) == memory.memory_stats()["allocated_bytes.all.current"] == _core.memory_stats()["live"]
    total = sum(segment["total_size"] for segment in snapshot["segments"])
    assert total == memory.memory_stats()["reserved_bytes.all.current"]
    assert before.numel() + len(kept) == 1003


@pytest.mark.skipif(DEVICE == "cpu", reason="of the pool of a device")
def test_a_snapshot_of_cuda_adds_up_to_what_is_allocated():
    memory._record_memory_history()
    kept = [smolder.randn(n, 10) for n in (10, 200, 3000)]
    smolder.mark_step()
    snapshot = smolder.cuda.memory._snapshot()
    assert active(snapshot) == smolder.cuda.memory_allocated()
    assert sum(s["total_size"] for s in snapshot["segments"]) == smolder.cuda.memory_reserved()
    for segment in snapshot["segments"]:
        at = segment["address"]
        for block in segment["blocks"]:
            assert block["address"] == at
            at += block["size"]
    frames = [b["frames"] for s in snapshot["segments"] for b in s["blocks"] if b["requested_size"] == 120000]
    assert any(f and f[-1]["filename"] == HERE for f in frames)
    assert smolder.cuda.memory_snapshot() == snapshot["segments"]
    assert len(kept) == 3


def test_events_take_and_give_back():
    memory._record_memory_history(clear_history=True)
    x = smolder.ones(7777)
    smolder.mark_step()
    del x
    smolder.mark_step()
    smolder.ones(1).tolist()
    trace = memory._snapshot(DEVICE)["device_traces"][0]
    size = next(e["size"] for e in trace if e["action"] == "alloc" and e["size"] >= 7777 * 4)
    of_it = [e["action"] for e in trace if e["size"] == size]
    assert of_it == ["alloc", "free_requested", "free_completed"]
    memory._record_memory_history(enabled="state")
    assert memory._snapshot(DEVICE)["device_traces"] == [[]]
    memory._record_memory_history(max_entries=5)
    kept = [smolder.tensor([float(i)] * 50) for i in range(20)]
    assert len(_core._memory_history()[1]) == 5 and len(kept) == 20


def test_threads_take_memory_for_their_own_lines():
    memory._record_memory_history()
    kept = []

    def work():
        kept.append(smolder.tensor([1.0] * 909))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    owners = [b for b in memory.alive("cpu") if b.bytes == 3636]
    assert [b.what for b in owners] == ["tensor from data"] * 4  # threads have a default device of their own


@CPU
def test_the_summary_of_the_cpu():
    x = smolder.randn(600, 600)
    smolder.mark_step()
    stats = memory.memory_stats()
    assert stats["allocated_bytes.all.current"] == _core.memory_stats()["live"]
    assert stats["reserved_bytes.all.current"] == stats["allocated_bytes.all.current"] + _core.memory_stats()["cached"]
    for name in ("allocated_bytes", "reserved_bytes", "allocation", "segment"):
        for what in ("current", "allocated", "freed"):
            parts = stats[f"{name}.large_pool.{what}"] + stats[f"{name}.small_pool.{what}"]
            assert parts == stats[f"{name}.all.{what}"]
    lines = smolder.memory_summary().splitlines()
    assert {len(line) for line in lines} == {77}
    assert "Smolder CPU memory summary" in lines[1]
    assert len(smolder.memory_summary(abbreviated=True).splitlines()) < len(lines)
    assert x.numel() == 360000
    with pytest.raises(NotImplementedError, match="memory of device 'mps' is not supported"):
        smolder.memory_summary("mps")


def test_an_arena_is_drawn(tmp_path):
    net = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 8))
    x = smolder.randn(32, 64)
    smolder.mark_step()
    net(x).square().sum().backward()
    smolder.mark_step()

    def picture(plan):
        memory.draw_arena(tmp_path / "arena.svg", plan)
        return (tmp_path / "arena.svg").read_text()

    plan, size = next(a for a in memory.arenas() if HERE in picture(a[0]))
    root = ET.fromstring((tmp_path / "arena.svg").read_text())
    titles = [t.text for t in root.iter("{http://www.w3.org/2000/svg}title")]
    report = next(p for p in _core._known_plans() if p["plan"] == plan)
    values = [b for b in report["buffers"] if "offset" in b]
    assert len(titles) == len(values) and size == report["arena_bytes"]
    assert all(b["offset"] >= 0 and b["offset"] + b["bytes"] <= size for b in values)
    assert any(HERE in title for title in titles)
    texts = " ".join(t.text for t in root.iter("{http://www.w3.org/2000/svg}text"))
    assert re.search(rf"Arena of plan {plan}: ", texts)
    memory.draw_arena(tmp_path / "arena.html", plan)
    page = (tmp_path / "arena.html").read_text()
    assert page.startswith("<!doctype html>") and "http" not in page.replace("http://www.w3.org/2000/svg", "")
    with pytest.raises(ValueError, match="no plan 999999 with an arena is known"):
        memory.draw_arena(tmp_path / "arena.svg", 999999)


def test_what_is_not_there_says_so():
    with pytest.raises(ValueError, match="Invalid value for `enabled`"):
        memory._record_memory_history(enabled="some")
    for name in ("compile_context", "global_record_annotations", "skip_actions", "record_pinned_host_memory"):
        with pytest.raises(NotImplementedError, match=f"{name} of _record_memory_history is not supported"):
            memory._record_memory_history(**{name: True})
    with pytest.raises(NotImplementedError, match="augment_with_fx_traces"):
        memory._snapshot(augment_with_fx_traces=True)


@needs_torch
def test_the_viewer_of_torch_reads_a_snapshot(tmp_path):
    memory._record_memory_history()
    kept = [smolder.randn(n, 10) for n in (10, 200, 3000)]
    smolder.mark_step()
    memory._dump_snapshot(str(tmp_path / "snapshot.pickle"), device=DEVICE)
    mine = pickle.loads((tmp_path / "snapshot.pickle").read_bytes())
    out = run_torch(
        """
import pickle, torch.cuda._memory_viz as viewer
snapshot = pickle.load(open(argv[0], "rb"))
out = {"summary": viewer.segsum(snapshot), "trace": viewer.trace(snapshot), "page": viewer.trace_plot(snapshot)}
import inspect
out["parameters"] = list(inspect.signature(torch.cuda.memory._record_memory_history).parameters)
""",
        tmp_path / "snapshot.pickle",
    )
    assert f"segments: {len(mine['segments'])}" in out["summary"]
    assert f"{len(mine['device_traces'][0])} entries" in out["trace"]
    assert out["page"].startswith("\n<!DOCTYPE html>") or "<html" in out["page"]
    ours = list(inspect.signature(memory._record_memory_history).parameters)
    assert ours == out["parameters"] or set(ours) >= set(out["parameters"])
    assert len(kept) == 3 and PYTHON


# Bytes of the arena at the sizes that were recorded. Less is welcome: then this is to say so.
ARENAS = {
    "block_forward": 25165824, "block_train": 84017152, "char_train": 20651072, "conv_train": 4143616,
    "cross_entropy": 18496, "layer_norm": 524288, "mlp_forward": 49152, "mlp_train": 90112,
}  # fmt: skip


@pytest.mark.parametrize("name", ARENAS)
def test_plans_of_recorded_steps_take_no_more_memory_than_they_did(name):
    trace = _trace_file.read(Path(__file__).resolve().parents[2] / "benchmarks" / "traces" / f"{name}.trace")
    (step,) = trace.steps
    graph = _core._ReplayGraph([n.plain(n.source) for n in step.nodes], step.outputs)
    assert graph.compile("cpu", True, True).arena_bytes <= ARENAS[name]
