"""Arguments at the limits of what a function takes: numbers that are no integers, too large, of another dtype."""

import math

import numpy as np
import pytest
from conftest import of_the_cpu

import smolder
import smolder.nn.functional as F

X = smolder.arange(12.0).reshape(3, 4) * 0.375 - 2


BOOLS = """
x.split((True, 3), 1)
x.tensor_split((True, 2))
smolder.hsplit(x, [True, 3])
smolder.vsplit(x, [True])
x[:, None].dsplit([True])
x[:, None].dsplit(True)
x.select(0, True)
smolder.slice_scatter(x, x[1:], 0, True)
smolder.slice_scatter(x, x[1:], 0, 1, True)
x.topk(True)
x.mode(True)
x.logcumsumexp(True)
smolder.combinations(x[0], True)
x.as_strided((2, 2), (True, 2))
x.as_strided((2, 2), (1, 2), True)
smolder.empty_strided((2,), (True,))
F.one_hot(smolder.tensor([0]), True)
F.embedding(smolder.tensor([0]), x, True)
F.interpolate(x[None], True)
F.interpolate(x[None], (True,))
x.size(True)
x.stride(True)
smolder.fft.fft(x, dim=True)
smolder.matrix_power(x[:, :3], True)
smolder.zeros(True)
smolder.zeros((True, 2))
smolder.full((True,), 1)
x.view(True)
x.view(True, 12)
x.reshape((True, 12))
x.expand(True, 3, 4)
""".strip().splitlines()


@pytest.fixture(autouse=True)
def at_once():
    with smolder.eager():
        yield


@pytest.mark.parametrize(
    "call",
    [
        "F.glu(x, dim=True)",
        "smolder.split(x, True, 1)",
        "x.unflatten(True, (2, 2))",
        "x.narrow(1, True, 2)",
        "x.narrow(True, 1, 2)",
        "x.transpose(True, 0)",
        "smolder.diag_embed(x, True)",
        "smolder.flatten(x, 0, True)",
        "smolder.median(x, True)",
        "smolder.kthvalue(x, True)",
        "smolder.triu_indices(3, True)",
        "F.conv1d(x[None], x[:, :, None], None, 1, 0, 1, True)",
        "smolder.renorm(x, 2, True, 1.5)",
        *BOOLS,
    ],
)
def test_a_bool_is_no_integer(call):
    """Each took True for 1. Methods of Python's ints do; torch's arguments do not."""
    with pytest.raises(TypeError, match=r"bool|argument '(sections|split_size)' .* must be int"):
        eval(call, {"smolder": smolder, "F": F, "x": X})


@pytest.mark.parametrize("value", [1.5, math.nan, "1", None, X])
def test_triangles_are_of_integers(value):
    for function in (smolder.triu_indices, smolder.tril_indices):
        with pytest.raises(TypeError, match="argument 'col' must be int"):
            function(3, value)
    with pytest.raises(RuntimeError, match="must be non-negative"):
        smolder.triu_indices(-1, 3)


@pytest.mark.parametrize("number", [2**63, 2**64, -(2**63) - 1])
def test_numbers_of_more_than_64_bits(number):
    """The error follows from the function's argument: an integer, any number, or a list of integers."""
    with pytest.raises(ValueError, match="Overflow when unpacking long"):
        smolder.softmax(X, number)
    with pytest.raises(ValueError, match="Overflow when unpacking long"):
        X.narrow(1, 0, length=number)
    with pytest.raises(OverflowError, match="Overflow when unpacking long"):
        F.celu(X, alpha=number)
    with pytest.raises(TypeError, match="Overflow when unpacking long"):
        smolder.permute(X, (0, number))
    with pytest.raises(ValueError, match="Overflow when unpacking long"):
        smolder.sum(X, number)


@pytest.mark.parametrize("stride", [11, 2**31, 2**40, 2**63 - 1])
def test_a_stride_beyond_the_end_leaves_one_window(stride):
    """Its place was computed with the stride, which overflowed: the result was 0."""
    image = X[None, None]
    window = smolder.tensor([[1.0, -2.0], [0.5, 4.0]])[None, None]
    first = (F.pad(image, (1, 1, 1, 1))[..., :2, :2] * window).sum().item()
    assert F.conv2d(image, window, None, stride, 1).tolist() == [[[[pytest.approx(first)]]]]
    whole = F.conv2d(image.to(smolder.int64), window.to(smolder.int64), None, stride, 1)
    assert whole.shape == (1, 1, 1, 1)
    signal = F.conv1d(X[None], X[None, :, :2], None, stride)
    assert signal.tolist() == [[[pytest.approx((X[:, :2] * X[:, :2]).sum().item())]]]


