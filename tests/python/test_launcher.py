"""The `smolder` command of a checkout: build/release/bin/smolder needs no setting and works from any folder."""

import os
import subprocess
from pathlib import Path

import pytest

import smolder

COMMAND = Path(smolder.__file__).parents[2] / "bin/smolder"


@pytest.mark.skipif(Path(smolder.__file__).parents[1].name == "site-packages", reason="installed: pip made the command")
def test_the_command_of_a_checkout_runs_what_was_built(tmp_path):
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    for outer in ({}, {"PYTHONPATH": str(tmp_path)}):
        run = subprocess.run([COMMAND, "--version"], capture_output=True, text=True, cwd=tmp_path, env=env | outer)
        assert (run.returncode, run.stdout) == (0, f"smolder {smolder.__version__}\n"), run.stderr
    run = subprocess.run([COMMAND, "no_such"], capture_output=True, text=True, cwd=tmp_path, env=env)
    assert run.returncode == 2 and "no_such" in run.stderr
