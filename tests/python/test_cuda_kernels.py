"""CUDA: what a step waits for while its kernels are compiled."""

import numpy as np
import pytest

import smolder
from smolder import cuda

pytestmark = pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")


def test_gradients_of_many_slices_are_small_kernels():
    """NVRTC took 26 s for a kernel of 50 padded pieces. Numbers are whole, so sums are exact in any order."""
    smolder.reset_metrics()
    for width in (8, 6):  # pieces that are whole chunks, and others
        steps, rng = 18, np.random.default_rng(width)
        x, w = rng.integers(-3, 4, (5, steps, 3 * width)), rng.integers(-1, 2, (width, width))
        leaf = smolder.tensor(x.astype(np.float32), device="cuda", requires_grad=True)
        weight = smolder.tensor(w.astype(np.float32), device="cuda")
        loss = 0
        for t in range(steps):
            for part in leaf[:, t].split(width, -1):
                loss = loss + (part @ weight).square().sum()
        (grad,) = smolder.autograd.grad(loss, leaf)
        expected = np.concatenate([2 * p @ w @ w.T for p in np.split(x, 3, -1)], -1)
        np.testing.assert_array_equal(grad.cpu().numpy(), expected)
    counters = smolder.metrics()["counters"]
    assert 0 < counters["compile.largest_kernel"] <= 200  # one kernel of 347 statements without a bound
    assert counters["cuda.programs"] > 0 and counters["kernels.waited_us"] > 0