INTEGERS = [smolder.uint8, smolder.int8, smolder.int16, smolder.int32, smolder.int64]


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_activations_of_integers(dtype):
    low = 0 if dtype == smolder.uint8 else -5
    x = smolder.tensor([low, 0, 1, 3, 9]).to(dtype)
    of = x.numpy().astype("float64")
    for function, expected in [
        (lambda x: F.hardtanh(x, 1.9, 3.2), np.clip(of, 1, 3)),
        (F.relu6, np.clip(of, 0, 6)),
        (lambda x: F.threshold(x, 1.9, 7.7), np.where(of <= 1, 7, of)),
    ]:
        assert function(x).dtype == dtype
        assert function(x).tolist() == expected.tolist()
    for function, expected in [(F.softsign, of / (np.abs(of) + 1)), (F.tanhshrink, of - np.tanh(of))]:
        assert function(x).dtype == smolder.float32
        np.testing.assert_allclose(function(x).numpy(), expected, rtol=1e-6)
    if dtype != smolder.int64:
        with pytest.raises(RuntimeError, match="without overflow"):
            F.hardtanh(x, 0, 2**31)


@pytest.mark.parametrize("dtype", [smolder.int16, smolder.int64], ids=str)
def test_margins_are_floats(dtype):
    """A margin that is an integer wrapped in the dtype of the tensors."""
    x, sign = smolder.tensor([1, 2], dtype=smolder.uint8), smolder.tensor([1, 1], dtype=smolder.uint8)
    assert F.margin_ranking_loss(x, x, sign, margin=300).item() == 300
    assert F.triplet_margin_loss(x[None].to(dtype), x[None].to(dtype), x[None].to(dtype), margin=2**40).item() == 2**40
    assert F.cosine_embedding_loss(X, X, smolder.tensor([1, 1, -1]), margin=True).item() == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("dtype", [smolder.int16, smolder.int64], ids=str)
def test_losses_of_integers(dtype):
    """As those of the same numbers as floats."""
    a, b = smolder.tensor([[1, -2, 3], [4, 0, -1]]), smolder.tensor([[2, 2, 1], [0, 1, 3]])
    sign = smolder.tensor([[1, -1, 1], [1, 1, -1]])
    for loss in [
        lambda a, b, s: F.margin_ranking_loss(a, b, s, margin=0.5),
        lambda a, b, s: F.triplet_margin_loss(a, b, s),
        lambda a, b, s: F.cosine_embedding_loss(a, b, s[:, 0]),
        lambda a, b, s: F.poisson_nll_loss(a, b),
        lambda a, b, s: F.gaussian_nll_loss(a, b, b * b + 1),
        lambda a, b, s: F.pairwise_distance(a, b),
    ]:
        whole = loss(a.to(dtype), b.to(dtype), sign.to(dtype))
        assert whole.dtype == smolder.float32
        np.testing.assert_allclose(whole.numpy(), loss(a.double(), b.double(), sign.double()).numpy(), rtol=1e-5)


@pytest.mark.parametrize(
    "loss", [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss, smolder.hypot, smolder.logaddexp]
)
def test_one_of_two_operands_may_be_of_integers(loss):
    """The dtype that was asked for is that of both together, not that of the first."""
    whole, part = smolder.tensor([1, -2, 3]), smolder.tensor([0.5, 2.5, 1.0])
    np.testing.assert_allclose(loss(whole, part).numpy(), loss(whole.double(), part.double()).numpy(), rtol=1e-6)
    if loss in (F.mse_loss, F.l1_loss, smolder.hypot, smolder.logaddexp):
        with pytest.raises(NotImplementedError):
            loss(whole, whole)


@pytest.mark.parametrize("shrink", [F.softshrink, F.hardshrink])
def test_a_bool_is_a_number(shrink):
    assert shrink(X, True).tolist() == shrink(X, 1.0).tolist()


