import contextlib

import numpy as np
import pytest

import smolder
from smolder import autograd


def leaf(*shape, seed=0):
    return smolder.tensor(np.random.default_rng(seed).normal(size=shape)).requires_grad_()


def numeric(f, x, eps=1e-6):
    """Central differences of f's sum in every element of x."""
    base = x.detach().numpy()
    out = np.zeros_like(base)
    for i in np.ndindex(*base.shape):
        values = []
        for sign in (1, -1):
            moved = base.copy()
            moved[i] += sign * eps
            values.append(f(smolder.tensor(moved)).sum().item())
        out[i] = (values[0] - values[1]) / (2 * eps)
    return out


FUNCTIONS = {
    "chain": lambda x: (x * 2 + 1).tanh().exp() / 3,
    "reductions": lambda x: (x - x.mean(0)).square().sum(1) + x.amax(1) + x.logsumexp(0).sum(),
    "softmax": lambda x: x.softmax(1) * x.log_softmax(0),
    "matmul": lambda x: x @ x.T @ x,
    "views": lambda x: x.view(-1)[1:].reshape(-1).flip((0,)) * x.T.reshape(-1)[:-1],
    "indexing": lambda x: x[[0, 2, 0]] * x[1] + x[:, None, 0].sum(),
    "joining": lambda x: smolder.cat([x, x * 2], 1) + smolder.stack([x, x.sin()], 0).sum(),
    "where": lambda x: smolder.where(x > 0, x * x, x.exp()) + x.clamp(-0.5, 0.5),
    "broadcast": lambda x: x.unsqueeze(1) * x.unsqueeze(0) + x.expand(2, *x.shape).sum(0).sum(),
    "in place": lambda x: in_place(x),
}


def in_place(x):
    y = x * 1
    y[0] = y[1] * 2
    y.mul_(x)
    return y


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradients_agree_with_finite_differences(name):
    f, x = FUNCTIONS[name], leaf(3, 4)
    f(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), numeric(f, x), rtol=1e-6, atol=1e-7)


def test_gradients_accumulate_and_reset():
    """Over leaves of different shapes, some used twice and one only sometimes, and over backward passes."""
    x, w, b = leaf(3, 4), leaf(4, 4, seed=1), leaf(4, seed=2)
    leaves, want = (x, w, b), [0, 0, 0]

    def loss(step):
        h = x @ w + (b if step % 2 else b.detach())
        return (h * h).sum() + (x * b.detach()).sum() * step + x[0].sum()

    for step in range(4):
        single = autograd.grad(loss(step), leaves, allow_unused=True)
        assert (single[2] is None) == (step % 2 == 0)
        want = [total if g is None else total + g.numpy() for total, g in zip(want, single)]
        loss(step).backward()
        if step == 1:
            smolder.mark_step()  # a gradient that is added to may be memory or pending
        for t, total in zip(leaves, want):
            assert (t.grad is None) == isinstance(total, int)
            if t.grad is not None:
                np.testing.assert_allclose(t.grad.numpy(), total, rtol=1e-12)
    held = x.grad.detach().clone()
    x.grad = None
    w.grad.zero_()
    loss(1).backward()
    for t, g in zip(leaves[:2], autograd.grad(loss(1), leaves[:2])):
        np.testing.assert_allclose(t.grad.numpy(), g.numpy(), rtol=1e-12)
    np.testing.assert_allclose(held.numpy(), want[0], rtol=1e-12)


def test_a_gradient_of_one_leaf_is_no_other_leafs():
    """Leaves that get equal gradients get tensors of their own."""
    for f in (lambda a, b: a + b, lambda a, b: (a - 1) + (b + 1), lambda a, b: smolder.stack([a, b])):
        a, b = leaf(3), leaf(3, seed=1)
        f(a, b).sum().backward()
        a.grad.mul_(5)
        assert (a.grad.tolist(), b.grad.tolist()) == ([5] * 3, [1] * 3)
        f(a, b).sum().backward()
        assert (a.grad.tolist(), b.grad.tolist()) == ([6] * 3, [2] * 3)


def test_grad_returns_and_changes_no_leaf():
    x, y = leaf(3), leaf(3, seed=1)
    dx, dy = autograd.grad((x * y).sum(), (x, y))
    np.testing.assert_array_equal(dx.numpy(), y.detach().numpy())
    np.testing.assert_array_equal(dy.numpy(), x.detach().numpy())
    assert x.grad is None
    assert autograd.grad(x.sum(), (x, y), allow_unused=True)[1] is None
    with pytest.raises(RuntimeError):
        autograd.grad(x.sum(), (x, y))


def test_second_derivative():
    x = leaf(4)
    (first,) = autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = autograd.grad(first.sum(), x)
    np.testing.assert_allclose(second.numpy(), 6 * x.detach().numpy(), rtol=1e-12)


