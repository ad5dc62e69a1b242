"""Shared by the tests: each starts from a known seed."""

import atexit
import os
import shutil
import tempfile

import numpy as np
import pytest

# Tests build kernels by the ten thousand: they have a database of their own, which workers share. (It is opened at the
# first compilation.)
if "SMOLDER_CACHE_DIR" not in os.environ:
    os.environ["SMOLDER_CACHE_DIR"] = tempfile.mkdtemp(prefix="smolder_tests_")
    atexit.register(shutil.rmtree, os.environ["SMOLDER_CACHE_DIR"], ignore_errors=True)
os.environ.setdefault("SMOLDER_CACHE_BYTES", "1G")
# Tests look at plans, of the first run too. Those of steps that run before their plans say so.
os.environ.setdefault("SMOLDER_COMPILE", "wait")
# Text for no terminal is not cut; the workers of pytest-xdist are told of one.
os.environ.pop("COLUMNS", None)

from op_results import pytest_addoption, pytest_configure, shows  # noqa: F401

import smolder

DEVICE = os.environ.get("SMOLDER_TEST_DEVICE", "cpu")  # where tests make what does not say where
if DEVICE != "cpu":
    smolder.set_default_device(DEVICE)
    smolder.backends.cudnn.allow_tf32 = False  # values are those of float32
    # Tests look at values as arrays, which is no part of what they test; those that do test it skip.
    _array, _from_numpy = smolder.Tensor.numpy, smolder.from_numpy
    smolder.Tensor.numpy = lambda self, **options: _array(self.cpu(), **options)
    smolder.from_numpy = lambda array: _from_numpy(array).to(DEVICE)


def of_the_cpu(why):
    """Marks what cannot hold on a device: it is skipped where SMOLDER_TEST_DEVICE names one."""
    return pytest.mark.skipif(DEVICE != "cpu", reason=f"of the CPU: {why}")


ONE_BY_ONE = of_the_cpu("a step that cannot run fails as a whole on a device")
NUMPY = of_the_cpu("NumPy shares no memory of a device")
FORKS = of_the_cpu("a forked process cannot use CUDA")


@pytest.fixture(autouse=True)
def known_state(request):
    """A fixed seed, and nothing pending from the test before. Steps run as plans: one that could not be compiled would
    run op by op, and give the same bits as if nothing were wrong."""
    smolder.manual_seed(0)
    before = op_by_op()
    yield
    smolder.mark_step()
    if "runs_op_by_op" not in request.keywords:
        assert op_by_op() <= before, "a step could not run as a plan; see metrics_report()"


def op_by_op():
    """Steps of this process that could not run as plans."""
    return smolder.metrics()["counters"].get("steps.op_by_op", 0)


def compiled():
    """Kernels compiled so far in this process."""
    return smolder.metrics()["counters"].get("kernels.compiled", 0)


def same_bits(a, b):
    """Whether two arrays agree in every bit; any nan equals any nan."""
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.dtype != b.dtype:
        return False
    if a.dtype.kind == "f":
        unsigned = f"u{a.dtype.itemsize}"
        nans = np.isnan(a)
        return (
            bool(((a.view(unsigned) == b.view(unsigned)) | (nans & np.isnan(b))).all())
            if a.shape
            else (bool(nans and np.isnan(b)) or a.tobytes() == b.tobytes())
        )
    return bool((a == b).all())


def assert_same_bits(a, b, what=""):
    """Fails with the first difference."""
    a, b = np.asarray(a), np.asarray(b)
    if not same_bits(a, b):
        raise AssertionError(f"{what}: {a.dtype}{a.shape} and {b.dtype}{b.shape} differ:\n{a}\n{b}")
