"""Linear algebra where the sweep has no word: gradients of gradients, steps that end, refusals, old names."""

import numpy as np
import pytest

import smolder
from smolder import linalg
from smolder.autograd import gradcheck, gradgradcheck


def matrix(n, seed=0):
    a = np.random.default_rng(seed).normal(size=(n, n)) + 2 * np.eye(n)
    return smolder.tensor(a, requires_grad=True)


SYMMETRIC = {"cholesky": linalg.cholesky, "eigvalsh": linalg.eigvalsh}
GENERAL = {
    "inv": linalg.inv,
    "det": linalg.det,
    "slogdet": lambda a: linalg.slogdet(a)[1],
    "svdvals": linalg.svdvals,
    "qr": lambda a: tuple(linalg.qr(a)),
    "pinv": linalg.pinv,
    "nuc": lambda a: linalg.norm(a, "nuc"),
}


@pytest.mark.parametrize("name", sorted(GENERAL))
def test_gradients_and_theirs_are_those_of_finite_differences(name):
    assert gradcheck(GENERAL[name], (matrix(3),))
    assert gradgradcheck(GENERAL[name], (matrix(3),))


@pytest.mark.parametrize("name", sorted(SYMMETRIC))
def test_gradients_of_symmetric_matrices(name):
    def of_any(a):
        return SYMMETRIC[name](a @ a.T + smolder.eye(3, dtype=smolder.float64))

    assert gradcheck(of_any, (matrix(3),)) and gradgradcheck(of_any, (matrix(3),))


def test_factors_multiply_to_the_matrix():
    a = matrix(4).detach()
    q, r = linalg.qr(a)
    u, s, vh = linalg.svd(a)
    for product in (q @ r, u @ smolder.diag(s) @ vh):
        np.testing.assert_allclose(product.numpy(), a.numpy(), atol=1e-12)
    w, v = linalg.eigh(a + a.T)
    np.testing.assert_allclose((v @ smolder.diag(w) @ v.T).numpy(), (a + a.T).numpy(), atol=1e-12)
    low = linalg.cholesky(a @ a.T)
    np.testing.assert_allclose((low @ low.T).numpy(), (a @ a.T).numpy(), atol=1e-12)


def test_what_has_no_factors_raises():
    singular = smolder.ones(2, 2)
    for call in (linalg.inv, lambda a: linalg.solve(a, smolder.ones(2)), lambda a: linalg.cholesky(-a)):
        with pytest.raises(linalg.LinAlgError):
            call(singular)
    with pytest.raises(NotImplementedError, match="singular"):
        linalg.det(singular.requires_grad_()).backward()


def test_matrices_without_elements_go_to_and_fro():
    a = smolder.zeros(2, 0, 2)
    smolder.mark_step()
    b = a.transpose(-2, -1).expand(2, 2, 0).transpose(-2, -1)
    smolder.mark_step()  # as a plan, which says that it is the same memory
    assert b.tolist() == [[], []]


def test_orthogonal_rows_or_columns():
    for shape in ((5, 3), (3, 5), (4, 2, 2)):
        w = smolder.nn.init.orthogonal_(smolder.empty(*shape), gain=2.0).reshape(shape[0], -1)
        product = w @ w.T if w.size(0) <= w.size(1) else w.T @ w
        np.testing.assert_allclose(product.numpy(), 4 * np.eye(min(w.shape)), atol=1e-5)
    with pytest.raises(ValueError, match="2 or more dimensions"):
        smolder.nn.init.orthogonal_(smolder.empty(3))


@pytest.mark.skipif(not smolder.cuda.is_available(), reason="there is no CUDA device")
def test_a_device_without_cusolver_goes_through_the_host_and_says_so(monkeypatch):
    monkeypatch.setattr(smolder._core, "_cusolver_missing", lambda: "it is not here; pip install nvidia-cusolver")
    a = matrix(3).detach().cuda()
    before = smolder.metrics()["counters"]["fallbacks"]
    with pytest.warns(UserWarning, match="smolder.linalg on CUDA.*pip install nvidia-cusolver"):
        out = linalg.inv(a)
    assert out.is_cuda and smolder.metrics()["counters"]["fallbacks"] == before + 1
    np.testing.assert_allclose((out @ a).cpu().numpy(), np.eye(3), atol=1e-12)


@pytest.mark.parametrize("size", [0, 1, 32, 33, 100])
@pytest.mark.parametrize("batch", [(), (3,), (2, 0)])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("ones", [False, True])
def test_a_triangle_is_solved_for_block_by_block(size, batch, upper, left, ones):
    rng = np.random.default_rng(size)
    a = rng.standard_normal((*batch, size, size)) / max(size, 1) ** 0.5 + 2 * np.eye(size)
    b = rng.standard_normal((*batch, size, 4) if left else (*batch, 4, size))
    triangle = np.triu(a) if upper else np.tril(a)
    if ones:
        triangle[..., range(size), range(size)] = 1
    unread = np.tri(size, k=-1, dtype=bool)
    a[..., unread if upper else unread.T] = np.nan
    x = linalg.solve_triangular(
        smolder.from_numpy(a), smolder.from_numpy(b), upper=upper, left=left, unitriangular=ones
    ).numpy()
    assert x.shape == b.shape
    np.testing.assert_allclose(triangle @ x if left else x @ triangle, b, atol=1e-12)


@pytest.mark.parametrize("size", [3, 40])
def test_a_zero_in_the_diagonal_of_a_triangle_gives_infinities(size):
    a = smolder.eye(size)
    a[1, 1] = 0.0
    x = linalg.solve_triangular(a, smolder.ones(size, 1), upper=False)
    np.testing.assert_array_equal(x[:, 0].numpy(), [1, np.inf, *[np.nan] * (size - 2)])  # 0 times infinity, as in torch


def test_norms_of_nothing():
    none = smolder.zeros(0, 2)
    for order in (float("inf"), -float("inf"), -1.0):
        for wrong in (lambda p: none.norm(p), lambda p: smolder.linalg.vector_norm(none, p, 0)):
            with pytest.raises(RuntimeError, match="does not have an identity"):
                wrong(order)
        assert smolder.linalg.vector_norm(none, order, 1).shape == (0,)
    for order in (0.0, 1.0, 2.0, float("inf")):
        assert smolder.cdist(smolder.zeros(2, 0), smolder.zeros(3, 0), p=order).tolist() == [[0.0] * 3] * 2


def test_einsum_sums_integers_as_sum_does():
    """A sum of one operand has int64, and wraps nowhere; products of elements keep the dtype, as torch's do."""
    x, row = smolder.full((3, 3), 100, dtype=smolder.uint8), smolder.full((3,), 100, dtype=smolder.uint8)
    for equation, given, expected in [
        ("ij->", [x], 900),
        ("ij->i", [x], [300] * 3),
        ("ii->", [x], 300),
        ("i,j->", [row, row], 90000),
        ("ij,j->", [x, row], 90000),
        ("ij,jk->k", [x, x], [90000] * 3),
    ]:
        out = smolder.einsum(equation, *given)
        assert out.dtype == smolder.int64 and out.tolist() == expected, equation
    assert smolder.einsum("ij->", smolder.ones(3, 3, dtype=smolder.bool)).item() == 9
    assert smolder.einsum("ij,ij->ij", x, x).dtype == smolder.uint8
