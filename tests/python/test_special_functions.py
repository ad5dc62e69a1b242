"""Special functions that Python makes of ops: Bessel's, Airy's, tails of the normal distribution, orthogonal polynomials."""

import json
import math

import numpy as np
import pytest
import scipy.special as reference
from torch_peer import needs_torch, run_torch

import smolder
from smolder import special

INF, NAN = math.inf, math.nan
X = np.concatenate(
    [np.linspace(-12, 12, 49), np.linspace(0.001, 0.999, 13), [1e-300, 1e-20, 9e-6, 2.08, 2.09, 4.1, 7.9, 8.1]]
)
ONE_ARGUMENT = {
    "airy_ai": (lambda x: reference.airy(x)[0], 1e-14),
    "bessel_j0": (reference.j0, 1e-15),
    "bessel_j1": (reference.j1, 1e-15),
    "bessel_y0": (reference.y0, 1e-14),
    "bessel_y1": (reference.y1, 1e-14),
    "modified_bessel_i0": (reference.i0, 2e-15),
    "modified_bessel_i1": (reference.i1, 2e-15),
    "modified_bessel_k0": (reference.k0, 4e-15),
    "modified_bessel_k1": (reference.k1, 4e-15),
    "scaled_modified_bessel_k0": (reference.k0e, 4e-15),
    "scaled_modified_bessel_k1": (reference.k1e, 4e-15),
    "spherical_bessel_j0": (lambda x: reference.spherical_jn(0, x), 1e-15),
    "erfcx": (reference.erfcx, 4e-15),
    "log_ndtr": (reference.log_ndtr, 2e-15),
    "ndtri": (reference.ndtri, 2e-15),
}
POLYNOMIALS = {
    "chebyshev_polynomial_t": reference.eval_chebyt,
    "chebyshev_polynomial_u": reference.eval_chebyu,
    "chebyshev_polynomial_v": lambda n, x: reference.eval_chebyu(n, x) - reference.eval_chebyu(n - 1, x) * (n > 0),
    "chebyshev_polynomial_w": lambda n, x: reference.eval_chebyu(n, x) + reference.eval_chebyu(n - 1, x) * (n > 0),
    "hermite_polynomial_h": reference.eval_hermite,
    "hermite_polynomial_he": reference.eval_hermitenorm,
    "laguerre_polynomial_l": reference.eval_laguerre,
    "legendre_polynomial_p": reference.eval_legendre,
}
# 0, infinities and what is no number; where float64 has them, torch and SciPy do too, but SciPy's Ai and I are not nan.
ENDS = {
    "airy_ai": [0.3550280538878172, NAN, NAN, NAN],
    "bessel_j0": [1.0, NAN, NAN, NAN],
    "bessel_j1": [0.0, NAN, NAN, NAN],
    "bessel_y0": [-INF, NAN, NAN, NAN],
    "bessel_y1": [-INF, NAN, NAN, NAN],
    "modified_bessel_i0": [1.0, NAN, NAN, NAN],
    "modified_bessel_i1": [0.0, NAN, NAN, NAN],
    "modified_bessel_k0": [INF, 0.0, NAN, NAN],
    "modified_bessel_k1": [INF, 0.0, NAN, NAN],
    "scaled_modified_bessel_k0": [INF, 0.0, NAN, NAN],
    "scaled_modified_bessel_k1": [INF, 0.0, NAN, NAN],
    "spherical_bessel_j0": [1.0, 0.0, 0.0, NAN],
    "erfcx": [1.0, 0.0, INF, NAN],
    "log_ndtr": [math.log(0.5), 0.0, -INF, NAN],
    "ndtri": [-INF, NAN, NAN, NAN],
}


@pytest.mark.parametrize("name", ONE_ARGUMENT)
def test_functions_of_one_argument_are_scipys(name):
    of, tolerance = ONE_ARGUMENT[name]
    ours = getattr(special, name)
    with np.errstate(all="ignore"):
        expected = of(X)
    np.testing.assert_allclose(ours(smolder.tensor(X)).numpy(), expected, rtol=5 * tolerance, atol=tolerance)
    x = smolder.tensor(X[:8], dtype=smolder.float32)  # exact there
    single = ours(x)
    assert single.dtype == smolder.float32
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(single.numpy(), expected[:8].astype(np.float32), rtol=3e-7)


@pytest.mark.parametrize("name", ENDS)
def test_functions_of_one_argument_at_the_ends(name):
    x = smolder.tensor([0.0, INF, -INF, NAN], dtype=smolder.float64)
    np.testing.assert_allclose(getattr(special, name)(x).numpy(), ENDS[name], rtol=1e-15)


