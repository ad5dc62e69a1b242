"""Unsigned integers of 16 bits and more, and floats of 8 bits: casts, moves, files, and what is refused."""

import copy
import io
import pickle

import numpy as np
import pytest
from conftest import NUMPY, of_the_cpu

import smolder
from smolder import safetensors

UNSIGNED = ["uint16", "uint32", "uint64"]
FLOATS = ["float8_e4m3fn", "float8_e5m2"]


def held(name, values=((1, 2), (3, 4))):
    return smolder.tensor(values).to(getattr(smolder, name))


def rounded(x, exponent_bits, fraction_bits, bias, has_infinity):
    """A float in a format, by arithmetic of numbers: the nearest, halves to the even fraction."""
    largest_exponent = 2**exponent_bits - 1 - bias - has_infinity
    if not np.isfinite(x):
        return x if has_infinity else np.nan
    magnitude = abs(x)
    exponent = max(np.floor(np.log2(magnitude)) if magnitude else -99, 1 - bias)
    step = 2.0 ** (exponent - fraction_bits)
    value = np.round(magnitude / step) * step  # NumPy rounds halves to even
    most = (2 - 2.0**-fraction_bits) * 2.0**largest_exponent if has_infinity else 448.0
    if value > most:
        value = np.inf if has_infinity else np.nan
    return np.copysign(value, x)


@pytest.mark.parametrize("name, form", [("float8_e4m3fn", (4, 3, 7, 0)), ("float8_e5m2", (5, 2, 15, 1))])
def test_floats_are_rounded(name, form):
    rng = np.random.default_rng(0)
    wide = np.concatenate(
        [rng.standard_normal(300) * 10.0 ** rng.uniform(-9, 6, 300), [0.0, -0.0, np.nan, np.inf, -np.inf]]
    )
    dtype = getattr(smolder, name)
    table = smolder.arange(256).to(smolder.uint8).view(dtype).float().numpy()
    midpoints = (table[:126] + table[1:127]) / 2
    for x in (wide.astype(np.float32), table, midpoints, -midpoints):
        ours = smolder.from_numpy(x).to(dtype).to(smolder.float32).numpy()
        expected = np.array([rounded(float(v), *form) for v in x], np.float32)
        np.testing.assert_array_equal(ours, expected)


@pytest.mark.parametrize("name", FLOATS)
def test_each_byte_is_itself_again(name):
    bits = smolder.arange(256).to(smolder.uint8)
    x = bits.view(getattr(smolder, name))
    again = x.double().to(x.dtype).view(smolder.uint8)
    numbers = ~x.float().isnan()
    assert (again[numbers] == bits[numbers]).all()
    assert x.float().to(smolder.float16).to(x.dtype).float().nan_to_num().equal(x.float().nan_to_num())


@pytest.mark.parametrize("name", UNSIGNED)
def test_integers_wrap_and_come_back(name):
    values = np.array([0, 1, 2**15, 2**16 - 1, 2**31, 2**32 - 1, 2**40 + 5, -1, -(2**63)], np.int64)
    x = smolder.from_numpy(values).to(getattr(smolder, name))
    expected = values.astype(name)
    np.testing.assert_array_equal(x.numpy(), expected)
    assert x.tolist() == expected.tolist()
    for wide in ("float64", "float32", "int64", "int32", "uint8", "bool"):
        np.testing.assert_array_equal(x.to(getattr(smolder, wide)).numpy(), expected.astype(wide))
    assert smolder.tensor([300.7, 2.0]).to(x.dtype).tolist() == [300, 2]


def test_uint64_has_all_of_its_range():
    x = smolder.tensor([2**64 - 1, 2**63, 7], dtype=smolder.uint64)
    assert x.tolist() == [2**64 - 1, 2**63, 7]
    assert x.double().tolist() == [float(2**64 - 1), float(2**63), 7.0]
    assert x.double()[1:].to(smolder.uint64).tolist() == [2**63, 7]
    assert repr(x).endswith("dtype=smolder.uint64)") and str(2**64 - 1) in repr(x)
    assert smolder.full((1,), 2**64 - 1, dtype=smolder.uint64).item() == 2**64 - 1


