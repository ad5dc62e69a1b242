"""Dual tensors, against products of Jacobians computed otherwise."""

import pytest
from conftest import DEVICE

import smolder
from smolder import func, nn
from smolder.autograd import forward_ad as fw

F = nn.functional


def doubles(*shape, seed=0):
    generator = smolder.Generator(device=DEVICE).manual_seed(seed)
    return smolder.randn(*shape, dtype=smolder.float64, generator=generator)


FUNCTIONS = {
    "polynomial": lambda x: x**3 - 2 * x,
    "softmax": lambda x: x.softmax(-1).log(),
    "product": lambda x: x @ x.T,
    "inverse": lambda x: smolder.linalg.inv(x @ x.T + 3 * smolder.eye(4, dtype=x.dtype)),
    "indices": lambda x: x[[2, 0, 0]].cumsum(0),
    "convolution": lambda x: F.conv1d(x[None], x[:, :, None].expand(4, 5, 3).transpose(0, 1)[:4, :4] * x.sum()),
    "written": lambda x: (x * 1).mul_(x).add_(1).sqrt_(),
    "several": lambda x: x.var(0) * x.amax(1).sum(),
    "constant": lambda x: x * 0 + 1,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_tangent_is_the_product_with_the_jacobian(name):
    f, x, t = FUNCTIONS[name], doubles(4, 5), doubles(4, 5, seed=1)
    with fw.dual_level():
        value, tangent = fw.unpack_dual(f(fw.make_dual(x, t)))
    h = 1e-6
    difference = (f(x + h * t) - f(x - h * t)) / (2 * h)
    smolder.testing.assert_close(tangent, difference, rtol=1e-6, atol=1e-7)
    smolder.testing.assert_close(value, f(x))
    assert not value.requires_grad and not tangent.requires_grad


def test_several_duals_and_complex_ones():
    x, y, s, t = (doubles(3, seed=i) for i in range(4))
    with fw.dual_level():
        a, b = fw.make_dual(x, s), fw.make_dual(y, t)
        smolder.testing.assert_close(fw.unpack_dual(a * b).tangent, s * y + x * t)
        assert fw.unpack_dual(x * y).tangent is None and fw.unpack_dual(b > 0).tangent is None
        assert fw.unpack_dual(a.detach()).tangent is None
        smolder.testing.assert_close(fw.unpack_dual(b).tangent, t)
        z, u = smolder.complex(x, y), smolder.complex(s, t)
        smolder.testing.assert_close(fw.unpack_dual(fw.make_dual(z, u) ** 2).tangent, 2 * z * u)
    assert fw.unpack_dual(a * b).tangent is None


def test_tangents_of_a_module_have_gradients_of_its_parameters():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double().to(DEVICE)
    x, t = doubles(5, 3), doubles(5, 3, seed=1)
    with fw.dual_level():
        value, tangent = fw.unpack_dual(net(fw.make_dual(x, t)))
    want = func.jvp(net, (x,), (t,))[1]
    smolder.testing.assert_close(tangent, want)
    assert value.requires_grad and tangent.requires_grad
    weight = net[0].weight
    (found,), (wanted,) = (smolder.autograd.grad((o**2).sum(), [weight]) for o in (tangent, want))
    smolder.testing.assert_close(found, wanted)


def test_duals_of_parameters():
    net = nn.Linear(3, 2).double().to(DEVICE)
    x, tangents = doubles(5, 3), {name: doubles(*p.shape, seed=2) for name, p in net.named_parameters()}
    params = dict(net.named_parameters())
    with fw.dual_level():
        duals = {name: fw.make_dual(p, tangents[name]) for name, p in params.items()}
        out = fw.unpack_dual(func.functional_call(net, duals, (x,)))
    smolder.testing.assert_close(out.tangent.detach(), x @ tangents["weight"].T + tangents["bias"])
    assert out.primal.requires_grad  # of the parameters


def test_mistakes_are_torchs():
    x = doubles(3)
    with pytest.raises(RuntimeError, match="no level exists, make sure to enter_dual_level"):
        fw.make_dual(x, x)
    with pytest.raises(RuntimeError, match="Dual level must be a positive number"):
        fw.exit_dual_level()
    with fw.dual_level() as level:
        assert level == 0
        with pytest.raises(RuntimeError, match="Nested forward mode AD is not supported"):
            fw.enter_dual_level()
        with pytest.raises(ValueError, match=r"Expected primal to be floating point or complex, but got: .*int64"):
            fw.make_dual(x.long(), x)
        with pytest.raises(ValueError, match="Expected tangent to be floating point"):
            fw.make_dual(x, x.long())
        with pytest.raises(RuntimeError, match=r"Tensor is of size \[3\] while the given .* is of size \[2\]"):
            fw.make_dual(x, x[:2])
        with pytest.raises(RuntimeError, match="already has a forward gradient at the same level 0"):
            fw.make_dual(fw.make_dual(x, x), x)
    assert fw.unpack_dual(x) == (x, None) and fw.unpack_dual(3) == (3, None)
