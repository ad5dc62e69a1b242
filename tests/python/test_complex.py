"""Complex tensors against NumPy, eagerly and compiled, with gradients against finite differences."""

import copy
from contextlib import nullcontext

import numpy as np
import pytest
from conftest import NUMPY, of_the_cpu

import smolder
from smolder.autograd import gradcheck

RNG = np.random.default_rng(0)


def numbers(*shape, dtype="complex128"):
    rng = np.random.default_rng(sum(shape) + len(shape))
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def same(ours, expected, tolerance=1e-12):
    out = ours.numpy()
    assert out.dtype == expected.dtype
    np.testing.assert_allclose(out, expected, rtol=tolerance, atol=tolerance)


UNARY = {
    "neg": np.negative,
    "abs": np.abs,
    "angle": np.angle,
    "conj": np.conj,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log10": np.log10,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "square": np.square,
    "reciprocal": np.reciprocal,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "prod": np.prod,
    "nan_to_num": np.nan_to_num,
    "sigmoid": lambda z: 1 / (1 + np.exp(-z)),
    "sgn": lambda z: z / np.abs(z),
    "sinc": np.sinc,
    "real": np.real,
    "imag": np.imag,
    "sum": np.sum,
    "mean": np.mean,
    "isfinite": np.isfinite,
    "isnan": np.isnan,
    "isinf": np.isinf,
    "isreal": np.isreal,
    "logical_not": np.logical_not,
    "all": np.all,
    "any": np.any,
    "ravel": np.ravel,
    "trace": np.trace,
}


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one(name, dtype, eager):
    z = numbers(3, 4, dtype=dtype)
    with smolder.eager() if eager else nullcontext():
        out = getattr(smolder, name)(smolder.from_numpy(z.copy()))
    same(out, np.asarray(UNARY[name](z)), 1e-5 if dtype == "complex64" else 1e-12)


@pytest.mark.parametrize("name", [n for n, f in UNARY.items() if f(numbers(3, 3)).dtype != np.bool_])
def test_gradients_of_functions_of_one(name):
    pairs = smolder.view_as_real(smolder.from_numpy(numbers(2, 3))).clone().requires_grad_()

    def parts(pairs):
        out = getattr(smolder, name)(smolder.view_as_complex(pairs))
        return smolder.view_as_real(out) if out.is_complex() else out

    if name == "trace":
        pairs = smolder.view_as_real(smolder.from_numpy(numbers(3, 3))).clone().requires_grad_()
    assert gradcheck(parts, (pairs,))


BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "eq": np.equal,
    "ne": np.not_equal,
}


@pytest.mark.parametrize("second", ["complex128", "float64", "int64", "number", "complex number", "zero-dim"])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two(name, second):
    a = numbers(3, 4)
    b = {
        "complex128": numbers(4),
        "float64": np.abs(numbers(4)),
        "int64": np.array([1, 2, 3, 2]),
        "number": 1.5,
        "complex number": 0.5 - 2j,
        "zero-dim": np.array(2 + 1j),
    }[second]
    other = smolder.from_numpy(b.copy()) if isinstance(b, np.ndarray) else b
    same(getattr(smolder, name)(smolder.from_numpy(a.copy()), other), BINARY[name](a, b))
    if second not in {"number", "complex number"} or name in {"add", "sub", "mul", "div"}:
        operator = {"add": "__add__", "sub": "__sub__", "mul": "__mul__", "div": "__truediv__"}.get(name)
        if operator:
            reverse = operator.replace("__", "__r", 1)
            if not isinstance(b, np.ndarray):
                same(getattr(smolder.from_numpy(a.copy()), reverse)(other), BINARY[name](b, a))


def test_promotion():
    single, double = smolder.ones(2), smolder.ones(2, dtype=smolder.float64)
    assert (single * 1j).dtype == smolder.complex64
    assert (double * 1j).dtype == smolder.complex128
    assert (smolder.ones(2, dtype=smolder.int64) * 1j).dtype == smolder.complex64
    assert (single.to(smolder.complex64) + double).dtype == smolder.complex128
    assert (single.to(smolder.complex64) + smolder.tensor(1.0, dtype=smolder.float64)).dtype == smolder.complex64
    assert (single + smolder.tensor(1j, dtype=smolder.complex128)).dtype == smolder.complex64
    assert smolder.promote_types(smolder.float64, smolder.complex64) == smolder.complex128
    assert smolder.promote_types(smolder.int64, smolder.complex64) == smolder.complex64
    assert smolder.result_type(single, 1j) == smolder.complex64
    assert smolder.complex64.to_real() == smolder.float32 and smolder.float64.to_complex() == smolder.complex128
    assert (double * 0.1j).numpy()[0] == 0.1j  # a number has all its digits


def test_division_and_roots_far_out():
    a = np.array([1e300 + 1e300j, 1e-300 + 1e-300j, 3 + 4j, -1 + 0j, 0j])
    b = np.array([1e300 - 1e300j, 2e-300 + 1e-300j, 1e200 + 0j, 1j, 1 + 1j])
    same(smolder.from_numpy(a.copy()) / smolder.from_numpy(b.copy()), a / b)
    same(smolder.from_numpy(a.copy()).abs(), np.abs(a))
    roots = smolder.from_numpy(np.array([-1 + 0j, -4 + 0j, 2j, 0j])).sqrt().numpy()
    np.testing.assert_array_equal(roots, [1j, 2j, 1 + 1j, 0j])