def test_nextafter_has_no_gradient():
    """It was a constant to who asked for the gradient of a sum with it."""
    x = smolder.ones(2, requires_grad=True)
    y = smolder.nextafter(x, smolder.zeros(2))
    assert y.requires_grad
    with pytest.raises(NotImplementedError, match="the derivative for 'nextafter' is not implemented"):
        (x + y).sum().backward()
    assert not smolder.nextafter(x.detach(), smolder.zeros(2)).requires_grad


def test_quotients_of_integers_that_addcdiv_refuses():
    whole = smolder.tensor([7, 8])
    with pytest.raises(RuntimeError, match="Integer division with addcdiv"):
        smolder.addcdiv(whole, whole, whole)
    with pytest.raises(RuntimeError, match="Integer division with addcdiv"):
        smolder.addcdiv(whole.float(), whole, whole > 7)
    assert smolder.addcdiv(whole, whole, whole.float()).tolist() == [8, 9]


def test_factors_of_addr():
    whole = smolder.tensor([1, 2])
    square = smolder.ones(2, 2, dtype=smolder.int64)
    with pytest.raises(RuntimeError, match="argument beta must not be a floating point number"):
        smolder.addr(square, whole, whole, beta=0.5)
    with pytest.raises(RuntimeError, match="argument alpha must not be a floating point number"):
        smolder.addr(square, whole, whole, alpha=2.0)
    with pytest.raises(RuntimeError, match="Boolean beta only supported for Boolean results"):
        smolder.addr(square, whole, whole, beta=True)
    with pytest.raises(RuntimeError):
        smolder.addr(smolder.ones(2, 3, 2), whole, whole)
    assert smolder.addr(square > 0, whole.float(), whole.float()).tolist() == [[2, 3], [3, 5]]


@pytest.mark.parametrize("correction", [-(2**63), 2**63 - 1, 1e300, math.nan, math.inf, -0.5])
def test_corrections_of_variances(correction):
    x = smolder.tensor([1.0, 2.0, 4.0, 8.0])
    n = max(4 - correction, 0) if correction == correction else 0
    squares = float(((x - x.mean()) ** 2).sum())
    expected = squares / n if n else math.inf
    assert smolder.var(x, correction=correction).item() == pytest.approx(expected)
    assert smolder.std(x, correction=correction).item() == pytest.approx(math.sqrt(expected))
    assert smolder.var_mean(x, correction=correction)[0].item() == pytest.approx(expected)


def test_slopes_of_integers():
    """The distance was made an integer, too."""
    y = smolder.tensor([1, 4, 9, 16, 25])
    assert smolder.gradient(y, spacing=1.5)[0].tolist() == pytest.approx(np.gradient(y.numpy(), 1.5).tolist())
    of_floats = smolder.gradient(y.double(), spacing=0.5, edge_order=2)[0]
    assert of_floats.tolist() == pytest.approx(np.gradient(y.numpy(), 0.5, edge_order=2).tolist())
    assert smolder.gradient(y.float(), spacing=0)[0].tolist() == [math.inf] * 5
    with pytest.raises(RuntimeError, match="does not support uint8"):
        smolder.gradient(y.to(smolder.uint8))


def test_integrals_of_small_integers():
    """Sums of neighbors wrapped."""
    y = smolder.tensor([100, 120, 110, 90], dtype=smolder.int8)
    assert smolder.trapezoid(y, dx=2).item() == pytest.approx(650)
    assert smolder.trapezoid(y[:3].to(smolder.int64)).item() == pytest.approx(225)
    with pytest.raises(RuntimeError, match="bool is not supported"):
        smolder.trapezoid(y > 100)


def test_complex_numbers_stay_complex():
    z = smolder.tensor([1 + 2j, -0.5j])
    assert smolder.vander(z, 3).tolist() == np.vander(z.numpy(), 3).tolist()
    power = smolder.float_power(z, smolder.tensor([2.0, 3.0]))
    assert power.dtype == smolder.complex128
    np.testing.assert_allclose(power.numpy(), z.numpy() ** np.array([2.0, 3.0]), rtol=1e-12)
    np.testing.assert_allclose(smolder.float_power(z, 2).numpy(), z.numpy() ** 2, rtol=1e-12)