@pytest.mark.parametrize("name", UNSIGNED + FLOATS)
def test_what_moves_elements(name):
    x = held(name)
    dtype = getattr(smolder, name)
    for out, expected in [
        (x.t(), [[1, 3], [2, 4]]),
        (x.reshape(-1), [1, 2, 3, 4]),
        (x.view(4), [1, 2, 3, 4]),
        (x[0], [1, 2]),
        (x[:, 1], [2, 4]),
        (x[x.float() > 2], [3, 4]),
        (x.index_select(0, smolder.tensor([1])), [[3, 4]]),
        (smolder.cat([x, x]), [[1, 2], [3, 4], [1, 2], [3, 4]]),
        (smolder.stack([x, x])[1], [[1, 2], [3, 4]]),
        (x.flip(0), [[3, 4], [1, 2]]),
        (x.roll(1), [[4, 1], [2, 3]]),
        (x.repeat(1, 2), [[1, 2, 1, 2], [3, 4, 3, 4]]),
        (x.expand(2, 2, 2)[1], [[1, 2], [3, 4]]),
        (x.clone(), [[1, 2], [3, 4]]),
        (x.chunk(2)[1], [[3, 4]]),
        (smolder.where(x.float() > 2, x, x.flip(0)), [[3, 4], [3, 4]]),
        (smolder.zeros(2, dtype=dtype), [0, 0]),
        (smolder.ones(2, dtype=dtype), [1, 1]),
        (smolder.full((2,), 3, dtype=dtype), [3, 3]),
        (smolder.tensor([1, 2], dtype=dtype), [1, 2]),
        (smolder.zeros_like(x), [[0, 0], [0, 0]]),
        (smolder.ones_like(x), [[1, 1], [1, 1]]),
        (x.new_zeros(2), [0, 0]),
        (smolder.ones(1, 2).to(dtype=dtype), [[1, 1]]),
        (copy.deepcopy(x), [[1, 2], [3, 4]]),
        (pickle.loads(pickle.dumps(x)), [[1, 2], [3, 4]]),
    ]:
        assert out.dtype is dtype
        assert out.tolist() == expected
    assert x[0, 1].item() == 2
    assert x.element_size() == dtype.itemsize and x.nbytes == 4 * dtype.itemsize
    assert x.is_floating_point() == name.startswith("float") and not x.requires_grad
    assert (x == x.clone()).all() and not (x != x.clone()).any() and smolder.equal(x, x.clone())


@pytest.mark.parametrize("name", UNSIGNED + FLOATS)
def test_writes(name):
    x = held(name)
    x.copy_(smolder.tensor([[5, 6], [7, 8]]))
    assert x.tolist() == [[5, 6], [7, 8]]
    row = x[0]
    row.fill_(3)
    x[1, 0] = 2
    x[1, 1] = smolder.tensor(4.0)
    assert x.tolist() == [[3, 3], [2, 4]]
    assert x.zero_().tolist() == [[0, 0], [0, 0]]
    plain = smolder.zeros(2, 2)
    plain.copy_(held(name))
    assert plain.tolist() == [[1, 2], [3, 4]]


@NUMPY
@pytest.mark.parametrize("name", UNSIGNED)
def test_integers_share_memory_with_numpy(name):
    array = np.array([1, 2, 3], name)
    x = smolder.from_numpy(array)
    x[0] = 9
    assert array.tolist() == [9, 2, 3] and x.dtype is getattr(smolder, name)
    assert smolder.tensor(array).dtype is x.dtype
    assert smolder.as_tensor(array, dtype=smolder.float32).tolist() == [9, 2, 3]


