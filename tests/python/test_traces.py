"""Recorded steps: what a file holds, who writes it, what `smolder trace` says of it, and what it says of files that
are none."""

import contextlib
import json
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import of_the_cpu

import smolder
from smolder import _trace_file, cli, safetensors

pytestmark = of_the_cpu("what the host's steps are")

PAGE = Path(__file__).resolve().parents[2] / "docs" / "replay.md"
TRAIN = """
import sys
from pathlib import Path
import smolder
from smolder import nn, optim

smolder.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
optimizer = optim.AdamW(model.parameters(), lr=1e-2)
x = smolder.randn(32, 8)
y = (x[:, 0] > 0).long()
for step in range(5):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    smolder.mark_step()
"""


def product(x, on):
    with smolder.autocast("cpu", dtype=smolder.bfloat16, enabled=on):
        return x @ x.T


def record(path, function, *, runs=1, **options):
    with smolder.record_trace(path, **options):
        for _ in range(runs):
            held = function()  # noqa: F841 - alive when the step ends
            smolder.mark_step()
    return _trace_file.read(path)


def run_script(folder, text, **environment):
    (folder / "script.py").write_text(text)
    return subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=os.environ | environment, capture_output=True, text=True
    )


def command(capsys, *arguments):
    """Exit status and output of `smolder ...`."""
    status = cli.main([str(a) for a in arguments])
    out = capsys.readouterr()
    return status, out.out + out.err


def test_each_distinct_step_is_kept_once(tmp_path):
    x, y = smolder.ones(4, 3), smolder.ones(5, 3)
    smolder.mark_step()
    with smolder.record_trace(tmp_path / "a.trace"):
        for i in range(6):
            held = smolder.exp(x if i % 3 else y) * 2.5  # noqa: F841
            smolder.mark_step()
    trace = _trace_file.read(tmp_path / "a.trace")
    assert [s.runs for s in trace.steps] == [2, 4]
    assert trace.order == [[0, 1], [1, 2], [0, 1], [1, 2]]
    first, second = trace.steps
    assert [str(leaf) for leaf in first.leaves] == ["float32[5, 3]"]
    assert [str(leaf) for leaf in second.leaves] == ["float32[4, 3]"]
    assert [n.op for n in second.ops()] == ["exp", "mul"]
    assert second.numbers == [("float", 2.5)]
    assert second.reason == "mark_step"
    assert trace.where(second.ops()[0].source).endswith("in test_each_distinct_step_is_kept_once")
    assert trace.code(second.ops()[0].source) == "held = smolder.exp(x if i % 3 else y) * 2.5  # noqa: F841"
    assert all(leaf.data is None for leaf in second.leaves)


def test_what_is_held_makes_a_step_of_its_own(tmp_path):
    x = smolder.ones(4)
    smolder.mark_step()
    with smolder.record_trace(tmp_path / "a.trace"):
        for i in range(4):
            a = x.exp()
            b = a + 1
            if i < 2:
                del a
            smolder.mark_step()
            del b
    assert [len(s.outputs) for s in _trace_file.read(tmp_path / "a.trace").steps] == [1, 2]


def test_inputs_are_those_before_the_step_writes_over_them(tmp_path):
    w = smolder.arange(6, dtype=smolder.float32)
    h = smolder.full((3,), 1.5, dtype=smolder.bfloat16)
    smolder.mark_step()
    with smolder.record_trace(tmp_path / "a.trace", inputs=True):
        w.add_(10)
        kept = h.sum()  # noqa: F841
    trace = _trace_file.read(tmp_path / "a.trace")
    data = _trace_file.read_data(trace, 0)
    np.testing.assert_array_equal(data[0].numpy(), np.arange(6, dtype=np.float32))
    assert data[1].dtype == smolder.bfloat16
    assert data[1].tolist() == [1.5] * 3


def test_compiled_functions_and_reads_are_recorded(tmp_path):
    compiled = smolder.compile(lambda x: (x * 2).sum())
    x = smolder.ones(7)
    compiled(x).item()
    with smolder.record_trace(tmp_path / "a.trace"):
        compiled(x)
        compiled(x)
        (x + 1).tolist()
    trace = _trace_file.read(tmp_path / "a.trace")
    assert [s.reason for s in trace.steps] == ["compiled function", "numpy"]
    assert [s.runs for s in trace.steps] == [2, 1]


