"""Incomplete gamma functions, Bessel functions, and their gradients, against SciPy."""

import numpy as np
import pytest
import scipy.special as reference

import smolder
from smolder import special

CONCENTRATIONS = np.array([1e-3, 0.1, 0.5, 1.0, 2.5, 10.0, 15.9, 16.1, 100.0, 1e4, 1e6])
SHARES = np.array([1e-6, 1e-3, 0.05, 0.3, 0.5, 0.7, 0.95, 0.999, 1 - 1e-6])


def quantiles():
    a, share = np.meshgrid(CONCENTRATIONS, SHARES, indexing="ij")
    x = reference.gammaincinv(a, share)
    kept = (x > 1e-300) & ((a < 1e6) | (abs(share - 0.5) < 0.4999))  # SciPy's series ends too early there
    return a[kept], x[kept]


def test_incomplete_gamma_functions_are_scipys():
    a, x = quantiles()
    for ours, theirs in ((special.gammainc, reference.gammainc), (special.gammaincc, reference.gammaincc)):
        np.testing.assert_allclose(
            ours(smolder.tensor(a), smolder.tensor(x)).numpy(), theirs(a, x), rtol=1e-9, atol=1e-300
        )


def test_incomplete_gamma_functions_at_the_ends():
    nan, inf = float("nan"), float("inf")
    pairs = [(0, 0), (0, 1), (1, 0), (1, inf), (-1, 1), (1, -1), (nan, 1), (1, nan), (2, 1e-320), (2, 1e6), (0, inf)]
    a, x = (np.array(v, dtype=np.float64) for v in zip(*pairs, strict=True))
    for name in ("gammainc", "gammaincc"):
        ours = getattr(special, name)(smolder.tensor(a), smolder.tensor(x)).numpy()
        np.testing.assert_allclose(ours, getattr(reference, name)(a, x), rtol=1e-12, atol=1e-300)


def test_the_gradients_of_incomplete_gamma_functions_are_differences():
    a, x = np.meshgrid([0.3, 1.0, 4.0, 30.0], [0.2, 1.0, 5.0, 33.0])
    for name, sign in (("gammainc", 1), ("gammaincc", -1)):
        by = [smolder.tensor(v, requires_grad=True) for v in (a, x)]
        getattr(special, name)(*by).sum().backward()
        h = 1e-5
        f = reference.gammainc
        np.testing.assert_allclose(
            by[0].grad.numpy(), sign * (f(a + h, x) - f(a - h, x)) / (2 * h), rtol=1e-5, atol=1e-10
        )
        density = np.exp((a - 1) * np.log(x) - x - reference.gammaln(a))
        np.testing.assert_allclose(by[1].grad.numpy(), sign * density, rtol=1e-11)


@pytest.mark.parametrize("name", ["i0", "i0e", "i1", "i1e"])
def test_bessel_functions_are_scipys(name):
    x = np.concatenate([[0.0, 1e-12, 1e-3], np.linspace(0.1, 60, 40), [200.0, 650.0]])
    x = np.concatenate([-x, x])
    ours = getattr(special, name)
    np.testing.assert_allclose(ours(smolder.tensor(x)).numpy(), getattr(reference, name)(x), rtol=2e-13)
    inner = smolder.tensor(np.concatenate([-x[3:43], x[3:43], [0.0]]), requires_grad=True)
    (slope,) = smolder.autograd.grad(ours(inner).sum(), inner, create_graph=True)
    at = inner.detach().numpy()
    safe = np.where(at == 0, 1, at)
    i0e, i1e, grown = reference.i0e(at), reference.i1e(at), np.exp(np.abs(at))
    ratio = np.where(at == 0, 0.5, i1e / safe)
    known = {
        "i0": i1e * grown,
        "i0e": i1e - np.sign(at) * i0e,
        "i1": (i0e - ratio) * grown,
        "i1e": i0e - ratio - np.sign(at) * i1e,
    }[name]
    np.testing.assert_allclose(slope.detach().numpy(), known, rtol=1e-9, atol=1e-12)
    (second,) = smolder.autograd.grad(slope.sum(), inner)
    assert np.isfinite(second.numpy()).all()


def test_dtypes_follow_the_arguments():
    half, whole = smolder.tensor([0.5, 2.0], dtype=smolder.float16), smolder.tensor([1, 2])
    assert special.i0(half).dtype == smolder.float16 and special.i0(whole).dtype == smolder.float32
    assert special.gammainc(half, whole).dtype == smolder.float16
    out = smolder.empty(2)
    assert special.i1e(smolder.ones(2), out=out) is out and abs(out[0].item() - reference.i1e(1.0)) < 1e-7
