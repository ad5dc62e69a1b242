"""Numbers beside tensors and as sizes: what they are converted to, and which of them are mistakes. As torch."""

import contextlib
import inspect
import operator
import pathlib

import numpy as np
import pytest

import smolder
from smolder import nn
from smolder.nn import functional as F

tensor = smolder.tensor
COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


def mode(eager):
    return smolder.eager() if eager else contextlib.nullcontext()


# -- sizes

NEGATIVE = {
    "randn": lambda: smolder.randn(-3),
    "rand": lambda: smolder.rand(2, -1),
    "randint": lambda: smolder.randint(0, 3, (-1,)),
    "zeros": lambda: smolder.zeros(-1),
    "ones": lambda: smolder.ones(2, -1),
    "full": lambda: smolder.full((-1,), 2),
    "empty": lambda: smolder.empty(-2, -3),
    "eye": lambda: smolder.eye(-1),
    "eye of two": lambda: smolder.eye(2, -1),
    "expand": lambda: smolder.ones(2).expand(-2, 2),
    "expand of one": lambda: smolder.ones(1, 2).expand(-2, 2),
    "broadcast_to": lambda: smolder.broadcast_to(smolder.ones(2), (-2, 2)),
    "linspace": lambda: smolder.linspace(0, 1, -1),
    "reshape": lambda: smolder.ones(4).reshape(-2, 2),
    "Linear": lambda: nn.Linear(-1, 2),
    "Embedding": lambda: nn.Embedding(-1, 2),
}


@pytest.mark.parametrize("name", NEGATIVE)
@pytest.mark.parametrize("eager", [False, True])
def test_a_negative_size_is_an_error(name, eager):
    with mode(eager), pytest.raises(RuntimeError):
        NEGATIVE[name]()
    assert smolder.ones(2).tolist() == [1, 1]


def test_a_negative_size_is_named_at_the_users_line():
    with pytest.raises(RuntimeError) as caught:
        line = inspect.currentframe().f_lineno + 1
        smolder.zeros(2, -3)
    assert "Trying to create tensor with negative dimension -3: [2, -3]" in str(caught.value)
    assert f"{pathlib.Path(__file__).name}:{line}" in str(caught.value)


def test_a_negative_size_draws_no_random_numbers():
    smolder.manual_seed(5)
    first = smolder.rand(4).tolist()
    smolder.manual_seed(5)
    with pytest.raises(RuntimeError):
        smolder.randn(-40)
    assert smolder.rand(4).tolist() == first


# -- comparisons of halves with numbers: the number is rounded first


@pytest.mark.parametrize("dtype", [smolder.float16, smolder.bfloat16, smolder.float32])
@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("number", [0.1, -0.7, 1 / 3, 1, 65519.0])
def test_a_number_is_compared_as_the_dtype_holds_it(dtype, eager, number):
    with mode(eager):
        x = tensor([number, number * 1.5, -number, 0], dtype=dtype)
        rounded = tensor(number, dtype=dtype)
        for compare in COMPARISONS:
            assert compare(x, number).tolist() == compare(x, rounded.expand(4)).tolist(), compare
            assert compare(number, x).tolist() == compare(rounded.expand(4), x).tolist(), compare
        assert (x == number).tolist()[0]


SELECT = {
    "masked_fill": lambda x, n: x.masked_fill(x > 0, n),
    "where": lambda x, n: smolder.where(x > 0, n, x),
    "where ": lambda x, n: smolder.where(x > 0, x, n),
    "clamp": lambda x, n: x.clamp(min=n),
    "clamp ": lambda x, n: x.clamp(max=n),
    "threshold": lambda x, n: smolder.nn.functional.threshold(x, 0.0, n),
    "hardtanh": lambda x, n: smolder.nn.functional.hardtanh(x, -abs(n), abs(n)),
    "nan_to_num": lambda x, n: (x / x).nan_to_num(n),
    "pad": lambda x, n: smolder.nn.functional.pad(x, (1, 1), value=n),
    "fill": lambda x, n: x.clone().fill_(n),
    "full_like": smolder.full_like,
    "assign": lambda x, n: x.clone().masked_fill_(x > 0, n),
}