def test_start_and_stop(tmp_path):
    recording = smolder.record_trace(tmp_path / "a.trace")
    recording.start()
    smolder.ones(2).exp().tolist()
    recording.stop()
    smolder.ones(2).sin().tolist()
    assert [n.op for s in _trace_file.read(tmp_path / "a.trace").steps for n in s.ops()] == ["full", "exp"]


def test_memory_is_bounded(tmp_path):
    x = smolder.ones(1000)
    smolder.mark_step()

    def work(path, limit):
        with smolder.record_trace(path, inputs=True, max_bytes=limit):
            for i in range(50):
                held = x[i : i + 3].exp()  # noqa: F841
                smolder.mark_step()
        return _trace_file.read(path)

    part = work(tmp_path / "a.trace", 20_000)
    assert 0 < len(part.steps) < 50
    assert len(part.steps) + part.dropped_runs == 50
    assert part.dropped_leaves > 0
    assert os.path.getsize(tmp_path / "a.trace") < 40_000
    assert len(work(tmp_path / "b.trace", "1M").steps) == 50
    with pytest.raises(ValueError, match="no size"):
        smolder.record_trace(tmp_path / "c.trace", max_bytes="many")


def test_a_file_is_written_after_an_exception(tmp_path):
    with pytest.raises(ZeroDivisionError), smolder.record_trace(tmp_path / "a.trace"):
        smolder.ones(2).exp().tolist()
        raise ZeroDivisionError
    assert len(_trace_file.read(tmp_path / "a.trace").steps) == 1


def test_a_whole_process(tmp_path):
    done = run_script(tmp_path, TRAIN + "raise SystemError('late')\n", SMOLDER_RECORD="run.trace")
    assert done.returncode == 1
    assert "late" in done.stderr
    trace = _trace_file.read(tmp_path / "run.trace")
    assert trace.order == [[0, 1], [1, 4]]
    assert trace.program == ["script.py"]
    assert trace.steps[1].leaves[0].data is None
    assert trace.code(trace.steps[1].ops()[0].source) == "loss = nn.functional.cross_entropy(model(x), y)"


def test_what_a_process_may_ask_for(tmp_path):
    run_script(tmp_path, TRAIN, SMOLDER_RECORD="run.trace", SMOLDER_RECORD_INPUTS="1", SMOLDER_RECORD_BYTES="1M")
    trace = _trace_file.read(tmp_path / "run.trace")
    assert all(leaf.data for leaf in trace.steps[1].leaves)


def test_processes_write_files_of_their_own(tmp_path):
    script = """
import multiprocessing, os, subprocess, sys
import smolder

def child():
    smolder.ones(3).sin().tolist()

smolder.ones(3).exp().tolist()
process = multiprocessing.get_context("fork").Process(target=child)
process.start()
process.join()
subprocess.run([sys.executable, "-c", "import smolder; smolder.ones(3).cos().tolist()"], check=True)
subprocess.run([sys.executable, "-c", "import smolder"], check=True)
"""
    done = run_script(tmp_path, script, SMOLDER_RECORD=str(tmp_path / "run.trace"))
    assert done.returncode == 0, done.stderr
    files = sorted(p.name for p in tmp_path.glob("*.trace"))
    assert len(files) == 3
    assert "run.trace" in files
    ops = {name: [n.op for s in _trace_file.read(tmp_path / name).steps for n in s.ops()] for name in files}
    assert ops.pop("run.trace") == ["full", "exp"]
    assert sorted(o for pair in ops.values() for o in pair) == ["cos", "full", "full", "sin"]


def test_show(tmp_path, capsys):
    path = tmp_path / "a.trace"
    record(path, lambda: smolder.ones(4, 3).exp().sum(), runs=3)
    status, text = command(capsys, "trace", "show", path)
    assert status == 0
    assert "1 step, 3 runs" in text
    assert "order: 0 x3" in text
    status, text = command(capsys, "trace", "show", path, "--step", 0)
    assert status == 0
    assert "%1 = full(1, size=[4, 3], dtype=float32) : float32[4, 3]" in text
    assert "%2 = exp(%1) : float32[4, 3]" in text
    assert "test_show: record(path, lambda: smolder.ones(4, 3).exp().sum(), runs=3)" in text.replace(
        "<lambda>", "test_show"
    )
    status, text = command(capsys, "trace", "show", path, "--step", 0, "--json")
    assert [n["op"] for n in json.loads(text)["nodes"]] == ["parameter", "full", "exp", "sum"]
    assert json.loads(command(capsys, "trace", "stats", path, "--json")[1])["by_op"] == {"full": 3, "exp": 3, "sum": 3}
    assert command(capsys, "trace", "show", path, "--step", 7) == (
        2,
        f"smolder trace: {path} has no step 7: its steps are 0 to 0\n",
    )


