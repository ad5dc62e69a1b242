"""Linear algebra of complex matrices against NumPy, with gradients against finite differences."""

import numpy as np
import pytest

import smolder
from smolder import linalg
from smolder.autograd import gradcheck


def matrix(*shape, dtype="complex128"):
    rng = np.random.default_rng(sum(shape))
    return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)


def positive(n, lead=()):
    a = matrix(*lead, n, n)
    return a @ a.conj().swapaxes(-1, -2) + 3 * np.eye(n)


def t(a):
    return smolder.from_numpy(a.copy())


def h(a):
    return a.conj().swapaxes(-1, -2)


def close(ours, expected, tolerance=1e-10):
    np.testing.assert_allclose(ours.resolve_conj().numpy(), expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("lead", [(), (2,), (2, 3)])
def test_solutions_and_determinants(lead):
    a, b = matrix(*lead, 4, 4), matrix(*lead, 4, 2)
    close(linalg.inv(t(a)), np.linalg.inv(a))
    close(linalg.solve(t(a), t(b)), np.linalg.solve(a, b))
    close(linalg.solve(t(a), t(b.swapaxes(-1, -2)), left=False) @ t(a), b.swapaxes(-1, -2))
    close(linalg.det(t(a)), np.linalg.det(a))
    sign, log = linalg.slogdet(t(a))
    close(sign, np.linalg.slogdet(a)[0])
    close(log, np.linalg.slogdet(a)[1])
    low = np.tril(a)
    close(linalg.solve_triangular(t(a), t(b), upper=False), np.linalg.solve(low, b))
    close(linalg.pinv(t(matrix(*lead, 4, 3))), np.linalg.pinv(matrix(*lead, 4, 3)))
    close(linalg.matrix_power(t(a), 3), np.linalg.matrix_power(a, 3))


@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 4)])
def test_factors_give_the_matrix_again(shape):
    a = matrix(*shape)
    q, r = linalg.qr(t(a))
    close(q @ r, a)
    close(q.mH @ q, np.broadcast_to(np.eye(min(shape[-2:])), (*shape[:-2], min(shape[-2:]), min(shape[-2:]))))
    u, s, vh = linalg.svd(t(a), full_matrices=False)
    close((u * s.unsqueeze(-2)) @ vh, a)
    assert s.dtype is smolder.float64
    close(linalg.svdvals(t(a)), np.linalg.svd(a, compute_uv=False))
    p, low, up = linalg.lu(t(a))
    close(p @ low @ up, a)
    assert linalg.matrix_rank(t(a)).reshape(-1)[0] == min(shape[-2:])


def test_hermitian_matrices():
    a = positive(4, (2,))
    low = linalg.cholesky(t(a))
    close(low, np.linalg.cholesky(a))
    close(linalg.cholesky(t(a), upper=True), h(np.linalg.cholesky(a)))
    close(smolder.cholesky_solve(t(matrix(2, 4, 1)), low), np.linalg.solve(a, matrix(2, 4, 1)))
    w, v = linalg.eigh(t(a))
    assert w.dtype is smolder.float64
    close(w, np.linalg.eigvalsh(a))
    close((v * w.unsqueeze(-2)) @ v.mH, a)
    close(linalg.eigvalsh(t(a)), np.linalg.eigvalsh(a))
    info = linalg.cholesky_ex(t(np.diag([1.0, -1, 1]).astype(complex))).info
    assert info.item() == 2


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_eigenvalues_of_any_matrix(dtype):
    a = matrix(2, 4, 4)
    a = a.astype(dtype) if dtype.startswith("complex") else a.real.astype(dtype)
    w, v = linalg.eig(t(a))
    wide = dtype in ("float64", "complex128")
    assert w.dtype is v.dtype is (smolder.complex128 if wide else smolder.complex64)
    close(t(a).to(v.dtype) @ v, (v * w.unsqueeze(-2)).numpy(), 1e-10 if wide else 1e-4)
    np.testing.assert_allclose(
        np.sort_complex(linalg.eigvals(t(a)).numpy()), np.sort_complex(w.numpy()), rtol=1e-3, atol=1e-3
    )