def test_what_is_true_of_the_old_names_of_reductions():
    with pytest.warns(UserWarning):
        mean = F.binary_cross_entropy_with_logits(X, smolder.ones(3, 4), None, -1)
    assert mean.item() == F.binary_cross_entropy_with_logits(X, smolder.ones(3, 4)).item()


def test_repeats_keep_their_dtype():
    repeats = smolder.tensor([3, 0, 1], dtype=smolder.int32)
    assert smolder.repeat_interleave(repeats).dtype == smolder.int32
    assert smolder.repeat_interleave(repeats).tolist() == [0, 0, 0, 2]


def test_a_number_is_copied_as_a_tensor_is():
    """copy_ converts; fill_ asks that the number fits."""
    assert smolder.zeros(2, dtype=smolder.int16).copy_(2**31 + 5).tolist() == [5, 5]
    assert smolder.zeros(2, dtype=smolder.float16).copy_(2**31).tolist() == [math.inf] * 2
    with pytest.raises(RuntimeError, match="without overflow"):
        smolder.zeros(2, dtype=smolder.int16).fill_(2**31)


@pytest.mark.parametrize("number", [2**31, -300, 2.5, math.inf])
def test_searching_for_a_number_that_the_dtype_does_not_hold(number):
    for dtype in (smolder.uint8, smolder.int16, smolder.float16):
        among = smolder.tensor([1, 2, 3], dtype=dtype)
        assert smolder.searchsorted(among, number).item() == np.searchsorted([1.0, 2.0, 3.0], number)


@pytest.mark.parametrize(
    "start,end,step", [(-100, 2, 1), (1, 2**63 - 1, 2), (-3, -1, 1), (5, 2, 1), (-(2**63), 2**63 - 1, 3)]
)
def test_slices_to_write_to_end_where_the_dimension_does(start, end, step):
    x = smolder.arange(7.0)
    count = len(x[start:end:step])
    expected = x.numpy().copy()
    expected[start:end:step] = -1
    assert smolder.slice_scatter(x, smolder.full((count,), -1.0), 0, start, end, step).tolist() == expected.tolist()


@pytest.mark.parametrize("stop", [2**63, 2**64, -(2**64)])
def test_slices_of_more_than_64_bits(stop):
    assert X[:stop].tolist() == X.tolist()[:stop]
    assert X[stop:].tolist() == X.tolist()[stop:]
    assert X[:: max(stop, 1)].tolist() == X.tolist()[:: max(stop, 1)]


@pytest.mark.parametrize(
    "call,error",
    [
        ("x.put(i, x[0, :2])", IndexError),
        ("x.narrow(1, 5, 1)", IndexError),
        ("x.narrow(1, 3, 2)", RuntimeError),
        ("x.index_fill(0, i.float(), 1.5)", IndexError),
        ("x.index_copy(0, i, x[:, :2])", RuntimeError),
        ("x.index_copy(0, i, x[:2])", IndexError),
        ("smolder.rot90(x, 1, (0, 2))", RuntimeError),
        ("smolder.slice_scatter(x, x, 0, 0, 3, 0)", RuntimeError),
        ("smolder.celu(x, 0)", RuntimeError),
        ("F.softshrink(x.half(), 2**31)", RuntimeError),
        ("F.rrelu(x, 0.1, inf)", RuntimeError),
        ("smolder.cross(x[:, :1], x[:, :3], dim=1)", RuntimeError),
        ("smolder.cross(x[:, :3], x[0, :3], dim=1)", RuntimeError),
        ("smolder.quantile(x[0, 0], 0.5, 1)", IndexError),
        ("smolder.renorm(x, 2, 0, nan)", RuntimeError),
        ("F.pdist(x, -1.0)", RuntimeError),
        ("F.pdist(x, nan)", RuntimeError),
        ("x.as_strided((-1, 2), (1, 2))", RuntimeError),
    ],
)
def test_mistakes_raise_what_torch_raises(call, error):
    names = {"smolder": smolder, "F": F, "x": X, "i": smolder.tensor([0, 2, 1]), "inf": math.inf, "nan": math.nan}
    with pytest.raises(error) as caught:
        eval(call, names)
    assert caught.type is error


