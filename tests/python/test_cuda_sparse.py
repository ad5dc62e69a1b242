"""Sparse tensors on a device: products, sums, gradients and optimizers give the host's bits, twice."""

import numpy as np
import pytest

import smolder
from smolder import cuda
from smolder.nn import functional as F

pytestmark = pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")


def made(device):
    rng = np.random.default_rng(0)
    places = smolder.tensor(np.stack([rng.integers(0, 30, 200), rng.integers(0, 20, 200)]))
    values = smolder.tensor(rng.integers(-4, 5, 200).astype("float32"))
    return smolder.sparse_coo_tensor(places, values, (30, 20), device=device)


def results(device):
    s, x = made(device).requires_grad_(), smolder.arange(60.0, device=device).reshape(20, 3).requires_grad_()
    (s @ x).square().sum().backward()
    c = s.detach().coalesce()
    out = [
        s.grad._values(),
        x.grad,
        c.values(),
        c.indices(),
        c.to_sparse_csr() @ x.detach(),
        smolder.sparse.sum(c, 0).to_dense(),
    ]
    out += [smolder.sparse.softmax(c, 1).values(), (c * 2 + c).to_dense(), c.t().to_dense(), c[3].to_dense()]
    w = smolder.ones(6, 2, device=device).requires_grad_()
    for make in (smolder.optim.SparseAdam, smolder.optim.Adagrad, smolder.optim.SGD):
        optimizer = make([w], lr=0.125)
        for _ in range(2):
            optimizer.zero_grad()
            F.embedding(smolder.tensor([1, 4, 1], device=device), w, sparse=True).square().sum().backward()
            assert w.grad.is_sparse and w.grad.device == w.device
            optimizer.step()
    return [t.detach().cpu().numpy() for t in (*out, w)]


def test_a_device_gives_what_the_host_gives():
    first, again, host = results("cuda"), results("cuda"), results("cpu")
    for a, b, h in zip(first, again, host, strict=True):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a, h, rtol=1e-5, atol=1e-6)


def test_moves_between_devices():
    s = made("cpu").coalesce()
    there = s.cuda()
    assert there.is_cuda and there.indices().is_cuda and "device='cuda:0'" in repr(there)
    assert there.cpu().to_dense().equal(s.to_dense()) and there.is_coalesced()
    with pytest.raises(NotImplementedError, match="SparseCUDA"):
        there.exp()
