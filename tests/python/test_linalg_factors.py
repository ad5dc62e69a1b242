"""Factors that a program keeps, and what is solved by them: against NumPy, and gradients against finite differences."""

import numpy as np
import pytest

import smolder
from smolder import linalg
from smolder._linalg_factors import _lu_of_array
from smolder.autograd import gradcheck

SHAPES = [(4, 4), (2, 3, 5, 5), (6, 3), (3, 6), (2, 7, 4), (1, 1), (0, 3, 3), (65, 65), (90, 40)]


def matrices(*shape, seed=0, grad=False):
    return smolder.tensor(np.random.default_rng(seed).normal(size=shape), requires_grad=grad)


def positive(x):
    return x @ x.mT + smolder.eye(x.size(-1), dtype=smolder.float64)


@pytest.mark.parametrize("shape", SHAPES)
def test_lu_factors_multiply_to_the_matrix(shape):
    a = matrices(*shape)
    p, low, up = linalg.lu(a)
    np.testing.assert_allclose((p @ low @ up).numpy(), a.numpy(), atol=1e-11)
    assert low.abs().le(1 + 1e-12).all()  # the pivot is the largest of its column
    factors, pivots = linalg.lu_factor(a)
    assert factors.shape == a.shape and pivots.dtype is smolder.int32 and pivots.size(-1) == min(shape[-2:])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_factors_by_loops_of_our_own_are_those_by_blocks(dtype):
    for shape in [(1, 1), (2, 3, 3), (5, 17, 17), (70, 70), (1, 0, 3, 3)]:
        a = np.random.default_rng(3).normal(size=shape).astype(dtype)
        if a.size > 9:
            a[..., 2] = 0  # a pivot that is zero
        factors, pivots = linalg.lu_factor(smolder.tensor(a))
        expected, rows = _lu_of_array(a)
        np.testing.assert_allclose(factors.numpy(), expected, atol=1e-4 if dtype == "float32" else 1e-12)
        np.testing.assert_array_equal(pivots.numpy(), rows)
        assert (factors.dtype, pivots.dtype) == (getattr(smolder, dtype), smolder.int32)


@pytest.mark.parametrize("left", (True, False))
@pytest.mark.parametrize("adjoint", (True, False))
def test_lu_solve(left, adjoint):
    a, b = matrices(2, 5, 5), matrices(1, 5, 3, seed=1)
    b = b if left else b.mT
    x = linalg.lu_solve(*linalg.lu_factor(a), b, left=left, adjoint=adjoint)
    a = a.mT if adjoint else a
    np.testing.assert_allclose((a @ x if left else x @ a).numpy(), np.broadcast_to(b, x.shape), atol=1e-10)


@pytest.mark.parametrize(
    "function",
    (
        lambda a: linalg.lu_factor(a)[0],
        lambda a: linalg.lu_solve(*linalg.lu_factor(a), a),
        lambda a: smolder.cholesky_solve(a, linalg.cholesky(positive(a))),
        lambda a: smolder.cholesky_inverse(linalg.cholesky(positive(a)), False),
        lambda a: linalg.lstsq(a, a[:, :2]).solution,
        linalg.matrix_exp,
        lambda a: linalg.matrix_exp(4 * a),
        linalg.cond,
        lambda a: linalg.multi_dot([a, a[:, :2], a[:2]]),
        lambda a: linalg.solve_ex(a, a[:, :1]).result,
        lambda a: linalg.inv_ex(a).inverse,
        lambda a: linalg.vander(a),
    ),
)
def test_gradients(function):
    assert gradcheck(function, (matrices(3, 3, seed=3, grad=True),))


def test_what_has_no_factors_is_told_by_number():
    good, bad = np.eye(3), np.array([[1.0, 2, 0], [2, 4, 0], [0, 0, 1]])
    a = smolder.tensor(np.stack((good, bad)))
    assert linalg.lu_factor_ex(a).info.tolist() == [0, 2]
    inverse, info = linalg.inv_ex(a)
    assert info.tolist() == [0, 2] and inverse[0].equal(a[0]) and inverse[1].isinf().all()
    x, info = linalg.solve_ex(a, smolder.ones(2, 3, 1, dtype=smolder.float64))
    assert info.tolist() == [0, 2] and x[0].equal(smolder.ones(3, 1, dtype=smolder.float64)) and x[1].isnan().all()
    low, info = linalg.cholesky_ex(smolder.tensor(np.stack((good, np.diag([1.0, -1, 1])))))
    assert info.tolist() == [0, 2] and low[0].equal(a[0])
    for call in (lambda: linalg.inv_ex(a, check_errors=True), lambda: linalg.solve_ex(a, a, check_errors=True)):
        with pytest.raises(linalg.LinAlgError, match="Batch element 1"):
            call()
    with pytest.raises(linalg.LinAlgError, match="positive-definite"):
        linalg.cholesky_ex(-a, check_errors=True)


