"""The whole models of benchmarks/cuda_models.py, small, on CUDA with the CPU as the default device."""

import pytest
from test_models import cuda_models, steps

import smolder
from smolder import cuda


@pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")
@pytest.mark.parametrize("name", cuda_models.STEPS)
def test_devices_agree_about_a_step(name):
    with smolder.device("cpu"):
        assert steps(name, "cuda", True) == pytest.approx(steps(name, "cpu", True), rel=2e-2)
