"""Seeded faults: each changes one thing between two steps, and the reason names it, with the user's lines."""

import json
import os
import subprocess
import sys
import warnings
from dataclasses import dataclass

import pytest
from conftest import of_the_cpu

import smolder
from smolder import cli, nn
from smolder.nn import functional as F


@dataclass
class Fault:
    """`step(k, x, w)` ran with `before`, then runs with `now`; the line marked #< is what the reason must name."""

    name: str
    body: str
    before: object
    now: object
    cause: str
    reason: str
    makes: str = ""  # lines that run once, before all steps


FAULTS = [
    # -- shapes: what sizes do not generalise
    Fault("rank", "y = k * 2  #<", "x", "x[None]", "shape", "`mul`.*float32[1, 8, 4]; took float32[8, 4]"),
    Fault("extent one", "y = k.relu()  #<", "smolder.randn(5, 4)", "smolder.randn(1, 4)", "shape", "float32[1, 4]"),
    Fault("empty", "y = k.relu()  #<", "smolder.randn(5, 4)", "smolder.randn(0, 4)", "shape", "float32[0, 4]"),
    Fault("broadcast", "y = x + k  #<", "smolder.ones(8, 4)", "smolder.ones(8, 1)", "shape", "`other`.*float32[8, 1]; took"),
    Fault(
        "long column", "y = k.sum(0)  #<", "smolder.randn(100, 4)", "smolder.randn(1000, 4)", "shape",
        "s0 <= 128: s0 is 1000, was 100 (extent 0 of the float32[1000, 4] that `sum` takes)",
    ),
    Fault("view", "y = x.view(k)  #<\ny = y * 2", "(4, 8)", "(2, 2, 8)", "shape", "`reshape`: `shape` is [2, 2, 8], was [4, 8]"),
    # -- dtypes
    Fault("float64", "y = x * k  #<", "smolder.ones(4)", "smolder.ones(4, dtype=smolder.float64)", "dtype",
          "`mul` takes as `other` a tensor float64[4]; took float32[4]"),
    Fault("integers", "y = k + 1  #<", "smolder.arange(4)", "smolder.arange(4).int()", "dtype", "int32[4]; took int64[4]"),
    Fault("cast", "y = x.to(k)  #<\ny = y * 2", "smolder.float64", "smolder.float16", "dtype", "is float16, was float64"),
    Fault("made in", "y = smolder.zeros(4, dtype=k)  #<\ny = y + 1", "smolder.float32", "smolder.float64", "dtype", "float64"),
    Fault("number category", "y = x * k  #<", "2", "2.5", "dtype", "`mul` takes as `other` a float; took an int"),
    Fault("bool for int", "y = x + k  #<", "2", "True", "dtype", "a bool; took an int"),
    # -- Python constants that are arguments
    Fault("dim", "y = x.sum(k)  #<", "0", "1", "attribute", "`sum`: `dim` is [1], was [0]"),
    Fault("keepdim", "y = x.amax(1, keepdim=k)  #<", "False", "True", "attribute", "`keepdim` is true, was false"),
    Fault("unfold", "y = x.unfold(0, k, 1) * 2  #<", "1", "2", "topology", "`slice` is recorded, was `reshape`"),
    Fault("descending", "y = x.sort(1, descending=k)[0]  #<", "False", "True", "attribute", "descending"),
    Fault("reduction", "y = F.mse_loss(x, x * 2, reduction=k)  #<", "'mean'", "'sum'", "attribute", "was mean"),
    Fault("approximate", "y = F.gelu(x, approximate=k)  #<", "'none'", "'tanh'", "attribute", "is tanh, was none"),
    Fault("permutation", "y = (x.permute(*k) * 2)  #<", "(0, 1)", "(1, 0)", "attribute", "is [1, 0], was [0, 1]"),
    Fault("stride", "y = F.conv1d(x[None], w[:, :, None], stride=k)  #<", "1", "2", "attribute", "stride",
          "x = x.T.contiguous()"),
    # -- ops and what they take from each other
    Fault("an op more", "y = x * 2\nif k: y = y.relu()  #<\ny = y + 1", "False", "True", "topology",
          "`relu` is recorded here, and was not"),
    Fault("an op less", "y = x * 2\nif k: y = y.relu()\ny = y + 1  #<", "True", "False", "topology",
          "`relu` is no longer recorded; `add` follows"),
    Fault("an op more at the end", "y = x * 2\nif k: y = y.exp()  #<", "False", "True", "topology", "`exp` is recorded here"),
    Fault("an op less at the end", "y = x * 2  #<\nif k: y = y.exp()", "True", "False", "topology", "the step ends before"),
    Fault("another op", "y = k(x * 2)  #<\ny = y + 1", "smolder.relu", "smolder.sigmoid", "topology",
          "`sigmoid` is recorded, was `relu`"),
    Fault("more turns", "y = x\nfor i in range(k): y = y.tanh()  #<\ny = y + 1", "3", "5", "topology",
          "`tanh` are recorded here"),
    Fault("a view more", "y = x @ (w.T if k else w)  #<", "False", "True", "topology", "recorded"),
    Fault("a slice", "y = x[1:] if k else x  #<\ny = y * 2", "False", "True", "topology", "recorded here, and was not"),
    Fault("another value", "y = x * 2\nz = x * 3\nv = (y if k else z) + 1  #<", "True", "False", "topology",
          "`add` takes as `self` the result of `mul`"),
    Fault("the same tensor twice", "y = x + k  #<", "smolder.ones(8, 4)", "x", "topology", "a tensor that the step used before"),
    Fault("number for tensor", "y = x * k  #<", "smolder.ones(())", "2.0", "topology", "a float; took a tensor, float32[]"),
    Fault("no bias", "y = F.linear(x, w, k)  #<", "smolder.ones(4)", "None", "topology", "nothing; took a tensor, float32[4]"),
    Fault("list length", "y = smolder.cat([x] * k)  #<", "2", "3", "topology", "`cat` takes 3 operands, took 2"),
    Fault("in place", "y = x * 2\nif k: y.add_(1)  #<\ny = y.exp()", "False", "True", "topology", "`add` is recorded here"),
    # -- which results are held
    Fault("held", "y = x * 2  #<\nz = y.exp()\nif not k: del y", "False", "True", "liveness",
          "the result of `mul`, float32[8, 4], is held when the step ends, and was not"),
    Fault("kept in a list", "y = x * 2\nfor i in range(3):\n    y = y.exp()  #<\n    if k: kept.append(y)", "False", "True",
          "liveness", "the result of `exp`.* is held when the step ends.*and so of", "kept = []"),
    Fault("accumulated", "y = (v * 2).sum()\ny.backward()  #<\nif not k: v.grad = None", "False", "True", "liveness",
          "is held", "v = smolder.randn(8, requires_grad=True)"),
    # -- modes
    Fault("autocast on", "with smolder.autocast('cpu', enabled=k):\n    y = x @ w  #<", "False", "True", "mode",
          "autocast is on (bfloat16), was off"),
    Fault("autocast off", "with smolder.autocast('cpu', enabled=k):\n    y = x @ w  #<", "True", "False", "mode",
          "autocast is off, was on (bfloat16)"),
    Fault("autocast dtype", "with smolder.autocast('cpu', dtype=k):\n    y = x @ w  #<", "smolder.bfloat16", "smolder.float16",
          "mode", "autocast is to float16, was to bfloat16"),
    Fault("gradients", "with smolder.set_grad_enabled(k):\n    y = (v * 2).sum()  #<\nif k: y.backward()", "True", "False",
          "topology", "no longer recorded", "v = smolder.randn(8, requires_grad=True)"),
    Fault("train and eval", "m.train(k)\ny = m(x)  #<", "True", "False", "topology", "no longer recorded",
          "m = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.ReLU())"),
    # -- closures and globals
    Fault("closure dim", "y = reduce(k)(x)", "0", "1", "attribute", "`dim` is [1], was [0]",
          "def reduce(d):\n    def inner(t):\n        return t.sum(d)  #<\n    return inner"),
    Fault("closure branch", "y = act(k)(x)\ny = y + 1", "True", "False", "topology", "`tanh` is recorded, was `relu`",
          "def act(f):\n    def inner(t):\n        return t.relu() if f else t.tanh()  #<\n    return inner"),
    Fault("global", "G['dim'] = k\ny = use(x)", "0", "1", "attribute", "`dim` is [1]",
          "G = {}\ndef use(t):\n    return t.mean(G['dim'])  #<"),
    # -- far apart
    Fault("many ops less", "y = x\nif k:\n    for i in range(300): y = y.tanh()\ny = y.exp()  #<\ny = y + 1", "True", "False",
          "topology", "`tanh`, `tanh` and 298 more ops are no longer recorded; `exp` follows"),
    Fault("many places", "y = x.relu()\nif k: y = y.tanh()  #<\ny = y * 2\nif k: y = y.tanh()\ny = y.exp()\nif k: y = y.tanh()",
          "False", "True", "topology", "`tanh` is recorded here, and was not"),
    # -- training
    Fault("clipping", "y = m(x).sum()\ny.backward()\nif k: nn.utils.clip_grad_norm_(m.parameters(), 1.0)  #<\nopt.step()\n"
          "opt.zero_grad()", "False", "True", "topology", "recorded here",
          "m = nn.Linear(4, 4)\nopt = optim.SGD(m.parameters(), lr=0.1)"),
    Fault("frozen", "m.weight.requires_grad_(k)\ny = m(x).sum()\ny.backward()  #<\nm.zero_grad()", "True", "False", "topology", "",
          "m = nn.Linear(4, 4)"),
    Fault("loss kept", "y = m(x).sum()  #<\ny.backward()\nm.zero_grad()\nif not k: del y", "False", "True", "liveness",
          "the result of `sum`, float32[], is held", "m = nn.Linear(4, 4)"),
    Fault("momentum", "opt.param_groups[0]['momentum'] = k\ny = m(x).sum()\ny.backward()\nopt.step()  #<\nopt.zero_grad()", "0",
          "0.9", "liveness", "the result of `sgd_step`", "m = nn.Linear(4, 4)\nopt = optim.SGD(m.parameters(), lr=0.1)"),
]  # fmt: skip


