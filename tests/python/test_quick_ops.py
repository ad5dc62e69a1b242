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


@pytest.mark.parametrize("dtype", [smolder.float32, smolder.float64, smolder.bfloat16, smolder.int64, smolder.uint8])
def test_products_of_vectors(dtype):
    for n in (0, 1, 5, 1000, 300_000):
        a, b = ((smolder.rand(n) * 3).to(dtype) for _ in range(2))
        got = smolder.dot(a, b)
        smolder.mark_step()
        assert got.dtype == dtype
        with smolder.eager():
            assert got.item() == smolder.dot(a, b).item() == smolder.matmul(a, b).item()
        x, y = a.double().numpy(), b.double().numpy()
        want = (x * y).sum() % 256 if dtype == smolder.uint8 else (x * y).sum()
        rounding = 2.0**-7 if dtype == smolder.bfloat16 else 1e-6
        assert got.item() == pytest.approx(want, rel=rounding)


def test_a_product_of_vectors_is_computed_with_its_neighbours():
    """As it was a product of matrices, conjugate gradients had a step more for each."""
    a, b = smolder.rand(1000), smolder.rand(1000)

    def added():
        before = smolder.metrics()["counters"]["kernels.compiled"]
        y = smolder.dot(a * 2 + 1, b.sin()) / 3
        smolder.mark_step()
        assert y.item() == pytest.approx(((a.numpy() * 2 + 1) * np.sin(b.numpy())).sum() / 3, rel=1e-5)
        return smolder.metrics()["counters"]["kernels.compiled"] - before

    assert added() <= 1


@pytest.mark.parametrize("upper", [False, True])
def test_triangles_are_counted_and_not_read(upper):
    function, keep = (smolder.triu_indices, np.triu) if upper else (smolder.tril_indices, np.tril)
    smolder.mark_step()
    before = smolder.metrics()["counters"]["syncs"]
    got = [
        (function(rows, columns, offset), rows, columns, offset)
        for rows in (0, 1, 3, 6)
        for columns in (0, 1, 2, 7)
        for offset in (-8, -3, -1, 0, 1, 2, 8)
    ]
    assert smolder.metrics()["counters"]["syncs"] == before
    for places, rows, columns, offset in got:
        want = np.stack(np.nonzero(keep(np.ones((rows, columns)), offset)))
        assert places.dtype == smolder.int64 and places.shape == want.shape
        np.testing.assert_array_equal(places.numpy(), want)
    assert function(4, 4, dtype=smolder.int32).dtype == smolder.int32


def test_the_inverse_of_erf_in_float32():
    from math import erf

    x = smolder.cat([smolder.linspace(-0.999, 0.999, 1001), smolder.tensor([1e-30, -1e-7, 0.9999999, -1.0, 1.0, 2.0])])
    got = smolder.erfinv(x).double().numpy()
    wide = smolder.erfinv(x.double()).numpy()
    np.testing.assert_allclose(got, wide, rtol=2.0**-23)
    inside = np.abs(x.numpy()) < 0.9999
    np.testing.assert_allclose([erf(v) for v in wide[inside]], x.double().numpy()[inside], rtol=1e-10)
    assert np.isinf(got[-3:-1]).all() and np.isnan(got[-1])
