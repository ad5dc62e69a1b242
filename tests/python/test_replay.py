"""`smolder replay`: recorded steps run again, with a compiler that is right and with one that is not."""

import json
import random
import shutil

import numpy as np
import pytest
from conftest import of_the_cpu

import smolder
from smolder import _core, _trace_file, cli, nn, optim
from smolder.cli import _rerun

pytestmark = of_the_cpu("steps of the host, whose plans give the bits of eager execution")


def command(capsys, *arguments):
    """Exit status and output of `smolder ...`."""
    status = cli.main([str(a) for a in arguments])
    out = capsys.readouterr()
    return status, out.out + out.err


def as_json(capsys, *arguments):
    status, text = command(capsys, *arguments, "--json")
    return status, json.loads(text)


@pytest.fixture
def wrong(request):
    """A compiler that swaps the operands of `sub`, in the pass that the test names."""
    _core._plant_miscompile("sub", request.param)
    yield request.param
    _core._plant_miscompile("", "")


@pytest.fixture
def training(tmp_path):
    """A trace of a small net's training."""
    path = tmp_path / "training.trace"
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    x = smolder.randn(32, 8)
    y = (x[:, 0] > 0).long()
    with smolder.record_trace(path):
        for _ in range(4):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            smolder.mark_step()
    return path