def planted(fault, path):
    """The fault as a module of its own file: what runs a step, and the line to be named."""
    setup = [*fault.makes.split("\n")] if fault.makes else []
    lines = [*setup, "def step(k):", *("    " + line for line in fault.body.split("\n"))]
    lines += ["    smolder.mark_step()", "    return locals()"]
    path.write_text("\n".join(lines) + "\n")
    (line,) = (i for i, text in enumerate(lines, 1) if "#<" in text)
    names = {"smolder": smolder, "nn": nn, "optim": smolder.optim, "F": F}
    names |= {"x": smolder.randn(8, 4), "w": smolder.randn(4, 4)}
    exec(compile(path.read_text(), str(path), "exec"), names)
    return names, line


def matches(pattern, text):
    """Whether the parts of `pattern` between .* come in `text` in order."""
    at = 0
    for part in pattern.split(".*"):
        at = text.find(part, at)
        if at < 0:
            return False
    return True


def reasons(capsys, *arguments):
    """The words of `smolder cache why`: cause, reason and lines, a step each."""
    capsys.readouterr()
    assert cli.main(["cache", "why", "--json", *arguments]) == 0
    out = json.loads(capsys.readouterr().out)
    steps = out["steps"] if isinstance(out, dict) else out
    return [[step[key] for key in ("cause", "reason", "where", "before")] for step in steps]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name.replace(" ", "_"))