def test_gradients_at_zero_are_zero_as_in_torch():
    for function in (smolder.abs, smolder.angle, smolder.sgn):
        z = smolder.zeros(2, dtype=smolder.complex64, requires_grad=True)
        out = function(z)
        (out.real if out.is_complex() else out).sum().backward()
        assert z.grad.tolist() == [0j, 0j]


def test_the_gradient_of_a_real_loss_is_torchs():
    z = smolder.tensor([1 + 2j, -3 + 0.5j], requires_grad=True)
    (z.abs() ** 2).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), 2 * z.detach().numpy(), rtol=1e-6)  # d/dre + i d/dim
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for real scalar outputs"):
        (z * 2).sum().backward()
    (z * 2).sum().backward(smolder.tensor(1 + 0j))


MOVES = {
    "reshape": (lambda t: t.reshape(2, 6), lambda a: a.reshape(2, 6)),
    "transpose": (lambda t: t.transpose(0, -1), lambda a: a.swapaxes(0, -1)),
    "permute": (lambda t: t.permute(1, 0), lambda a: a.T),
    "select": (lambda t: t[1], lambda a: a[1]),
    "slice": (lambda t: t[:, 1:4:2], lambda a: a[:, 1:4:2]),
    "unsqueeze": (lambda t: t.unsqueeze(-1), lambda a: a[..., None]),
    "squeeze": (lambda t: t[:1].squeeze(0), lambda a: a[0]),
    "expand": (lambda t: t[:, :1].expand(3, 5), lambda a: np.broadcast_to(a[:, :1], (3, 5))),
    "flip": (lambda t: t.flip(-1), lambda a: a[:, ::-1]),
    "roll": (lambda t: t.roll(1, 1), lambda a: np.roll(a, 1, 1)),
    "cat": (lambda t: smolder.cat([t, t * 2], -1), lambda a: np.concatenate([a, a * 2], -1)),
    "cat with reals": (lambda t: smolder.cat([t, t.real], 0), lambda a: np.concatenate([a, a.real], 0)),
    "stack": (lambda t: smolder.stack([t, t], -1), lambda a: np.stack([a, a], -1)),
    "index": (lambda t: t[[2, 0], [1, 3]], lambda a: a[[2, 0], [1, 3]]),
    "mask": (lambda t: t[t.real > 0], lambda a: a[a.real > 0]),
    "gather": (
        lambda t: t.gather(1, smolder.tensor([[0, 3], [1, 1], [2, 0]])),
        lambda a: np.take_along_axis(a, np.array([[0, 3], [1, 1], [2, 0]]), 1),
    ),
    "pad": (
        lambda t: smolder.nn.functional.pad(t, (1, 2), value=3.0),
        lambda a: np.pad(a, ((0, 0), (1, 2)), constant_values=3),
    ),
    "tril": (lambda t: t.tril(), np.tril),
    "where": (lambda t: smolder.where(t.real > 0, t, 1j), lambda a: np.where(a.real > 0, a, 1j)),
    "masked_fill": (lambda t: t.masked_fill(t.real > 0, 2.0), lambda a: np.where(a.real > 0, 2, a)),
    "diagonal": (lambda t: t.diagonal(), np.diagonal),
    "sum": (lambda t: t.sum(-1), lambda a: a.sum(-1)),
    "mean": (lambda t: t.mean(0, keepdim=True), lambda a: a.mean(0, keepdims=True)),
    "cumsum": (lambda t: t.cumsum(-1), lambda a: a.cumsum(-1)),
    "cumprod": (lambda t: t.cumprod(1), lambda a: a.cumprod(1)),
    "cumprod first": (lambda t: t.cumprod(0), lambda a: a.cumprod(0)),
    "prod": (lambda t: t.prod(1), lambda a: a.prod(1)),
    "prod kept": (lambda t: t.prod(0, keepdim=True), lambda a: a.prod(0, keepdims=True)),
    "logsumexp": (lambda t: t.logsumexp(1), lambda a: np.log(np.exp(a).sum(1))),
    "cov": (lambda t: smolder.cov(t), lambda a: np.cov(a)),
    "conv": (
        lambda t: smolder.nn.functional.conv1d(t[None], t[:2, None, :2].expand(2, 3, 2), t[:2, 0], padding=1),
        lambda a: np.stack([sum(np.convolve(a[c], a[f, :2][::-1]) for c in range(3)) + a[f, 0] for f in range(2)])[
            None
        ],
    ),
    "logical_and": (lambda t: smolder.logical_and(t, t * 0), lambda a: np.logical_and(a, a * 0)),
    "var": (lambda t: t.var(0), lambda a: a.var(0, ddof=1)),
    "std": (lambda t: t.std(), lambda a: np.asarray(a.std(ddof=1))),
    "norm": (lambda t: t.norm(), lambda a: np.asarray(np.linalg.norm(a))),
    "matmul": (lambda t: t @ t.mH, lambda a: a @ a.conj().T),
    "matmul by reals": (lambda t: t @ t.real.T, lambda a: a @ a.real.T),
    "einsum": (lambda t: smolder.einsum("ij,kj->ik", t, t), lambda a: np.einsum("ij,kj->ik", a, a)),
    "vdot": (lambda t: smolder.vdot(t[0], t[1]), lambda a: np.asarray(np.vdot(a[0], a[1]))),
    "addmm": (lambda t: smolder.addmm(t[:, :3], t, t.mT, beta=2), lambda a: 2 * a[:, :3] + a @ a.T),
    "linear": (lambda t: smolder.nn.functional.linear(t, t, t[:, 0]), lambda a: a @ a.T + a[:, 0]),
    "lerp": (lambda t: smolder.lerp(t, t.conj(), 0.25), lambda a: a + 0.25 * (a.conj() - a)),
    "addcmul": (lambda t: smolder.addcmul(t, t, t, value=2), lambda a: a + 2 * a * a),
    "whole powers": (
        lambda t: smolder.stack([t**3, t**4, t**-1, t**-2, smolder.pow(t, 2)]),
        lambda a: np.stack([a**3, a**4, a**-1, a**-2, a**2]),
    ),
    "masked_scatter": (
        lambda t: t.masked_scatter(t.real > 0, t.flatten() ** 3),
        lambda a: np.stack(handed_out(a, a.real > 0, a.ravel() ** 3)),
    ),
    "index_fill": (
        lambda t: t.index_fill(1, smolder.tensor([0, 2]), 3.0),
        lambda a: np.where(np.array([True, False, True, False]), 3, a),
    ),
    "silu": (lambda t: smolder.nn.functional.silu(t), lambda a: a / (1 + np.exp(-a))),
    "l1_loss": (
        lambda t: smolder.nn.functional.l1_loss(t, t.conj() * 2, reduction="sum"),
        lambda a: np.asarray(np.abs(a - 2 * a.conj()).sum()),
    ),
    "normalize": (
        lambda t: smolder.nn.functional.normalize(t, dim=-1),
        lambda a: a / np.linalg.norm(a, axis=-1, keepdims=True),
    ),
}