@pytest.mark.parametrize("shape", [(6, 3), (3, 6), (4, 4), (2, 5, 3)])
@pytest.mark.parametrize("driver", ("gelsy", "gelsd", "gels"))
def test_least_squares(shape, driver):
    a, b = matrices(*shape), matrices(*shape[:-1], 2, seed=1)
    out = linalg.lstsq(a, b, driver=driver)
    flat_a, flat_b = a.numpy().reshape(-1, *shape[-2:]), b.numpy().reshape(-1, shape[-2], 2)
    expected = np.stack([np.linalg.lstsq(x, y, rcond=None)[0] for x, y in zip(flat_a, flat_b)])
    np.testing.assert_allclose(out.solution.numpy().reshape(expected.shape), expected, atol=1e-10)
    has_residuals = shape[-2] > shape[-1] and driver != "gelsy"
    assert out.residuals.numel() == (b.numel() // shape[-2] if has_residuals else 0)
    assert (out.rank == min(shape[-2:])).all() and (driver == "gels") == (out.rank.numel() == 0)
    assert (driver == "gelsd") == (out.singular_values.numel() > 0)
    vector = linalg.lstsq(a, b[..., 0])
    np.testing.assert_allclose(vector.solution.numpy(), out.solution[..., 0].numpy(), atol=1e-12)


def test_exponentials_of_matrices():
    a = matrices(4, 4, seed=2)
    w, v = np.linalg.eigh((a + a.T).numpy())
    np.testing.assert_allclose(linalg.matrix_exp(a + a.T).numpy(), v * np.exp(w) @ v.T, rtol=1e-9)
    turn = smolder.tensor([[0.0, -1.0], [1.0, 0.0]])
    np.testing.assert_allclose((turn * np.pi).matrix_exp().numpy(), -np.eye(2), atol=1e-5)
    assert smolder.zeros(0, 3, 3).matrix_exp().shape == (0, 3, 3)
    assert smolder.full((2, 2), float("inf")).matrix_exp().isnan().all()


def test_products_of_many_and_tensors():
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=s) for s in ((10,), (10, 30), (30, 5), (5, 60), (60,))]
    product = linalg.multi_dot([smolder.tensor(p) for p in parts])
    np.testing.assert_allclose(product.numpy(), np.linalg.multi_dot(parts), rtol=1e-10)
    a = rng.normal(size=(2, 3, 6))
    np.testing.assert_allclose(linalg.tensorinv(smolder.tensor(a)).numpy(), np.linalg.tensorinv(a), rtol=1e-8)
    b = rng.normal(size=(2, 3))
    np.testing.assert_allclose(
        linalg.tensorsolve(smolder.tensor(a), smolder.tensor(b)).numpy(), np.linalg.tensorsolve(a, b), rtol=1e-8
    )
    x = rng.normal(size=(2, 3))
    np.testing.assert_allclose(
        linalg.vander(smolder.tensor(x), N=4).numpy(), np.stack([np.vander(r, 4, True) for r in x]), rtol=1e-12
    )


def test_condition_numbers():
    a = matrices(4, 4)
    for p in (None, 2, -2, "fro", 1, np.inf):
        np.testing.assert_allclose(linalg.cond(a, p).numpy(), np.linalg.cond(a.numpy(), p), rtol=1e-9)
    assert linalg.cond(smolder.ones(2, 2), 1).isinf()


def test_reflectors_multiply_to_q():
    a = matrices(5, 3).numpy()
    reflectors, tau = np.linalg.qr(a, "raw")
    q = linalg.householder_product(smolder.tensor(reflectors.T), smolder.tensor(tau))
    np.testing.assert_allclose(q.numpy(), np.linalg.qr(a)[0], atol=1e-12)