def test_backward_twice_needs_retain_graph():
    x = leaf(3)
    y = x.exp().sum()
    y.backward(retain_graph=True)
    y.backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * np.exp(x.detach().numpy()), rtol=1e-12)
    with pytest.raises(RuntimeError):
        y.backward()


def test_what_has_no_gradient():
    x = leaf(3)
    with smolder.no_grad():
        assert not (x * 2).requires_grad
    assert not x.detach().requires_grad and (x * 2).requires_grad
    assert x.is_leaf and not (x * 2).is_leaf
    with pytest.raises(RuntimeError):
        smolder.ones(3).sum().backward()
    with pytest.raises(RuntimeError):
        (x * 2).backward()
    with pytest.raises(RuntimeError):
        smolder.ones(3, dtype=smolder.int64).requires_grad_()
    with pytest.raises(RuntimeError):
        x.add_(1)


@pytest.mark.parametrize("loss", ["cross_entropy", "nll_loss", "binary_cross_entropy_with_logits"])
def test_a_weight_of_classes_has_no_gradient(loss):
    x, weight = smolder.randn(4, 3, requires_grad=True), smolder.ones(3, requires_grad=True)
    target = smolder.zeros(4, 3) if loss.startswith("binary") else smolder.tensor([0, 1, 2, 0])
    function = getattr(smolder.nn.functional, loss)
    with pytest.raises(RuntimeError, match=f"'{loss}' is not differentiable with respect to argument 'weight'"):
        function(x, target, weight)
    with smolder.no_grad():
        function(x, target, weight).item()
    function(x, target, weight.detach()).backward()


def test_gradient_argument_and_names():
    x = leaf(3)
    y = x * 2
    y.backward(smolder.tensor([1.0, 10.0, 100.0], dtype=smolder.float64))
    assert x.grad.tolist() == [2, 20, 200]
    assert y.grad_fn.name() == "MulBackward0" and x.grad_fn is None


# A value that an op keeps for its gradient is overwritten after that, and backward goes through it: what was recorded
# is what is differentiated. (torch refuses most of these.)
CLOBBERED = {
    "result kept by exp": (lambda x: write((x * 1).exp(), lambda z: z.mul_(0.5)), lambda x: 0.5 * np.exp(x)),
    "operand kept by tanh's reader": (lambda x: tanh_of_written(x), lambda x: 1 - np.tanh(x) ** 2),
    "operand of a product": (lambda x: product_with_written(x), lambda x: 3 * x**2 + 2 * x),
    "factor that is no leaf's": (lambda x: times_written_factor(x), lambda x: np.full_like(x, 2)),
    "part of a result": (lambda x: write((x * 1).exp(), lambda z: z[1:].mul_(3)), lambda x: np.exp(x) * [1, 3, 3]),
    "one element set": (
        lambda x: write((x * 1).exp(), lambda z: z.__setitem__(0, 7.0)),
        lambda x: np.exp(x) * [0, 1, 1],
    ),
    "by itself, twice": (lambda x: write(write(x * 1, lambda y: y.mul_(y)), lambda y: y.mul_(y)), lambda x: 4 * x**3),
    "result of softmax": (lambda x: write(x.softmax(0), lambda z: z.sub_(z)).exp() * x, lambda x: np.ones_like(x)),
    "without history": (lambda x: zeroed_without_history(x), lambda x: np.exp(x)),
}


def write(tensor, how):
    how(tensor)
    return tensor


def tanh_of_written(x):
    y = x * 1
    z = y.tanh()
    y.fill_(100)
    return z


def product_with_written(x):
    y = x * 1
    z = y * y
    y.add_(1)
    return z * y


def times_written_factor(x):
    w = smolder.full((3,), 2.0, dtype=smolder.float64)
    z = x * w
    w.zero_()
    return z


def zeroed_without_history(x):
    z = (x * 1).exp()
    with smolder.no_grad():
        z.zero_()
    return z


@pytest.mark.parametrize("name", CLOBBERED)
@pytest.mark.parametrize("mode", ["recorded", "steps between", "eager"])
def test_an_in_place_write_never_corrupts_a_gradient(name, mode):
    f, want = CLOBBERED[name]
    x = leaf(3)
    with smolder.eager() if mode == "eager" else contextlib.nullcontext():
        y = f(x)
        if mode == "steps between":
            smolder.mark_step()
        y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), want(x.detach().numpy()), rtol=1e-12, atol=1e-15)


def test_xlogy_at_zero_has_torchs_gradient():
    x = smolder.zeros(6, requires_grad=True)
    y = smolder.tensor([2.0, 1.0, 0.0, -1.0, float("nan"), float("inf")])
    smolder.xlogy(x, y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [np.log(2.0), 0, 0, 0, np.nan, np.inf], rtol=1e-6)
    x.grad = None
    smolder.xlogy(x, 3.0).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.full(6, np.log(3.0)), rtol=1e-6)
