"""The op generator: what it rejects and how, and that it leaves files alone that would not change."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPGEN = ROOT / "tools/opgen/main.py"
PRIMITIVES = 'PRIMITIVE(kExp, "exp", 1, F, kSame, kRounded, 0.2, exp(x))\n'
EXP = '[exp]\ndoc = "e to the x."\ngrad.self = "grad * result"\ntest = { domain = [-1, 1] }\n'


def generate(tmp_path, rows, primitives=PRIMITIVES):
    """Runs the generator on one file of rows; returns its result and output folder."""
    (tmp_path / "rows").mkdir(exist_ok=True)
    (tmp_path / "rows/sample.toml").write_text(rows)
    (tmp_path / "primitives.def").write_text(primitives)
    args = ["--rows", tmp_path / "rows", "--primitives", tmp_path / "primitives.def", "--out", tmp_path / "out"]
    run = subprocess.run([sys.executable, OPGEN, *map(str, args)], capture_output=True, text=True)
    return run, tmp_path / "out/smolder"


def test_a_new_elementwise_op_is_one_short_row(tmp_path):
    run, out = generate(tmp_path, EXP)
    assert run.returncode == 0, run.stderr
    assert "kExp" in (out / "ir/op_enum.h").read_text()
    assert "inline Value exp(Value a)" in (out / "ir/value_ops.h").read_text()
    assert "Tensor exp(const Tensor& self)" in (out / "lazy/ops.h").read_text()
    assert "Tensor exp() const;" in (out / "lazy/tensor_methods.inc").read_text()
    assert "c.set(0, grad * result);" in (out / "autograd/formulas_sample.cpp").read_text()
    row = json.loads((out / "ops.json").read_text())[0]
    assert row["signature"] == "exp(Tensor self) -> Tensor"
    assert row["differentiable"] == ["self"]


OP = '[f]\nsignature = "f(Tensor self, {}) -> Tensor"\nshape = "same"\ndtype = "same"\ndecompose = "self"\n'
BATCH = 'batch = "front"\n'
TAIL = 'doc = "A sample."\ntest = { domain = [-1, 1] }\n'


@pytest.mark.parametrize(
    "rows, parts",
    [
        (EXP.replace("doc", "docs"), ["[exp] docs", "unknown field"]),
        (EXP.replace('doc = "e to the x."\n', ""), ["[exp] doc", "missing"]),
        (EXP.replace("domain", "range"), ["[exp] test", "domain"]),
        (EXP.replace("grad.self", "grad.other"), ["[exp] grad.other", "no operand", "self"]),
        (EXP + 'shape = "same"\n', ["[exp] shape", "primitives.def"]),
        (EXP + OP.format("integer n") + TAIL, ["[f] signature", "n", "unknown type", "integer"]),
        (EXP + OP.format("str mode='a'") + TAIL, ["[f] signature", "mode", "choices"]),
        (EXP + OP.format("str[a,b] mode='c'") + TAIL, ["[f] signature", "'c'", "a, b"]),
        (EXP + OP.format("int n=1, int m") + TAIL, ["[f] signature", "m", "no default"]),
        (EXP + OP.format("int n, int n") + TAIL, ["[f] signature", "n", "twice"]),
        (EXP + OP.format("int n").replace("decompose", "body") + TAIL, ["[f] shape", "composite"]),
        (EXP + OP.format("int n").replace('decompose = "self"\n', "") + TAIL, ["[f] decompose", "missing"]),
        (EXP + OP.format("Number? n") + TAIL, ["[f] signature", "n", "composites only"]),
        ("[exp\n", ["sample.toml", "line 1"]),
        (OP.format("int n") + BATCH + TAIL, ["primitives.def names 'exp'"]),
        (EXP + OP.format("int n") + TAIL, ["[f] batch", "missing"]),
        (EXP + BATCH, ["[exp] batch", "elementwise"]),
    ],
)  # fmt: skip
def test_errors_name_row_and_field(tmp_path, rows, parts):
    run, _ = generate(tmp_path, rows)
    assert run.returncode != 0
    assert "Traceback" not in run.stderr
    for part in parts:
        assert part in run.stderr, run.stderr


def test_a_primitive_without_a_column_is_told_of(tmp_path):
    run, _ = generate(tmp_path, EXP, PRIMITIVES.replace("0.2, ", ""))
    assert run.returncode != 0
    assert "primitives.def:1" in run.stderr
    assert "rounding, cost, arithmetic" in run.stderr


@pytest.mark.parametrize(
    "lists, parts",
    [
        ('[cpu]\nlower = ["ezp"]\n[python]\nnames = []\n', ["[cpu] lower", "no op 'ezp'"]),
        ('[cuda]\nlow = ["exp"]\n[python]\nnames = []\n', ["[cuda] low", "unknown rule", "float32"]),
        ('[cpu]\nlower = ["exp"]\nfloat32 = ["exp"]\n[python]\nnames = []\n', ["[cpu] float32", "'exp'", "twice"]),
    ],
)
def test_errors_in_autocast_lists(tmp_path, lists, parts):
    (tmp_path / "autocast.toml").write_text(lists)
    run, _ = generate(tmp_path, EXP)
    assert run.returncode != 0
    assert "Traceback" not in run.stderr
    for part in parts:
        assert part in run.stderr, run.stderr


def test_an_op_that_autocast_lists_asks_for_it(tmp_path):
    (tmp_path / "autocast.toml").write_text('[cuda]\nfloat32 = ["exp"]\n[python]\nnames = []\n')
    run, out = generate(tmp_path, EXP)
    assert run.returncode == 0, run.stderr
    assert "AutocastCall call_cast({.cuda = CastRule::kFloat32});" in (out / "lazy/ops_sample.cpp").read_text()
    assert json.loads((out / "ops.json").read_text())[0]["autocast"] == {"cuda": "float32"}


def test_only_what_changed_is_written(tmp_path):
    _, out = generate(tmp_path, EXP)
    before = {p: p.stat().st_mtime_ns for p in out.rglob("*") if p.is_file()}
    run, _ = generate(tmp_path, EXP.replace("grad * result", "result * grad"))
    assert run.returncode == 0, run.stderr
    changed = {p.name for p, t in before.items() if p.stat().st_mtime_ns != t}
    assert changed == {"formulas_sample.cpp"}
