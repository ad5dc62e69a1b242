"""PyTorch as an oracle, in a process of its own: SMOLDER_TORCH_PYTHON names an interpreter that has it."""

import json
import os
import subprocess

import pytest

import smolder

PYTHON = os.environ.get("SMOLDER_TORCH_PYTHON")
needs_torch = pytest.mark.skipif(not PYTHON, reason="set SMOLDER_TORCH_PYTHON to an interpreter that has torch")


def run_torch(code, *arguments):
    """Runs code there, with `argv` and torch imported, and returns what it puts into `out`, through JSON."""
    program = f"import json, sys, torch\nargv = sys.argv[1:]\n{code}\nprint('\\n' + json.dumps(out))"
    run = subprocess.run([PYTHON, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


SAYS = """
def says(use):
    try:
        return str(use())
    except Exception as e:
        return f"{type(e).__name__}: {e}"
"""


def run_here(code):
    """The same of Smolder under torch's name, in this process."""
    names = {"torch": smolder, "argv": []}
    exec(code, names)
    return json.loads(json.dumps(names["out"]))


def assert_torch_says(uses, before="", differ=()):
    """Asserts that expressions give the same text, or the same error, here and there; `says` shows either."""
    code = SAYS + before + "\nout = [" + ", ".join(f"says(lambda: {use})" for use in uses) + "]"
    here, there = run_here(code), run_torch(code)
    here = [
        text.partition("\n  at ")[0]
        .replace("smolder._core.", "torch.")
        .replace("smolder", "torch")
        .replace("Smolder", "Torch")
        for text in here
    ]
    wrong = [pair for pair in zip(uses, here, there, strict=True) if pair[1] != pair[2] and pair[0] not in differ]
    assert not wrong, "\n".join(f"{use}\n    {ours}\n    {theirs}" for use, ours, theirs in wrong)