@of_the_cpu("chunks of columns, and what autocast casts to, differ")
def test_the_reason_names_the_cause_and_the_line(fault, tmp_path, capsys):
    smolder._core.forget_traces()
    names, line = planted(fault, tmp_path / "fault.py")
    before, now = eval(fault.before, names), eval(fault.now, names)
    smolder.mark_step()
    for _ in range(3):
        names["step"](before)
    smolder.recompiles(clear=True)
    smolder._core._build_kernels_anew(True)  # so that kernels are told of as well
    try:
        explained = smolder.explain(names["step"])(now)
    finally:
        smolder._core._build_kernels_anew(False)
    found = smolder.recompiles()
    assert found, "nothing was compiled"
    why = found[0]
    assert (why.cause, why.compiled) == (fault.cause, True), str(why)
    assert matches(fault.reason, why.reason), str(why)
    assert why.where.startswith(f"{tmp_path}/fault.py:{line} in "), str(why)
    assert why.before.startswith(f"{tmp_path}/fault.py:"), str(why)
    told = [why.cause, why.reason, why.where, why.before]
    # The report of smolder.explain says the same of its graph, as data and as text.
    (first, *_) = explained.recompiles
    assert [first[key] for key in ("cause", "reason", "where", "before")] == told and first["compiled"]
    assert f"{why.cause}: {why.reason}" in str(explained) and why.where in str(explained)
    # So does `smolder cache why`, of all steps and of each kernel that was built for this one. It reads the database that
    # all tests share, so it is asked about the first fault of each cause.
    if fault in {f.cause: f for f in reversed(FAULTS)}.values():
        smolder._core._leave_kernels_on_disk()
        assert told in reasons(capsys, "--limit", "500")
        for kernel in why.kernels[:2]:
            assert told in reasons(capsys, kernel.key)


