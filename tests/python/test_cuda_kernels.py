"""CUDA: kernels that steps make, and what a step waits for while they are compiled."""

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


@pytest.mark.parametrize("dtype", [smolder.bool, smolder.int8, smolder.uint8, smolder.int16, smolder.bfloat16])
def test_columns_of_every_dtype_beside_rows(dtype):
    """One kernel for products of rows, and for columns of dtypes that lie otherwise in memory than in registers."""
    rng = np.random.default_rng(3)
    host = smolder.tensor(rng.integers(-1, 2, (64, 300)).astype(np.float32))

    def results(x):
        y = x - x.abs().amax(1, keepdim=True)
        z = y < -1 if dtype == smolder.bool else y.to(dtype)
        return [z.any(0) if dtype == smolder.bool else z.sum(0, dtype=dtype), y.sum(0), y.amax(0), y.long().prod(1)]

    expected = [t.tolist() for t in results(host)]
    assert [t.tolist() for t in results(host.cuda())] == expected
