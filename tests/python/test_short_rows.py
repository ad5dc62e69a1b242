"""Reductions of rows of few elements, which plans on the CPU write as additions, and tiles of what is read across."""

import numpy as np
import pytest

import smolder

ROWS = 100
SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, 1.5, -2.25, 3e38])


def rows(width, dtype):
    rng = np.random.default_rng(width)
    x = np.where(rng.random((ROWS, width)) < 0.7, rng.choice(SPECIAL, (ROWS, width)), rng.normal(size=(ROWS, width)))
    x[0] = -0.0
    if not dtype.is_floating_point:
        x = rng.integers(0, 2 if dtype == smolder.bool else 100, (ROWS, width))
    return smolder.tensor(x).to(dtype)


REDUCTIONS = {
    "sum": lambda x: x.sum(-1),
    "prod": lambda x: x.prod(-1),
    "amax": lambda x: x.amax(-1, keepdim=True),
    "amin": lambda x: x.amin(-1),
    "any": lambda x: x.any(-1),
    "all": lambda x: x.all(-1),
    "length": lambda x: x / x.square().sum(-1, keepdim=True).sqrt(),
    "softmax": lambda x: x.softmax(-1),
}
DTYPES = [smolder.float32, smolder.float64, smolder.bfloat16, smolder.float16, smolder.int64, smolder.bool]


@pytest.mark.parametrize("name", REDUCTIONS)
def test_the_bits_of_rows(name):
    f = REDUCTIONS[name]
    for dtype in DTYPES:
        if name in ("length", "softmax") and not dtype.is_floating_point:
            continue
        found = []
        for width in (2, 3, 4, 5):
            x = rows(width, dtype)
            with smolder.eager():
                want = f(x).float().numpy()
            got = f(x)
            smolder.mark_step()
            found.append((np.nan_to_num(want).tobytes(), np.nan_to_num(got.float().numpy()).tobytes()))
            np.testing.assert_array_equal(
                np.signbit(want)[~np.isnan(want)], np.signbit(got.float().numpy())[~np.isnan(want)]
            )
        assert all(a == b for a, b in found), (name, dtype)


PERMUTATIONS = [((70, 45), (1, 0)), ((3, 40, 33), (0, 2, 1)), ((33, 5, 40), (2, 1, 0)), ((2, 64, 3, 64), (0, 3, 1, 2))]


@pytest.mark.parametrize("shape,axes", PERMUTATIONS)
def test_permuted_copies(shape, axes):
    rng = np.random.default_rng(0)
    for dtype in [*DTYPES, smolder.int8, smolder.int16, smolder.uint8]:
        x = smolder.tensor(rng.integers(0, 2 if dtype == smolder.bool else 100, shape)).to(dtype)
        want = np.ascontiguousarray(x.float().numpy().transpose(axes))
        assert x.permute(axes).contiguous().float().numpy().tobytes() == want.tobytes()
        scaled = (x.permute(axes) * 2 + x.reshape(want.shape)).float().numpy()
        if dtype.is_floating_point and dtype.itemsize > 2:
            np.testing.assert_array_equal(scaled, want * 2 + x.float().numpy().reshape(want.shape))
