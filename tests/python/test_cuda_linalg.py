"""Linear algebra on a device: cuSOLVER's results against NumPy's, its errors, and what is without it."""

import numpy as np
import pytest

import smolder
from smolder import linalg

pytestmark = pytest.mark.skipif(not smolder.cuda.is_available(), reason="there is no CUDA device")

DTYPES = [smolder.float32, smolder.float64]
SQUARE = [(1, 1), (5, 5), (40, 40), (3, 4, 4), (2, 1, 33, 33), (0, 3, 3), (2, 0, 0)]
LARGE = [(150, 150), (2, 260, 260)]  # one by one, a batch too
ANY = [
    *SQUARE,
    (5, 3),
    (3, 5),
    (70, 33),
    (33, 70),
    (4, 6, 3),
    (4, 3, 6),
    (2, 40, 33),
    (2, 33, 40),
    (2, 300, 4),
    (0, 3, 2),
]


def matrices(shape, dtype, seed=0):
    a = np.random.default_rng(seed).normal(size=shape)
    if shape[-1] == shape[-2]:
        a = a / np.sqrt(max(1, shape[-1])) + 2 * np.eye(shape[-1])
    return smolder.tensor(a, dtype=dtype, device="cuda")


def symmetric(shape, dtype):
    a = matrices(shape, dtype)
    return a @ a.transpose(-2, -1)


def close(ours, theirs, dtype, scale=1.0):
    ours = ours.cpu().numpy() if isinstance(ours, smolder.Tensor) else ours
    theirs = theirs.cpu().numpy() if isinstance(theirs, smolder.Tensor) else theirs
    bound = (2e-4 if dtype == smolder.float32 else 1e-10) * scale
    np.testing.assert_allclose(ours, theirs, rtol=bound, atol=bound)


def host(a):
    return a.cpu().numpy().astype(np.float64)


@pytest.fixture(autouse=True)
def nothing_goes_through_the_host():
    assert smolder._core._cusolver_missing() == ""
    before = smolder.metrics()["counters"]["fallbacks"]
    yield
    assert smolder.metrics()["counters"]["fallbacks"] == before


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SQUARE + LARGE, ids=str)
def test_solutions(shape, dtype):
    a = matrices(shape, dtype)
    close(linalg.inv(a), np.linalg.inv(host(a)), dtype)
    close(linalg.inv(a.transpose(-2, -1)), np.linalg.inv(np.swapaxes(host(a), -2, -1)), dtype)
    b = matrices((*shape[:-2], shape[-1], 3), dtype, 1)
    close(linalg.solve(a, b), np.linalg.solve(host(a), host(b)), dtype)
    close(linalg.solve(a, b[..., 0]), np.linalg.solve(host(a), host(b))[..., 0], dtype)
    right = b.transpose(-2, -1)
    close(linalg.solve(a, right, left=False) @ a, right, dtype)
    sign, log = np.linalg.slogdet(host(a))
    if (log < 50).all():  # else float32 has no such number
        close(linalg.det(a) / np.exp(log).max(initial=1), sign * np.exp(log) / np.exp(log).max(initial=1), dtype)
    ours = linalg.slogdet(a)
    close(ours.sign, sign, dtype)
    close(ours.logabsdet, log, dtype, max(1, shape[-1]))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SQUARE + LARGE, ids=str)
@pytest.mark.parametrize("how", [(u, o) for u in (False, True) for o in (False, True)], ids=str)
def test_triangles(shape, dtype, how):
    upper, ones = how
    a, b = matrices(shape, dtype), matrices((*shape[:-1], 2), dtype, 1)
    triangle = smolder.triu(a) if upper else smolder.tril(a)
    if ones:
        eye = smolder.eye(shape[-1], dtype=dtype, device="cuda")
        triangle = triangle * (1 - eye) + eye
        a, triangle = a / 8, (triangle - eye) / 8 + eye  # else it is ill-conditioned
    x = linalg.solve_triangular(a, b, upper=upper, unitriangular=ones)
    close(triangle @ x, b, dtype)
    right = b.transpose(-2, -1)
    x = linalg.solve_triangular(a, right, upper=upper, left=False, unitriangular=ones)
    close(x @ triangle, right, dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SQUARE + LARGE, ids=str)
def test_cholesky(shape, dtype):
    a = symmetric(shape, dtype)
    other = a + smolder.triu(smolder.ones_like(a), 1)  # of which the lower triangle is read
    low = linalg.cholesky(other)
    close(low, np.linalg.cholesky(host(a)), dtype)
    close(linalg.cholesky(other, upper=True), low.transpose(-2, -1), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SQUARE, ids=str)
def test_eigenvalues_and_eigenvectors(shape, dtype):
    a = symmetric(shape, dtype)
    other = a + smolder.triu(smolder.ones_like(a), 1)
    for w, v in (linalg.eigh(other), linalg.eigh(other.transpose(-2, -1), "U")):
        close(w, np.linalg.eigvalsh(host(a)), dtype)
        close(v * w.unsqueeze(-2) @ v.transpose(-2, -1), a, dtype)
        close(v.transpose(-2, -1) @ v, np.broadcast_to(np.eye(shape[-1]), shape), dtype)
    close(linalg.eigvalsh(other), np.linalg.eigvalsh(host(a)), dtype)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", ANY, ids=str)
