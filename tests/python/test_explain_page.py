"""docs/explain.md shows what happens: its script is run, and what the page prints is compared, but for times and keys."""

import os
import re
import subprocess
import sys
from pathlib import Path

from conftest import of_the_cpu

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "explain.md").read_text()
SCRIPT = re.search(r"```python\n(import time\n.*?)```", PAGE, re.DOTALL)[1]


def plain(text, folder):
    """Lines without what differs from run to run."""
    text = text.replace(f"{folder}/", "").replace("/home/me/", "")
    for what in (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", r"[\d.]+ (ms|s|us)\b", r"\b[0-9a-f]{12}\b", r"\d+%"):
        text = re.sub(what, "#", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def is_like(line, other):
    """The same, but for where it is cut: other columns are as wide as the times in them."""
    cut, other_cut = line.removesuffix("…"), other.removesuffix("…")
    return line == other or (
        cut != line and other_cut != other and (cut.startswith(other_cut) or other_cut.startswith(cut))
    )


@of_the_cpu("kernels are others")
def test_the_walk_is_what_happens(tmp_path):
    env = {k: v for k, v in os.environ.items() if not k.startswith("SMOLDER_CACHE")}
    env |= {"SMOLDER_CACHE_DIR": str(tmp_path / "cache"), "COLUMNS": "100"}

    def run(*command, status=0, **more):
        done = subprocess.run([sys.executable, *command], env=env | more, capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == status, done.stderr
        return done.stdout + done.stderr

    def assert_shown(text):
        shown = plain(PAGE, tmp_path) + plain(PAGE.replace("cached", "#"), tmp_path)
        missing = [line for line in plain(text, tmp_path) if not any(is_like(line, other) for other in shown)]
        assert not missing, missing

    (tmp_path / "train.py").write_text(SCRIPT)
    assert_shown(run("train.py"))
    why = run("-m", "smolder.cli", "cache", "why", "--limit", "2")
    assert "`stack` takes 30 operands, took 29" in why
    assert_shown(why)
    told = run("train.py", SMOLDER_LOGS="recompiles").split("[smolder:recompiles] ")[1:]
    assert len(told) >= 28
    assert_shown("[smolder:recompiles] " + "[smolder:recompiles] ".join(told[:2]))

    fixed = SCRIPT.replace("losses = []", "total = smolder.zeros(())")
    fixed = fixed.replace("losses.append(loss.detach())", "total += loss.detach()")
    fixed = re.sub(r".*average = .*\n", "", fixed).replace("average.item()", "total.item() / 30")
    (tmp_path / "fixed.py").write_text(fixed)
    assert_shown(run("fixed.py", SMOLDER_LOGS="recompiles"))

    told = run("-m", "smolder.cli", "explain", "train.py")
    told = told[told.index("30 steps ran") : told.index("  before at")]
    assert "compiled 28 times" in told
    assert_shown("\n".join(line for line in told.splitlines() if "topology  " not in line))
    told = run("-m", "smolder.cli", "explain", "fixed.py", "--html", "fixed.html")
    first, rest = told.index("\nfirst\n"), told.index("\ngraph 0 on cpu")  # what is slow differs from run to run
    assert_shown(told[:first] + told[rest:].replace("cached", "#"))
    assert (tmp_path / "fixed.html").read_text().startswith("<!DOCTYPE html>")

    step = "    smolder.mark_step()\n"
    guard = '    if step == 3:\n        smolder.on_recompile("raise")\n'
    assert guard in PAGE
    (tmp_path / "guarded.py").write_text(fixed.replace(step, step + guard))
    run("guarded.py")
    (tmp_path / "guarded.py").write_text(SCRIPT.replace(step, step + guard))
    assert_shown(run("guarded.py", status=1))
