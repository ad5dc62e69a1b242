"""CUDA: reductions of rows of few elements, which are written as additions, and sums over rows of few columns."""

import os
import subprocess
import sys

import numpy as np
import pytest

import smolder
from smolder import cuda

pytestmark = pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")

# Special values; each reduction has an operand of its own, as those of one operand stay rows. Then sums of columns.
PROGRAM = """
import hashlib
import numpy as np
import smolder

rng = np.random.default_rng(0)
special = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, 1.5, -2.25, 3e38])

def tell(name, results):
    smolder.mark_step()
    digest = hashlib.sha256()
    for y in results:
        bits = np.nan_to_num(y.double().cpu().numpy(), nan=7.0)
        digest.update(bits.tobytes())
    print(name, digest.hexdigest()[:16])

def unit(x):
    return x / x.square().sum(-1, keepdim=True).sqrt()

REDUCTIONS = {
    smolder.float32: [lambda x: x.sum(-1), lambda x: x.prod(-1), lambda x: x.amax(-1), lambda x: x.any(-1), unit],
    smolder.bfloat16: [lambda x: x.sum(-1), unit],
    smolder.float16: [lambda x: x.amin(-1, keepdim=True)],
    smolder.float64: [unit],
    smolder.int64: [lambda x: x.sum(-1)],
    smolder.uint8: [lambda x: x.amax(-1)],
    smolder.bool: [lambda x: x.all(-1)],
}
for width in (2, 3, 4):
    shape = (2**17 // width + 1, width)  # of fewer elements rows stay
    for dtype, reductions in REDUCTIONS.items():
        results = []
        for f in reductions:
            x = np.where(rng.random(shape) < 0.5, rng.choice(special, shape), rng.normal(size=shape))
            x[0] = -0.0
            if not dtype.is_floating_point:
                x = rng.integers(0, 2 if dtype == smolder.bool else 9, shape)
            results.append(f(smolder.tensor(x).to(dtype).cuda()))
        tell(f"rows of {width} {dtype}", results)

for width in (2, 3, 4):
    x = smolder.tensor(rng.normal(size=(260, width)).astype(np.float32)).cuda()
    d = x[None] - x[:, None]
    near = (d.square().sum(-1) + 1e-2).pow(-1.5)
    tell(f"pairs of {width}", [(d * (near * x[None, :, 0])[..., None]).sum(1), near.sum(1), near.exp().amax(0)])
    y = smolder.tensor(rng.normal(size=(5, 300, width)).astype(np.float32)).cuda()
    z = smolder.tensor(rng.integers(-9, 9, (300, width))).cuda()
    sums = [y.sum(1), y.exp().amax(1), y.sum((0, 1)), y.bfloat16().sum(1), y.double().prod(1)]
    tell(f"columns of {width}", [*sums, (z > 7).any(0), z.to(smolder.int8).sum(0, dtype=smolder.int8)])
"""


def lines(**environment):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "SMOLDER_COMPILE": "wait", **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


def test_bits_do_not_depend_on_how_rows_are_added_up():
    written = lines()
    assert len(written) == 27
    interpreter = {"SMOLDER_CUDA_INTERPRETER": "only", "SMOLDER_COMPILE": "behind"}
    assert lines(**interpreter) == written
    assert lines(SMOLDER_DISABLE="short_rows", **interpreter) == written


@pytest.mark.parametrize(("points", "width"), [(2048, 2), (2048, 3), (512, 4), (512, 8)])
def test_sums_over_pairs(points, width):
    """No pair of points with few coordinates is in memory: it is computed where it is added up."""
    x = np.random.default_rng(width).normal(size=(points, width)).astype(np.float32)

    def force(x):
        d = x[None] - x[:, None]
        near = ((d * d).sum(-1) + 1e-2) ** -1.5
        return (d * (near * x[None, :, 0])[..., None]).sum(1)

    on_device = smolder.tensor(x).cuda()
    smolder.mark_step()
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    got = force(on_device)
    smolder.mark_step()
    if width < 4:  # of four the kernel would be too large
        assert cuda.max_memory_allocated() - before < points * points * 4
    np.testing.assert_allclose(got.cpu().numpy(), force(x.astype(np.float64)), rtol=1e-4, atol=1e-4)
