"""How many threads the BLAS that NumPy brings takes for us. They wait for each other by spinning: where others use the
processors, too, two threads take a hundred times as long for the factors of a small matrix as one."""

import ctypes
import os
import threading

import numpy

from smolder import _core

_WORK_FOR_THREADS = 1024**3  # multiplications, roughly; with fewer, more threads gain little even on idle processors
_ENDS = "64_", "", "_64"
_NAMES = [
    (f"{blas}_get_num_threads{end}", f"{blas}_set_num_threads{end}")
    for blas in ("scipy_openblas", "openblas")
    for end in _ENDS
]


def _find_functions():
    """OpenBLAS's functions that read and set its number of threads; None for another BLAS, which stays as it is."""
    library = ctypes.CDLL(numpy.linalg._umath_linalg.__file__)  # what it is linked with is searched, too
    for names in _NAMES:
        try:
            return tuple(getattr(library, name) for name in names)
        except AttributeError:
            continue
    return None


_functions = _find_functions()
_lock = threading.Lock()
_calls = 0  # of all threads, under way
_programs_count = 0  # what the program had set when the first of them began


def _begin(count):
    global _calls, _programs_count
    get, put = _functions
    with _lock:
        if _calls == 0:
            _programs_count = get()
        _calls += 1
        put(min(count, _programs_count))


def _end():
    global _calls
    with _lock:
        _calls -= 1
        if _calls == 0:
            _functions[1](_programs_count)


def _begin_anew():
    """In a forked process, where the calls of other threads do not end."""
    global _lock, _calls
    _lock = threading.Lock()
    if _calls:
        _calls = 0
        _functions[1](_programs_count)


os.register_at_fork(after_in_child=_begin_anew)


def call(function, arrays):
    """The function's result for arrays of matrices. BLAS takes one thread for small matrices, and else as many as kernels
    may, but no more than the program lets it have. Its number is one of the process, so the program's own comes back when
    the last call of all threads ends."""
    if _functions is None:
        return function(*arrays)
    work = max(x.shape[-2] * x.shape[-1] * min(x.shape[-2:]) for x in arrays)
    _begin(_core.get_num_threads() if work >= _WORK_FOR_THREADS else 1)
    try:
        return function(*arrays)
    finally:
        _end()
