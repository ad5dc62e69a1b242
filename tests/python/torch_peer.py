"""PyTorch as an oracle, in a process of its own: SMOLDER_TORCH_PYTHON names an interpreter that has it."""

import json
import os
import subprocess

import pytest

PYTHON = os.environ.get("SMOLDER_TORCH_PYTHON")
needs_torch = pytest.mark.skipif(not PYTHON, reason="set SMOLDER_TORCH_PYTHON to an interpreter that has torch")


def run_torch(code, *arguments):
    """Runs code there, with `argv` and torch imported, and returns what it puts into `out`, through JSON."""
    program = f"import json, sys, torch\nargv = sys.argv[1:]\n{code}\nprint('\\n' + json.dumps(out))"
    run = subprocess.run([PYTHON, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])
