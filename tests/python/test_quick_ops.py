"""Ops that took many times what their bytes take: what they compute, and that plans have the forms that do not."""

import numpy as np
import pytest

import smolder

@pytest.mark.parametrize("dtype", [smolder.float32, smolder.float64, smolder.bfloat16, smolder.int64, smolder.int8])
@pytest.mark.parametrize("step", [2, 3, 4, 5])
def test_every_few_columns(dtype, step):
    for columns in (1, 2, 15, 16, 33, 64, 97, 200):
        x = (smolder.rand(7, columns) * 50).to(dtype)
        y = x.double().numpy()
        with smolder.eager():
            want = (x[:, ::step] + x[:, ::step]).double().numpy()
        got = x[:, ::step] + x[:, ::step]
        smolder.mark_step()
        np.testing.assert_array_equal(got.double().numpy(), want)
        np.testing.assert_array_equal(
            (x[:, (columns - 1) % step :: step] * 1).double().numpy(), y[:, (columns - 1) % step :: step]
        )
