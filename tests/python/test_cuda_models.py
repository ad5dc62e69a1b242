"""The whole models of benchmarks/cuda_models.py, small, on CUDA with the CPU as the default device."""

import pytest
from test_models import cuda_models, falls, steps

import smolder
from smolder import cuda


@pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("name", cuda_models.STEPS)
def test_devices_agree_about_a_step(name):
    """Before it learns: what small batches are normalized by makes much of the last bits."""
    with smolder.device("cpu"):
        losses = steps(name, "cuda", True)
        assert losses[0] == pytest.approx(steps(name, "cpu", False, 1)[0], rel=2e-2)
    assert falls(name, losses)