def test_tails_keep_their_digits():
    x = np.array([-1e6, -300.0, -37.0, 30.0, 60.0, 1e4, 1e9])
    np.testing.assert_allclose(special.log_ndtr(smolder.tensor(x)).numpy()[:3], reference.log_ndtr(x[:3]), rtol=1e-14)
    np.testing.assert_allclose(special.erfcx(smolder.tensor(x)).numpy()[3:], reference.erfcx(x[3:]), rtol=1e-14)
    np.testing.assert_allclose(
        special.scaled_modified_bessel_k1(smolder.tensor(x)).numpy()[3:], reference.k1e(x[3:]), rtol=1e-14
    )
    p = np.array([1e-300, 1e-30, 1e-14, 1 - 1e-15])
    np.testing.assert_allclose(special.ndtri(smolder.tensor(p)).numpy(), reference.ndtri(p), rtol=1e-14)


@pytest.mark.parametrize("name", ["erfcx", "log_ndtr", "ndtri"])
def test_gradients_that_torch_has(name):
    x = smolder.linspace(0.05, 0.95, 7, dtype=smolder.float64)
    x = (x if name == "ndtri" else x * 8 - 5).requires_grad_()
    assert smolder.autograd.gradcheck(getattr(special, name), (x,))
    assert smolder.autograd.gradgradcheck(getattr(special, name), (x,))


def test_derivatives_at_zero_are_limits():
    inf, nan = float("inf"), float("nan")
    x = smolder.tensor([0.0, -0.0, 1.0, -1.0], dtype=smolder.float64, requires_grad=True)
    out = special.entr(x)
    out.sum().backward()
    assert out.tolist() == [0, 0, 0, -inf] and x.grad.tolist()[:3] == [inf, inf, -1] and x.grad[3].isnan()
    assert special.entr(x.detach()).tolist() == out.tolist()
    y = smolder.tensor([1.0, -1.0, inf, nan, 3.0], dtype=smolder.float64, requires_grad=True)
    zero = smolder.zeros(5, dtype=smolder.float64, requires_grad=True)
    out = special.xlog1py(zero, y)
    out.sum().backward()
    assert out.tolist()[:3] == [0, 0, 0] and out[3].isnan() and out[4] == 0
    assert zero.grad.tolist()[0] == np.log(2) and zero.grad.tolist()[4] == np.log(4)
    small = smolder.tensor([1e-30, 0.0], requires_grad=True)  # whose square is 0
    small.sinc().sum().backward()
    assert small.grad.tolist() == [0, 0]


def test_what_has_no_gradient_requires_none():
    x = smolder.tensor([0.3], requires_grad=True)
    for name in ONE_ARGUMENT.keys() - {"erfcx", "log_ndtr", "ndtri"}:
        assert not getattr(special, name)(x).requires_grad
    for name in POLYNOMIALS:
        assert not getattr(special, name)(x, 3).requires_grad


