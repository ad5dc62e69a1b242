"""smolder.explain: what it says of programs whose graphs, breaks, kernels and reasons are known."""

import html
import json
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from conftest import DEVICE, of_the_cpu

import smolder
from smolder import cli, nn, optim
from smolder.nn import functional as F


def line_of(text):
    """The number of this file's only line that ends in `text`."""
    with open(__file__) as file:
        (number,) = (i for i, line in enumerate(file, 1) if line.rstrip().endswith(text) and "line_of" not in line)
    return number


@pytest.fixture(autouse=True)
def no_known_steps():
    """A step that another test recorded first would be told by that test's lines."""
    smolder._core.forget_traces()


def inputs(*shapes):
    out = [smolder.randn(*shape) for shape in shapes]
    smolder.mark_step()
    return out


# -- what is counted


@of_the_cpu("kernels are others")
def test_one_graph():
    x, w = inputs((64, 32), (32, 16))
    e = smolder.explain(lambda a, b: smolder.relu(a * 2) @ b)(x, w)
    assert (e.graph_count, e.graph_break_count, e.op_count) == (1, 0, 3)
    assert e.ops_per_graph == [["mul", "relu", "matmul"]]
    assert e.graphs[0].ops[2].results == ["float32[64, 16]"]
    fused, product = e.kernels
    assert [op.name for op in fused.ops] == ["mul", "relu"] and (fused.kind, product.kind) == ("kernel", "library")
    assert e.bytes == fused.bytes + product.bytes == 4 * (2 * 64 * 32 + 64 * 32 + 32 * 16 + 64 * 16)
    assert product.flops == 2 * 64 * 32 * 16
    np.testing.assert_allclose(e.result.tolist(), (smolder.relu(x * 2) @ w).tolist())


def test_numbers_agree_with_each_other():
    x, w = inputs((64, 32), (32, 16))
    e = smolder.explain(lambda: F.softmax(smolder.relu(x * 2) @ w, 1).sum(0))()
    for g in e.graphs:
        assert g.bytes == sum(k.bytes for k in g.kernels)
        assert g.ms == pytest.approx(sum(k.ms for k in g.kernels))
        assert g.floor_ms == pytest.approx(sum(k.floor_ms for k in g.kernels))
        for k in g.kernels:
            assert k.bytes == sum(n for _, n in [*k.reads, *k.writes])
            assert k.ms >= 0 and (not k.ms or k.share == pytest.approx(k.floor_ms / k.ms))
            assert all(0 <= b < len(g.buffers) for b, _ in [*k.reads, *k.writes])
            assert all(0 <= j < len(k.ops) for op in k.ops for j in op.inputs)
    assert e.kernel_ms == pytest.approx(sum(g.ms for g in e.graphs)) and e.wall_ms > 0


BREAKS = {
    "item": (lambda y: y.sum().item() * 2, "item", "Python number", "keep it a tensor"),
    "print": (lambda y: print(y), "print", "printed", "after the loop"),
    "condition": (lambda y: 1 if y.sum() > 0 else 2, "item", "condition", "smolder.where"),
    "mask": (lambda y: y[y > 0], "nonzero", "shape depends on values", "masked_fill"),
    "list": (lambda y: y.tolist(), "numpy", "list", "once after the loop"),
    "unique": (lambda y: y.unique(), "unique", "unique()", "before the loop"),
    "repeats": (lambda y: y.repeat_interleave(smolder.tensor([1] * 8), dim=0), "repeat_interleave", "repeats", "Python number"),
}  # fmt: skip


@pytest.mark.parametrize("name", BREAKS)
@of_the_cpu("reading waits in other ways")
def test_a_break_is_told_with_its_line_and_what_removes_it(name, capsys):
    function, reason, what, advice = BREAKS[name]
    (x,) = inputs((8, 4))

    def step(x):
        y = x * 2
        z = function(y.exp())
        return z, y + 1

    e = smolder.explain(step)(x)
    assert e.graph_break_count == 1
    (b,) = e.break_reasons
    assert b.reason == reason and b.graph == 0
    assert what in b.what and advice in b.advice
    assert b.where.startswith(f"{__file__}:") and b.line and b.line in Path(__file__).read_text()
    assert b.advice in str(e)


@of_the_cpu("reading waits in other ways")
def test_two_graphs():
    (x,) = inputs((8, 4))

    def step(x):
        scale = (x * x).sum().item()  # first
        return x * scale + 1

    e = smolder.explain(step)(x)
    assert e.graph_count == 2 and e.ops_per_graph == [["mul", "sum"], ["mul", "add"]]
    assert e.graphs[0].ended_by == "item" and e.graphs[0].where == f"{__file__}:{line_of('# first')} in step"
    assert [op.where for op in e.graphs[1].ops] == [f"{__file__}:{line_of('# first') + 1} in step"] * 2


