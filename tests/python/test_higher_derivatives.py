"""Second and third derivatives of the rows, and what is made of derivatives: autograd.functional, batches of gradients,
accumulation over steps, gradients that are retained."""

import numpy as np
import pytest
from op_results import generated
from op_rows import own_cases, rng_of
from test_op_gradients import COMPOSITE, DIFFERENTIABLE, FLAT, Function

import smolder
from smolder import autograd
from smolder.autograd import functional


def derivative(total, leaves, directions):
    """The derivative of a scalar along the directions, as a scalar with history."""
    if not total.requires_grad:
        return None
    found = autograd.grad(total, leaves, create_graph=True, allow_unused=True)
    terms = [(g * d).sum() for g, d in zip(found, directions, strict=True) if g is not None]
    return sum(terms[1:], terms[0]) if terms else None


def along(f, order, steps, directions):
    """The order-th derivative of f along as many directions, with the leaves moved by steps."""
    total, leaves = f(steps)
    for d in directions[:order]:
        total = derivative(total, leaves, d)
        if total is None:
            return 0.0
    return total.item()


# One case of each is enough: that other cases have gradients is tested in the first order.
@generated(DIFFERENTIABLE + COMPOSITE)
def test_second_and_third_derivatives_agree_with_differences(row, shows):
    with smolder.eager():
        f = Function(row, next(iter(own_cases(row))))
        total, leaves = f()
        rng = rng_of("third", row["key"])
        directions = [[smolder.tensor(rng.normal(size=tuple(t.shape))) for t in leaves] for _ in range(3)]
        for order in (2, 3):
            got = along(f, order, None, directions)
            moved = [[s * 1e-5 * d.numpy() for d in directions[order - 1]] for s in (1, -1)]
            up, down = (along(f, order - 1, m, directions) for m in moved)
            want = 0.0 if row["key"] in FLAT else (up - down) / 2e-5
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4, err_msg=f"{row['key']}, order {order}")
            shows("second" if order == 2 else "third", "float64", total.requires_grad)


# -- autograd.functional


def tensor(*shape, seed=0):
    return smolder.tensor(np.random.default_rng(seed).normal(size=shape))


def several(x, y):
    return (x @ y).sin(), (x.exp() * 2).sum(), y * 1


def scalar(x, y):
    return ((x @ y).sin() * x.sum()).sum()


X, Y = tensor(2, 3), tensor(3, 2, seed=1)


def numeric_jacobian(f, inputs, eps=1e-6):
    """By central differences: [output][input], each output's shape followed by the input's."""

    def run(arrays):
        out = f(*map(smolder.tensor, arrays))
        return [o.numpy() for o in (out if isinstance(out, tuple) else (out,))]

    arrays = [x.numpy().copy() for x in inputs]
    shapes = [o.shape for o in run(arrays)]
    found = [[np.zeros(s + a.shape) for a in arrays] for s in shapes]
    for j, a in enumerate(arrays):
        for at in np.ndindex(*a.shape):
            kept, sides = a[at], []
            for sign in (1, -1):
                a[at] = kept + sign * eps
                sides.append(run(arrays))
            a[at] = kept
            for i, (up, down) in enumerate(zip(*sides, strict=True)):
                found[i][j][(..., *at)] = (up - down) / (2 * eps)
    return found


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("vectorize", [False, True])
def test_jacobian(vectorize):
    want = numeric_jacobian(several, (X, Y))
    got = functional.jacobian(several, (X, Y), vectorize=vectorize)
    assert [len(row) for row in got] == [2, 2, 2]
    for row, wanted in zip(got, want, strict=True):
        for a, b in zip(row, wanted, strict=True):
            close(a, b)
    single = functional.jacobian(lambda x: x.sin(), X, vectorize=vectorize)
    close(single, numeric_jacobian(lambda x: x.sin(), (X,))[0][0])
    assert not single.requires_grad


def test_hessian():
    def gradient(x, y):
        x, y = x.requires_grad_(), y.requires_grad_()
        return autograd.grad(scalar(x, y), (x, y))

    want = numeric_jacobian(gradient, (X, Y))
    for row, wanted in zip(functional.hessian(scalar, (X, Y)), want, strict=True):
        for a, b in zip(row, wanted, strict=True):
            close(a, b)
    with pytest.raises(RuntimeError, match="should contain a single element"):
        functional.hessian(lambda x: x * 2, X)


def test_products_are_those_with_the_jacobian():
    f = lambda x: (x @ Y).sin()  # noqa: E731
    j = functional.jacobian(f, X).numpy()
    u, v = tensor(2, 2, seed=2), tensor(2, 3, seed=3)
    out, got = functional.vjp(f, X, u)
    close(out, f(X).numpy())
    close(got, np.tensordot(u.numpy(), j, 2))
    out, got = functional.jvp(f, X, v)
    close(out, f(X).numpy())
    close(got, np.tensordot(j, v.numpy(), 2))
    g = lambda x: f(x).square().sum()  # noqa: E731
    h = functional.hessian(g, X).numpy()
    close(functional.hvp(g, X, v)[1], np.tensordot(h, v.numpy(), 2))
    close(functional.vhp(g, X, v)[1], np.tensordot(v.numpy(), h, 2))


