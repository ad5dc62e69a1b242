"""Reductions over an axis that few elements follow: kernels keep a vector of columns in a register for all rows."""

import numpy as np
import pytest

import smolder

REDUCTIONS = {
    "sum": lambda x, axis: x.sum(axis),
    "prod": lambda x, axis: x.prod(axis),
    "amax": lambda x, axis: x.amax(axis),
    "amin": lambda x, axis: x.amin(axis),
    "any": lambda x, axis: (x > 0).any(axis),
    "squares": lambda x, axis: (x * x + 1).sum(axis),
    "sum of rows that are shifted": lambda x, axis: (x - x.mean(axis, keepdim=True)).sum(axis),
}
FLOATS = [smolder.float32, smolder.float64, smolder.bfloat16, smolder.float16]
SHAPES = [((300, 1), 0), ((300, 2), 0), ((1, 3), 0), ((0, 3), 0), ((5, 40, 3), 1), ((9000, 7), 0), ((4, 33, 15), 1),
          ((50, 16), 0), ((50, 17), 0), ((3, 20, 33), 1), ((2, 30, 2, 4), 1), ((64, 1030), 0)]  # fmt: skip


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("shape,axis", SHAPES)
def test_the_bits_of_columns(name, shape, axis):
    if shape[axis] == 0 and name in ("amax", "amin"):
        pytest.skip("of nothing there is no largest")
    rng = np.random.default_rng(shape[-1])
    for dtype in [*FLOATS, smolder.int64, smolder.int8]:
        if not dtype.is_floating_point and "shifted" in name:
            continue
        values = rng.normal(size=shape) if dtype.is_floating_point else rng.integers(-3, 4, shape)
        x = smolder.tensor(values).to(dtype)
        smolder.mark_step()
        with smolder.eager():
            want = REDUCTIONS[name](x, axis)
        got = REDUCTIONS[name](x, axis)
        smolder.mark_step()
        assert got.dtype == want.dtype and got.shape == want.shape
        a, b = got.to(smolder.float64).numpy(), want.to(smolder.float64).numpy()
        np.testing.assert_array_equal(a, b, err_msg=str(dtype))


def test_columns_of_a_permuted_and_of_a_sliced_tensor():
    x = smolder.arange(3 * 50 * 4.0).reshape(3, 50, 4)
    y = x.numpy()
    np.testing.assert_array_equal(x.permute(2, 1, 0).sum(1).numpy(), y.transpose(2, 1, 0).sum(1))
    np.testing.assert_array_equal(x[:, 3::2, 1:].sum(1).numpy(), y[:, 3::2, 1:].sum(1))
    np.testing.assert_array_equal(
        smolder.nn.functional.pad(x, (1, 2)).sum(1).numpy(), np.pad(y.sum(1), ((0, 0), (1, 2)))
    )