@pytest.mark.parametrize(
    ("cause", "before", "now"),
    [
        ("shape", lambda x: x[:4].exp(), lambda x: x[:5].exp()),
        ("attribute", lambda x: x.sum(0), lambda x: x.sum(1)),
        ("topology", lambda x: x.exp() + 1, lambda x: x.exp().relu() + 1),
        ("dtype", lambda x: x * 2, lambda x: x * 2.5),
        ("mode", lambda x: product(x, False), lambda x: product(x, True)),
        ("number", lambda x: x * 2.25, lambda x: x * 2.5),
        ("liveness", lambda x: x.exp().sum(), lambda x: [y := x.exp(), y.sum()]),
    ],
)
def test_diff(tmp_path, capsys, cause, before, now):
    x = smolder.ones(8, 6)
    smolder.mark_step()
    for name, function in (("a", before), ("b", now)):
        record(tmp_path / f"{name}.trace", lambda: function(x))  # noqa: B023
    status, text = command(capsys, "trace", "diff", tmp_path / "a.trace", tmp_path / "b.trace", "--json")
    found = json.loads(text)["difference"]
    assert status == 1
    assert found["cause"] == cause if cause != "shape" else found["cause"] in ("shape", "attribute")
    assert "test_traces.py" in found["where"]
    assert "test_traces.py" in found["before"]
    assert command(capsys, "trace", "diff", tmp_path / "a.trace", tmp_path / "a.trace")[0] == 0
    status, text = command(capsys, "trace", "diff", tmp_path / "a.trace", tmp_path / "b.trace")
    assert status == 1
    assert found["reason"] in text


# -- files that are no traces


def contents(path):
    with safetensors.safe_open(path) as file:
        return json.loads(file.metadata()["smolder.trace"])


def rewritten(path, change):
    """Writes a trace whose JSON was changed."""
    value = contents(path)
    change(value)
    safetensors.save_file({}, path, {"smolder.trace": json.dumps(value)})


@pytest.fixture
def small(tmp_path):
    path = tmp_path / "small.trace"
    x = smolder.ones(4, 3)
    smolder.mark_step()
    record(path, lambda: smolder.addmm(x, x @ x.T, x).sum(0) * 2.0)
    return path


def graph_with(old, new):
    def change(value):
        graph = value["steps"][0]["graph"]
        assert old in graph
        value["steps"][0]["graph"] = graph.replace(old, new)

    return change


NO_NUMBER = """symbols s0=4
%0 = leaf(number=0, offset=0, strides=[1]) : float32[s0]
%1 = full(%0, size=[2], dtype=float32) : float32[2]
return %1
"""
HOSTILE = {
    "version": (lambda v: v.update(version=2), "version 2 of the format; this Smolder reads version 1"),
    "no steps": (lambda v: v.pop("steps"), "no 'steps'"),
    "no text": (lambda v: v["steps"][0].update(graph=7), "no 'graph' that is a str"),
    "inner op": (lambda v: v["steps"][0].update(graph="%0 = iota(shape=[4], axis=0) : int64[4]\nreturn %0\n"), "no op that a step records"),
    "shape": (graph_with(": float32[4, 4]", ": float32[4, 5]"), "its rule says"),
    "huge": (lambda v: v["steps"][0].update(graph="symbols s0=4611686018427387904\n%0 = leaf(number=0, offset=0, strides=[s0, 1]) : float32[s0, 64]\nreturn %0\n"), "no tensor has shape"),
    "strides": (lambda v: v["steps"][0].update(graph="%0 = constant(2) : weak int64[]\nreturn\n"), "no op that a step records"),
    "tensor for a number": (lambda v: v["steps"][0].update(graph=NO_NUMBER), "takes a number as"),
    "numbers": (lambda v: v["steps"][0]["numbers"].append(["float", 1.0]), "its numbers are not those"),
    "modes": (lambda v: v["steps"][0].update(modes=[1, 2]), "its modes are not those of its ops"),
    "leaf": (lambda v: v["steps"][0]["leaves"][0].update(shape=[9]), "not what the graph says"),
    "data": (lambda v: v["steps"][0]["leaves"][0].update(data="nothing"), "no tensor 'nothing'"),
    "order": (lambda v: v["order"].append([3, 1]), "the order names"),
    "source": (lambda v: v.update(sources=[]), "is not in the file"),
    "list": (lambda v: v.update(steps=[3]), "no 'graph'"),
}  # fmt: skip