@pytest.mark.parametrize("dtype", [smolder.float16, smolder.bfloat16])
@pytest.mark.parametrize("name", SELECT)
def test_a_number_that_is_selected_is_rounded_to_nearest(name, dtype):
    for number in (8.35, -8.35, 0.1, 1 / 3):
        x = tensor([20.0, -20.0, 0.0], dtype=dtype)
        lazy = SELECT[name](x, number)
        with smolder.eager():
            eager = SELECT[name](x, number)
            rounded = tensor(number, dtype=smolder.float64).to(dtype).item()
        assert lazy.tolist() == eager.tolist()
        assert {abs(v) for v in lazy.tolist()} <= {abs(rounded), 20.0, 0.0, 1.0}
        assert abs(rounded) in {abs(v) for v in lazy.tolist()} or (name == "clamp" and number < 0)


@pytest.mark.parametrize("dtype", [smolder.float16, smolder.bfloat16])
def test_a_number_beyond_the_halves_is_infinite_when_compared(dtype):
    assert (tensor([float("inf"), 1], dtype=dtype) == 1e39).tolist() == [True, False]
    assert (tensor([float("inf"), 1], dtype=dtype) > 1e39).tolist() == [False, False]


# -- integers


@pytest.mark.parametrize(
    ("dtype", "bounds", "expected"),
    [
        ("int64", (0, 10, 5), [0, 2, 5, 7, 10]),
        ("int32", (0, 10, 5), [0, 2, 5, 7, 10]),
        ("int16", (-300, 300, 4), [-300, -100, 100, 300]),
        ("int8", (-128, 127, 3), [-128, 0, 127]),
        ("uint8", (0, 255, 7), [0, 42, 85, 127, 170, 212, 255]),
        ("int64", (10, 0, 5), [10, 7, 5, 2, 0]),
        ("int64", (-3, 7, 6), [-3, -1, 1, 3, 5, 7]),
        ("int64", (0.5, 9.7, 5), [0, 2, 4, 6, 9]),
        ("int64", (2, 9, 1), [2]),
        ("int64", (2, 9, 0), []),
        ("float32", (2, 9, 1), [2]),
        ("float32", (0, 10, 5), [0, 2.5, 5, 7.5, 10]),
        ("float64", (0.1, 0.7, 7), None),
    ],
)
@pytest.mark.parametrize("eager", [False, True])
def test_linspace(dtype, bounds, expected, eager):
    with mode(eager):
        got = smolder.linspace(*bounds, dtype=getattr(smolder, dtype)).tolist()
    if expected is None:
        assert (got[0], got[-1]) == bounds[:2]  # both ends exactly
    else:
        assert got == expected


def test_integers_have_no_negative_powers():
    for x in (tensor([2]), tensor([2], dtype=smolder.uint8), tensor([True])):
        for exponent in (-1, -2):
            with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
                x**exponent
    assert (tensor([2]) ** -1.0).tolist() == [0.5]
    assert (tensor([2.0]) ** -1).tolist() == [0.5]
    for x, exponent, dtype in ((tensor([3]), 2.0, smolder.float32), (tensor([True]), 2, smolder.int64)):
        for squared in (x**exponent, x.pow(exponent)):
            assert squared.dtype == dtype
            assert squared.tolist() == [x.item() ** exponent]
    assert (tensor([2]) ** tensor([-1])).tolist() == [0]


@pytest.mark.parametrize("exponent", [3, 4, 3.0, -2, -2.0, 5])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "int32", "int8", "uint8"])
def test_powers_that_are_products(dtype, exponent):
    numbers = [0, 1, 2, 3, 7, 250] if dtype == "uint8" else [-3, -1, 0, 1, 2, 11]
    if dtype[0] not in "ui":
        numbers += [-0.0, 0.3, -1.7, 1e30, float("inf"), -float("inf"), float("nan")]
    x = tensor(numbers, dtype=getattr(smolder, dtype))
    if dtype[0] in "ui" and exponent == -2:
        return
    got = x**exponent
    if dtype[0] in "ui" and isinstance(exponent, int):
        assert got.tolist() == np.array([v**exponent for v in numbers]).astype(dtype).tolist()
        return
    wide = x.to(smolder.float64).numpy().astype(np.float32 if dtype != "float64" else np.float64)
    with np.errstate(all="ignore"):
        want = (wide.astype(np.float64) ** exponent).astype(wide.dtype)
    near = {"float64": 1e-15, "bfloat16": 2**-7}.get(dtype, 3e-7)
    np.testing.assert_allclose(got.to(smolder.float64).numpy(), want, rtol=near)
    assert np.array_equal(np.signbit(got.to(smolder.float64).numpy()[:-1]), np.signbit(want[:-1]))


