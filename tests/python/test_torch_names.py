"""Names of torch's that programs use here and there: what they give and raise is torch's."""

import numpy as np
import pytest
from torch_peer import assert_torch_says, needs_torch

import smolder
from smolder import nn

BEFORE = """
F, x, u = torch.nn.functional, torch.arange(12.0).reshape(3, 4), torch.linspace(-2, 2, 9)
if torch.__name__ == "torch":
    import torch.utils.dlpack
else:
    import smolder.utils.dlpack
def near(t):
    return [round(v, 5) for v in t.double().flatten().tolist()], list(t.shape)
def written(name, *args):
    t = torch.linspace(-2, 2, 9)
    out = getattr(F, name)(t, *args)
    return out is t, near(out)
def bilinear():
    torch.manual_seed(0)
    m = torch.nn.Bilinear(3, 4, 5)
    with torch.no_grad():
        for p in m.parameters():
            p.copy_(torch.sin(torch.arange(p.numel())).reshape(p.shape))
    return m, near(m(torch.ones(2, 3), x[:2])), near(m(torch.ones(2, 1, 3), x[:2].unsqueeze(1)))
"""
USES = """
near(x.as_strided((2, 2), (4, 1))) | near(x.as_strided((3, 3), (4, 1), 1)) | near(torch.as_strided(x, (2, 3), (1, 4))) | near(x.as_strided((3,), (5,)))
near(x.as_strided((3, 2), (1, 1))) | near(x.t().as_strided((2, 3), (2, 3), 1)) | near(x[1:].as_strided((2, 2, 3), (3, 2, 1), 0))
near(x.as_strided((4, 3, 2), (1, 2, 3))) | near(x.as_strided((2, 3, 2), (2, 0, 2), 3)) | near(x.as_strided((2, 2, 2, 2), (3, 2, 1, 1)))
near(x.as_strided((2, 3), (0, 1))) | x.as_strided((2, 3), (6, 1)).stride() | x.as_strided((2, 3), (3, 1), 8) | x.as_strided((2,), (3, 1))
x.as_strided((2,), (-1,)) | torch.as_strided(x, (2,), (1,), -1) | near(x[1:].as_strided((2, 2), (4, 1))) | near(x.as_strided((0, 3), (3, 1)))
x.ndimension() | torch.ones(()).ndimension() | near(torch.special.expm1(u)) | near(torch.special.expit(u)) | near(torch.special.erf(u))
near(torch.special.entr(u)) | near(torch.special.ndtr(u)) | near(torch.special.xlogy(u, u.abs())) | near(torch.special.xlog1py(u, u.abs()))
near(torch.special.xlog1py(torch.zeros(3), torch.tensor([-1.0, -2.0, float("nan")]))) | near(torch.special.gammaln(u.abs() + 1))
near(torch.special.multigammaln(u + 4, 3)) | torch.special.multigammaln(u, 0) | near(torch.special.psi(u + 3)) | near(torch.special.entr(torch.zeros(2)))
near(torch.fft.fftshift(x)) | near(torch.fft.ifftshift(x, 1)) | near(torch.fft.fftshift(torch.arange(5))) | near(torch.fft.ifftshift(torch.arange(5)))
near(torch.fft.fftfreq(5)) | near(torch.fft.fftfreq(8, 0.5)) | near(torch.fft.rfftfreq(5)) | near(torch.fft.rfftfreq(8, 0.5)) | torch.fft.fftfreq(4, dtype=torch.float64).dtype
near(torch.fft.fftshift(x, dim=(0,)))
torch.set_deterministic_debug_mode("x") | torch.set_deterministic_debug_mode(3) | torch.set_deterministic_debug_mode(1.0)
torch.set_deterministic_debug_mode("warn") | torch.get_deterministic_debug_mode() | torch.set_deterministic_debug_mode(2) | torch.get_deterministic_debug_mode()
torch.are_deterministic_algorithms_enabled() | torch.set_deterministic_debug_mode(0) | torch.get_deterministic_debug_mode()
torch.set_default_tensor_type(torch.FloatTensor) | torch.set_default_tensor_type("torch.FloatTensor") | torch.set_default_tensor_type(3)
torch.set_default_tensor_type("torch.LongTensor") | near(torch._utils._flatten_dense_tensors([x, u]))
[near(t) for t in torch._utils._unflatten_dense_tensors(torch.arange(21.0), [x, u])] | near(torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(u)))
written("relu_") | written("elu_", 0.5) | written("celu_") | written("selu_") | written("leaky_relu_", 0.2) | written("hardtanh_", -1, 0.5)
written("threshold_", 0.5, 3.0) | written("rrelu_", 0.1, 0.1) | bilinear() | torch.nn.Bilinear(0, 1, 2) | torch.nn.Bilinear(2, 3, 1, bias=False)
F.bilinear(torch.ones(2, 3), torch.ones(2, 4), torch.ones(5, 3, 3)) | F.bilinear(torch.ones(2, 3), torch.ones(3, 4), torch.ones(5, 3, 4))
"""


@needs_torch
@pytest.mark.filterwarnings("ignore:.*set_default_tensor_type")
def test_what_they_give_is_what_torch_gives():
    assert_torch_says([use.strip() for use in USES.replace("\n", "|").split("|") if use.strip()], BEFORE)


def test_strided_views_are_views():
    x = smolder.zeros(3, 4)
    x.as_strided((2, 2), (4, 2), 1).fill_(1)
    assert x.tolist() == [[0, 1, 0, 1], [0, 1, 0, 1], [0, 0, 0, 0]]
    w = smolder.arange(6.0).requires_grad_()
    (w.as_strided((2, 2), (3, 1)) * 2).sum().backward()
    assert w.grad.tolist() == [2, 2, 0, 2, 2, 0]
    x.t().as_strided((2,), (4,), 2).fill_(7)  # of the memory of a view, and beyond it
    x[1:].as_strided((2,), (1,), 0).fill_(8)
    assert x.tolist() == [[8, 8, 7, 1], [0, 1, 7, 1], [0, 0, 0, 0]]
    w.grad = None
    (w.as_strided((3, 2, 2), (1, 2, 1)) * 2).sum().backward()  # windows that overlap
    assert w.grad.tolist() == [2, 4, 6, 6, 4, 2]
    w.grad = None
    w[1:].as_strided((2,), (1,), 0).sum().backward()  # beside the view: the gradient is its base's
    w.reshape(2, 3).t().as_strided((2,), (1,)).sum().backward()
    assert w.grad.tolist() == [2, 2, 0, 0, 0, 0]


def test_gradients_of_bilinear():
    m = nn.Bilinear(2, 3, 2).double()
    a, b = smolder.randn(4, 2, dtype=smolder.float64), smolder.randn(4, 3, dtype=smolder.float64)
    expected = np.einsum("ni,oij,nj->no", a.numpy(), m.weight.numpy(force=True), b.numpy()) + m.bias.numpy(force=True)
    np.testing.assert_allclose(m(a, b).numpy(force=True), expected)
    a.requires_grad_()
    assert smolder.autograd.gradcheck(lambda x: m(x, b), (a,))
