"""Factors and solutions of small matrices on the CPU, which no library is asked for: beside float64 NumPy."""

import numpy as np
import pytest
from conftest import of_the_cpu

import smolder
from smolder import _factors, linalg

pytestmark = of_the_cpu("a device has a library of its own")


@pytest.fixture
def no_library(monkeypatch):
    def refuse(*_):
        raise AssertionError("LAPACK was asked")

    monkeypatch.setattr(_factors, "_arrays", refuse)


def close(got, expected, dtype):
    tolerance = 1e-3 if dtype == np.float32 else 1e-10
    assert got.numpy().dtype == dtype
    np.testing.assert_allclose(got.numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (5, 5), (3, 7, 7), (2, 3, 16, 16), (33, 33), (96, 96), (500, 4, 4)])
def test_what_is_found_is_what_numpy_finds(no_library, shape, dtype):
    rng = np.random.default_rng(len(shape) * 100 + shape[-1])
    n = shape[-1]
    a = (rng.normal(size=shape) + 0.1 * n * np.eye(n)).astype(dtype)
    b = rng.normal(size=(*shape[:-1], 3)).astype(dtype)
    exact_a, exact_b = a.astype(np.float64), b.astype(np.float64)
    ours_a, ours_b = smolder.tensor(a), smolder.tensor(b)
    close(linalg.solve(ours_a, ours_b), np.linalg.solve(exact_a, exact_b), dtype)
    close(linalg.solve(ours_a, ours_b[..., 0]), np.linalg.solve(exact_a, exact_b[..., :1])[..., 0], dtype)
    close(linalg.inv(ours_a), np.linalg.inv(exact_a), dtype)
    definite = a @ a.swapaxes(-1, -2) + n * np.eye(n, dtype=dtype)
    low = np.linalg.cholesky(definite.astype(np.float64))
    garbled = smolder.tensor(definite) + smolder.triu(smolder.ones(n, n, dtype=ours_a.dtype), 1)  # is not read
    close(linalg.cholesky(garbled), low, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ones", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("shape", [(1, 1), (6, 6), (2, 256, 256)])
def test_a_triangle_is_solved_for(no_library, shape, upper, left, ones, dtype):
    rng = np.random.default_rng(shape[-1])
    n = shape[-1]
    a = (rng.normal(size=shape) / n + 2 * np.eye(n)).astype(dtype)
    b = rng.normal(size=(*shape[:-2], *((n, 5) if left else (5, n)))).astype(dtype)
    triangle = (np.triu if upper else np.tril)(a).astype(np.float64)
    if ones:
        triangle[..., range(n), range(n)] = 1
    inverse = np.linalg.inv(triangle)
    got = linalg.solve_triangular(smolder.tensor(a), smolder.tensor(b), upper=upper, left=left, unitriangular=ones)
    close(got, inverse @ b if left else b @ inverse, dtype)


def test_rows_are_exchanged_for_a_pivot(no_library):
    a = smolder.tensor([[0.0, 1.0, 2.0], [1e-9, 3.0, 1.0], [4.0, 0.0, 1.0]], dtype=smolder.float64)
    x = smolder.tensor([[1.0], [2.0], [3.0]], dtype=smolder.float64)
    assert smolder.allclose(linalg.solve(a, a @ x), x, rtol=1e-12)


def test_a_view_and_what_the_step_computes_are_read(no_library):
    x = smolder.arange(32.0).reshape(2, 4, 4) + 40 * smolder.eye(4)
    view = x.transpose(-2, -1)[1]
    np.testing.assert_allclose(linalg.inv(view).numpy(), np.linalg.inv(x.numpy()[1].T), rtol=1e-4, atol=1e-6)


def test_what_has_no_factors_is_refused_as_by_lapack():
    singular = smolder.stack([smolder.eye(3), smolder.ones(3, 3)])
    with pytest.raises(linalg.LinAlgError, match=r"Batch element 1\): The diagonal element 2 is zero"):
        linalg.inv(singular)
    with pytest.raises(linalg.LinAlgError, match="the input matrix is singular"):
        linalg.solve(singular, smolder.ones(2, 3, 1))
    with pytest.raises(linalg.LinAlgError, match="leading minor of order 2"):
        linalg.cholesky(smolder.tensor([[1.0, 2.0], [2.0, 1.0]]))


def test_more_rows_and_complex_numbers_are_the_librarys(monkeypatch):
    asked = []
    arrays = _factors._arrays
    monkeypatch.setattr(_factors, "_arrays", lambda f, *a: (asked.append(a[0].shape[-1]), arrays(f, *a))[1])
    linalg.inv(smolder.eye(97))
    linalg.inv(smolder.eye(2, dtype=smolder.complex64))
    linalg.solve(smolder.eye(3), smolder.ones(3, 1025))
    linalg.solve_triangular(smolder.eye(257), smolder.ones(257, 1), upper=True)
    assert asked == [97, 2, 3, 257]