def handed_out(a, mask, values):
    out = a.copy()
    out[mask] = values[: mask.sum()]
    return out


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("name", MOVES)
def test_movement_sums_and_products(name, eager):
    ours, expected = MOVES[name]
    z = numbers(3, 4)
    with smolder.eager() if eager else nullcontext():
        out = ours(smolder.from_numpy(z.copy()))
    same(out.resolve_conj(), np.ascontiguousarray(expected(z)) if np.ndim(expected(z)) else np.asarray(expected(z)))


@pytest.mark.parametrize("name", [n for n in MOVES if n not in {"mask", "std", "logical_and"}])
def test_gradients_of_movement_sums_and_products(name):
    pairs = smolder.view_as_real(smolder.from_numpy(numbers(3, 4))).clone().requires_grad_()

    def parts(pairs):
        out = MOVES[name][0](smolder.view_as_complex(pairs))
        return smolder.view_as_real(out) if out.is_complex() else out

    assert gradcheck(parts, (pairs,))


@NUMPY
def test_views_share_memory_both_ways():
    z = smolder.zeros(2, 3, dtype=smolder.complex64)
    z[0, 1] = 2 + 3j
    z[:, 2] = smolder.tensor([1j, 2j])
    z.real[1] = 5.0
    z.imag = z.imag * 2
    row = z[1]
    row += 1
    pairs = smolder.view_as_real(z)
    pairs[0, 0, 0] = 7.0
    assert z.tolist() == [[7 + 0j, 2 + 6j, 2j], [6 + 0j, 6 + 0j, 6 + 4j]]
    assert z[0].stride() == (1,) and z.stride() == (3, 1) and pairs.stride() == (6, 2, 1)
    assert z.real.stride() == (6, 2) and z.imag.storage_offset() == 1
    array = z.numpy()
    array[0, 0] = 9j
    assert z[0, 0].item() == 9j
    back = smolder.from_numpy(array)
    back[0, 1] = 0
    assert z[0, 1].item() == 0


@of_the_cpu("what is printed names the device")
def test_making_reading_and_printing():
    z = smolder.tensor([[1 + 2j, 3.5 - 1j]])
    assert z.dtype == smolder.complex64 and z.tolist() == [[1 + 2j, 3.5 - 1j]]
    assert repr(z) == "tensor([[1.0000+2.j, 3.5000-1.j]])"
    assert repr(smolder.tensor(1j, dtype=smolder.complex128)) == "tensor(0.+1.j, dtype=smolder.complex128)"
    assert complex(z[0, 0]) == 1 + 2j and z.is_complex() and smolder.is_complex(z) and not z.is_floating_point()
    assert smolder.zeros(2, dtype=smolder.cfloat).tolist() == [0j, 0j]
    assert smolder.full((2,), 2.0, dtype=smolder.cdouble).tolist() == [2 + 0j] * 2
    assert smolder.full((2,), 1j).tolist() == [1j, 1j] and z.new_full((1,), 2j).tolist() == [2j]
    assert smolder.eye(2, dtype=smolder.complex64).tolist() == [[1, 0], [0, 1]]
    assert smolder.ones_like(z).tolist() == [[1 + 0j, 1 + 0j]]
    drawn = smolder.randn(20_000, dtype=smolder.complex64)
    assert abs(drawn.abs().square().mean().item() - 1) < 0.05
    assert smolder.rand(100, dtype=smolder.complex64).imag.min().item() >= 0
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        assert z.to(smolder.float32).tolist() == [[1.0, 3.5]]
    assert z.to(smolder.complex128).dtype == smolder.complex128
    assert smolder.polar(smolder.tensor([2.0]), smolder.tensor([0.0])).tolist() == [2 + 0j]


