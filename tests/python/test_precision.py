"""The switches that say how exact libraries have to be: torch's names, defaults, couplings and mistakes."""

import pytest
from conftest import DEVICE, of_the_cpu

import smolder
from smolder import backends


@pytest.fixture(autouse=True)
def as_it_was():
    flags = ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    before = [getattr(backends.cuda.matmul, f) for f in flags]
    yield
    for f, value in zip(flags, before, strict=True):
        setattr(backends.cuda.matmul, f, value)


def test_defaults():
    matmul, cudnn = backends.cuda.matmul, backends.cudnn
    assert smolder.get_float32_matmul_precision() == "highest" and matmul.allow_tf32 is False
    assert matmul.allow_fp16_reduced_precision_reduction is True
    assert matmul.allow_bf16_reduced_precision_reduction is True
    assert (cudnn.enabled, cudnn.benchmark, cudnn.deterministic) == (True, False, False)
    assert cudnn.allow_tf32 is (DEVICE == "cpu")  # conftest.py asks devices for float32


@pytest.mark.parametrize(("word", "tf32"), [("highest", False), ("high", True), ("medium", True)])
def test_the_precision_of_products_is_one_setting(word, tf32):
    smolder.set_float32_matmul_precision(word)
    assert smolder.get_float32_matmul_precision() == word and backends.cuda.matmul.allow_tf32 is tf32


def test_tf32_sets_the_precision():
    before = backends.cudnn.allow_tf32
    backends.cuda.matmul.allow_tf32 = True
    assert smolder.get_float32_matmul_precision() == "high" and backends.cudnn.allow_tf32 is before
    backends.cuda.matmul.allow_tf32 = False
    assert smolder.get_float32_matmul_precision() == "highest"


def test_cudnn_is_there_or_not():
    version = backends.cudnn.version()
    assert backends.cudnn.is_available() is (version is not None)
    assert version is None or 90000 <= version < 100000


@pytest.mark.parametrize("flag", ["enabled", "allow_tf32", "benchmark", "deterministic"])
def test_flags_of_cudnn(flag):
    before = getattr(backends.cudnn, flag)
    setattr(backends.cudnn, flag, not before)
    assert getattr(backends.cudnn, flag) is not before
    setattr(backends.cudnn, flag, before)
    with pytest.raises(RuntimeError, match="expects a bool, but got int"):
        setattr(backends.cudnn, flag, 1)
    with backends.cudnn.flags(enabled=False, benchmark=True):
        assert not backends.cudnn.enabled and backends.cudnn.benchmark
    assert getattr(backends.cudnn, flag) is before


def test_mistakes():
    with pytest.raises(RuntimeError, match="set_float32_matmul_precision expects a str, but got int"):
        smolder.set_float32_matmul_precision(1)
    with pytest.warns(UserWarning, match="foo is not one of 'highest', 'high', or 'medium'"):
        smolder.set_float32_matmul_precision("foo")
    assert smolder.get_float32_matmul_precision() == "highest"
    with pytest.raises(RuntimeError, match="set_allow_tf32_cublas expects a bool, but got int"):
        backends.cuda.matmul.allow_tf32 = 1
    with pytest.raises(TypeError, match="expects a bool or a tuple/list of bools"):
        backends.cuda.matmul.allow_fp16_reduced_precision_reduction = 1
    with pytest.raises(AttributeError, match="Unknown attribute foo"):
        backends.cuda.matmul.foo = True
    with pytest.raises(AttributeError, match="Unknown attribute foo"):
        _ = backends.cuda.matmul.foo


@of_the_cpu("devices may round operands")
def test_the_cpu_computes_in_full_precision_whatever_it_says():
    a, b = smolder.randn(32, 32), smolder.randn(32, 32)
    exact = [(a @ b).numpy() for _ in range(3)][-1]
    smolder.reset_metrics()
    smolder.set_float32_matmul_precision("medium")
    assert ((a @ b).numpy() == exact).all()
    assert smolder.metrics()["counters"].get("plans.compiled", 0) == 0, "no plan of the CPU depends on it"
