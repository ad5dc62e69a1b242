"""Ops that took many times what their bytes take: what they compute, and that plans have the forms that do not."""

import numpy as np
import pytest

import smolder

F = smolder.nn.functional


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


@pytest.mark.parametrize("dtype", [smolder.float32, smolder.bfloat16, smolder.int64])
def test_products_of_rows_and_columns(dtype):
    """What einsum("ij,ij->i") and scores of one query are made of: a sum each."""
    a, b = (smolder.rand(3, 1, 500) * 3).to(dtype), (smolder.rand(4, 3, 500, 1) * 3).to(dtype)
    want = (a.double().numpy() @ b.double().numpy())[..., 0, 0]
    got = smolder.matmul(a, b)
    smolder.mark_step()
    assert got.dtype == dtype and got.shape == (4, 3, 1, 1)
    np.testing.assert_allclose(
        got.double().numpy()[..., 0, 0], want, rtol=2.0**-7 if dtype == smolder.bfloat16 else 1e-5
    )
    with smolder.eager():
        np.testing.assert_array_equal(smolder.matmul(a, b).double().numpy(), got.double().numpy())
    vectors = a[:, 0]
    np.testing.assert_array_equal(
        smolder.einsum("ij,ij->i", vectors, vectors).double().numpy(),
        [smolder.dot(v, v).double().item() for v in vectors],
    )
    assert smolder.matmul(a[:, :, :0], b[:, :, :0]).abs().sum().item() == 0


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


@pytest.mark.parametrize("p", [1.0, 2.0, float("inf")])
def test_distances_of_halves_are_rounded_once(p):
    a, b = smolder.rand(20, 50).bfloat16(), smolder.rand(30, 50).bfloat16()
    want = smolder.cdist(a.double(), b.double(), p).numpy()
    got = smolder.cdist(a, b, p)
    assert got.dtype == smolder.bfloat16
    np.testing.assert_allclose(got.double().numpy(), want, rtol=2.0**-8)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 2, -1])
@pytest.mark.parametrize("length", [1, 4])
def test_bags_of_one_length(mode, padding, length):
    """They are reduced where they lie; bags of the same rows with offsets are added up one row at a time."""
    rng = np.random.default_rng(length)
    rows = rng.integers(0, 10, (6, length))
    rows[0] = 2
    index = smolder.from_numpy(rows)
    results = []
    for given, offsets in ((index, None), (index.reshape(-1), smolder.arange(6) * length)):
        weight = smolder.from_numpy(
            np.random.default_rng(1).integers(-3, 4, (10, 5)).astype(np.float32)
        ).requires_grad_()
        y = F.embedding_bag(given, weight, offsets, mode=mode, padding_idx=padding)
        (gradient,) = smolder.autograd.grad(y, weight, smolder.arange(30.0).reshape(6, 5))
        results.append((y.detach().numpy(), gradient.numpy()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    if mode != "max":  # of equal ones the first has the gradient
        np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-6)
        return
    expected = np.zeros((10, 5))
    for bag, its in enumerate(rows):
        counted = [i for i in its if padding is None or i != padding % 10]
        for column in range(5) if counted else ():
            table = np.random.default_rng(1).integers(-3, 4, (10, 5))
            expected[counted[int(np.argmax(table[counted, column]))], column] += bag * 5 + column
    np.testing.assert_allclose(results[0][1], expected)


def test_weights_of_samples_of_bags_of_one_length():
    index = smolder.tensor([[1, 2], [2, 0]])
    weight, weights = smolder.rand(3, 4).requires_grad_(), smolder.rand(2, 2).requires_grad_()
    y = F.embedding_bag(index, weight, mode="sum", per_sample_weights=weights)
    want = (weight.detach().numpy()[index.numpy()] * weights.detach().numpy()[..., None]).sum(1)
    np.testing.assert_allclose(y.detach().numpy(), want, rtol=1e-6)
    y.sum().backward()
    np.testing.assert_allclose(weights.grad.numpy(), weight.detach().numpy()[index.numpy()].sum(-1), rtol=1e-6)
    assert weight.grad.shape == (3, 4)


def test_the_inverse_of_erf_in_float32():
    from math import erf

    x = smolder.cat([smolder.linspace(-0.999, 0.999, 1001), smolder.tensor([1e-30, -1e-7, 0.9999999, -1.0, 1.0, 2.0])])
    got = smolder.erfinv(x).double().numpy()
    wide = smolder.erfinv(x.double()).numpy()
    np.testing.assert_allclose(got, wide, rtol=2.0**-23)
    inside = np.abs(x.numpy()) < 0.9999
    np.testing.assert_allclose([erf(v) for v in wide[inside]], x.double().numpy()[inside], rtol=1e-10)
    assert np.isinf(got[-3:-1]).all() and np.isnan(got[-1])


def test_bags_of_nothing_have_a_history():
    weight = smolder.rand(3, 4).requires_grad_()
    for mode in ("sum", "mean", "max"):
        y = F.embedding_bag(smolder.zeros(2, 0, dtype=smolder.int64), weight, mode=mode)
        assert y.requires_grad and y.tolist() == [[0.0] * 4] * 2
        y.sum().backward()
        assert weight.grad.tolist() == [[0.0] * 4] * 3


def test_a_row_has_the_same_product_in_any_batch():
    x, column = smolder.randn(8, 1000), smolder.randn(1000, 1)
    one_by_one = smolder.cat([x[i : i + 1] @ column for i in range(8)])
    assert smolder.equal(x @ column, one_by_one)
    batched = smolder.vmap(lambda row: row @ column[:, 0])(x)
    assert smolder.equal(batched, smolder.stack([row @ column[:, 0] for row in x]))