@pytest.mark.parametrize("eager", [False, True])
def test_what_a_mask_selects_is_written(eager):
    a = numbers(5, 6)
    mask = a.real > 0
    with smolder.eager() if eager else nullcontext():
        z, m = smolder.from_numpy(a.copy()), smolder.from_numpy(mask)
        for _ in range(3):
            z[m] = z[m] ** 2 + 0.1j  # a Julia set's step
            a[mask] = a[mask] ** 2 + 0.1j
        z[m] *= 2
        z.pow_(3)
    a[mask] *= 2
    same(z, a**3)


def test_a_sinc_at_zero():
    z = smolder.tensor([0j, 1e-30j, 1 + 0j])
    np.testing.assert_allclose(smolder.sinc(z).numpy(), [1, 1, 0], atol=1e-7)


def test_what_complex_numbers_have_not_is_refused():
    z = smolder.ones(3, dtype=smolder.complex64)
    for name, text in {
        "floor": "floor is not supported for complex inputs",
        "relu": "clamp is not supported for complex types",
        "erf": "\"erf_vml_cpu\" not implemented for 'ComplexFloat'",
        "argmax": r"argmax\(\): does not support complex input",
        "sort": "Sort does not support complex dtypes on CPU",
        "topk": "topk does not support complex dtypes on CPU",
        "maximum": "maximum not implemented for complex tensors.",
        "lt": "\"lt_cpu\" not implemented for 'ComplexFloat'",
        "signbit": "signbit is not implemented for complex tensors.",
        "remainder": "\"remainder_cpu\" not implemented for 'ComplexFloat'",
        "floor_divide": "\"div_floor_cpu\" not implemented for 'ComplexFloat'",
    }.items():
        with pytest.raises((NotImplementedError, RuntimeError), match=text):
            function = getattr(smolder, name)
            function(
                z, *{"topk": (1,), "maximum": (z,), "lt": (z,), "remainder": (2,), "floor_divide": (2,)}.get(name, ())
            )
    with pytest.raises((NotImplementedError, RuntimeError), match=r"(?i)complex"):
        z < z  # noqa: B015
    with pytest.raises(RuntimeError, match="only supported for complex tensors"):
        smolder.view_as_real(smolder.ones(2))


def test_training_and_files(tmp_path):
    weight = smolder.nn.Parameter(smolder.from_numpy(numbers(3, 3, dtype="complex64")))
    target = smolder.from_numpy(2 * numbers(3, 3, dtype="complex64"))
    for make in (lambda p: smolder.optim.Adam(p, lr=0.1), lambda p: smolder.optim.SGD(p, lr=0.1, momentum=0.9)):
        optimizer = make([weight])
        losses = []
        for _ in range(20):
            loss = (weight - target).abs().square().sum()
            optimizer.zero_grad()
            loss.backward()
            smolder.nn.utils.clip_grad_norm_([weight], 10.0)
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < losses[0]
    smolder.save({"w": weight.detach()}, tmp_path / "w.pt")
    assert smolder.load(tmp_path / "w.pt")["w"].tolist() == weight.tolist()
    smolder.safetensors.save_file({"w": weight.detach().clone()}, tmp_path / "w.safetensors")
    assert smolder.safetensors.load_file(tmp_path / "w.safetensors")["w"].tolist() == weight.tolist()