def test_factors(shape, dtype):
    a = matrices(shape, dtype)
    for mode in ("reduced", "complete"):
        q, r = linalg.qr(a, mode)
        theirs = np.linalg.qr(host(a), mode)
        assert (q.shape, r.shape) == (theirs.Q.shape, theirs.R.shape)
        close(q @ r, a, dtype)
        close(q.transpose(-2, -1) @ q, np.broadcast_to(np.eye(q.size(-1)), r.shape[:-1] + q.shape[-1:]), dtype)
        assert (host(r) == np.triu(host(r))).all()
    close(linalg.qr(a, "r").R.abs(), np.abs(np.linalg.qr(host(a), "r")), dtype)
    for driver in (None, "gesvd", "gesvdj"):
        for full in (False, True):
            u, s, vh = linalg.svd(a, full, driver=driver)
            theirs = np.linalg.svd(host(a), full)
            assert (u.shape, s.shape, vh.shape) == tuple(x.shape for x in theirs)
            close(s, theirs.S, dtype)
            k = s.size(-1)
            close(u[..., :k] * s.unsqueeze(-2) @ vh[..., :k, :], a, dtype)
            close(
                u.transpose(-2, -1) @ u,
                np.broadcast_to(np.eye(u.size(-1)), (*shape[:-2], u.size(-1), u.size(-1))),
                dtype,
            )
            close(
                vh @ vh.transpose(-2, -1),
                np.broadcast_to(np.eye(vh.size(-2)), (*shape[:-2], vh.size(-2), vh.size(-2))),
                dtype,
            )
    close(linalg.pinv(a), np.linalg.pinv(host(a)), dtype, 10)
    assert (host(linalg.matrix_rank(a)) == min(shape[-2:])).all()


def test_operands_stay_and_bits_are_the_same_again():
    a = symmetric((3, 20, 20), smolder.float32)
    before = host(a)
    calls = [
        linalg.cholesky,
        linalg.inv,
        linalg.det,
        lambda x: linalg.qr(x)[0],
        lambda x: linalg.eigh(x)[1],
        lambda x: linalg.svd(x)[0],
    ]
    for call in calls:
        assert (host(call(a)) == host(call(a))).all()
        assert (host(a) == before).all()


def test_gradients_where_the_default_device_is_the_cpu():
    def loss(a, b):
        s = a @ a.T
        out = linalg.cholesky(s).sum() + linalg.solve(a, b).sum() + linalg.inv(a).sum() + linalg.det(a)
        out = (
            out
            + linalg.eigvalsh(s).prod()
            + linalg.svdvals(a).sum()
            + linalg.qr(a).R.abs().sum()
            + linalg.pinv(a).sum()
        )
        return (
            out + linalg.slogdet(a)[1] + linalg.solve_triangular(a, b, upper=True).sum() + linalg.matrix_norm(a, "nuc")
        )

    a, b = matrices((4, 4), smolder.float64).cpu(), matrices((4, 2), smolder.float64, 1).cpu()
    gradients = []
    for device in ("cpu", "cuda"):
        x, y = (t.to(device).detach().requires_grad_() for t in (a, b))
        loss(x, y).backward()
        gradients.append((x.grad.cpu().numpy(), y.grad.cpu().numpy()))
    for ours, theirs in zip(*gradients):
        np.testing.assert_allclose(ours, theirs, rtol=1e-8, atol=1e-10)


def test_matrices_without_factors():
    good, bad = smolder.eye(3, device="cuda"), smolder.ones(3, 3, device="cuda")
    many = smolder.stack([good, bad])
    not_definite = r"\(the leading minor of order 2 is not positive-definite\)\.$"
    with pytest.raises(linalg.LinAlgError, match=r"^linalg.cholesky: The factorization could not .*" + not_definite):
        linalg.cholesky(bad)
    with pytest.raises(linalg.LinAlgError, match=r"^linalg.cholesky: \(Batch element 1\): The fact.*" + not_definite):
        linalg.cholesky(many)
    with pytest.raises(
        linalg.LinAlgError, match=r"^linalg.inv: The diagonal element 2 is zero, the inversion .* singular\.$"
    ):
        linalg.inv(bad)
    with pytest.raises(linalg.LinAlgError, match=r"^linalg.inv: \(Batch element 1\): The diagonal element 2 is zero"):
        linalg.inv(many)
    for a in (bad, many):
        with pytest.raises(linalg.LinAlgError, match=r"^linalg.solve: .*The solver failed .* singular\.$"):
            linalg.solve(a, smolder.ones(3, 2, device="cuda"))
        assert (host(linalg.det(a)) == ([0.0] if a is bad else [1.0, 0.0])).all()
    assert host(linalg.slogdet(bad).logabsdet) == -np.inf
    for solve in (linalg.solve, lambda a, b: linalg.solve_triangular(a, b, upper=True)):
        with pytest.raises(RuntimeError, match=r"Expected all tensors to be on the same device, .* cuda:0 and cpu!"):
            solve(good, good.cpu())
    with pytest.raises(NotImplementedError, match="driver 'gesvda' is not supported"):
        linalg.svd(good, driver="gesvda")


def test_what_is_shared_with_others_is_read():
    a = symmetric((3, 3), smolder.float32)
    view = smolder.from_dlpack(a)
    close(linalg.cholesky(view.T), np.linalg.cholesky(host(a)), smolder.float32)