@of_the_cpu("an op of its own is a step there")
def test_ends_of_steps_are_no_breaks():
    (x,) = inputs((8, 4))

    def steps():
        for _ in range(3):
            x.mul_(1.5)
            smolder.mark_step()

    e = smolder.explain(steps)()
    assert (e.graph_count, e.graph_break_count) == (3, 0)
    assert [g.ended_by for g in e.graphs] == ["mark_step"] * 3
    assert e.ops_per_graph == [["mul"]] * 3


@of_the_cpu("it is of a process")
def test_a_fallback():
    library = smolder.library.Library("falls", "DEF")
    library.define("back(Tensor x) -> Tensor")
    library.impl("back", lambda x: x + 1, "CPU")
    (x,) = inputs((5, 5))
    e = smolder.explain(lambda: smolder.ops.falls.back(x) * 2)()
    library._destroy()
    (told,) = e.fallbacks
    assert "falls::back" in told["what"] and told["where"].startswith(f"{__file__}:") and told["count"] == 1
    assert "fallbacks" in str(e) and told["what"] in e.html()


@of_the_cpu("kernels are others")
def test_a_neighbour_that_is_not_fused():
    (x,) = inputs((256, 64))
    e = smolder.explain(lambda: smolder.exp(x.sum(0)) + 1)()
    (n,) = [n for n in e.graphs[0].not_fused if n.op == "sum"][:1]
    assert n.reader_op in ("sum", "exp") and n.kernel < n.reader and n.why and n.meaning
    assert n.why in str(e)


@of_the_cpu("products are other calls")
def test_every_reason_of_the_compiler_has_a_meaning():
    """The texts of the compiler's source are those that are explained."""
    folder = Path(__file__).resolve().parents[2] / "src/jit/fuse"
    text = "".join((folder / name).read_text() for name in ("fuse.cpp", "fuse_store.cpp", "fuse_clusters.h"))
    forms = (r'return (?:both\()?"([^"]+)"', r'\? "([^"]+)" : nullptr', r'const char\* k\w+ =\s+"([^"]+)"')
    said = {why for form in forms for why in re.findall(form, text)}
    assert len(said) > 15 and said == set(smolder._advice._NOT_FUSED)


# -- why it was compiled, and what of it was known


def unknown():
    """A size and number of ops that nothing else has."""
    smolder._core.forget_traces()
    return inputs((7, 11))[0]


@of_the_cpu("an op of its own is a step there")
def test_compiling_is_told_with_its_reason():
    x = unknown()

    def step(dim):
        return (x * 3).sum(dim)

    e = smolder.explain(step)(0)
    assert e.recompiles[0]["compiled"] and e.compile_ms > 0
    assert smolder.explain(step)(0).recompiles == []
    e = smolder.explain(step)(1)
    (why,) = e.recompiles
    assert why["cause"] == "attribute" and why["reason"] == "`sum`: `dim` is [1], was [0]"
    assert "was compiled again" in str(e) and why["reason"] in str(e)
    e = smolder.explain(step)(1)
    assert e.compile_ms == 0 and e.compile_times == "" and "cached" in str(e)


@of_the_cpu("kernels are others")
def test_kernels_that_were_built_are_told_apart_from_cached_ones():
    x = unknown()
    smolder._core._build_kernels_anew(True)
    try:
        e = smolder.explain(lambda: x * 2.5 + x.exp().sin())()
    finally:
        smolder._core._build_kernels_anew(False)
    built = [k for k in e.kernels if k.compile_ms is not None]
    assert built and all(k.compile_ms > 0 for k in built)
    assert e.compile_ms >= max(k.compile_ms for k in built) and built[0].name in e.compile_times
    smolder._core.forget_traces()
    e = smolder.explain(lambda: x * 2.5 + x.exp().sin())()
    assert all(k.compile_ms is None for k in e.kernels)


# -- the call is the program's


def training(seed=0):
    smolder.manual_seed(seed)
    model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    x, y = smolder.randn(32, 8), smolder.arange(32) % 3

    def step():
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def test_a_training_step_changes_what_it_would_have_changed():
    def losses(explained):
        model, step = training()
        out = [step().item() for _ in range(3)]
        for _ in range(2):
            e = smolder.explain(step)() if explained else None
            out.append((e.result if e else step()).item())
        out.append(step().item())
        return e, out, [p.tolist() for p in model.parameters()]

    e, *got = losses(True)
    assert got == list(losses(False)[1:])
    names = {op.name for g in e.graphs for op in g.ops}
    assert {"linear", "layer_norm", "adamw_step", "layer_norm_backward"} <= names
    assert e.graph_break_count == 0