def test_compiled_functions_vmap_and_rotary_positions():
    angles = smolder.outer(smolder.arange(6).float(), 1.0 / 10 ** smolder.arange(4).float())
    turns = smolder.polar(smolder.ones_like(angles), angles)

    def rotate(x):
        pairs = smolder.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return smolder.view_as_real(pairs * turns).flatten(-2)

    x = smolder.from_numpy(RNG.standard_normal((2, 6, 8)).astype("float32"))
    a = x.numpy().reshape(2, 6, 4, 2)
    expected = (a[..., 0] + 1j * a[..., 1]) * turns.numpy()
    expected = np.stack([expected.real, expected.imag], -1).reshape(2, 6, 8)
    for function in (rotate, smolder.compile(rotate), smolder.vmap(rotate)):
        np.testing.assert_allclose(function(x).numpy(), expected, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(function(x).numpy(), expected, rtol=1e-5, atol=1e-5)


CUTS = [complex(a, b) for a in (-3.0, -1.0, -0.5, 0.0, 0.5, 1.0, 3.0) for b in (-2.0, -0.0, 0.0, 2.0)]


@pytest.mark.parametrize("name", ["asin", "acos", "atan", "asinh", "acosh", "atanh", "sqrt", "log", "log1p"])
def test_cuts_and_branch_points(name):
    numpys = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh"}
    numpys = {**numpys, "atanh": "arctanh"}.get(name, name)
    z = np.array(CUTS)
    with np.errstate(all="ignore"):
        expected = getattr(np, numpys)(z)
    keep = np.isfinite(expected)
    out = getattr(smolder, name)(smolder.from_numpy(z.copy())).numpy()
    np.testing.assert_allclose(out[keep], expected[keep], rtol=1e-12, atol=1e-12)


def test_accurate_near_zero_and_far_out():
    tiny = np.array([1e-10 + 1e-10j, -1e-12j, 1e-9 + 0j])
    for name, sign in (("log1p", -1), ("expm1", 1)):  # NumPy's are not accurate here
        out = getattr(smolder.from_numpy(tiny.copy()), name)().numpy()
        np.testing.assert_allclose(out, tiny + sign * tiny * tiny / 2, rtol=1e-14)
    large = np.array([0.9e308 + 0.9e308j, -1.7e308 + 0j])
    np.testing.assert_allclose(smolder.from_numpy(large.copy()).sqrt().numpy(), np.sqrt(large), rtol=1e-12)


@pytest.mark.parametrize("size", [0, 1, 2, 5, 8])
def test_products_of_any_number(size):
    z = numbers(2, size)
    same(smolder.from_numpy(z.copy()).prod(1), z.prod(1))
    same(smolder.from_numpy(z.copy()).prod((0, 1)), np.asarray(z.prod()))
    same(smolder.from_numpy(z.copy()).cumprod(1), z.cumprod(1))


def test_gradients_of_products_with_zeros():
    pairs = smolder.view_as_real(smolder.tensor([1 + 1j, 0j, 2 - 1j], dtype=smolder.complex128)).requires_grad_()
    for function in (lambda z: z.prod(), lambda z: z.cumprod(0)):
        assert gradcheck(lambda p: smolder.view_as_real(function(smolder.view_as_complex(p))), (pairs,))  # noqa: B023


def test_spread_numbers():
    same(smolder.linspace(0, 1 + 2j, 5, dtype=smolder.complex128), np.linspace(0, 1 + 2j, 5))
    same(smolder.logspace(0, 1j, 3, dtype=smolder.complex128), np.logspace(0, 1j, 3))
    assert smolder.linspace(0, 1j, 3).dtype is smolder.complex64
    with pytest.raises(RuntimeError, match="value cannot be converted to type double without overflow"):
        smolder.arange(0, 1j)
    with pytest.raises(NotImplementedError, match="\"arange_cpu\" not implemented for 'ComplexFloat'"):
        smolder.arange(3, dtype=smolder.complex64)


def test_gradcheck_takes_complex_numbers():
    z = smolder.from_numpy(numbers(2, 2)).requires_grad_()
    w = smolder.randn(2, dtype=smolder.float64, requires_grad=True)
    assert gradcheck(lambda z, w: (z.exp() * w, z.abs()), (z, w))
    assert smolder.autograd.gradgradcheck(lambda z, w: z * z * w, (z, w))

    class Wrong(smolder.autograd.Function):
        @staticmethod
        def forward(ctx, z):
            return z * 2j

        @staticmethod
        def backward(ctx, grad):
            return grad * 2j  # where the conjugate is due

    with pytest.raises(RuntimeError, match="Jacobian mismatch"):
        gradcheck(Wrong.apply, (z,))


@pytest.mark.parametrize("name", ["LBFGS", "Rprop"])
def test_optimizers_of_complex_weights(name):
    target = smolder.from_numpy(numbers(3, dtype="complex64"))
    weight = smolder.zeros(3, dtype=smolder.complex64, requires_grad=True)
    optimizer = getattr(smolder.optim, name)([weight], lr=0.5 if name == "LBFGS" else 0.1)

    def closure():
        optimizer.zero_grad()
        loss = (weight - target).abs().square().sum()
        loss.backward()
        return loss

    first = closure().item()
    for _ in range(15):
        optimizer.step(closure)
    assert closure().item() < first / 100


def test_rprop_steps_are_those_of_both_parts():
    """An optimizer takes the same steps as with pairs of real numbers."""
    start = numbers(4, dtype="complex64")
    z = smolder.from_numpy(start.copy()).requires_grad_()
    pairs = smolder.view_as_real(smolder.from_numpy(start.copy())).clone().requires_grad_()
    for weight in (z, pairs):
        optimizer = smolder.optim.Rprop([weight], lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            x = smolder.view_as_real(weight) if weight.is_complex() else weight
            (x**4).sum().backward()
            optimizer.step()
    np.testing.assert_array_equal(smolder.view_as_real(z.detach()).numpy(), pairs.detach().numpy())


@pytest.mark.parametrize(
    "make",
    [
        lambda: smolder.nn.Linear(3, 2, dtype=smolder.complex64),
        lambda: smolder.nn.Conv1d(3, 2, 2, dtype=smolder.complex64),
        lambda: smolder.nn.Conv2d(3, 2, 2, dtype=smolder.complex64),
        lambda: smolder.nn.ConvTranspose1d(3, 2, 2, dtype=smolder.complex64),
    ],
)
def test_layers_of_complex_numbers(make):
    smolder.manual_seed(0)
    layer = make()
    shape = {1: (4, 3), 2: (4, 3), 3: (2, 3, 5), 4: (2, 3, 5, 5)}[layer.weight.dim()]
    x = smolder.randn(*shape, dtype=smolder.complex64)
    out = layer(x)
    assert out.dtype is smolder.complex64
    w, b, z = (t.detach().to(smolder.complex128) for t in (layer.weight, layer.bias, x))

    def run(w, b, z):
        fresh = make()
        return smolder.func.functional_call(fresh.to(smolder.complex128), {"weight": w, "bias": b}, (z,))

    np.testing.assert_allclose(out.detach().numpy(), run(w, b, z).numpy(), rtol=1e-4, atol=1e-5)
    assert gradcheck(run, tuple(t.requires_grad_() for t in (w, b, z)))


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        (lambda: smolder.zeros(3, 3)[:, :2], "stride divisible by 2"),
        (lambda: smolder.zeros(2, 3).t(), "last dimension with stride 1"),
        (lambda: smolder.zeros(5)[1:].reshape(2, 2), "storage_offset divisible by 2"),
        (lambda: smolder.zeros(2, 3), "last dimension of size 2"),
    ],
)
def test_parts_that_lie_otherwise_are_no_complex_tensor(pairs, message):
    with pytest.raises(RuntimeError, match=message):
        smolder.view_as_complex(pairs())