def long_program(path, ops, seed=0, *, inputs=False):
    """A trace of that many ops, of which one in the middle subtracts."""
    chance = random.Random(seed)
    x = [smolder.randn(6, 10) for _ in range(4)]
    w = smolder.randn(10, 10) * 0.1
    smolder.mark_step()
    steps = [
        lambda a, b: a + b,
        lambda a, b: a * b,
        lambda a, b: smolder.tanh(a),
        lambda a, b: smolder.maximum(a, b),
        lambda a, b: (a @ w).tanh(),
        lambda a, b: a.sin(),
        lambda a, b: smolder.relu(a) + b,
        lambda a, b: smolder.where(a > b, a, b),
    ]
    with smolder.record_trace(path, inputs=inputs):
        values = list(x)
        for i in range(ops):
            a, b = values[-1], values[chance.randrange(-8, 0) if len(values) > 8 else 0]
            values.append(a - b * 0.5 if i == ops // 2 else chance.choice(steps)(a, b))
            del values[:-9]
            if i == ops // 2:
                middle = values[-1]
        kept = values[-1].sum(), (values[-1] + middle).sum()  # noqa: F841
        del values, a, b, middle
    return path


def test_times_of_kernels_beside_their_limit(training, capsys):
    status, found = as_json(capsys, "replay", training, "--iters", 5)
    assert status == 0
    assert found["runs"] == 5
    assert 0 < found["least"] <= found["median"] <= found["most"]
    assert len(found["kernels"]) > 3
    for kernel in found["kernels"]:
        assert kernel["seconds"] > 0
        assert kernel["bytes"] > 0
        assert 0 < kernel["share_of_limit"] <= 1
        assert kernel["ops"]
        assert "test_replay.py" in kernel["where"]
    status, text = command(capsys, "replay", training, "--iters", 2)
    assert status == 0
    assert "of limit" in text
    status, text = command(capsys, "replay", training, "--tier", "eager", "--iters", 2)
    assert status == 0
    assert "eager: " in text


def test_tables_fit_the_terminal(training, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in (
        ["replay", training, "--iters", 2],
        ["trace", "show", training],
        ["trace", "show", training, "--step", 0],
    ):
        status, text = command(capsys, *arguments)
        assert status == 0
        assert max(len(line) for line in text.splitlines()) <= 80


def test_tiers_agree(training, capsys):
    status, found = as_json(capsys, "replay", training, "--check")
    assert status == 0
    assert found["same"]
    assert [c["tiers"] for c in found["comparisons"]] == ["jit and eager", "eager and interpreter"]
    assert as_json(capsys, "replay", training, "--bisect")[1]["failure"] is None
    assert command(capsys, "replay", training, "--reduce", training.with_name("none"))[0] == 0
    assert not training.with_name("none").exists()


def test_saved_inputs_give_what_the_program_got(tmp_path):
    x, w = smolder.randn(5, 7), smolder.randn(7, 3)
    with smolder.record_trace(tmp_path / "a.trace", inputs=True):
        held = smolder.softmax(x @ w, -1)
        smolder.mark_step()
    trace = _trace_file.read(tmp_path / "a.trace")
    replay, saved = _rerun.prepare(trace, 0)
    assert saved == 2
    for results in (replay.compile().run(replay.inputs, replay.numbers)[0], replay.eager()):
        assert results[0].tolist() == held.tolist()


def test_random_inputs_suit_what_reads_them(tmp_path):
    table, target = smolder.randn(11, 4), smolder.tensor([0, 3, 2])
    index = smolder.tensor([[0, 10, 5]])
    scores, picks = smolder.rand(3, 4), smolder.tensor([[1], [0], [3]])
    smolder.mark_step()
    with smolder.record_trace(tmp_path / "a.trace"):
        held = [
            nn.functional.embedding(index.reshape(3), table),
            nn.functional.cross_entropy(scores, target),
            scores.gather(1, picks),
            smolder.log(scores + 0),
            table.index_select(0, index[0]),
            scores.log(),
        ]
        smolder.mark_step()
        del held
    trace = _trace_file.read(tmp_path / "a.trace")
    for seed in range(10):
        replay, _ = _rerun.prepare(trace, 0, seed=seed)
        assert replay.bad_indices() == []
        assert not any(np.isnan(t.numpy()).any() for t in replay.eager() if t.dtype.is_floating_point)
        most = max(t.max().item() for t in replay.inputs if t.dtype == smolder.int64)
        assert most > 0


@pytest.mark.parametrize("stage", ["graph", "decompose", "simplify", "fuse", "lower", "loops", "schedule"])
def test_stages_can_be_looked_at(training, capsys, stage):
    status, text = command(capsys, "replay", training, "--stop-after", stage)
    assert status == 0
    wanted = {"graph": "adamw_step(", "fuse": "group 0: ", "schedule": "launch 0"}
    assert wanted.get(stage, "vector" if stage in ("lower", "loops") else "= dot(") in text


def test_parts_of_the_compiler_can_be_left_out(training, capsys):
    whole = as_json(capsys, "replay", training, "--iters", 1)[1]
    apart = as_json(capsys, "replay", training, "--iters", 1, "--disable", "fuse")[1]
    assert len(apart["kernels"]) > len(whole["kernels"])
    for name in [n for n in _core._compiler_switches() if not n.startswith("rule.")]:
        assert command(capsys, "replay", training, "--check", "--disable", name)[0] == 0, name
    assert command(capsys, "replay", training, "--check", "--disable", "rule.neg_neg,merge")[0] == 0
    status, text = command(capsys, "replay", training, "--disable", "thought")
    assert status == 2
    assert "no part is named 'thought'" in text


def test_a_rule_can_be_left_out(tmp_path, capsys):
    x = smolder.randn(4)
    smolder.mark_step()
    with smolder.record_trace(tmp_path / "a.trace"):
        held = smolder.neg(smolder.neg(x))  # noqa: F841
        smolder.mark_step()
    arguments = ["replay", tmp_path / "a.trace", "--stop-after", "simplify"]
    assert command(capsys, *arguments)[1].endswith("return %0\n")
    assert command(capsys, *arguments, "--disable", "rule.neg_neg")[1].endswith("return %2\n")
    assert command(capsys, *arguments, "--disable", "rules")[1].endswith("return %2\n")


def test_the_tuned_tier_of_the_cpu_is_the_plan(training, capsys):
    status, text = command(capsys, "replay", training, "--tier", "tuned", "--iters", 2)
    assert status == 0
    assert "the CPU has nothing to try" in text and "\ntuned: " in text


def test_what_cannot_be_done_is_said(training, capsys):
    assert command(capsys, "replay", training, "--step", 9)[0] == 2
    assert command(capsys, "replay", training.with_name("none"))[0] == 2
    if not smolder.cuda.is_available():
        assert command(capsys, "replay", training, "--device", "cuda")[0] == 3


@pytest.mark.parametrize("wrong", ["simplify", "lower"], indirect=True)
def test_a_wrong_compiler_is_found(tmp_path, capsys, wrong):
    path = long_program(tmp_path / "a.trace", 60)
    status, found = as_json(capsys, "replay", path, "--check")
    assert status == 1
    assert not found["same"]
    status, found = as_json(capsys, "replay", path, "--bisect")
    assert status == 1
    assert found["failure"] == "differs"
    if wrong == "simplify":
        assert found["cures"] == ["simplify"]
        assert found["kernels"] == []
    else:
        assert found["cures"] == []
        assert "sub" in [op["name"] for op in found["kernels"][0]["ops"]]
    assert found["not_compared"] == []
    assert command(capsys, "replay", path, "--bisect")[0] == 1


@pytest.mark.parametrize("wrong", ["simplify", "lower"], indirect=True)
@pytest.mark.parametrize("seed", [0, 1])
def test_a_long_failing_trace_is_made_small(tmp_path, capsys, wrong, seed):
    path = long_program(tmp_path / "a.trace", 500, seed, inputs=bool(seed))
    assert len(_trace_file.read(path).steps[0].ops()) >= 500
    small = tmp_path / "small.trace"
    status, found = as_json(capsys, "replay", path, "--reduce", small)
    assert status == 1
    assert found["reduced_ops"] <= 10
    assert any("sub(" in line for line in found["graph"])
    trace = _trace_file.read(small)
    assert all(leaf.data for leaf in trace.steps[0].leaves)
    assert sum(leaf.bytes for leaf in trace.steps[0].leaves) <= 64
    assert trace.code(trace.steps[0].ops()[0].source)
    status, text = command(capsys, "replay", small, "--check")
    assert status == 1
    assert "jit and eager: 1 of 1 output differ" in text


def test_indices_stay_in_range_as_sizes_shrink(tmp_path, capsys):
    scores, target = smolder.randn(12, 9), smolder.full((12,), 8, dtype=smolder.int64)
    smolder.mark_step()
    with smolder.record_trace(tmp_path / "a.trace", inputs=True):
        held = nn.functional.cross_entropy(scores * 2, target)  # noqa: F841
        smolder.mark_step()
    _core._plant_miscompile("sub", "simplify")
    try:
        assert command(capsys, "replay", tmp_path / "a.trace", "--reduce", tmp_path / "b.trace")[0] == 1
    finally:
        _core._plant_miscompile("", "")
    trace = _trace_file.read(tmp_path / "b.trace")
    assert max(n for leaf in trace.steps[0].leaves for n in leaf.shape) <= 2
    assert _rerun.prepare(trace, 0)[0].bad_indices() == []


def test_a_plan_that_raises_is_made_small(tmp_path, capsys, monkeypatch):
    path = long_program(tmp_path / "a.trace", 40)
    compile_right = _rerun.Replay.compile

    def compile_wrong(self, disable=()):
        if {"sin", "tanh"} <= {n.op for n in self.step.nodes}:
            raise NotImplementedError("no sin beside tanh")
        return compile_right(self, disable)

    monkeypatch.setattr(_rerun.Replay, "compile", compile_wrong)
    status, found = as_json(capsys, "replay", path, "--reduce", tmp_path / "b.trace")
    assert status == 1
    assert found["failure"] == "raises NotImplementedError"
    assert found["reduced_ops"] == 2
    status, text = command(capsys, "replay", path, "--bisect")
    assert status == 1
    assert "the plan raises NotImplementedError: no sin beside tanh" in text


@pytest.mark.skipif(not shutil.which("objdump"), reason="there is no objdump")
def test_code_can_be_looked_at(training, capsys):
    status, text = command(capsys, "replay", training, "--stop-after", "code")
    assert status == 0
    assert "# relu" in text
    assert "smolder_kernel" in text


def test_a_step_of_every_kind_of_leaf(tmp_path, capsys):
    dtypes = ["float64", "float32", "bfloat16", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"]
    leaves = [smolder.ones(3, 4).to(getattr(smolder, d)) for d in dtypes]
    empty, scalar = smolder.ones(0, 4), smolder.tensor(2.5)
    smolder.mark_step()
    with smolder.record_trace(tmp_path / "a.trace", inputs=True):
        held = [x + x if x.dtype != smolder.bool else ~x for x in leaves] + [empty * 2, scalar.exp()]  # noqa: F841
        smolder.mark_step()
    assert command(capsys, "replay", tmp_path / "a.trace", "--check")[0] == 0
    again = _trace_file.read(tmp_path / "a.trace")
    assert [str(d.dtype) for d in _rerun.prepare(again, 0)[0].inputs[: len(dtypes)]] == [f"smolder.{d}" for d in dtypes]
