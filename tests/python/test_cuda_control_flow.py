"""Control flow on CUDA: the host decides, and graphs run on the device."""

import numpy as np
import pytest

import smolder

if not smolder.cuda.is_available():
    pytest.skip("there is no CUDA device", allow_module_level=True)


def both(f):
    """Results of `f` on the device and on the host."""
    return [[t.cpu().tolist() for t in f(device)] for device in ("cuda", "cpu")]


def close(f):
    for a, b in zip(*both(f), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("threshold", [0, 100])
def test_cond_and_its_gradients(threshold):
    def run(device):
        x = smolder.tensor([[0.5, 1.5, 2.5], [1.0, 2.0, 3.0]], device=device).T.requires_grad_()
        w = smolder.tensor([2.0, 3.0], device=device, requires_grad=True)
        out = []
        for _ in range(4):  # a step that repeats is still no graph of CUDA's
            y = smolder.cond(x.sum() > threshold, lambda x: x.sin() * w, lambda x: x / w + 1, (x,))
            (g,) = smolder.autograd.grad(y.square().sum(), x, create_graph=True)
            out += [y, g, *smolder.autograd.grad(g.sum(), (x, w))]
        return out

    close(run)


def test_loops_and_their_gradients():
    def run(device):
        w = smolder.tensor([1.5, 0.5], device=device, requires_grad=True)
        xs = smolder.arange(6.0, device=device).reshape(2, 3).requires_grad_()
        _, z = smolder.while_loop(
            lambda i, z: i < 3, lambda i, z: (i + 1, z * w + 1), (smolder.tensor(0, device=device), w * 2)
        )
        c, ys = smolder.scan(lambda c, x: ((c * w + x).tanh(), c * x), z, xs, dim=1, reverse=True)
        return [z, c, ys, *smolder.autograd.grad(c.sum() + ys.sum(), (w, xs))]

    close(run)


def test_a_compiled_function_and_a_predicate_on_the_host():
    x = smolder.tensor([1.0, -2.0, 3.0], device="cuda")
    choose = lambda p, x: smolder.cond(p, lambda x: x * 2, lambda x: x - 1, (x,))  # noqa: E731
    fast = smolder.compile(lambda x: choose(x.sum() > 0, x), fullgraph=True)
    for sign in (1, -1, 1, -1):
        assert fast(x * sign).tolist() == choose(sign > 0, x * sign).tolist()
    assert choose(smolder.tensor(True), x).tolist() == [2, -4, 6]


def test_an_op_elsewhere_is_refused():
    x = smolder.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="uses a tensor on cpu, its operands are on cuda:0"):
        smolder.cond(x.sum() > 0, lambda x: x * smolder.ones(3), lambda x: x * 1, (x,))
    with pytest.raises(RuntimeError, match="uses a tensor on cuda:0, its operands are on cpu"):
        smolder.cond(smolder.tensor(True), lambda y: y * x, lambda y: y * 1, (smolder.ones(3),))