def test_what_would_lose_or_invent_a_part_is_refused():
    z, x = smolder.tensor([1 + 2j]), smolder.zeros(1)
    with pytest.raises(NotImplementedError, match="in the real dtype float32"):
        z.sum(dtype=smolder.float32)
    with pytest.raises(RuntimeError, match="same dtype"):
        x.scatter(0, smolder.tensor([0]), z)
    with pytest.raises(RuntimeError, match="without overflow"):
        x[0] = 1j
    assert z.sum(dtype=smolder.complex128).item() == 1 + 2j


def test_autocast_leaves_complex_products_alone():
    z = smolder.from_numpy(numbers(3, 3, dtype="complex64"))
    with smolder.autocast("cpu", dtype=smolder.bfloat16):
        product = z @ z
    same(product, z.numpy() @ z.numpy(), 1e-5)


def test_numbers_of_compiled_functions_may_change():
    scaled = smolder.compile(lambda x, by: x * by + 1j)
    x = smolder.tensor([1.0, 2.0])
    for by in (2j, 3j, 3j, 2.0):
        assert scaled(x, by).tolist() == [by + 1j, 2 * by + 1j]


# PyTorch 2.11's values of 1 + 2j and -1 + 0.5j in three steps down the squares of their magnitudes.
STEPPED = {
    "SGD": (0.9940120577812195 + 1.988024115562439j, -0.9940120577812195 + 0.49700602889060974j),
    "AdamW": (0.9969700574874878 + 1.996940016746521j, -0.9969700574874878 + 0.49698519706726074j),
    "RMSprop": (0.7799822688102722 + 1.775349497795105j, -0.7799822688102722 + 0.29043322801589966j),
    "Adagrad": (0.9772379398345947 + 1.977196455001831j, -0.9772379398345947 + 0.4773218631744385j),
    "Adadelta": (0.9903090596199036 + 1.9903007745742798j, -0.9903090596199036 + 0.4903256893157959j),
    "Adamax": (0.9940003752708435 + 1.9939972162246704j, -0.9940003752708435 + 0.4940067529678345j),
    "NAdam": (0.994858980178833 + 1.9948570728302002j, -0.994858980178833 + 0.49486255645751953j),
    "RAdam": (0.9940063953399658 + 1.9880127906799316j, -0.9940063953399658 + 0.4970031976699829j),
}


@pytest.mark.parametrize("name", STEPPED)
def test_optimizers_step_both_parts(name):
    weight = smolder.nn.Parameter(smolder.tensor([1 + 2j, -1 + 0.5j]))
    optimizer = getattr(smolder.optim, name)([weight])
    for _ in range(3):
        optimizer.zero_grad()
        weight.abs().square().sum().backward()
        optimizer.step()
    np.testing.assert_allclose(weight.tolist(), STEPPED[name], rtol=1e-5)


def test_adagrad_begins_both_parts_with_its_value():
    weight = smolder.nn.Parameter(smolder.tensor([1 + 2j]))
    optimizer = smolder.optim.Adagrad([weight], lr=0.1, initial_accumulator_value=0.5)
    assert optimizer.state[weight]["sum"].tolist() == [0.5 + 0.5j]
    weight.abs().square().sum().backward()
    optimizer.step()
    np.testing.assert_allclose(weight.tolist(), [0.9057191014289856 + 1.9015268087387085j], rtol=1e-6)


def test_modules_become_complex():
    layer = smolder.nn.Linear(2, 2).to(smolder.complex64)
    assert layer.weight.is_complex() and layer(smolder.tensor([1j, 2])).is_complex()


@pytest.mark.parametrize("shape, dim", [((), 0), ((1,), 0), ((3, 1), 1)])
def test_products_of_one_element_are_no_views_of_it(shape, dim):
    x = smolder.full(shape, 2 + 1j)
    before = x.tolist()
    for product in (x.cumprod(dim), x.prod(dim), x.prod(dim, keepdim=True)):
        product.add_(1)
    assert x.tolist() == before


def test_powers_of_zero():
    """1 to the power 0, 0 where the exponent's real part is positive, and no number else: it was 0 everywhere."""
    exponents = [0, 1 + 1j, 0.5, -1, -1 - 1j, 1j]
    for zero in (smolder.zeros(6, dtype=smolder.complex128), smolder.zeros(6, dtype=smolder.float64), 0):
        out = (zero ** smolder.tensor(exponents, dtype=smolder.complex128)).numpy()
        assert out[:3].tolist() == [1, 0, 0] and np.isnan(out[3:]).all()
    base = smolder.tensor([0j, 0j, 2 + 0j])
    assert (base ** smolder.tensor([0.0, 2.0, 2.0])).tolist() == [1, 0, pytest.approx(4)]