def test_results_that_are_differentiated_again():
    x = X.clone().requires_grad_()
    j = functional.jacobian(lambda x: x.exp(), x, create_graph=True)
    (g,) = autograd.grad(j.sum(), x)
    close(g, np.exp(X.numpy()))
    (g,) = autograd.grad(functional.vjp(lambda x: x**3, x, smolder.ones_like(x), create_graph=True)[1].sum(), x)
    close(g, 6 * X.numpy())
    (g,) = autograd.grad(functional.hvp(lambda x: (x**3).sum(), x, smolder.ones_like(x), create_graph=True)[1].sum(), x)
    close(g, np.full((2, 3), 6.0))


def test_jacobians_by_columns_are_those_by_rows():
    x, y = X * 1, X.sum(1)
    for f, inputs in (
        (lambda x: x.exp(), x),
        (lambda x: (x.sum(0), x**2), x),
        (lambda x, y: x.T @ y, (x, y)),
        (lambda x, y: (x * y[:, None], y.sin()), (x, y)),
    ):
        rows = functional.jacobian(f, inputs, vectorize=True)
        columns = functional.jacobian(f, inputs, vectorize=True, strategy="forward-mode")
        smolder.testing.assert_close(columns, rows)
    hessians = [
        functional.hessian(lambda x: (x**3).prod(), x, vectorize=True, outer_jacobian_strategy=s)
        for s in ("reverse-mode", "forward-mode")
    ]
    smolder.testing.assert_close(*hessians)
    for options, error in (
        ({}, NotImplementedError),
        ({"vectorize": True, "create_graph": True}, NotImplementedError),
        ({"vectorize": True, "strict": True}, RuntimeError),
    ):
        with pytest.raises(error, match="forward-"):
            functional.jacobian(lambda x: x, X, strategy="forward-mode", **options)


# -- grad


def test_batches_of_gradients():
    x, y = X.clone().requires_grad_(), Y.clone().requires_grad_()
    out, total = x @ y, (x * 2).sum()
    seeds, more = tensor(4, 2, 2, seed=5), tensor(4, seed=6)
    got = autograd.grad((out, total), (x, y), (seeds, more), is_grads_batched=True, retain_graph=True)
    for k in range(4):
        one = autograd.grad((out, total), (x, y), (seeds[k], more[k]), retain_graph=True)
        for a, b in zip(got, one, strict=True):
            assert a[k].tolist() == b.tolist()
    unused = smolder.ones(2, requires_grad=True)
    g, none = autograd.grad(out, (x, unused), seeds, is_grads_batched=True, allow_unused=True, retain_graph=True)
    assert g.shape == (4, 2, 3) and none is None
    (zeros,) = autograd.grad(total, unused, more, is_grads_batched=True, materialize_grads=True, retain_graph=True)
    assert zeros.tolist() in ([0, 0], [[0, 0]] * 4)
    with pytest.raises(RuntimeError, match="mismatch was detected"):
        autograd.grad(out, x, tensor(4, 2), is_grads_batched=True)


def test_gradients_accumulate_over_steps():
    w = smolder.ones(4, requires_grad=True)
    want = np.zeros(4, np.float32)
    for k in range(1, 7):
        (w * float(k)).sum().backward()
        want += k
        if k % 2:
            smolder.mark_step()
    held = w.grad
    smolder.mark_step()
    w.sum().backward()
    assert w.grad.tolist() == held.tolist() == (want + 1).tolist()  # written in place
    w.grad = None
    w.sum().backward()
    assert w.grad.tolist() == [1] * 4 and held.tolist() == (want + 1).tolist()


# -- gradients that are retained


def test_gradients_of_views_and_of_what_is_written_in_place():
    x = smolder.ones(4, requires_grad=True)
    h = x * 2
    v = h[1:3]
    h.retain_grad()
    v.retain_grad()
    (v.square().sum() + h.sum()).backward()
    assert h.grad.tolist() == [1, 5, 5, 1] and v.grad.tolist() == [4, 4]
    assert x.grad.tolist() == [2, 10, 10, 2]

    x = smolder.ones(4, requires_grad=True)
    h = x * 2
    h.retain_grad()
    h.mul_(3)  # the gradient kept is that of what it is now
    h.square().sum().backward()
    assert h.grad.tolist() == [12] * 4 and x.grad.tolist() == [72] * 4

    x = smolder.ones(4, requires_grad=True)
    h = x * 2
    v = h[:2]
    v.retain_grad()
    h.mul_(3)
    v.sum().backward()
    assert v.grad.tolist() == [1, 1] and x.grad.tolist() == [6, 6, 0, 0]


def test_gradients_are_retained_once_and_over_passes():
    x = smolder.ones(2, requires_grad=True)
    x.retain_grad()
    assert not x.retains_grad
    h = x * 3
    h.retain_grad()
    h.retain_grad()
    assert h.retains_grad
    h.sum().backward(retain_graph=True)
    h.sum().backward()
    assert h.grad.tolist() == [2, 2]
    (g,) = autograd.grad((x * h.detach()).sum(), x)
    assert g.tolist() == [3, 3] and h.grad.tolist() == [2, 2]