@of_the_cpu("of float64")
@pytest.mark.parametrize("n", [1, 2, 3, 4, 7])
def test_polygamma_of_negative_numbers(n):
    """By its recurrence, from positive numbers down: it was nan for n above 1."""
    start = np.array([0.3, 0.75, 0.99])
    expected = smolder.polygamma(n, smolder.from_numpy(start)).numpy()
    for steps in range(1, 8):
        x = start - steps
        expected = expected - (-1.0) ** n * math.factorial(n) * x ** -(n + 1)
        np.testing.assert_allclose(smolder.polygamma(n, smolder.from_numpy(x)).numpy(), expected, rtol=1e-10)
    poles = smolder.polygamma(n, smolder.tensor([0.0, -1.0, -5.0])).tolist()
    assert poles == [math.inf if n % 2 else -math.inf] * 3


@of_the_cpu("of float64")
def test_zeta():
    """Some arguments have a closed form; sums of its first terms are the difference of two."""
    known = smolder.special.zeta(smolder.tensor([2.0, 4.0, 6.0], dtype=smolder.float64), 1)
    np.testing.assert_allclose(known.numpy(), [math.pi**2 / 6, math.pi**4 / 90, math.pi**6 / 945], rtol=1e-14)
    s, q = smolder.tensor([[1.25], [2.5], [9.0]]).double(), smolder.tensor([0.2, 1.0, 30.0]).double()
    terms = sum((k + q.numpy()) ** -s.numpy() for k in range(25))
    np.testing.assert_allclose(
        (smolder.special.zeta(s, q) - smolder.special.zeta(s, q + 25)).numpy(), terms, rtol=1e-12
    )
    assert smolder.special.zeta(
        smolder.tensor([1.0, 0.5, 2.0, 2.0]), smolder.tensor([1.0, 1.0, 0.0, -3.0])
    ).tolist() == (pytest.approx([math.inf, math.nan, math.inf, math.inf], nan_ok=True))
    assert smolder.special.zeta(2, smolder.tensor([1])).dtype == smolder.float32
    with pytest.raises(TypeError):
        smolder.special.zeta(2, 1)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            "smolder.ones_like(None)",
            TypeError,
            r"ones_like\(\): argument 'input' \(position 1\) must be Tensor, not NoneType",
        ),
        ("smolder.empty_like([1.0])", TypeError, r"empty_like\(\): .* must be Tensor, not list"),
        ("smolder.full_like(1, 1)", TypeError, r"full_like\(\): .* must be Tensor, not int"),
        ("smolder.cartesian_prod(True)", TypeError, r"cartesian_prod\(\): .* not bool"),
        ("x.clone().uniform_(0, math.inf)", RuntimeError, "to is out of bounds for float32"),
        ("x.clone().uniform_(-math.inf, 0)", RuntimeError, "from is out of bounds for float32"),
        ("x.half().uniform_(0, 70000)", RuntimeError, "to is out of bounds for float16"),
        ("x.clone().uniform_(-3e38, 3e38)", RuntimeError, "to-from"),
        ("smolder.vsplit(x[0], 2)", RuntimeError, "at least 2 dimension"),
        ("smolder.vsplit(x[0], [2])", RuntimeError, "at least 2 dimension"),
        ("x[0, 0].movedim(0, 1)", IndexError, "out of range"),
        ("x[0, 0].flatten(0, 1)", IndexError, "out of range"),
        ("x[0, 0].roll(1, 0)", IndexError, "tensor has no dimensions"),
        ("x[0, 0].mode(1)", IndexError, "out of range"),
        ("F.cosine_similarity(x, x, 1, -1.0)", RuntimeError, "eps must be non-negative"),
        ("F.cosine_similarity(x, x, 1, math.nan)", RuntimeError, "eps must be non-negative"),
        ("F.soft_margin_loss(x[:1], x)", RuntimeError, "doesn't match the broadcast shape"),
        ("x.index_fill(0, smolder.tensor([0]), smolder.tensor(1j))", RuntimeError, "Converting complex Scalar"),
        ("smolder.bincount(smolder.tensor([1j]))", NotImplementedError, "complex64"),
        ("F.multi_margin_loss(x, smolder.tensor([0]))", RuntimeError, "inconsistent target size"),
    ],
)
def test_calls_that_torch_refuses_are_refused(call, error, says):
    with pytest.raises(error, match=says):
        eval(call, {"smolder": smolder, "F": F, "x": X, "math": math})