@pytest.mark.parametrize("exponent", [3, 4, -2, 2.5])
def test_gradients_of_powers(exponent):
    x = tensor([0.5, 1.25, 3.0], dtype=smolder.float64, requires_grad=True)
    (first,) = smolder.autograd.grad((x**exponent).sum(), x, create_graph=True)
    (second,) = smolder.autograd.grad(first.sum(), x)
    v = x.detach().numpy()
    np.testing.assert_allclose(first.detach().numpy(), exponent * v ** (exponent - 1), rtol=1e-14)
    np.testing.assert_allclose(second.numpy(), exponent * (exponent - 1) * v ** (exponent - 2.0), rtol=1e-14)


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (300, "uint8"),
        (-256, "uint8"),
        (300.5, "uint8"),
        (-1.5, "uint8"),
        (128, "int8"),
        (-129, "int8"),
        (2**15, "int16"),
        (float("nan"), "int16"),
        (2**40, "int32"),
        (3000000000.0, "int32"),
        (float("inf"), "int32"),
        (float("nan"), "int64"),
        (2.0**63, "int64"),
        (1e300, "int64"),
    ],
)
def test_a_number_out_of_a_dtypes_range_is_an_error(value, dtype):
    dtype = getattr(smolder, dtype)
    for wrong in (
        lambda: tensor(value, dtype=dtype),
        lambda: tensor([0, value], dtype=dtype),
        lambda: smolder.full((2,), value, dtype=dtype),
        lambda: smolder.full_like(tensor([1], dtype=dtype), value),
    ):
        with pytest.raises(RuntimeError, match=r"value cannot be converted to type .* without overflow"):
            wrong()


def test_floats_out_of_range_are_infinite_in_tensor_and_an_error_in_full():
    for value, dtype in ((1e6, smolder.float16), (1e39, smolder.bfloat16), (1e300, smolder.float32)):
        assert tensor(value, dtype=dtype).item() == float("inf")
        with pytest.raises(RuntimeError, match="without overflow"):
            smolder.full((2,), value, dtype=dtype)
    assert smolder.full((1,), float("-inf"), dtype=smolder.float16).tolist() == [float("-inf")]


def test_halves_are_made_by_way_of_float32():
    """The number is nearer to the half below the middle of two, and float32 has the middle."""
    number = 2.963867115123735
    for x in (tensor(number, dtype=smolder.float16), tensor(np.array(number), dtype=smolder.float16)):
        assert x.item() == tensor(number, dtype=smolder.float64).half().item() == 2.96484375


def test_numbers_in_range_are_taken():
    assert tensor([255, -1], dtype=smolder.uint8).tolist() == [255, 255]
    assert tensor([254.9, 255.9], dtype=smolder.uint8).tolist() == [254, 255]
    assert tensor(-1, dtype=smolder.uint8).item() == 255
    assert smolder.full((1,), -255, dtype=smolder.uint8).tolist() == [1]
    assert tensor([2**63 - 1, -(2**63)]).tolist() == [2**63 - 1, -(2**63)]
    assert tensor(np.array([300]), dtype=smolder.uint8).tolist() == [44]  # arrays are cast, as NumPy does
    for wrong in (2**63, [2**64], [2**63]):
        with pytest.raises(ValueError, match="Overflow when unpacking long long"):
            tensor(wrong)


def test_alpha_is_a_number_of_the_result():
    i, f, b = tensor([1]), tensor([1.0]), tensor([True])
    for op in (smolder.add, smolder.sub):
        with pytest.raises(RuntimeError, match="alpha must not be a floating point number"):
            op(i, i, alpha=2.5)
        with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
            op(i, i, alpha=True)
    assert smolder.add(f, i, alpha=2.5).tolist() == [3.5]
    assert smolder.add(b, b, alpha=True).tolist() == [True]


@pytest.mark.parametrize("eager", [False, True])
def test_factors_of_integer_products_are_cut(eager):
    with mode(eager):
        m = smolder.ones(2, 2, dtype=smolder.int64)
        assert smolder.addmm(m, m, m, alpha=2.5).tolist() == [[5, 5], [5, 5]]
        assert smolder.addmm(m, m, m, beta=2.5).tolist() == [[4, 4], [4, 4]]


# -- bounds


def gradient(f, *bounds):
    x = tensor([-2.0, -1, 0, 1, 2], requires_grad=True)
    bounds = [tensor([b] * 5, requires_grad=True) for b in bounds]
    f(x, *bounds).sum().backward()
    return [t.grad.tolist() for t in (x, *bounds)]