@pytest.mark.parametrize(
    ("body", "values"),
    [
        ("y = x * k", [2.0, 3.0, -1.5]),
        ("y = x.var(0, correction=k)", [0, 1, 2]),
        ("y = (k * 2).exp()", [smolder.ones(n, 4) for n in (2, 7, 300)]),
        ("y = x.clamp(k, 1)", [0.0, 0.5]),
    ],
    ids=["number", "correction", "batch", "bound"],
)
@of_the_cpu("what is counted is what this process compiled")
def test_run_time_numbers_and_sizes_compile_nothing(body, values, tmp_path):
    names, _ = planted(Fault("", body + "  #<", None, None, "", ""), tmp_path / "steps.py")
    smolder.mark_step()
    names["step"](values[0])
    smolder.recompiles(clear=True)
    with smolder.on_recompile("raise"):
        for value in values:
            names["step"](value)
    assert smolder.recompiles() == []


def steps(of, *ks):
    for k in ks:
        of(k)
        smolder.mark_step()


@of_the_cpu("an op of its own is a step there")
def test_raise_names_the_lines_once_the_step_has_run():
    x = smolder.randn(6, 4)
    smolder.mark_step()
    held = []
    steps(lambda k: held.append(x.sum(k)), 0, 0)
    with smolder.on_recompile("raise"):
        with pytest.raises(RuntimeError, match=r"attribute: `sum`: `dim` is \[1\], was \[0\]") as caught:
            steps(lambda k: held.append(x.sum(k)), 1)
        assert f"{__file__}:" in str(caught.value) and "the step completed" in str(caught.value)
        steps(lambda k: held.append(x.sum(k)), 0, 1)  # both are known now
    assert held[2].tolist() == held[4].tolist() == x.sum(1).tolist()


@of_the_cpu("an op of its own is a step there")
def test_warn_names_the_line_of_the_user():
    x = smolder.randn(6, 4)
    steps(lambda k: x.prod(k), 0, 0)
    with smolder.on_recompile("warn"), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        steps(lambda k: x.prod(k), 1)
    (warning,) = caught
    assert "attribute: `prod`: `dim`" in str(warning.message)
    assert os.path.samefile(warning.filename, __file__)


