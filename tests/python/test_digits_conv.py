"""The convolutional example, run as a user runs it: it learns, and goes on from a checkpoint after a kill."""

import os
import pathlib
import re
import signal
import subprocess
import sys

import pytest

import smolder

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "digits_conv.py"


def start(cache, *arguments):
    package = str(pathlib.Path(smolder.__file__).parents[1])
    env = os.environ | {"SMOLDER_CACHE_DIR": str(cache), "PYTHONPATH": package, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(EXAMPLE), *map(str, arguments)]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def losses_and_accuracy(process):
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    losses = dict(re.findall(r"^epoch (\d+): loss ([\d.]+)$", out, re.MULTILINE))
    return losses, float(re.search(r"test accuracy: ([\d.]+)%", out).group(1))


def test_a_killed_run_goes_on_with_the_same_losses(tmp_path):
    pytest.importorskip("sklearn")
    losses, accuracy = losses_and_accuracy(start(tmp_path, "--epochs", 5))
    assert list(losses) == ["1", "2", "3", "4", "5"] and accuracy >= 96
    file = tmp_path / "state.pt"
    killed = start(tmp_path, "--epochs", 5, "--checkpoint", file)
    for line in killed.stdout:
        if line.startswith("epoch 3:"):
            killed.send_signal(signal.SIGKILL)  # before or after epoch 3 is saved: both must do
            break
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL and file.exists()
    rest, again = losses_and_accuracy(start(tmp_path, "--epochs", 5, "--checkpoint", file))
    assert rest and rest == {epoch: loss for epoch, loss in losses.items() if epoch in rest}
    assert "5" in rest and "1" not in rest and again == accuracy
