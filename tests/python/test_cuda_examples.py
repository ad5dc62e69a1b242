"""The examples, run on a device as a user runs them."""

import os
import pathlib
import re
import subprocess
import sys

import pytest
from test_cuda import on_a_device

import smolder

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"


def run(name, *options, cwd):
    env = os.environ | {"PYTHONPATH": str(pathlib.Path(smolder.__file__).parents[1])}
    command = [sys.executable, str(EXAMPLES / name), *options, "--device", "cuda"]
    out = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=600)
    assert out.returncode == 0, out.stderr
    return out.stdout


@on_a_device
@pytest.mark.parametrize("name, share", [("digits.py", 97), ("digits_conv.py", 97)])
def test_digits_learn_on_a_device(name, share, tmp_path):
    pytest.importorskip("sklearn")
    assert float(re.search(r"test accuracy: ([\d.]+)%", run(name, cwd=tmp_path)).group(1)) >= share


@on_a_device
def test_a_transformer_learns_on_a_device_and_its_checkpoint_is_for_any(tmp_path):
    (tmp_path / "text").write_text("".join(f"{i} and {i + 1} make {2 * i + 1}; " for i in range(200)))

    def losses(name, *options):
        run("char_transformer.py", "text", "--losses", name, "--every", "10", "--sample", "5", *options, cwd=tmp_path)
        return (tmp_path / name).read_text().splitlines()

    whole = losses("whole", "--steps", "40", "--checkpoint", "a")
    assert len(whole) == 40 and float(whole[-1].split()[1]) < 0.8 * float(whole[0].split()[1])
    state = smolder.load(tmp_path / "a", map_location="cpu")
    assert state["done"] == 40 and not any(t.is_cuda for t in state["model"].values())
