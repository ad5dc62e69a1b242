"""The default dtype: what nothing else says the dtype of has it, in ops, in functions that make tensors, in modules."""

import subprocess
import sys
from contextlib import contextmanager

import numpy as np
import pytest
from conftest import of_the_cpu

import smolder
from smolder import nn

FLOATS = [smolder.float64, smolder.float32, smolder.float16, smolder.bfloat16]


@contextmanager
def default(dtype):
    before = smolder.get_default_dtype()
    smolder.set_default_dtype(dtype)
    try:
        yield
    finally:
        smolder.set_default_dtype(before)


MAKERS = {
    "tensor": lambda: smolder.tensor(0.5),
    "tensor of a list": lambda: smolder.tensor([1, 0.5]),
    "Tensor": lambda: smolder.Tensor(2, 3),
    "zeros": lambda: smolder.zeros(2),
    "ones": lambda: smolder.ones(2),
    "empty": lambda: smolder.empty(2),
    "full": lambda: smolder.full((2,), 0.5),
    "eye": lambda: smolder.eye(2),
    "arange": lambda: smolder.arange(0.0, 1.0, 0.25),
    "linspace": lambda: smolder.linspace(0, 1, 3),
    "logspace": lambda: smolder.logspace(0, 1, 3),
    "rand": lambda: smolder.rand(2),
    "randn": lambda: smolder.randn(2),
    "normal": lambda: smolder.normal(0.0, 1.0, (2,)),
    "scalar_tensor": lambda: smolder.scalar_tensor(1),
    "hann_window": lambda: smolder.hann_window(4),
    "Linear": lambda: nn.Linear(2, 2).weight,
    "Conv1d": lambda: nn.Conv1d(2, 2, 1).weight,
    "LayerNorm": lambda: nn.LayerNorm(2).weight,
    "BatchNorm1d": lambda: nn.BatchNorm1d(2).running_mean,
    "LSTM": lambda: nn.LSTM(2, 2).weight_ih_l0,
    "Embedding": lambda: nn.Embedding(2, 2).weight,
    "MultiheadAttention": lambda: nn.MultiheadAttention(4, 2).in_proj_weight,
    "Parameter": lambda: nn.Parameter().data,
}
INTEGERS = smolder.arange(4)
OPS = {
    "angle": smolder.angle,
    "quotient": lambda i: i / 2,
    "quotient of two": lambda i: i / (i + 1),
    "beside a float": lambda i: i * 0.5,
    "float on the left": lambda i: 0.5 - i,
    "bool beside a float": lambda i: (i > 1) * 0.5,
    "root": lambda i: i.sqrt(),
    "function": lambda i: smolder.sin(i),
    "where of a number": lambda i: smolder.where(i > 1, i, 0.5),
    "where of numbers": lambda i: smolder.where(i > 1, 0.25, 0.5),
    "logsumexp": lambda i: i.logsumexp(0),
    "float_power": lambda i: i**0.5,
    "add with alpha": lambda i: smolder.add(i * 0.5, i, alpha=2),
    "fft": lambda i: smolder.fft.fftfreq(4),
}


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", MAKERS)
def test_functions_that_make_tensors(name, dtype):
    with default(dtype):
        assert MAKERS[name]().dtype is dtype
        assert smolder.get_default_dtype() is dtype


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("name", OPS)
def test_ops_on_integers(name, dtype):
    with default(dtype):
        assert OPS[name](INTEGERS).dtype is dtype


def test_values_are_those_of_the_wider_dtype():
    i = smolder.arange(1, 8)
    with default(smolder.float64):
        np.testing.assert_array_equal((i / 7).numpy(), np.arange(1, 8) / 7)
        np.testing.assert_array_equal(i.sqrt().numpy(), np.sqrt(np.arange(1, 8)))
        np.testing.assert_array_equal((i * 0.1).numpy(), np.arange(1, 8) * 0.1)
        np.testing.assert_array_equal(smolder.tensor([0.1]).numpy(), [0.1])