def test_gradients_at_bounds_that_are_numbers():
    assert gradient(lambda x: x.clamp(-1, 1)) == [[0, 1, 1, 1, 0]]
    assert gradient(lambda x: x.clamp(min=-1)) == gradient(lambda x: x.clamp_min(-1)) == [[0, 1, 1, 1, 1]]
    assert gradient(lambda x: x.clamp(max=1)) == gradient(lambda x: x.clamp_max(1)) == [[1, 1, 1, 1, 0]]
    assert gradient(lambda x: x.clamp(1, 1)) == [[0, 0, 0, 1, 0]]
    assert gradient(lambda x: x.clamp(1, -1)) == [[0] * 5]


def test_gradients_at_bounds_that_are_tensors():
    def clamp(x, low, high):
        return x.clamp(low, high)

    assert gradient(clamp, -1.0, 1.0) == [[0, 1, 1, 1, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 1]]
    assert gradient(clamp, 1.0, 1.0) == [[0, 0, 0, 1, 0], [0] * 5, [0, 0, 0, 0, 1]]
    assert gradient(clamp, 1.0, -1.0) == [[0] * 5, [0] * 5, [1] * 5]
    assert gradient(lambda x, low: x.clamp_min(low), -1.0) == [[0, 1, 1, 1, 1], [1, 0, 0, 0, 0]]
    assert gradient(lambda x, high: x.clamp_max(high), 1.0) == [[1, 1, 1, 1, 0], [0, 0, 0, 0, 1]]


def test_the_gradient_of_an_angle_at_the_origin_is_0():
    x, y = tensor([0.0, -0.0, 0.0, 3.0], requires_grad=True), tensor([0.0, 0.0, 2.0, 4.0], requires_grad=True)
    smolder.atan2(x, y).sum().backward()
    assert x.grad.tolist() == pytest.approx([0, 0, 0.5, 4 / 25])
    assert y.grad.tolist() == pytest.approx([0, 0, 0, -3 / 25])


# -- types of exceptions

ones = smolder.ones
WRONG = {
    "bool - bool": (RuntimeError, lambda: tensor([True]) - tensor([True])),
    "int - bool": (RuntimeError, lambda: tensor([1]) - tensor([True])),
    "1 - bool": (RuntimeError, lambda: 1 - tensor([True])),
    "int - True": (RuntimeError, lambda: tensor([1]) - True),
    "-bool": (RuntimeError, lambda: -tensor([True])),
    "mean of integers": (RuntimeError, lambda: tensor([1, 2]).mean()),
    "softmax": (NotImplementedError, lambda: tensor([1, 2]).softmax(0)),
    "gelu": (NotImplementedError, lambda: F.gelu(tensor([1, 2]))),
    "floor": (NotImplementedError, lambda: tensor([True]).floor()),
    "bits of floats": (NotImplementedError, lambda: ones(1) & ones(1)),
    "batch of cross_entropy": (ValueError, lambda: F.cross_entropy(ones(2, 3), tensor([0]))),
    "batch of nll_loss": (ValueError, lambda: F.nll_loss(ones(2, 3), tensor([0]))),
    "target of cross_entropy": (RuntimeError, lambda: F.cross_entropy(ones(2, 3, 4), tensor([0, 1]))),
    "binary_cross_entropy_with_logits": (ValueError, lambda: F.binary_cross_entropy_with_logits(ones(2, 3), ones(2))),
    "x[1.5]": (IndexError, lambda: ones(3)[1.5]),
    "x[0, {}]": (IndexError, lambda: ones(3, 3)[0, {}]),
    "x[floats]": (IndexError, lambda: ones(3)[ones(2)]),
    "x[1.5] = 1": (IndexError, lambda: ones(3).__setitem__(1.5, 1)),
    "approximate": (RuntimeError, lambda: F.gelu(ones(3), approximate="x")),
    "rounding_mode": (RuntimeError, lambda: smolder.div(ones(3), ones(3), rounding_mode="x")),
    "reduction": (ValueError, lambda: F.mse_loss(ones(3), ones(3), reduction="x")),
    "Linear": (RuntimeError, lambda: nn.Linear(-1, 2)),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_is_the_exception_that_it_is_in_torch(name):
    kind, wrong = WRONG[name]
    with pytest.raises(kind) as caught:
        wrong()
    assert caught.type is kind, caught.value
