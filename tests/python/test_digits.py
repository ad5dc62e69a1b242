"""The example, run as a user runs it: accurate, and compiled once for ever."""

import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

import smolder

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "digits.py"


def run(cache, seed=0):
    package = str(pathlib.Path(smolder.__file__).parents[1])
    env = os.environ | {"SMOLDER_CACHE_DIR": str(cache), "PYTHONPATH": package}
    command = [sys.executable, str(EXAMPLE), "--seed", str(seed)]
    out = subprocess.run(command, env=env, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    accuracy = float(re.search(r"test accuracy: ([\d.]+)%", out.stdout).group(1))
    return accuracy, int(re.search(r"kernels compiled: (\d+)", out.stdout).group(1))


def test_digits_learns_and_a_second_process_compiles_nothing(tmp_path):
    pytest.importorskip("sklearn")
    accuracy, kernels = run(tmp_path)
    assert accuracy >= 97 and kernels > 0
    again, kernels = run(tmp_path)
    assert again == accuracy and kernels == 0
    for seed in range(1, 3):
        accuracy, kernels = run(tmp_path, seed)
        assert accuracy >= 97 and kernels == 0, f"seed {seed}"


def test_the_same_in_cpp_learns_too(tmp_path):
    datasets = pytest.importorskip("sklearn.datasets")
    program = pathlib.Path(smolder.__file__).parents[2] / "bin" / "digits"
    if not program.exists():
        pytest.skip("the C++ example is not built")
    digits = datasets.load_digits()
    np.savetxt(tmp_path / "digits.csv", np.c_[digits.data, digits.target], fmt="%d", delimiter=",")
    env = os.environ | {"SMOLDER_CACHE_DIR": str(tmp_path)}
    out = subprocess.run([program, tmp_path / "digits.csv"], env=env, capture_output=True, text=True, timeout=300)
    assert out.returncode == 0, out.stderr
    assert float(re.search(r"test accuracy ([\d.]+)%", out.stdout).group(1)) >= 97