def test_other_functions():
    a, b = matrix(4, 4), matrix(4)
    x = linalg.matrix_exp(t(a))
    w, v = np.linalg.eig(a)
    close(x, v @ np.diag(np.exp(w)) @ np.linalg.inv(v), 1e-8)
    close(linalg.norm(t(a)), np.linalg.norm(a))
    close(linalg.matrix_norm(t(a), 2), np.linalg.norm(a, 2))
    close(linalg.matrix_norm(t(a), "nuc"), np.linalg.norm(a, "nuc"))
    close(linalg.cond(t(a)), np.linalg.cond(a))
    close(linalg.vecdot(t(b), t(b * 1j)), np.vdot(b, b * 1j))
    tall, side = matrix(6, 3), matrix(6, 2)
    close(linalg.lstsq(t(tall), t(side)).solution, np.linalg.lstsq(tall, side, rcond=None)[0])
    lu, pivots = linalg.lu_factor(t(a))
    close(linalg.lu_solve(lu, pivots, t(a[:, :2])), np.linalg.solve(a, a[:, :2]))
    close(linalg.lu_solve(lu, pivots, t(a[:, :2]), adjoint=True), np.linalg.solve(h(a), a[:, :2]))
    close(linalg.lu_solve(lu, pivots, t(a[:2]), left=False) @ t(a), a[:2])
    close(linalg.multi_dot([t(a), t(a), t(a)]), a @ a @ a)
    with pytest.raises(linalg.LinAlgError, match="singular"):
        linalg.inv(t(np.zeros((2, 2), complex)))


GRADIENTS = {
    "inv": lambda a: linalg.inv(a),
    "det": lambda a: linalg.det(a),
    "slogdet": lambda a: linalg.slogdet(a),
    "solve": lambda a: linalg.solve(a, a[:, :2] * 2 + 1),
    "solve_triangular": lambda a: linalg.solve_triangular(a, a[:, :2], upper=True),
    "solve_triangular right": lambda a: linalg.solve_triangular(a, a[:2], upper=False, left=False),
    "cholesky": lambda a: linalg.cholesky(a @ a.mH + 2 * smolder.eye(3)),
    "qr": lambda a: linalg.qr(a),
    "eigvalsh": lambda a: linalg.eigvalsh(a + a.mH),
    "eigh": lambda a: linalg.eigh(a + a.mH).eigenvectors.abs(),
    "svdvals": lambda a: linalg.svdvals(a),
    "svd": lambda a: [linalg.svd(a).U.abs(), linalg.svd(a).Vh.abs()],
    "svd product": lambda a: linalg.svd(a).U @ linalg.svd(a).Vh,
    "eigvals": lambda a: linalg.eigvals(a),
    "eig": lambda a: linalg.eig(a).eigenvectors.abs(),
    "pinv": lambda a: linalg.pinv(a[:, :2]),
    "matrix_exp": lambda a: linalg.matrix_exp(a),
    "lu": lambda a: linalg.lu(a)[1:],
    "nuclear norm": lambda a: linalg.matrix_norm(a, "nuc"),
    "cov": lambda a: smolder.cov(a),
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name):
    a = smolder.from_numpy(matrix(3, 3)).requires_grad_()
    assert gradcheck(GRADIENTS[name], (a,))


@pytest.mark.parametrize("name", ["inv", "det", "eigvalsh", "svdvals"])
def test_gradients_of_real_matrices_are_real(name):
    a = smolder.from_numpy(matrix(3, 3).real.copy()).requires_grad_()
    assert gradcheck(GRADIENTS[name], (a,))


def test_eigenvalues_of_real_matrices_have_real_gradients():
    a = smolder.from_numpy(matrix(4, 4).real.copy()).requires_grad_()
    assert gradcheck(lambda a: linalg.eigvals(a).abs().sum(), (a,))
    linalg.eig(a).eigenvectors.abs().sum().backward()
    assert a.grad.dtype is smolder.float64


def test_batches_by_vmap():
    a = matrix(3, 4, 4)
    close(smolder.vmap(linalg.inv)(t(a)), np.linalg.inv(a))
    close(smolder.vmap(linalg.det)(t(a)), np.linalg.det(a))