def test_copies_and_buffers_of_complex_numbers():
    x = smolder.tensor([1 + 2j, 3 - 1j], dtype=smolder.complex128)
    for first in (x, x * 1):  # whose storages are of complex numbers, and of their parts
        for pick in (lambda t: t.real, lambda t: t.imag, lambda t: t[1:], smolder.view_as_real, lambda t: t[1:].imag):
            whole, part = copy.deepcopy((first, pick(first)))
            assert whole.tolist() == first.tolist() and part.dtype == pick(first).dtype
            assert part.tolist() == pick(first).tolist()
            part.zero_()
            assert pick(whole).abs().sum().item() == 0
    for dtype in (np.complex64, np.complex128):
        numbers = np.array([1 + 2j, 3], dtype)
        assert smolder.frombuffer(
            bytearray(numbers.tobytes()), dtype=getattr(smolder, numbers.dtype.name)
        ).tolist() == [1 + 2j, 3]
    x.untyped_storage().fill_(0)
    assert x.tolist() == [0, 0]


def test_complex_numbers_that_are_real():
    z = smolder.tensor([3 + 0j])
    assert (int(z), float(z), complex(z), bool(z)) == (3, 3.0, 3 + 0j, True)
    assert type(int(z)) is int and type(float(z)) is float
    for value in (1j, complex(2, float("nan"))):
        with pytest.raises(RuntimeError, match="value cannot be converted to type int64_t without overflow"):
            int(smolder.tensor(value))
        with pytest.raises(RuntimeError, match="value cannot be converted to type double without overflow"):
            float(smolder.tensor(value))
        assert bool(smolder.tensor(value))
    with pytest.raises(TypeError, match="only integer tensors of a single element can be converted to an index"):
        [1, 2, 3, 4][z]
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        complex(smolder.tensor([1j, 2j]))


@pytest.mark.parametrize("data", [1j, 1 + 0j, [1j, 2], [[1.0], [2j]]])
def test_complex_numbers_are_no_real_elements(data):
    for make in (smolder.tensor, smolder.as_tensor, smolder.ones(2).new_tensor):
        with pytest.raises(TypeError, match="must be real number, not complex"):
            make(data, dtype=smolder.float32)
        with pytest.raises(TypeError, match="'complex' object cannot be interpreted as an integer"):
            make(data, dtype=smolder.int64)
    x = smolder.ones(2)
    for value in (1j, smolder.tensor(1j)):
        with pytest.raises(RuntimeError, match="value cannot be converted to type float32 without overflow"):
            x.masked_fill(x > 0, value)


def test_a_complex_number_without_imaginary_part_fills_real_elements():
    x = smolder.arange(3.0)
    mask = x > 1
    for value in (5 + 0j, smolder.tensor(5 + 0j)):
        assert x.masked_fill(mask, value).tolist() == [0, 1, 5]
    y = x.clone()
    y[0] = 2 + 0j
    assert y.fill_(4 + 0j).tolist() == [4] * 3 and x.clamp(1 + 0j).tolist() == [1, 1, 2]
    assert smolder.full((2,), 1 + 0j, dtype=smolder.int64).tolist() == [1, 1]
    assert smolder.full_like(x, 1 + 0j).tolist() == [1] * 3
    for write in (lambda: y.fill_(1j), lambda: smolder.full((2,), 1j, dtype=smolder.float32)):
        with pytest.raises((RuntimeError, TypeError), match=r"overflow|complex"):
            write()


def test_integers_beside_complex_numbers_are_scaled_without_wrapping():
    z, whole = smolder.tensor([1 + 2j, 3j]), smolder.tensor([255, 7], dtype=smolder.uint8)
    assert smolder.sub(z, whole, alpha=3).tolist() == [-764 + 2j, -21 + 3j]
    assert smolder.rsub(whole, z, alpha=3).tolist() == [-764 + 2j, -21 + 3j]
    assert smolder.addcmul(z, whole, whole).tolist() == [65026 + 2j, 49 + 3j]
    assert smolder.addcmul(whole[0], whole[0], z).tolist() == [510 + 510j, 255 + 765j]
    assert smolder.add(z, whole[0], alpha=2).tolist() == [511 + 2j, 510 + 3j]


def test_sums_of_real_numbers_in_a_complex_dtype():
    x = smolder.arange(1.0, 4.0)
    for name, expected in (("sum", 6), ("mean", 2), ("prod", 6)):
        got = getattr(x, name)(dtype=smolder.complex64)
        assert got.dtype == smolder.complex64 and got.item() == expected
    assert x.long().cumsum(0, dtype=smolder.complex128).tolist() == [1, 3, 6]
    assert x.cumprod(0, dtype=smolder.complex64).tolist() == [1, 2, 6]


def test_views_with_strides_are_of_complex_elements():
    z = smolder.arange(6.0) * (1 + 1j)
    assert z.view(2, 3)[1].as_strided((2,), (1,), 1).tolist() == [1 + 1j, 2 + 2j]
    assert z[1:].as_strided((2, 2), (2, 1), 0).tolist() == [[0j, 1 + 1j], [2 + 2j, 3 + 3j]]
    z.as_strided((2,), (3,), 1).mul_(2)
    assert z.tolist() == [0j, 2 + 2j, 2 + 2j, 3 + 3j, 8 + 8j, 5 + 5j]
    for size, stride, offset in (((9,), (1,), 0), ((4,), (2,), 0), ((2,), (5,), 1)):
        with pytest.raises(RuntimeError, match="are out of bounds for storage of size 48"):
            z.as_strided(size, stride, offset)
    leaf = smolder.ones(3, dtype=smolder.complex64, requires_grad=True)
    product = leaf * 2
    assert not product.detach_().requires_grad and product.tolist() == [2] * 3