def test_random_numbers_go_on_as_without_it():
    smolder.manual_seed(3)
    expected = [smolder.rand(4).tolist() for _ in range(2)]
    smolder.manual_seed(3)
    got = [smolder.explain(lambda: smolder.rand(4))().result.tolist(), smolder.rand(4).tolist()]
    assert got == expected


def test_a_module_and_an_error():
    model, (x,) = nn.Linear(4, 2), inputs((3, 4))
    e = smolder.explain(model)(x)
    assert e.function == "Linear" and e.graph_count >= 1
    with pytest.raises(ZeroDivisionError):
        smolder.explain(lambda: x * (1 / 0))()
    assert smolder.explain(lambda: x * 2)().graph_count == 1  # the log was closed
    with pytest.raises(TypeError, match="expected a callable"):
        smolder.explain(3)


@of_the_cpu("an op of its own is a step there")
def test_explanations_nest():
    (x,) = inputs((8, 4))
    inside = []

    def step():
        y = x * 2
        inside.append(smolder.explain(lambda: y.exp())())
        return inside[0].result + 1

    e = smolder.explain(step)()
    assert inside[0].ops_per_graph == [["exp"]]
    assert e.ops_per_graph == [["mul"], ["exp"], ["add"]]
    assert e.graphs[1].kernels[0].ms > 0


@of_the_cpu("an op of eager mode is a plan there")
def test_eager_mode():
    (x,) = inputs((8, 4))
    with smolder.eager():
        e = smolder.explain(lambda: (x * 2).relu())()
    assert e.op_count == 2 and [op for ops in e.ops_per_graph for op in ops] == ["mul", "relu"]
    assert len(e.kernels) == 2 and all(k.bytes == 2 * 8 * 4 * 4 and k.ms > 0 for k in e.kernels)
    assert e.graph_break_count == 0


@of_the_cpu("a step that cannot run fails as a whole on a device")
@pytest.mark.runs_op_by_op
def test_a_step_that_cannot_run_as_a_plan():
    (x,) = inputs((1000,))

    def step():
        y = smolder.ones(100_000) * 2 + x.sum()
        smolder._core._fail_allocation_after(1)
        return y.tolist()[0]

    try:
        with pytest.warns(UserWarning, match="ran op by op: out of memory"):
            e = smolder.explain(step)()
    finally:
        smolder._core._fail_allocation_after(0)
    (g,) = e.graphs
    assert g.how == "one by one" and "out of memory" in g.note and g.kernels == [] and g.ms is None
    assert e.ops_per_graph == [["full", "mul", "sum", "add"]]
    assert "ran op by op" in str(e) and "op by op" in e.html() and e.to_json()


@of_the_cpu("it is of a process")
def test_kernels_of_users_do_not_run_again():
    library = smolder.library.Library("explained", "DEF")
    ran = []
    library.define("twice(Tensor x) -> Tensor")

    def twice(x):
        ran.append(1)
        return smolder.from_numpy(x.numpy() * 2)

    library.impl("twice", twice, "CPU")
    smolder.library.register_fake("explained::twice", lambda x: smolder.empty_like(x), lib=library)
    (x,) = inputs((4,))
    before = x.tolist()
    e = smolder.explain(lambda: smolder.ops.explained.twice(x) + 1)()
    assert e.result.tolist() == [2 * v + 1 for v in before]
    assert len(ran) == 1
    assert not e.timed and "not timed" in str(e) and "<svg" in e.html()
    library._destroy()


def test_a_compiled_function():
    (x,) = inputs((8, 4))

    @smolder.compile
    def step(x):
        return (x * 2).relu()

    step(x), step(x)
    e = smolder.explain(step)(x)
    assert e.ops_per_graph == [["mul", "relu"]] or DEVICE != "cpu"
    assert e.graph_break_count == 0


def test_the_last_step():
    (x,) = inputs((64, 16))
    held = (x * 2).sum(1)
    smolder.mark_step()
    e = smolder.explain_last_step(DEVICE)
    assert e.ops_per_graph == [["mul", "sum"]] and e.kernels[0].ms > 0
    assert e.wall_ms is None and e.graph_break_count == 0 and e.out_guards == []
    assert "the last step" in str(e) and e.graphs[0].ended_by == "mark_step"
    del held
    assert (x * 2).sum().item() != 0
    e = smolder.explain_last_step(DEVICE)
    assert [b.reason for b in e.break_reasons] == ["item"] and "test_explain.py" in e.break_reasons[0].where
    assert "assert (x * 2).sum().item() != 0" in str(e)


