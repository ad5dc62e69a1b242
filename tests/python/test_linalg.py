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


def test_a_norm_of_complex_numbers_has_both_parts_wherever_it_is_written():
    c = smolder.tensor([[3 + 4j, 0], [0, 0]])
    for norm in (linalg.norm, linalg.matrix_norm, linalg.vector_norm):
        out = smolder.empty(0)
        assert norm(c, out=out) is out and out.item() == 5
        with pytest.raises(RuntimeError, match="dtype should be complex for complex inputs"):
            norm(c, dtype=smolder.float32)


def test_matrices_without_elements():
    none = smolder.zeros(2, 0, 0, dtype=smolder.float64)
    assert [list(t.shape) for t in linalg.lu(none)] == [[2, 0, 0]] * 3
    assert linalg.inv_ex(none).info.tolist() == [0, 0]
    assert linalg.solve_ex(none, smolder.zeros(2, 0, 3, dtype=smolder.float64))[0].shape == (2, 0, 3)
    for p in (None, 2, -2, "fro", "nuc", 1, float("inf")):
        assert linalg.cond(none, p).tolist() == [0, 0]
    assert linalg.matrix_norm(none, 1).tolist() == linalg.matrix_norm(none, float("inf")).tolist() == [0, 0]
    assert linalg.pinv(smolder.zeros(3, 0), hermitian=True).shape == (0, 3)
    assert linalg.matrix_rank(smolder.zeros(3, 0), hermitian=True).item() == 0


def test_a_pseudoinverse_drops_what_is_below_either_bound():
    a = smolder.tensor(np.diag([4.0, 1.0, 0.25]))
    for bounds, kept in (
        ({"atol": 0.5}, [0.25, 1, 0]),
        ({"atol": 2}, [0.25, 0, 0]),
        ({"atol": 0.1, "rtol": 0.5}, [0.25, 0, 0]),
        ({"atol": smolder.tensor(0.5), "rtol": 0}, [0.25, 1, 0]),
    ):
        for hermitian in (False, True):
            found = linalg.pinv(a, hermitian=hermitian, **bounds)
            assert np.allclose(found.numpy(), np.diag(kept)), bounds


def test_the_logarithm_of_a_complex_determinant():
    a = smolder.tensor([[1 + 2j, 0.5], [1j, 2.0]], dtype=smolder.complex128)
    assert np.allclose(smolder.logdet(a).item(), np.log(np.linalg.det(a.numpy())))


def test_residuals_are_real_and_not_those_of_gelsy():
    a = smolder.tensor([[1.0, 0], [0, 1], [1, 1]], dtype=smolder.complex64)
    b = smolder.tensor([[1.0], [2], [4j]], dtype=smolder.complex64)
    assert linalg.lstsq(a, b).residuals.shape == (0,)
    found = linalg.lstsq(a, b, driver="gelsd")
    expected = np.linalg.lstsq(a.numpy(), b.numpy(), rcond=None)
    assert found.residuals.dtype == smolder.float32 and np.allclose(found.residuals.numpy(), expected[1])


def test_what_is_no_tensor_is_refused_by_name():
    with pytest.raises(TypeError, match=r"linalg.inv\(\): argument 'A' \(position 1\) must be Tensor, not list"):
        linalg.inv([[1.0]])


@pytest.mark.parametrize("largest", (True, False))
@pytest.mark.parametrize("form", ("plain", "of two", "sparse", "with an inverse", "batch"))
def test_some_eigenvalues_of_large_matrices(form, largest):
    rng = np.random.default_rng(1)
    m, q = rng.normal(size=(2, 40, 40))
    m, q = m @ m.T + np.eye(40), q @ q.T / 40 + np.eye(40)
    a, b = smolder.tensor(m), smolder.tensor(q) if form == "of two" else None
    low = np.linalg.cholesky(q) if form == "of two" else np.eye(40)
    every = np.linalg.eigvalsh(np.linalg.solve(low, np.linalg.solve(low, m).T))
    expected = every[::-1][:3] if largest else every[:3]
    inverse = smolder.tensor(np.linalg.inv(m)) if form == "with an inverse" else None
    given = {"sparse": a.to_sparse, "batch": lambda: smolder.stack([a, 2 * a])}.get(form, lambda: a)()
    values, vectors = smolder.lobpcg(given, 3, b, iK=inverse, largest=largest)
    if form == "batch":
        np.testing.assert_allclose(values[1].numpy(), 2 * expected, rtol=1e-6)
        values, vectors = values[0], vectors[0]
    np.testing.assert_allclose(values.numpy(), expected, rtol=1e-6)
    right = vectors if b is None else b @ vectors
    np.testing.assert_allclose((a @ vectors).numpy(), (right * values).numpy(), atol=1e-4)
    np.testing.assert_allclose((vectors.mT @ right).numpy(), np.eye(3), atol=1e-10)


def test_what_lobpcg_refuses():
    a = smolder.eye(9)
    with pytest.raises(ValueError, match="smaller than 3 x the number of requested eigenpairs"):
        smolder.lobpcg(a, 4)
    with pytest.raises(NotImplementedError, match="lobpcg: gradients are not supported"):
        smolder.lobpcg(a.requires_grad_(), 2)
    with pytest.raises(NotImplementedError, match="tracker is not supported"):
        smolder.lobpcg(a.detach(), 2, tracker=print)