def test_actions_nest_and_refuse_what_they_do_not_know():
    now = smolder._core._on_recompile
    with smolder.on_recompile("raise"):
        assert now() == 2
        with smolder.on_recompile("ignore"):
            assert now() == 0
        assert now() == 2
    assert now() == 0
    smolder.on_recompile("warn")
    assert now() == 1
    smolder.on_recompile("ignore")
    with pytest.raises(ValueError, match='expects one of "ignore", "warn" and "raise"'):
        smolder.on_recompile("explode")


LOGGED = """
import smolder
x = smolder.randn(6, 4)
smolder.mark_step()
for n in (3, 5):
    y = x[n:] * 2
    smolder.mark_step()
for dim in (0, 1):
    y = x.sum(dim)
    smolder.mark_step()
"""


@pytest.mark.parametrize(("logs", "lines"), [("", 0), ("recompiles", 1), ("recompiles_verbose", 5)])
def test_the_environment_turns_logs_on(logs, lines, tmp_path):
    script = tmp_path / "logged.py"
    script.write_text(LOGGED)
    run = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=os.environ | {"SMOLDER_LOGS": logs}
    )
    assert run.returncode == 0, run.stderr
    told = [line for line in run.stderr.split("\n") if "[smolder:recompiles]" in line]
    assert len(told) == lines, run.stderr
    if logs:
        assert "attribute: `sum`: `dim` is [1], was [0]" in run.stderr
        assert f"now at     {script}:9 in <module>" in run.stderr


def test_logs_follow_the_last_call_and_what_they_do_not_know_is_said(capfd):
    smolder.set_logs(recompiles=True)
    assert smolder._core._recompile_log() == 1
    smolder.set_logs(recompiles_verbose=True)
    assert smolder._core._recompile_log() == 2
    smolder.set_logs()
    assert smolder._core._recompile_log() == 0
    code = "import smolder; (smolder.ones(3) * 2).tolist()"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"SMOLDER_LOGS": "x"}
    )
    assert "SMOLDER_LOGS knows recompiles, recompiles_verbose, guards and graph_breaks, found 'x'" in run.stderr


def test_events_and_counters_tell_of_them():
    x = smolder.randn(6, 4)
    smolder.mark_step()
    held = []
    steps(lambda k: held.append(x.cumsum(k)), 0)
    smolder.reset_metrics()
    steps(lambda k: held.append(x.cumsum(k)), 1)
    (event,) = (e for e in smolder.metrics()["events"] if e["kind"] == "recompile")
    assert event["reason"].startswith("attribute: `cumsum`: `dim` is 1, was 0")
    assert smolder.metrics()["counters"]["plans.recompiled"] == 1


@of_the_cpu("the kernel is one of NumPy")
def test_what_runs_an_op_is_a_mode():
    x = smolder.randn(6, 4)
    smolder.mark_step()
    held = []
    steps(lambda k: held.append(x.tanh()), 0)
    smolder.recompiles(clear=True)
    override = smolder.library.Library("aten", "IMPL")
    override.impl("sqrt", lambda x: x.numpy() * 0 + 9, "CPU")
    steps(lambda k: held.append(x.tanh()), 1)
    override._destroy()
    (why,) = smolder.recompiles()
    assert (why.cause, why.reason) == ("mode", "what runs an op was registered or removed")


@of_the_cpu("an op of its own is a step there")
def test_of_steps_alike_the_one_that_differs_least_is_told(tmp_path):
    body = "y = F.cross_entropy(x, t, label_smoothing=k[0])\nif k[1]: y = y.exp()  #<"
    names, line = planted(Fault("", body, None, None, "", "", "t = smolder.arange(8) % 4"), tmp_path / "alike.py")
    smolder.mark_step()
    for k in [(0.0, False), (0.0, False), (0.1, False), (0.2, False), (0.0, False)]:
        names["step"](k)
    smolder.recompiles(clear=True)
    names["step"]((0.1, True))
    (why,) = smolder.recompiles()
    assert why.reason.startswith("`exp` is recorded here"), str(why)
    assert why.where.endswith(f"alike.py:{line} in step")