def test_nothing_runs():
    e = smolder.explain(lambda: 3)()
    assert (e.graph_count, e.op_count, e.result) == (0, 0, 3)
    assert "0 graphs" in str(e) and "<svg" not in e.html()


# -- guards


SCALE = 3


def test_guards_are_those_of_compile():
    (x,) = inputs((8, 4))

    def step(x, times, names):
        return x * times * SCALE

    guards = smolder.explain(step)(x, 2, names=["a"]).out_guards
    device = "cuda:0" if DEVICE == "cuda" else DEVICE
    assert f"args[0] is a tensor float32[8, 4] on {device}" in guards
    assert "args[1] == 2" in guards and "kwargs['names'][0] == 'a'" in guards
    assert "the global SCALE is the same" in guards and any("code" in g for g in guards)
    told = smolder.explain(lambda numbers: x * 2)(iter([1])).out_guards
    assert told[0].startswith("cannot be guarded: ")


# -- forms

SCHEMA = {
    "": ["break_reasons", "bytes", "collectives", "compile_ms", "compile_times", "fallbacks", "floor_ms", "function", "graph_break_count",
         "graph_count", "graphs", "kernel_ms", "limits", "op_count", "ops_per_graph", "out_guards", "recompiles", "timed",
         "version", "wall_ms", "where"],
    "graph": ["arena_bytes", "buffers", "bytes", "compile_ms", "device", "ended_by", "floor_ms", "host_ms", "how", "kernels",
              "ms", "not_fused", "note", "number", "ops", "recompile", "where"],
    "kernel": ["bytes", "compile_ms", "floor_ms", "flops", "key", "kind", "launch", "ms", "name", "number", "ops", "reads",
               "share", "where", "writes"],
    "break": ["advice", "graph", "line", "reason", "what", "where"],
    "not_fused": ["bytes", "kernel", "meaning", "op", "reader", "reader_op", "reader_where", "where", "why"],
    "op": ["inputs", "name", "primitives", "reads", "results", "where", "writes"],
}  # fmt: skip


@of_the_cpu("reading waits in other ways")
def test_json_keeps_its_names():
    (x,) = inputs((256, 64))

    def step():
        y = smolder.exp(x.sum(0)) + 1
        return y.sum().item()

    e = smolder.explain(step)()
    told = json.loads(e.to_json(2))
    assert told["version"] == 1 and sorted(told) == SCHEMA[""]
    graph = told["graphs"][0]
    for name, part in [
        ("graph", graph),
        ("kernel", graph["kernels"][0]),
        ("break", told["break_reasons"][0]),
        ("not_fused", graph["not_fused"][0]),
        ("op", graph["ops"][0]),
    ]:
        assert sorted(part) == SCHEMA[name]
    assert told == json.loads(json.dumps(e.to_dict()))


class Page(HTMLParser):
    """Checks that tags close in order; collects what it would load."""

    VOID = frozenset({"meta", "br", "hr"})

    def __init__(self, text):
        super().__init__()
        self.open, self.loads, self.tags = [], [], []
        self.feed(text)
        self.close()
        assert self.open == [], self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href", "data", "action", "srcset")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()


def test_the_page_is_whole():
    _, step = training()
    step()
    text = smolder.explain(step)().html()
    page = Page(text)
    assert page.loads == [] and page.tags.count("svg") >= 1
    assert "http" not in text.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"@import|url\((?!#)", text)
    json.loads(re.search(r'id="details">(.*?)</script>', text, re.DOTALL)[1])


def test_hostile_names_are_text():
    nasty = "</script><script>alert('x')</script><b>\"&amp;"
    (x,) = inputs((4,))

    def step(**named):
        return x * 2

    step.__qualname__ = nasty
    e = smolder.explain(step)(**{nasty: nasty})
    text = e.html()
    page = Page(text)
    assert page.tags.count("script") == 2 and "b" not in [t for t in page.tags if t != "b"][:0]
    assert "<script>alert" not in text and "&lt;script&gt;alert" in text


def test_save_goes_by_the_ending(tmp_path):
    (x,) = inputs((4,))
    e = smolder.explain(lambda: x * 2)()
    for name, begins in [("a.html", "<!DOCTYPE html>"), ("a.json", "{"), ("a.txt", e.function)]:
        e.save(tmp_path / name)
        assert (tmp_path / name).read_text().startswith(begins)