def test_integers_are_the_default_dtype():
    assert special.bessel_j0(smolder.tensor([1, 2])).dtype == smolder.float32
    assert special.legendre_polynomial_p(smolder.tensor([1, 2]), smolder.tensor([1, 2])).dtype == smolder.float32
    assert special.legendre_polynomial_p(0.5, smolder.tensor([1.0], dtype=smolder.float64)).dtype == smolder.float64
    assert special.bessel_j0(smolder.tensor([1.0], dtype=smolder.bfloat16)).dtype == smolder.bfloat16


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials_are_scipys(name):
    x = np.concatenate([np.linspace(-1, 1, 21)[1:-1], [-3.0, -1.5, 1.5, 3.0, 10.0]])
    n = np.array([0, 1, 2, 3, 6, 7, 8, 9, 20, 33, 100])
    ours, expected = getattr(special, name), POLYNOMIALS[name](n, x[:, None])
    # A recurrence of n steps loses a few digits of the largest values it passes through.
    size = np.maximum(np.abs(expected), 1.0 if name.startswith(("cheb", "leg")) else np.abs(expected).max(0) * 1e-3)
    got = ours(smolder.tensor(x).unsqueeze(1), smolder.tensor(n)).numpy()
    assert (np.abs(got - expected) / size).max() < 1e-11
    for degree in (3, 20, 33):  # a number: written out, and a loop
        at = list(n).index(degree)
        np.testing.assert_allclose(ours(smolder.tensor(x), degree).numpy(), got[:, at], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kind", "tuvw")
def test_shifted_polynomials_are_those_of_twice_x_less_one(kind):
    x, n = smolder.linspace(-0.4, 1.4, 19, dtype=smolder.float64).unsqueeze(1), smolder.arange(12)
    shifted = getattr(special, f"shifted_chebyshev_polynomial_{kind}")(x, n)
    whole = getattr(special, f"chebyshev_polynomial_{kind}")(2 * x - 1, n)
    np.testing.assert_allclose(shifted.numpy(), whole.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_degrees_at_their_limits(name):
    ours = getattr(special, name)
    x = smolder.tensor([0.5, -1.0, 1.0, NAN], dtype=smolder.float64).unsqueeze(1)
    n = smolder.tensor([-1.0, 0.0, 2.9, NAN, INF], dtype=smolder.float64)
    got = ours(x, n)
    assert got[:, 0].tolist() == [0, 0, 0, 0] and got[:, 3:].eq(0).all()
    assert got[:, 1].tolist() == [1, 1, 1, 1]
    assert got[:3, 2].tolist() == ours(x[:3, 0], 2).tolist()
    assert ours(x[:0], n).shape == (0, 5)
    with pytest.raises(TypeError, match="takes a tensor for x"):
        ours(0.5, 3)
    if name.startswith("hermite"):
        assert math.isnan(ours(x[:1, 0], 513).item()) and math.isnan(ours(x[:1, 0].float(), 129).item())
        assert math.isnan(ours(x[:1, 0], smolder.tensor(513)).item())


def test_degrees_in_a_compiled_function():
    def step(x, n):
        return special.hermite_polynomial_he(x, n) + special.chebyshev_polynomial_u(x, n)

    x, n = smolder.linspace(-2, 2, 5), smolder.tensor([1, 4, 9, 12, 40])
    assert smolder.compile(step, fullgraph=True)(x, n).tolist() == step(x, n).tolist()


@needs_torch
def test_they_give_what_torch_gives():
    values = [*X, 0.0, -0.0, 50.1, -37.0, 300.0, 720.0, 1e6, 1e30, 1e200, -1e200, 1e308, INF, -INF, NAN]
    degrees = [-1, 0, 1, 2, 5, 6, 7, 8, 9, 20, 2.7, NAN, INF]
    code = """
x, n = (torch.tensor([float(v) for v in json.loads(a)], dtype=torch.float64) for a in argv[:2])
out = {k: [str(v) for v in getattr(torch.special, k)(*((x.unsqueeze(1), n) if "poly" in k else (x,))).flatten().tolist()]
       for k in json.loads(argv[2])}
"""
    shifted = [f"shifted_chebyshev_polynomial_{kind}" for kind in "tuvw"]
    names = [*ONE_ARGUMENT, *POLYNOMIALS, *shifted]
    theirs = run_torch(code, *(json.dumps([str(v) for v in values]) for values in (values, degrees)), json.dumps(names))
    x, n = (smolder.tensor([float(v) for v in row], dtype=smolder.float64) for row in (values, degrees))
    for name in names:
        is_polynomial = "polynomial" in name
        ours = getattr(special, name)(*((x.unsqueeze(1), n) if is_polynomial else (x,))).numpy().flatten()
        torchs = np.array([float(v) for v in theirs[name]])
        # Where the recurrence overflows on its way torch has nan, and Chebyshev's closed form the infinity.
        overflow = np.isinf(ours) & np.isnan(torchs)
        assert not overflow.any() or "chebyshev" in name, name
        rtol, atol = (1e-10, 1e-12) if is_polynomial else (1e-14, 1e-15)
        if name in ("airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"):
            rtol, atol = 3e-6, 5e-7  # torch leaves out the leading ones of Cephes's denominators
        np.testing.assert_allclose(ours[~overflow], torchs[~overflow], rtol=rtol, atol=atol, err_msg=name)


def test_scaled_bessel_functions_of_large_and_infinite_numbers():
    x = np.array([INF, -INF, NAN, 9e7, -1.1e8, 1e20, -1e300, 1.7e308])
    for name, expected in (("i0e", reference.i0e(x)), ("i1e", reference.i1e(x))):
        got = smolder.tensor(x, requires_grad=True)
        out = getattr(special, name)(got)
        np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-14)
        out.sum().backward()
        assert got.grad.isfinite().tolist() == [True, True, False, True, True, True, True, True]


def test_xlog1py_promotes_both_operands():
    x = smolder.tensor([0.1, -0.0, 100.0], dtype=smolder.float16)
    out = special.xlog1py(x, smolder.tensor([True, False, True]))
    assert out.dtype == smolder.float16
    np.testing.assert_allclose(out.float().numpy(), reference.xlog1py(x.float().numpy(), [1, 0, 1]), rtol=1e-3)
    with pytest.raises(NotImplementedError, match="complex64"):
        special.xlog1py(x, smolder.tensor(1j))