def test_calls_beside_them_are_not():
    assert X[0, 0].movedim(0, -1).shape == X[0, 0].roll(1).shape == ()
    assert X[0, 0].flatten(0, -1).shape == (1,)
    assert F.soft_margin_loss(X, X[:1]).shape == ()
    assert X.clone().uniform_(2.5, 2.5).eq(2.5).all()


NUMBERS = """
x.chunk({}, 0)
x.split({}, 1)
x.narrow(1, 0, {})
x.roll({}, 0)
x.repeat({}, 1)
x.view({}, -1)
x.reshape({}, -1)
x.unflatten(1, ({}, -1))
x.as_strided(({}, 2), (1, 1))
x.tile({})
x.select(1, {})
x.unsqueeze({})
x.topk({})
smolder.combinations(x[0], {})
smolder.eye({})
smolder.zeros({})
smolder.full(({},), 1.0)
smolder.tensor_split(x, {}, 1)
smolder.diff(x, {})
smolder.rot90(x, {})
F.embedding(smolder.tensor([0]), x, {})
x.clone().resize_({})
""".strip().splitlines()


def of_number(call, number):
    out = eval(call.format(number), {"smolder": smolder, "F": F, "x": X})
    parts = out if isinstance(out, tuple | list) else (out,)
    return [p.tolist() for p in parts]


@pytest.mark.parametrize("call", NUMBERS)
def test_tensors_without_dimensions_are_integers(call):
    expected = of_number(call, "2")
    for dtype in ("int64", "int32", "int8", "uint8"):
        if "tensor_split" not in call or dtype == "int64":
            assert of_number(call, f"smolder.tensor(2, dtype=smolder.{dtype})") == expected
    assert of_number(call, "(smolder.tensor(1) + 1)") == expected


# A list of sizes takes one in a dimension of its own, as torch's do; these take none.
ONES = [c for c in NUMBERS if not any(f in c for f in ("repeat", "view", "reshape", "unflatten", "tile", "zeros"))]
ONES = [c for c in ONES if not any(f in c for f in ("tensor_split", "full", "rot90", "resize_", "as_strided", "roll"))]


@pytest.mark.parametrize("call", ONES)
@pytest.mark.parametrize("number", ["smolder.tensor([2])", "smolder.tensor(2.0)", "smolder.tensor(True)"])
def test_other_tensors_are_not(call, number):
    with pytest.raises((TypeError, RuntimeError), match=r"must be|tensor_split|sections"):
        of_number(call, number)


def test_sizes_at_dimensions_that_small_tensors_name():
    one = smolder.tensor(1, dtype=smolder.uint8)
    assert X.size(one) == 4 and X.stride(one) == 1


def test_lists_of_tensors_are_of_numbers():
    made = smolder.tensor([smolder.tensor([2]), smolder.tensor(1), 3])
    assert made.tolist() == [2, 1, 3]
    assert smolder.tensor([[smolder.tensor([[2.5]])]]).tolist() == [[2.5]]
    with pytest.raises(TypeError, match="only integer tensors of a single element"):
        smolder.tensor([smolder.tensor([1, 2])])
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        smolder.tensor([smolder.tensor([1.0, 2.0])])


def test_dtypes_of_results_with_numbers_of_numpy():
    x = smolder.tensor([1])
    assert smolder.result_type(x, np.float32(1.5)) is smolder.float32
    assert smolder.result_type(x, np.int64(3)) is smolder.int64
    assert smolder.result_type(smolder.tensor([True]), np.bool_(True)) is smolder.bool
    with pytest.raises(TypeError, match="must be Tensor or Number, not str"):
        smolder.result_type(x, "1")


def test_ldexp_keeps_a_half():
    for dtype in (smolder.float16, smolder.bfloat16):
        made = smolder.ldexp(smolder.tensor([0.001], dtype=dtype), smolder.tensor([17]))
        assert made.dtype is dtype and abs(made.item() - 131) < 1