@pytest.mark.parametrize("name", UNSIGNED)
def test_what_integers_compute(name):
    x = held(name)
    assert (x * 2.5).tolist() == [[2.5, 5.0], [7.5, 10.0]]
    assert (x * x).dtype is x.dtype and (x * x).tolist() == [[1, 4], [9, 16]]
    assert (x / 2).tolist() == [[0.5, 1.0], [1.5, 2.0]]
    assert x.sum().item() == 10
    assert (x & 1).tolist() == [[1, 0], [1, 0]] and (x | x).dtype is x.dtype
    assert x.sort(descending=True)[0].tolist() == [[2, 1], [4, 3]]
    assert x.sqrt().dtype is smolder.float32


@pytest.mark.parametrize(
    "compute, kernel",
    [
        (lambda x: x + x, "add_stub"),
        (lambda x: x + 1, "add_stub"),
        (lambda x: -x, "neg_cpu"),
        (lambda x: x < x, "lt_cpu"),
        (lambda x: x.max(), "max_all"),
        (lambda x: x // 2, "div_floor_cpu"),
        (lambda x: x % 2, "remainder_cpu"),
        (lambda x: x << 1, "lshift_cpu"),
        (lambda x: x.sign(), "sign_cpu"),
        (lambda x: x.add_(1), "add_stub"),
        (lambda x: x.gather(0, smolder.tensor([[0, 0]])), "scatter_gather_tensor_cpu"),
    ],
)
@pytest.mark.parametrize("name, kind", [("uint16", "UInt16"), ("float8_e5m2", "Float8_e5m2")])
def test_what_pytorch_has_no_kernel_for(compute, kernel, name, kind):
    with pytest.raises(NotImplementedError, match=f"\"{kernel}\" not implemented for '{kind}'"):
        compute(held(name))


def test_floats_are_not_promoted():
    x = held("float8_e4m3fn")
    with pytest.raises(RuntimeError, match="attempted to promote Float8_e4m3fn and Float"):
        x + smolder.ones(2, 2)
    with pytest.raises(RuntimeError, match="attempted to promote Float and Float8_e4m3fn"):
        smolder.add(smolder.ones(2, 2), x)
    with pytest.raises(NotImplementedError, match="\"sum_cpu\" not implemented for 'Float8_e4m3fn'"):
        x.sum()
    with pytest.raises(TypeError, match="Got unsupported ScalarType Float8_e4m3fn"):
        x.numpy()
    assert (x @ x).dtype is x.dtype and (x @ x).tolist() == [[7, 10], [15, 22]]


@of_the_cpu("what is printed names the device")
@pytest.mark.parametrize("name, text", [("uint16", "UInt16"), ("float8_e4m3fn", "Float8_e4m3fn")])
def test_printing(name, text):
    elements = "[1., 2.]" if name.startswith("float") else "[1, 2]"
    assert repr(held(name)[0]) == f"tensor({elements}, dtype=smolder.{name})"
    assert held(name).type() == f"smolder.{text}Tensor"


@pytest.mark.parametrize("name", UNSIGNED + FLOATS)
def test_files(name, tmp_path):
    x = held(name)
    file = io.BytesIO()
    smolder.save({"x": x, "row": x[1], "dtype": x.dtype}, file)
    file.seek(0)
    again = smolder.load(file)
    assert again["x"].dtype is x.dtype and again["x"].tolist() == x.tolist()
    assert again["row"].tolist() == [3, 4] and again["dtype"] is x.dtype
    safetensors.save_file({"x": x, "y": smolder.ones(3)}, tmp_path / "x.safetensors")
    loaded = safetensors.load_file(tmp_path / "x.safetensors")
    assert loaded["x"].dtype is x.dtype and loaded["x"].tolist() == x.tolist()


def test_weights_scaled_to_eight_bits():
    """Inference with weights of 8 bits: a scale a row, and a cast back where they are used."""
    smolder.manual_seed(0)
    w, x = smolder.randn(16, 32), smolder.randn(4, 32)
    scale = w.abs().amax(1, keepdim=True) / 448
    small = (w / scale).to(smolder.float8_e4m3fn)
    compiled = smolder.compile(lambda x: x @ (small.to(smolder.float32) * scale).t())
    np.testing.assert_allclose(compiled(x).numpy(), (x @ w.t()).numpy(), atol=0.6)
    assert small.nbytes == 512