def test_old_names():
    a, b = positive(matrices(3, 3)), matrices(3, 2)
    factors, pivots = smolder.lu(a)
    np.testing.assert_allclose(b.lu_solve(factors, pivots).numpy(), np.linalg.solve(a, b), atol=1e-10)
    assert all(x.equal(y) for x, y in zip(smolder.lu_unpack(factors, pivots), linalg.lu(a)))
    assert len(smolder.lu(a, get_infos=True)) == 3
    upper = a.cholesky(upper=True)
    np.testing.assert_allclose(b.cholesky_solve(upper, upper=True).numpy(), np.linalg.solve(a, b), atol=1e-10)


def test_what_is_refused():
    with pytest.raises(NotImplementedError, match="pivot=False"):
        linalg.lu(smolder.eye(2), pivot=False)
    with pytest.raises(RuntimeError, match="driver"):
        linalg.lstsq(smolder.eye(2), smolder.eye(2), driver="qr")
    with pytest.raises(RuntimeError, match=r"other.size\(-2\)"):
        linalg.lstsq(smolder.ones(3, 2), smolder.ones(4, 1))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        linalg.multi_dot([smolder.ones(2, 3), smolder.ones(2, 3)])
    with pytest.raises(NotImplementedError, match="square"):
        linalg.lu(matrices(3, 2, grad=True))[2].sum().backward()


@pytest.mark.parametrize("dtype", (smolder.float64, smolder.complex128))
@pytest.mark.parametrize("shape", ((5, 3), (3, 5), (2, 4, 4)))
def test_reflectors_of_geqrf_multiply_as_their_product(shape, dtype):
    a = matrices(*shape).to(dtype)
    a = a + 1j * matrices(*shape, seed=1) if dtype.is_complex else a
    factors, tau = smolder.geqrf(a)
    rows = shape[-2]
    whole = smolder.ormqr(factors, tau, smolder.eye(rows, dtype=dtype).expand(*shape[:-2], rows, rows))
    np.testing.assert_allclose((whole.mH @ whole).numpy(), np.broadcast_to(np.eye(rows), whole.shape), atol=1e-12)
    np.testing.assert_allclose((whole @ factors.triu()).numpy(), a.numpy(), atol=1e-12)
    other = matrices(*shape[:-2], rows, 2, seed=2).to(dtype)
    for transpose in (False, True):
        q = whole.mH if transpose else whole
        np.testing.assert_allclose(smolder.ormqr(factors, tau, other, True, transpose), q @ other, atol=1e-12)
        np.testing.assert_allclose(smolder.ormqr(factors, tau, other.mT, False, transpose), other.mT @ q, atol=1e-12)
    if shape[-2] >= shape[-1]:
        np.testing.assert_allclose(smolder.orgqr(factors, tau), whole[..., : shape[-1]], atol=1e-12)


def test_gradients_of_reflectors():
    factors, tau = smolder.geqrf(matrices(4, 3))
    given = (factors.requires_grad_(), tau.requires_grad_(), matrices(4, 2, seed=1, grad=True))
    assert gradcheck(linalg.householder_product, given[:2])
    assert gradcheck(smolder.ormqr, given)
    with pytest.raises(NotImplementedError, match="the derivative for 'geqrf' is not implemented"):
        smolder.geqrf(given[0])[0].sum().backward()


@pytest.mark.parametrize("upper", (True, False))
@pytest.mark.parametrize("transpose", (True, False))
def test_triangular_solve(upper, transpose):
    a, b = matrices(2, 3, 3), matrices(3, 2, seed=1)
    x, copy = smolder.triangular_solve(b, a, upper, transpose)
    read = a.triu() if upper else a.tril()
    np.testing.assert_allclose((read.mT if transpose else read) @ x, b.expand(2, 3, 2), atol=1e-10)
    assert smolder.equal(copy, a) and copy.data_ptr() != a.data_ptr()


def test_least_squares_decompose_once(monkeypatch):
    calls = []
    svd = smolder._factors.svd
    monkeypatch.setattr(smolder._factors, "svd", lambda *a, **k: calls.append(a) or svd(*a, **k))
    found = linalg.lstsq(matrices(5, 3), matrices(5, 2, seed=1), driver="gelsd")
    assert len(calls) == 1 and found.singular_values.shape == (3,) and found.rank.item() == 3
