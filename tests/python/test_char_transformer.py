"""The transformer example, run as a user runs it: it learns, and when it is killed it goes on as if it had not been."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import smolder

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "char_transformer.py"
TEXT = "".join(f"{i} and {i + 1} make {2 * i + 1}; " for i in range(200))


def command(tmp_path, name, *more, steps=40):
    (tmp_path / "text").write_text(TEXT)
    losses = tmp_path / f"{name}.losses"
    options = ["--steps", str(steps), "--every", "5", "--losses", str(losses), "--sample", "20", *more]
    env = os.environ | {"PYTHONPATH": str(pathlib.Path(smolder.__file__).parents[1])}
    return [[sys.executable, str(EXAMPLE), str(tmp_path / "text"), *options], env], losses


def finish(run):
    out = subprocess.run(run[0], env=run[1], capture_output=True, text=True, timeout=600)
    assert out.returncode == 0, out.stderr
    return out.stdout


def losses_of(path):
    """The loss of each step; a step made again after the last checkpoint must have had the same."""
    out = {}
    for line in path.read_text().splitlines():
        number, loss = line.split()
        assert out.setdefault(int(number), loss) == loss
    return out


def test_a_killed_training_goes_on_with_the_same_losses(tmp_path):
    run, whole = command(tmp_path, "whole")
    said = finish(run)
    assert len(said.strip()) >= 20
    expected = losses_of(whole)
    assert len(expected) == 40 and float(expected[39]) < 0.8 * float(expected[0])

    run, stopped = command(tmp_path, "stopped", "--checkpoint", str(tmp_path / "x.pt"))
    process = subprocess.Popen(run[0], env=run[1], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 300
    while not (stopped.exists() and len(stopped.read_text().splitlines()) >= 15):
        assert process.poll() is None and time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    made = len(losses_of(stopped))
    said = finish(run)
    assert "goes on after step" in said and 15 <= made < 40
    assert losses_of(stopped) == expected
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.endswith(".pt")) == ["x.pt"]


def test_a_text_that_is_too_short_is_said(tmp_path):
    run, _ = command(tmp_path, "short")
    (tmp_path / "text").write_text("short")
    out = subprocess.run(run[0], env=run[1], capture_output=True, text=True, timeout=600)
    assert out.returncode == 2 and "has 5 characters; 65 are the least" in out.stderr
