"""The whole models of benchmarks/cuda_models.py, small: compiled steps are recorded ones."""

import pathlib
import sys

import pytest

import smolder

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "benchmarks"))
import cuda_models


def steps(name, device, compiled, n=3):
    """The results of steps: losses, sums of scores or tokens."""
    smolder.manual_seed(0)
    step = cuda_models.STEPS[name](smolder, device, True)
    if compiled:
        step = smolder.compile(step)
    out = [step().detach().double().sum().item() for _ in range(n)]
    assert not compiled or sum(step._hits()) >= n - 2, "it was not recorded"
    return out


def falls(name, losses):
    return losses[-1] < losses[0] or not name.endswith("_train") or name == "dcgan_train"


@pytest.mark.parametrize("name", cuda_models.STEPS)
def test_a_compiled_step_is_the_recorded_one(name):
    device = smolder.get_default_device().type
    recorded = steps(name, device, False)
    assert steps(name, device, True) == recorded
    assert falls(name, recorded)