@pytest.mark.parametrize("fault", HOSTILE)
def test_a_file_that_says_what_is_not_so(small, capsys, fault):
    change, message = HOSTILE[fault]
    rewritten(small, change)
    status, text = command(capsys, "trace", "show", small)
    assert status == 2
    assert message in text


def test_a_step_of_ops_that_are_not_here(small, capsys):
    rewritten(small, lambda v: v["steps"].append(v["steps"][0] | {"graph": "%0 = theirs() : float32[]\nreturn %0\n"}))
    status, text = command(capsys, "trace", "show", small)
    assert status == 0
    assert "there is no op called 'theirs'" in text
    assert "(unreadable)" in text
    assert command(capsys, "trace", "show", small, "--step", 0)[0] == 0
    assert command(capsys, "replay", small, "--check")[0] == 0
    for arguments in (["trace", "show"], ["replay"]):
        status, text = command(capsys, *arguments, small, "--step", 1)
        assert status == 2
        assert "there is no op called 'theirs'" in text


def test_ops_of_the_program_are_recorded(tmp_path, capsys):
    made = smolder.library.Library("testtraces", "FRAGMENT")
    made.define("twice(Tensor x) -> Tensor")
    made.impl("twice", lambda x: x.numpy() * 2, "CPU")
    smolder.library.register_fake("testtraces::twice", smolder.empty_like)
    x = smolder.ones(3)
    smolder.mark_step()
    path = tmp_path / "a.trace"
    record(path, lambda: smolder.ops.testtraces.twice(x) + 1)
    assert "testtraces::twice(%0)" in command(capsys, "trace", "show", path, "--step", 0)[1]
    assert command(capsys, "replay", path, "--check")[0] == 0
    made._destroy()
    status, text = command(capsys, "trace", "show", path)
    assert status == 0
    assert "there is no op called 'testtraces::twice'" in text


def branches_and_loops():
    """Control flow of each kind, one inside another, with gradients."""
    x = smolder.linspace(-1, 1, 6).reshape(2, 3).requires_grad_()

    def body(i, t):
        return i + 1, smolder.cond(t.sum() > 3, lambda t: t - 1, lambda t: t * 1.5 + 1, (t,))

    _, y = smolder.while_loop(lambda i, t: i < 3, body, (smolder.tensor(0), x))
    _, z = smolder.scan(lambda c, t: (c * 0.5 + t, c.tanh()), smolder.zeros(3), y)
    z.square().sum().backward()
    return [z, x.grad]


def test_control_flow_is_replayed(tmp_path, capsys):
    smolder.mark_step()
    path = tmp_path / "a.trace"
    record(path, branches_and_loops, inputs=True)
    [step] = _trace_file.read(path).steps
    assert {"while_loop", "while_grad", "scan"} <= {
        n.op.removeprefix("smolder::").rstrip("_0123456789") for n in step.nodes
    }
    status, text = command(capsys, "replay", path, "--check")
    assert status == 0 and "jit and eager: the same bits" in text
    assert command(capsys, "replay", path, "--iters", "2")[0] == 0
    assert command(capsys, "trace", "show", path, "--step", 0)[0] == 0
    # A file's description of the graphs inside is checked as the rest is.
    _trace_file.write(tmp_path / "b.trace", _trace_file.read(path))
    again = _trace_file.read(tmp_path / "b.trace")
    assert again.steps[0].nodes == step.nodes


