"""Pools with long windows that lie side by side: reductions, so that neither the graph nor what an op costs by itself grows
with the window. Values, and which place is said to be the largest, are torch's: the first, or the last nan."""

import numpy as np
import pytest

import smolder

F = smolder.nn.functional


def special(shape, seed):
    """Numbers with many equal ones, and rows with nan and with nothing but -inf."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 3, shape).astype(np.float32)
    flat = x.reshape(-1, shape[-1])
    flat[0, ::7] = np.nan
    flat[1] = -np.inf
    return x


def windows_of(x, height, width):
    """Every window's elements and their numbers within the plane, in order, as the last axis."""
    n, m = x.shape[-2] // height, x.shape[-1] // width
    places = np.broadcast_to(np.arange(x.shape[-2] * x.shape[-1]).reshape(x.shape[-2:]), x.shape)

    def cut(a):
        a = a[..., : n * height, : m * width].reshape(*a.shape[:-2], n, height, m, width)
        return np.moveaxis(a, -2, -3).reshape(*a.shape[:-4], n, m, height * width)

    return cut(x), cut(places)


def largest(x, height, width):
    elements, places = windows_of(x, height, width)
    isnan = np.isnan(elements)
    at = np.where(
        isnan.any(-1),
        elements.shape[-1] - 1 - isnan[..., ::-1].argmax(-1),
        np.nan_to_num(elements, nan=-9, neginf=-99).argmax(-1),
    )
    return tuple(np.take_along_axis(a, at[..., None], -1)[..., 0] for a in (elements, places))


WINDOWS = [((3, 1, 64), (1, 16)), ((3, 1, 70), (1, 17)), ((2, 33, 48), (3, 16)), ((2, 40, 50), (20, 2)), ((3, 32, 64), (32, 64)), ((2, 32, 40), (16, 20))]  # fmt: skip


@pytest.mark.parametrize("shape,window", WINDOWS)
@pytest.mark.parametrize("eager", [False, True])
def test_values_and_places(shape, window, eager):
    x = special(shape, shape[-1])
    want, where = largest(x, *window)
    given = smolder.from_numpy(x.copy()).requires_grad_()

    def run():
        got, at = F.max_pool2d(given, window, return_indices=True)
        (gradient,) = smolder.autograd.grad(got, given, smolder.ones_like(got))
        return got.detach().numpy(), at.numpy(), gradient.numpy()

    if eager:
        with smolder.eager():
            got, at, gradient = run()
    else:
        got, at, gradient = run()
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(at, where)
    expected = np.zeros((shape[0], shape[1] * shape[2]), np.float32)
    for plane, its in zip(expected, where.reshape(shape[0], -1), strict=True):
        np.add.at(plane, its, 1)
    np.testing.assert_array_equal(gradient.reshape(expected.shape), expected)
    mean = F.avg_pool2d(smolder.from_numpy(x), window).numpy()
    np.testing.assert_allclose(mean, windows_of(x, *window)[0].mean(-1), rtol=1e-5, atol=1e-6)


def test_integers():
    x = np.random.default_rng(1).integers(-5, 5, (3, 96))
    x[0] = np.iinfo(np.int64).min
    got, at = F.max_pool1d(smolder.from_numpy(x.copy()), 32, return_indices=True)
    want, where = largest(x.reshape(3, 1, 96).astype(np.float64), 1, 32)
    np.testing.assert_array_equal(got.numpy(), want[:, 0].astype(np.int64))
    np.testing.assert_array_equal(at.numpy(), where[:, 0])


@pytest.mark.parametrize("size", [1, 4])
def test_windows_of_any_length(size):
    """Of over 65,536 elements the largest was not to be had."""
    x = smolder.rand(2, 3, 400_000)
    y = x.numpy().reshape(2, 3, size, -1)
    got, at = F.adaptive_max_pool1d(x, size, return_indices=True)
    np.testing.assert_array_equal(got.numpy(), y.max(-1))
    np.testing.assert_array_equal(at.numpy(), y.argmax(-1) + np.arange(size) * (400_000 // size))
    np.testing.assert_allclose(F.adaptive_avg_pool1d(x, size).numpy(), y.mean(-1), rtol=1e-5)


@pytest.mark.parametrize("pool", [F.max_pool1d, F.avg_pool1d])
def test_the_graph_does_not_grow(pool):
    statements = []
    for window in (32, 1024):
        x = smolder.rand(4, 8 * window)
        smolder.mark_step()
        before = smolder.metrics()["counters"]["compile.statements"]
        y = pool(x, window)
        smolder.mark_step()
        statements.append(smolder.metrics()["counters"]["compile.statements"] - before)
        assert y.shape == (4, 8)
    # Other sizes may be a plan of their own, or not.
    assert statements[1] <= statements[0] + 5 and statements[0] > 0
