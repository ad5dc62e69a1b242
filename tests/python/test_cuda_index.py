"""Scatters, scans, sorts, products of integers and convolutions on a device: those of the host, without a copy to it."""

import numpy as np
import pytest
from conftest import assert_same_bits

import smolder
from smolder import cuda

pytestmark = pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")

RNG = np.random.default_rng(0)


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def indices(n, *shape):
    return RNG.integers(0, n, shape)


def on_both(function, *arrays, dtype=None):
    """The results of a function of tensors for arrays on the host and on the device, where it copies nothing."""
    host = [smolder.tensor(a) for a in arrays]
    if dtype is not None:
        host = [t.to(dtype) if t.is_floating_point() else t for t in host]
    device = [t.cuda() for t in host]
    smolder.mark_step()
    before = smolder.metrics()["counters"].get("fallbacks.bytes_copied", 0)
    results = function(*device)
    smolder.mark_step()
    cuda.synchronize()
    assert smolder.metrics()["counters"].get("fallbacks.bytes_copied", 0) == before
    want = function(*host)
    results, want = ([x] if isinstance(x, smolder.Tensor) else list(x) for x in (results, want))
    return [t._to_numpy() for t in results], [t._to_numpy() for t in want]


def assert_same(function, *arrays, dtype=None):
    for got, want in zip(*on_both(function, *arrays, dtype=dtype), strict=True):
        assert_same_bits(got, want, str(function))


def add_rows(x, index, source):
    return x.index_add(0, index, source)


def add_elements(x, index, source):
    return x.scatter_add(0, index, source)


@pytest.mark.parametrize("dtype", [smolder.float32, smolder.bfloat16, smolder.float16, smolder.float64])
@pytest.mark.parametrize("places", [1, 7, 5000])
@pytest.mark.parametrize("count", [1, 300, 3000, 20000])
def test_sums_at_indices_are_those_of_the_host(dtype, places, count):
    assert_same(add_rows, floats(places, 24), indices(places, count), floats(count, 24), dtype=dtype)
    assert_same(add_rows, floats(places, 5), indices(places, count), floats(count, 5), dtype=dtype)
    assert_same(add_elements, floats(places), indices(places, count), floats(count), dtype=dtype)


@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_every_reduction_of_a_scatter(reduce):
    def function(x, index, source):
        return x.scatter_reduce(1, index, source, reduce)

    assert_same(function, floats(30, 200), indices(200, 30, 900), floats(30, 900))


def test_the_last_write_to_a_place_stays():
    def put(x, index, source):
        x = x + 0
        x[index] = source
        return x

    for count in (3, 400, 30000):
        assert_same(put, floats(50, 8), indices(50, count), floats(count, 8))
    assert_same(lambda x, i, y: x.scatter(1, i, y), floats(4, 1000), indices(1000, 4, 5000), floats(4, 5000))


def test_sums_of_integers_at_indices():
    assert_same(lambda x: smolder.bincount(x, minlength=70), indices(70, 100000))
    for dtype in (smolder.int32, smolder.uint8, smolder.bool):

        def add(x, index, source, dtype=dtype):
            return x.to(dtype).scatter_add(0, index, source.to(dtype))

        assert_same(add, indices(100, 40), indices(40, 9000), indices(100, 9000))


def test_slices_are_written():
    def write(x, y):
        x = x + 0
        x[3:20:2, 5:] = y
        return x

    assert_same(write, floats(40, 300), floats(9, 295))


def test_the_gradient_of_an_embedding():
    def gradient(weight, index, grad):
        weight = weight.detach().requires_grad_()
        (smolder.nn.functional.embedding(index, weight) * grad).sum().backward()
        return weight.grad

    assert_same(gradient, floats(50257, 64), indices(50257, 8, 1024), floats(8, 1024, 64))


@pytest.mark.parametrize("count", [3, 600, 5000])
@pytest.mark.parametrize("wrong", [-9, 10, 1 << 40])
def test_a_wrong_index_raises_and_writes_nothing_else(count, wrong):
    index = indices(10, count)
    index[count // 2] = wrong
    x, i = smolder.zeros(10, device="cuda"), smolder.tensor(index, device="cuda")
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        x.scatter_add(0, i, smolder.ones(count, device="cuda")).tolist()
    with pytest.raises(IndexError, match="out of range"):
        x.index_add(0, i, smolder.ones(count, device="cuda")).tolist()
    assert (x + 1).tolist() == [1] * 10


@pytest.mark.parametrize("dtype", [smolder.float32, smolder.bfloat16, smolder.float64])
@pytest.mark.parametrize("shape", [(7,), (3, 20), (100, 33), (3, 5000), (2, 100_000), (600, 3000)])
@pytest.mark.parametrize("descending", [False, True])
def test_sorts(dtype, shape, descending):
    x = floats(*shape)
    x.flat[:: max(1, x.size // 50)] = 0
    x.flat[1 :: max(2, x.size // 10)] = np.nan
    assert_same(lambda x: x.sort(-1, descending), x, dtype=dtype)
    assert_same(lambda x: x.sort(0, descending), x, dtype=dtype)
    assert_same(lambda x: x.topk(min(5, x.shape[-1]), -1, descending), x, dtype=dtype)


def test_sorts_of_integers():
    for dtype in (smolder.int64, smolder.int32, smolder.uint8, smolder.bool):
        for shape in ((50_000,), (40, 300)):
            assert_same(lambda x, dtype=dtype: (x - 40).to(dtype).sort(-1), indices(80, *shape))


@pytest.mark.parametrize("shape", [(9,), (100, 33), (3, 5000), (1, 1 << 20), (600, 3000), (3000, 4), (4, 3000, 40)])
def test_scans(shape):
    for axis in range(len(shape)):
        for dtype in (smolder.float32, smolder.bfloat16):
            for got, want in zip(
                *on_both(lambda x, axis=axis: x.cumsum(axis), floats(*shape), dtype=dtype), strict=True
            ):
                np.testing.assert_allclose(got, want, rtol=1e-6 if dtype is smolder.float32 else 1e-2, atol=1e-5)
        assert_same(lambda x, axis=axis: x.cumsum(axis), indices(100, *shape))
        assert_same(lambda x, axis=axis: x.cummax(axis)[0], floats(*shape))
        assert_same(lambda x, axis=axis: smolder.cumsum(x > 0, axis), floats(*shape))


def test_products_that_no_library_has():
    for dtype in (smolder.int64, smolder.int32, smolder.uint8):
        assert_same(lambda x, y, t=dtype: x.to(t) @ y.to(t), indices(50, 3, 70, 90), indices(50, 3, 90, 110))
    for got, want in zip(*on_both(lambda x, y: x[:, ::2] @ y[::2, ::3], floats(30, 80), floats(80, 60)), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_strict_mode_takes_them():
    with smolder.strict():
        x = smolder.randn(100, device="cuda")
        values, positions = x.cumsum(0).sort()
        assert x.index_add(0, positions, values).isfinite().all().item()


@pytest.mark.parametrize("groups, stride", [(1, 1), (2, 2), (8, 1)])
def test_convolutions(groups, stride):
    def function(x, w):
        x, w = x.detach().requires_grad_(), w.detach().requires_grad_()
        y = smolder.nn.functional.conv2d(x, w, stride=stride, padding=1, groups=groups)
        (y * y).sum().backward()
        return y, x.grad, w.grad

    arrays = floats(8, 8, 24, 24), floats(16, 8 // groups, 3, 3)
    for got, want in zip(*on_both(function, *arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4 * np.abs(want).max())