def test_complex_tensors_without_elements_print_their_dtype():
    assert repr(smolder.empty(0, dtype=smolder.complex64)) == "tensor([], dtype=smolder.complex64)"
    assert repr(smolder.empty(0, 3, dtype=smolder.complex64)) == "tensor([], size=(0, 3), dtype=smolder.complex64)"


def test_zero_dim_complex_operands_give_complex_results():
    whole, halves = smolder.tensor([4, 0, -1]), smolder.tensor([0.1, -0.0, 100.0], dtype=smolder.bfloat16)
    for z in (smolder.tensor(1 + 2j), 1j):  # what has no complex results would drop the imaginary part else
        for call in (
            lambda z: whole // z,
            lambda z: whole % z,
            lambda z: smolder.fmod(whole, z),
            lambda z: smolder.div(whole, z, rounding_mode="trunc"),
        ):
            with pytest.raises(NotImplementedError, match="Complex"):
                call(z)
    # Sums are of float32 parts, not of halves.
    expected = halves.float().numpy()
    for got, right in (
        (smolder.tensor(1 + 2j) - halves, 1 + 2j - expected),
        (halves + smolder.tensor(1 + 2j), expected + (1 + 2j)),
        (smolder.where(halves > 1, smolder.tensor(0.3 + 2j), halves), np.where(expected > 1, 0.3 + 2j, expected)),
    ):
        assert got.dtype == smolder.complex64
        np.testing.assert_allclose(got.numpy(), right, rtol=1e-6)
    assert smolder.add(whole, 1j, alpha=3).tolist() == [4 + 3j, 3j, -1 + 3j]
    assert smolder.sub(whole.bfloat16(), 1j, alpha=3).dtype == smolder.complex64


def test_division_by_what_has_no_size():
    """By zero each part is divided, and by what is infinite the quotient is 0; as torch."""
    zero, infinite = [0j, 0j], [complex(np.inf, 0), complex(0, -np.inf)]
    ones = smolder.tensor([1 + 0j, 1 + 1j])
    got = (ones / smolder.tensor(zero)).tolist()
    assert str(got) == "[(inf+nanj), (inf+infj)]"
    assert (ones / smolder.tensor(infinite)).tolist() == zero
    assert str((ones / 0j).tolist()) == "[(inf+nanj), (inf+infj)]"
    assert str((smolder.tensor(zero) / smolder.tensor(zero)).tolist()) == "[(nan+nanj), (nan+nanj)]"


def test_gradients_of_division_beside_zero():
    z = smolder.tensor([3 + 4j, 0j, -2j], requires_grad=True)
    (1 / z)[::2].abs().sum().backward()
    assert gradcheck(
        lambda w: (1 / w).abs(), [smolder.tensor([3 + 4j, -2j], dtype=smolder.complex128, requires_grad=True)]
    )
    assert not z.grad[::2].isnan().any()


@pytest.mark.parametrize("include_self", [True, False])
def test_means_of_scattered_numbers(include_self):
    x, at = smolder.tensor([1 + 1j, 2 + 0j]), smolder.tensor([0, 0])
    out = x.scatter_reduce(0, at, smolder.tensor([3 + 3j, 5j]), "mean", include_self=include_self)
    mean = (4 + 9j) / 3 if include_self else (3 + 8j) / 2
    np.testing.assert_allclose(out.tolist(), [mean, 2], rtol=1e-6)


@pytest.mark.parametrize("name", ("sqrt", "rsqrt", "acos", "acosh", "asin", "atanh", "log"))
@pytest.mark.parametrize("side", (0.0, -0.0))
def test_gradients_on_the_cuts(name, side):
    """Along the real axis a derivative is that of the side which the sign of the zero says."""
    x = (
        np.array([-3.0, -2.0, 2.5, 4.0])
        if name in ("acos", "acosh", "asin", "atanh")
        else np.array([-3.0, -0.5, 2.0, 4.0])
    )
    z = smolder.complex(smolder.tensor(x), smolder.full((4,), side, dtype=smolder.float64)).requires_grad_()
    near = smolder.complex(z.detach().real, smolder.full((4,), np.copysign(1e-9, side), dtype=smolder.float64))
    near.requires_grad_()
    for of in (z, near):
        found = getattr(smolder, name)(of)
        (found.real * 2 + found.imag * 3).sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), near.grad.numpy(), atol=1e-6)


def test_the_gradient_of_a_sign_at_zero_is_zero_and_of_a_logarithm_infinite():
    z = smolder.tensor([0j, 1 + 1j], requires_grad=True)
    smolder.sgn(z).real.sum().backward()
    assert z.grad[0] == 0 and z.grad[1] != 0
    w = smolder.tensor([0j, 1j, 1 + 1j], requires_grad=True)
    smolder.log(w).real.sum().backward()
    np.testing.assert_allclose(w.grad[1:].numpy(), [1j, 0.5 + 0.5j], atol=1e-6)
    assert not w.grad[0].isfinite()