def test_what_says_its_dtype_keeps_it():
    i, x = smolder.arange(3), smolder.ones(3, dtype=smolder.float16)
    with default(smolder.float64):
        assert (x * 0.5).dtype is smolder.float16
        assert (x * i).dtype is smolder.float16
        assert i.to(smolder.float32).dtype is smolder.float32
        assert i.sum(dtype=smolder.float32).dtype is smolder.float32
        assert i.float().dtype is smolder.float32
        assert (i + 1).dtype is smolder.int64
        assert smolder.from_numpy(np.ones(2, np.float32)).dtype is smolder.float32
        assert smolder.FloatTensor(2).dtype is smolder.float32
        assert smolder.full((2,), 1).dtype is smolder.int64
        assert smolder.arange(3).dtype is smolder.int64


def test_complex_numbers_have_parts_of_it():
    with default(smolder.float64):
        assert smolder.tensor(1j).dtype is smolder.complex128
        assert smolder.full((2,), 1j).dtype is smolder.complex128
        assert (smolder.arange(3) * 1j).dtype is smolder.complex128
    assert (smolder.arange(3) * 1j).dtype is smolder.complex64


@of_the_cpu("what is printed names the device")
def test_printing_leaves_it_out():
    with default(smolder.float64):
        assert repr(smolder.tensor([0.5])) == "tensor([0.5000])"
        assert "dtype=smolder.float32" in repr(smolder.tensor([0.5], dtype=smolder.float32))
    assert "dtype=smolder.float64" in repr(smolder.tensor([0.5], dtype=smolder.float64))


def test_a_sparse_tensor_without_values():
    with default(smolder.float64):
        assert smolder.sparse_coo_tensor(size=(2, 2)).dtype is smolder.float64


def test_types_of_results_and_limits():
    with default(smolder.float64):
        assert smolder.result_type(smolder.arange(2), 0.5) is smolder.float64
        assert smolder.finfo().dtype == "float64"
    assert smolder.finfo().dtype == "float32"


def test_training_in_float64():
    smolder.manual_seed(0)
    with default(smolder.float64):
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = smolder.optim.Adam(model.parameters(), lr=0.01)
        x = smolder.randn(8, 3)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = (model(x) - smolder.arange(8).unsqueeze(1) / 8).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert loss.dtype is smolder.float64
    assert losses == sorted(losses, reverse=True)


def test_a_compiled_function_is_made_anew():
    compiled = smolder.compile(lambda i: i / 3)
    i = smolder.arange(3)
    assert compiled(i).dtype is smolder.float32
    with default(smolder.float64):
        assert compiled(i).dtype is smolder.float64
        np.testing.assert_array_equal(compiled(i).numpy(), np.arange(3) / 3)
    assert compiled(i).dtype is smolder.float32


def test_eager_ops_too():
    with default(smolder.float64), smolder.eager():
        assert (smolder.arange(3) / 2).dtype is smolder.float64


@pytest.mark.parametrize("wrong", [smolder.int64, smolder.complex64, "float32"])
def test_only_floats(wrong):
    with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
        smolder.set_default_dtype(wrong)


@of_the_cpu("without a default device, tensors are of the CPU")
def test_the_default_device_is_where_tensors_are_made():
    smolder.set_default_device("meta")
    try:
        assert smolder.get_default_device().type == "meta"
        for name in ("tensor", "zeros", "Linear", "arange", "full", "Embedding"):
            assert MAKERS[name]().is_meta, name
        assert smolder.zeros(2, device="cpu").is_cpu
        assert smolder.from_numpy(np.ones(2)).is_cpu
    finally:
        smolder.set_default_device(None)
    assert smolder.zeros(2).is_cpu


def test_the_type_of_tensors_that_sets_both():
    code = (
        "import warnings, smolder; warnings.simplefilter('ignore');"
        "smolder.set_default_tensor_type(smolder.DoubleTensor); print(smolder.ones(1).dtype)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert out.stdout == "smolder.float64\n", out.stderr
