"""How many threads NumPy's BLAS takes for linear algebra."""

import threading
import warnings

import numpy as np
import pytest

import smolder
from smolder import _blas_threads, _factors, linalg

pytestmark = pytest.mark.skipif(_blas_threads._functions is None, reason="NumPy's BLAS is not OpenBLAS")


@pytest.fixture
def blas_count():
    """The function that reads the number of threads, which is 2 as the program set it."""
    get, put = _blas_threads._functions
    before, ours = get(), smolder.get_num_threads()
    put(2)
    yield get
    put(before)
    smolder.set_num_threads(ours)


def count_inside(get, *shape):
    """The number of threads while a function of matrices of that shape runs."""
    seen = []
    _factors._arrays(lambda a: (seen.append(get()), a)[1], smolder.zeros(shape))
    return seen[0]


def test_small_matrices_take_one_thread_and_large_ones_those_of_kernels(blas_count):
    smolder.set_num_threads(2)
    assert count_inside(blas_count, 64, 64) == count_inside(blas_count, 100, 8, 8) == 1
    assert count_inside(blas_count, 1024, 1024) == count_inside(blas_count, 1 << 16, 128) == 2
    smolder.set_num_threads(1)
    assert count_inside(blas_count, 1024, 1024) == 1
    assert blas_count() == 2


def test_a_failure_gives_the_program_its_threads_back(blas_count):
    with pytest.raises(linalg.LinAlgError):
        linalg.inv(smolder.zeros(3, 3))
    assert blas_count() == 2


def test_the_last_call_of_all_threads_gives_the_threads_back(blas_count):
    began, may_end = threading.Event(), threading.Event()

    def slow(a):
        began.set()
        may_end.wait()
        return a

    other = threading.Thread(target=lambda: _blas_threads.call(slow, [np.eye(3)]))
    other.start()
    began.wait()
    _blas_threads.call(np.linalg.inv, [np.eye(3)])
    assert blas_count() == 1
    may_end.set()
    other.join()
    assert blas_count() == 2


def test_results_that_are_not_finite_come_without_numpys_warnings():
    a = smolder.eye(64) * 1e3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert linalg.det(a).item() == float("inf")
        assert np.isfinite(linalg.slogdet(a)[1].item())