def test_control_flow_is_replayed_in_another_process(tmp_path):
    smolder.mark_step()
    path = tmp_path / "a.trace"
    record(path, branches_and_loops, inputs=True)
    done = subprocess.run(
        [sys.executable, "-m", "smolder.cli", "replay", path, "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0 and "the same bits" in done.stdout, done.stdout + done.stderr


def test_drawings(small, tmp_path, capsys):
    status, text = command(capsys, "trace", "dot", small)
    assert status == 0
    assert text.startswith('digraph "step 0" {')
    assert text.count('label="addmm') == 1
    assert "subgraph" in text
    assert json.loads(command(capsys, "trace", "dot", small, "--json")[1])["dot"] == text
    status, text = command(capsys, "trace", "html", small, "-o", tmp_path / "page.html")
    assert status == 0
    page = (tmp_path / "page.html").read_text()
    assert page.startswith("<!DOCTYPE html>")
    assert "<svg" in page
    assert "addmm" in page
    assert "record(path, lambda" in page
    assert "http" not in page.replace("http://www.w3.org", "")


def test_large_steps_are_drawn_by_line(tmp_path, capsys):
    x = smolder.ones(4)
    smolder.mark_step()
    with smolder.record_trace(tmp_path / "a.trace"):
        for _ in range(900):
            x = x.sin()
        x = x.exp()
        smolder.mark_step()
    command(capsys, "trace", "html", tmp_path / "a.trace")
    page = (tmp_path / "a.html").read_text()
    assert "sin x900" in page
    assert len(page) < 100_000


def test_other_files(tmp_path, capsys):
    other = tmp_path / "other.safetensors"
    safetensors.save_file({"x": smolder.ones(2)}, other)
    assert "is no trace: it is a safetensors file without" in command(capsys, "trace", "show", other)[1]
    other.write_text("{}")
    assert command(capsys, "trace", "show", other)[0] == 2
    assert command(capsys, "trace", "show", tmp_path / "none")[0] == 2


def test_damaged_files_are_refused_or_read(small):
    """Cut anywhere, and with bytes and lines of their graphs changed, files give an error or what they say."""
    whole = small.read_bytes()
    chance = random.Random(0)
    damaged = [whole[:n] for n in range(0, len(whole), max(1, len(whole) // 60))]
    text = contents(small)["steps"][0]["graph"]
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.choice(b'0123456789,[]{}%"-_=abs' + bytes(range(256)))
        damaged.append(bytes(data))
    read = 0
    for data in damaged:
        small.write_bytes(data)
        try:
            _trace_file.read(small)
            read += 1
        except _trace_file.TraceError:
            pass
    assert read < len(damaged)
    words = text.replace("(", " ( ").replace(",", " , ").split(" ")
    for _ in range(500):
        mixed = list(words)
        for _ in range(chance.randint(1, 3)):
            mixed[chance.randrange(len(mixed))] = chance.choice([*words, "-1", "9223372036854775807", "_", "%99"])
        with contextlib.suppress(ValueError, RuntimeError, NotImplementedError, TypeError, IndexError):
            smolder._core._parse_graph(" ".join(mixed))


def test_the_page_shows_what_happens(tmp_path):
    """Its script is recorded, and what it shows of `show` and `diff` compared, but for moments and folders."""
    page = PAGE.read_text()
    script = re.search(r"```python\n(.*?)```", page, re.S)[1]
    shown = re.findall(r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)", page, re.M)
    best = "best = scores.argmax(1)"
    assert f"With `{best}` instead" in page
    run_script(tmp_path, script, SMOLDER_RECORD="run.trace")
    run_script(tmp_path, re.sub("best = scores.*", best, script), SMOLDER_RECORD="argmax.trace")
    wanted = [(c, out) for c, out in shown if c.startswith(("smolder trace show", "smolder trace diff"))]
    assert len(wanted) == 3
    for line, out in wanted:
        done = subprocess.run(
            [sys.executable, "-m", "smolder.cli", *line.split()[1:]],
            cwd=tmp_path, env=os.environ | {"COLUMNS": "1000"}, capture_output=True, text=True,
        )  # fmt: skip
        told = done.stdout.replace("script.py", "train.py").replace(f"{tmp_path}/", "/home/me/").splitlines()
        for a, b in zip(out.removesuffix("...\n").splitlines(), told, strict=False):
            wanted_line, line_told = (re.sub("recorded .*", "", text) for text in (a, b))
            assert line_told.startswith(wanted_line.removesuffix("…"))
