"""Dtypes, layouts, memory formats and the names of devices are compared with `is`; NumPy's functions of tensors."""

import copy
import io
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import DEVICE

import smolder
from smolder import nn

DTYPES = [smolder.bool, smolder.uint8, smolder.int8, smolder.int16, smolder.int32, smolder.int64]
DTYPES += [smolder.float16, smolder.bfloat16, smolder.float32, smolder.float64]
CONSTANTS = [*DTYPES, smolder.strided, smolder.contiguous_format, smolder.preserve_format, smolder.channels_last]
CONSTANTS += [smolder.channels_last_3d]


def saved(x):
    file = io.BytesIO()
    smolder.save([x], file)
    file.seek(0)
    return smolder.load(file)[0]


COPIES = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "deepcopy in a list": lambda x: copy.deepcopy([x])[0],
    "save": saved,
    **{f"pickle {p}": lambda x, p=p: pickle.loads(pickle.dumps(x, p)) for p in range(pickle.HIGHEST_PROTOCOL + 1)},
}


@pytest.mark.parametrize("constant", CONSTANTS, ids=repr)
@pytest.mark.parametrize("how", COPIES)
def test_a_copy_is_the_same_object(constant, how):
    assert COPIES[how](constant) is constant


@pytest.mark.parametrize("dtype", DTYPES, ids=repr)
def test_whoever_gives_a_dtype_gives_the_same_object(dtype):
    t = smolder.ones(2, dtype=dtype)
    given = {
        "attribute": t.dtype,
        "view": t[:1].dtype,
        "to": smolder.ones(2).to(dtype).dtype,
        "type": smolder.ones(2).type(dtype).dtype,
        "eager": eager_dtype(dtype),
        "detach": t.detach().dtype,
        "deepcopy": copy.deepcopy(t).dtype,
        "pickle": pickle.loads(pickle.dumps(t)).dtype,
        "promotion": smolder.promote_types(dtype, dtype),
        "result_type": smolder.result_type(t, t),
        "real": dtype.to_real(),
        "default": smolder.get_default_dtype() if dtype is smolder.float32 else dtype,
    }
    if dtype is not smolder.bfloat16:
        given["NumPy"] = smolder.from_numpy(t.numpy()).dtype
        given["tensor"] = smolder.tensor(t.numpy()).dtype
    if dtype.is_floating_point:
        linear = nn.Linear(2, 2, dtype=dtype)
        linear(t).sum().backward()
        given |= {"parameter": linear.weight.dtype, "gradient": linear.weight.grad.dtype}
    assert [name for name, found in given.items() if found is not dtype] == []


def eager_dtype(dtype):
    with smolder.eager():
        return (smolder.ones(2, dtype=dtype)[:1]).dtype


def test_autocast_gives_the_same_objects():
    with smolder.autocast(DEVICE, dtype=smolder.bfloat16):
        assert smolder.get_autocast_dtype(DEVICE) is smolder.bfloat16
        assert (smolder.ones(2, 2) @ smolder.ones(2, 2)).dtype is smolder.bfloat16


def test_safetensors_and_a_child_process_give_the_same_objects(tmp_path):
    from smolder import safetensors

    tensors = {str(i): smolder.ones(2, dtype=d) for i, d in enumerate(DTYPES)}
    safetensors.save_file(tensors, str(tmp_path / "t.safetensors"))
    loaded = safetensors.load_file(str(tmp_path / "t.safetensors"))
    assert all(loaded[n].dtype is t.dtype for n, t in tensors.items())
    text = pickle.dumps(CONSTANTS).hex()
    program = f"import pickle, smolder; print(pickle.loads(bytes.fromhex('{text}'))[5] is smolder.ones(1).long().dtype)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "True\n"


def test_dtypes_say_what_they_are():
    assert [d for d in DTYPES if d.is_signed] == DTYPES[2:]
    assert not any(d.is_complex for d in DTYPES)
    assert smolder.ones(1, device="cpu").device.type is smolder.device("cpu").type


# -- NumPy's functions: torch wraps what they give, by NumPy's own promotion.

T, N, Z = (smolder.tensor([1.0, 2.0]), smolder.tensor([1, 2]), smolder.tensor(2.0))
A = np.array([3.0, 4.0])
CALLS = {
    "add": (lambda: np.add(T, T), "float32", [2, 4]),
    "promoted": (lambda: np.add(T, N), "float64", [2, 4]),
    "array first": (lambda: np.multiply(A, T), "float64", [3, 8]),
    "array second": (lambda: np.subtract(T, A), "float64", [-2, -2]),
    "number": (lambda: np.add(2, N), "int64", [3, 4]),
    "NumPy's number": (lambda: np.add(T, np.float64(2)), "float64", [3, 4]),
    "zero-dim": (lambda: np.sqrt(Z * 2), "float32", 2),
    "zero-dim, both": (lambda: np.add(Z, Z), "float32", 4),
    "bytes of bools": (lambda: np.greater(T, 1), "uint8", [0, 1]),
    "isnan": (lambda: np.isnan(T), "uint8", [0, 0]),
    "reduce": (lambda: np.add.reduce(T), "float32", 3),
    "accumulate": (lambda: np.add.accumulate(T), "float32", [1, 3]),
    "matmul": (lambda: np.matmul(T, T), "float32", 5),
    "dtype=": (lambda: np.add(T, T, dtype="float64"), "float64", [2, 4]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_function_of_numpy_gives_a_tensor(name):
    call, dtype, values = CALLS[name]
    out = call()
    assert isinstance(out, smolder.Tensor) and out.dtype is getattr(smolder, dtype) and out.tolist() == values


def test_where_numpy_is_to_write_it_writes():
    out = np.zeros(2)
    assert np.add(T, T, out=out) is out and out.tolist() == [2, 4]
    array = A.copy()
    array[:] = T
    assert array.tolist() == [1, 2]


def test_both_of_two_results_are_tensors():
    quotient, rest = np.divmod(T, Z)
    assert quotient.tolist() == [0, 1] and rest.tolist() == [1, 0] and isinstance(rest, smolder.Tensor)


def test_a_tensor_with_a_history_is_refused():
    with pytest.raises(RuntimeError, match="requires grad"):
        np.add(smolder.ones(2, requires_grad=True), 1)
