"""L D L^T factors: put together again, and against PyTorch's."""

import json

import numpy as np
import pytest
from torch_peer import assert_torch_says, needs_torch, run_torch

import smolder
from smolder import linalg


def symmetric(n, kind, seed=0):
    """Matrices with small diagonals, so that blocks of two rows are chosen, too."""
    rng = np.random.default_rng(seed + n)
    a = rng.standard_normal((2, n, n)) + (0 if kind == "real" else 1j * rng.standard_normal((2, n, n)))
    a[0, range(n), range(n)] *= 0.01
    return a + (a.conj() if kind == "hermitian" else a).transpose(0, 2, 1)


def put_together(factors, pivots, hermitian):
    """A of LD and pivots: each step is an exchange, a column or two of L, and a block of D."""
    n, whole, k = len(factors), np.eye(len(factors), dtype=factors.dtype), 0
    middle = np.zeros_like(factors)
    while k < n:
        last, row = k + (pivots[k] < 0), abs(pivots[k]) - 1
        exchange, column = np.eye(n), np.eye(n, dtype=factors.dtype)
        exchange[[last, row]] = exchange[[row, last]]
        column[last + 1 :, k : last + 1] = factors[last + 1 :, k : last + 1]
        whole = whole @ exchange @ column
        middle[k : last + 1, k : last + 1] = factors[k : last + 1, k : last + 1]
        k = last + 1
    upper = np.tril(middle, -1).T
    middle += upper.conj() if hermitian else upper
    return whole @ middle @ (whole.conj() if hermitian else whole).T


@pytest.mark.parametrize("kind", ["real", "complex", "hermitian"])
@pytest.mark.parametrize("n", [1, 2, 3, 9, 40])
def test_factors_multiply_to_the_matrix_and_solve(n, kind):
    a, hermitian = symmetric(n, kind), kind == "hermitian"
    ld, pivots = linalg.ldl_factor(smolder.tensor(np.tril(a)), hermitian=hermitian)  # the upper triangle is not read
    assert ld.shape == a.shape and pivots.dtype == smolder.int32 and not np.triu(ld.numpy(), 1).any()
    for i in range(2):
        np.testing.assert_allclose(put_together(ld.numpy()[i], pivots.numpy()[i], hermitian), a[i], atol=1e-11)
    b = np.random.default_rng(7).standard_normal((3, 1, n, 2)).astype(a.dtype)
    x = linalg.ldl_solve(ld, pivots, smolder.tensor(b), hermitian=hermitian)
    assert x.shape == (3, 2, n, 2)
    np.testing.assert_allclose(a @ x.numpy(), np.broadcast_to(b, x.shape), atol=1e-9)


def test_what_is_singular_is_told():
    a = smolder.tensor([[[1.0, 0], [0, 0]], [[2, 1], [1, 2]]])
    found = linalg.ldl_factor_ex(a)
    assert found.info.tolist() == [2, 0] and found.info.dtype == smolder.int32
    assert linalg.ldl_factor_ex(smolder.zeros(2, 2)).info.shape == ()
    for function in (linalg.ldl_factor, lambda a: linalg.ldl_factor_ex(a, check_errors=True)):
        with pytest.raises(linalg.LinAlgError, match=r"Batch element 0\): The 2. row of D is zero"):
            function(a)
    assert linalg.ldl_factor(smolder.zeros(0, 3, 3)).pivots.shape == (0, 3)
    assert linalg.ldl_solve(*linalg.ldl_factor(smolder.zeros(4, 0, 0)), smolder.zeros(4, 0, 2)).shape == (4, 0, 2)


def test_batches_of_vmap():
    a = smolder.tensor(symmetric(4, "real"))
    assert smolder.func.vmap(linalg.ldl_factor)(a).LD.tolist() == linalg.ldl_factor(a).LD.tolist()


MISTAKES = """
L.ldl_factor(a.clone().requires_grad_()).LD.sum().backward() | L.ldl_solve(*f, a.clone().requires_grad_()).sum().backward()
L.ldl_solve(f[0], f[1].float(), a) | L.ldl_solve(f[0], f[1][:2], a) | L.ldl_solve(*f, a[:2]) | L.ldl_solve(*f, a.double()) | f | L.ldl_factor_ex(a)
"""


@needs_torch
def test_mistakes_and_printed_results_are_torchs():
    uses = [use.strip() for use in MISTAKES.replace("\n", "|").split("|") if use.strip()]
    before = "L, a = torch.linalg, torch.tensor([[4.0, 2, 1], [2, 0, 3], [1, 3, 0]])\nf = L.ldl_factor(a)"
    assert_torch_says(uses, before)


@needs_torch
def test_factors_and_pivots_are_torchs():
    code = """
out = []
for kind, real, imaginary in json.loads(argv[0]):
    a = torch.complex(*(torch.tensor(v, dtype=torch.float64) for v in (real, imaginary)))
    f = torch.linalg.ldl_factor(a.real if kind == "real" else a, hermitian=kind == "hermitian")
    out.append([f.pivots.tolist(), torch.view_as_real(f.LD + 0j).tolist()])
"""
    given = [(kind, symmetric(n, kind)) for n in (3, 8) for kind in ("real", "complex", "hermitian")]
    listed = [(kind, a.real.tolist(), np.imag(a).tolist()) for kind, a in given]
    for (kind, a), (pivots, ld) in zip(given, run_torch(code, json.dumps(listed)), strict=True):
        f = linalg.ldl_factor(smolder.tensor(a), hermitian=kind == "hermitian")
        assert f.pivots.tolist() == pivots
        np.testing.assert_allclose(smolder.view_as_real(f.LD + 0j).numpy(), ld, rtol=1e-9, atol=1e-9)