@of_the_cpu("an op of its own is a step there")
def test_a_graph_of_hundreds_of_ops_is_drawn():
    (x,) = inputs((16, 16))

    def step():
        y = x
        for i in range(60):
            y = F.softmax(y @ x * (i + 1), 1) + smolder.relu(y)
        return y

    e = smolder.explain(step)()
    assert e.op_count >= 240
    text = e.html()
    assert len(text) < 3_000_000
    Page(text)


CLICKS = """<script>
const said = [];
document.querySelector("tr[data-box]").click();
said.push(document.querySelector(".details h3").textContent);
document.querySelectorAll("th.sorts")[1].click();
said.push(Number(document.querySelector("tr[data-box] td:nth-child(5)").dataset.value) > 0);
const find = document.querySelector(".find");
find.value = "layer_norm";
find.dispatchEvent(new Event("input"));
said.push(document.querySelectorAll(".found").length);
document.title = JSON.stringify(said);
</script></body>"""


@pytest.mark.skipif(not shutil.which("chromium"), reason="chromium is not installed")
def test_the_page_works_in_a_browser(tmp_path):
    _, step = training()
    step()
    e = smolder.explain(step)()
    broken = "<head><script>addEventListener('error', (e) => document.documentElement.append(`FAILED ${e.message}`));</script>"
    text = e.html().replace("<head>", broken, 1).replace("</body>", CLICKS)
    (tmp_path / "page.html").write_text(text)
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile", "--dump-dom"]
    done = subprocess.run(
        ["chromium", *options, f"file://{tmp_path}/page.html"], capture_output=True, text=True, timeout=120
    )
    assert "FAILED" not in done.stdout.replace(broken, "")
    title, slowest, found = json.loads(html.unescape(re.search("<title>(.*?)</title>", done.stdout)[1]))
    k = e.graphs[0].kernels[0]
    assert title.startswith(f"{k.kind} {k.number}") and slowest is True
    assert found >= sum(op.name.startswith("layer_norm") for k in e.graphs[0].kernels for op in k.ops) > 0


# -- at the terminal

SCRIPT = """
import sys
import smolder
x = smolder.randn(64, 8)
smolder.mark_step()
print("arguments", sys.argv[1:])
kept = []
for i in range(6):
    kept.append(x * i)
    y = smolder.stack(kept).mean()
    smolder.mark_step()
for i in range(4):
    z = x.exp().sum()
    smolder.mark_step()
"""


def command(tmp_path, *arguments, script=SCRIPT, status=0):
    (tmp_path / "slow.py").write_text(script)
    done = subprocess.run(
        [sys.executable, "-m", "smolder.cli", "explain", *arguments], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == status, done.stderr
    return done


@of_the_cpu("scripts say where they run")
def test_a_script_is_explained(tmp_path):
    out = command(tmp_path, "slow.py", "--html", "page.html", "--", "-v", "3").stdout
    assert "arguments ['-v', '3']" in out
    assert "11 steps ran, 8 of them compiled first" in out
    assert "compiled 5 times" in out and "`stack` takes 6 operands, took 5" in out
    assert f"now at     {tmp_path}/slow.py:10 in <module>" in out or "slow.py:10 in <module>" in out
    Page((tmp_path / "page.html").read_text())
    told = json.loads(command(tmp_path, "slow.py", "--json", "--step", "-1").stdout)
    assert told["explained"] == 10 and told["steps"] == 11
    assert told["step"]["ops_per_graph"] == [["exp", "sum"]]
    assert {r["cause"] for r in told["recompiles"]} >= {"topology"}


@of_the_cpu("scripts say where they run")
def test_the_status_is_the_scripts(tmp_path):
    done = command(tmp_path, "slow.py", script=SCRIPT + "sys.exit(3)\n", status=3)
    assert "11 steps ran" in done.stdout
    done = command(tmp_path, "slow.py", script=SCRIPT + "raise ValueError('mine')\n", status=1)
    assert "ValueError: mine" in done.stderr and "11 steps ran" in done.stdout
    assert "No such file" in command(tmp_path, "absent.py", status=1).stderr
    assert "there is no step 99" in command(tmp_path, "slow.py", "--step", "99", status=2).stderr
    assert "no step ran" in command(tmp_path, "slow.py", script="print(1)\n", status=1).stderr


def test_the_command_is_listed():
    assert "explain" in cli.COMMANDS
