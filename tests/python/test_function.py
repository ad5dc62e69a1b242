"""autograd.Function: what contexts do, what backward may return, and differentiating it again."""

import gc
import weakref

import numpy as np
import pytest

import smolder
from smolder import autograd
from smolder.autograd.function import once_differentiable


def leaf(n=3):
    return smolder.ones(n, requires_grad=True)


def function(forward, backward, name="MyFn"):
    return type(name, (autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)})


def gradients(forward, backward, *args):
    out = function(forward, backward).apply(*args)
    (out if isinstance(out, smolder.Tensor) else out[0]).sum().backward()
    return [t.grad.tolist() if isinstance(t, smolder.Tensor) else None for t in args], out


class Cube(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


class Exp(autograd.Function):
    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (y,) = ctx.saved_tensors
        return g * y


@pytest.mark.parametrize("f, want", [(Cube, [12, 12, 6]), (Exp, [np.exp(2)] * 3)])
def test_derivatives_of_all_orders(f, want):
    x = smolder.full((), 2.0, dtype=smolder.float64, requires_grad=True)
    y = f.apply(x)
    for value in want:
        (y,) = autograd.grad(y, x, create_graph=True)
        np.testing.assert_allclose(y.item(), value, rtol=1e-12)
    assert autograd.gradcheck(f.apply, x) and autograd.gradgradcheck(f.apply, x)


def test_the_context_is_the_grad_fn():
    x = leaf()
    y = Cube.apply(x)
    assert type(y.grad_fn).__name__ == "CubeBackward" == y.grad_fn.name()
    assert y.grad_fn.needs_input_grad == (True,) and y.grad_fn.saved_tensors[0].tolist() == [1, 1, 1]
    assert [n.name() for n, _ in y.grad_fn.next_functions] == ["AccumulateGrad"]
    y.sum().backward()
    for again in (lambda: y.sum().backward(), lambda: y.grad_fn.saved_tensors):
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            again()
    with smolder.no_grad():
        assert Cube.apply(x).grad_fn is None
    assert Cube.apply(x.detach()).grad_fn is None


def test_arguments_that_are_no_tensors():
    def forward(ctx, x, factor, y):
        assert ctx.needs_input_grad == (True, False, False) and not smolder.is_grad_enabled()
        ctx.factor = factor
        return x * factor + y

    y = smolder.ones(3)
    out = function(forward, lambda ctx, g: (g * ctx.factor, None, None)).apply
    x = leaf()
    out(x, 4, y).sum().backward()
    assert x.grad.tolist() == [4, 4, 4]
    out(x, factor=4, y=y).sum().backward()
    assert x.grad.tolist() == [8, 8, 8]


def test_results_that_are_no_tensors_or_have_no_gradient():
    seen = []

    def forward(ctx, x):
        y = x * 2
        ctx.mark_non_differentiable(y)
        return x * 3, 5, None, y, x.long()

    def backward(ctx, *grads):
        seen.extend(grads[1:])
        return grads[0] * 3

    grads, out = gradients(forward, backward, leaf())
    assert grads == [[3, 3, 3]] and out[1:3] == (5, None)
    assert not out[3].requires_grad and not out[4].requires_grad
    assert seen[:2] == [None, None] and seen[2].tolist() == [0, 0, 0] and seen[3].dtype == smolder.int64


@pytest.mark.parametrize("on", [True, False])
def test_materialized_gradients(on):
    def forward(ctx, x):
        ctx.set_materialize_grads(on)
        return x * 3, x * 4

    seen = []
    gradients(forward, lambda ctx, g, h: (seen.append(h), g)[1], leaf())
    assert (seen[0].tolist() == [0, 0, 0]) if on else (seen[0] is None)


def double_in_place(ctx, x):
    ctx.mark_dirty(x)
    return x.mul_(2)


def test_in_place_functions():
    f = function(double_in_place, lambda ctx, g: g * 2)
    x = leaf()
    y = x * 1
    assert f.apply(y) is y and y.grad_fn.name() == "MyFnBackward"
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    z = x * 1  # through a view, the base has the gradient
    f.apply(z[1:])
    assert z.tolist() == [1, 2, 2]
    assert autograd.grad(z.sum(), x)[0].tolist() == [1, 2, 2]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        f.apply(leaf())


def test_results_that_are_arguments_or_views_of_them():
    f = function(lambda ctx, x: x, lambda ctx, g: g * 3, "Same")
    v = function(lambda ctx, x: x.view(-1), lambda ctx, g: g * 3, "View")
    for apply in (f.apply, v.apply):
        x = leaf()
        h = x * 1
        y = apply(h)
        assert y is not h and y.grad_fn.name() in ("SameBackward", "ViewBackward")
        assert h.grad_fn.name() == "MulBackward0"
        with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
            y.mul_(2)
        with pytest.raises(RuntimeError, match="This view was created inside a custom Function"):
            y[1:].mul_(2)
        y.sum().backward()
        assert x.grad.tolist() == [3, 3, 3]


WRITES = {
    "the argument": lambda x, y: x.mul_(5),
    "another view": lambda x, y: x[:1].mul_(5),
    "itself": lambda x, y: y.mul_(5),
    "a part of it": lambda x, y: y[1:].mul_(5),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("mode", [smolder.no_grad, smolder.enable_grad])
def test_a_view_that_was_written_has_no_gradient(name, mode):
    """The Function's is not that of what the view holds."""
    f = function(lambda ctx, x: x.view(-1), lambda ctx, g: g * 3, "View")
    x = leaf()
    h = x * 1
    y = f.apply(h)
    before = y * 2
    if mode is smolder.enable_grad and name in ("itself", "a part of it"):
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            WRITES[name](h, y)
        return
    with mode():
        WRITES[name](h, y)
    assert y.tolist() == h.tolist() != [1, 1, 1]
    with pytest.raises(RuntimeError, match="its base or another view of its base has been modified inplace"):
        y.sum().backward()
    before.sum().backward()
    assert x.grad.tolist() == [6, 6, 6]


ERRORS = [
    (lambda c, x: x * 2, lambda c, g: (g, g), "function MyFnBackward returned an incorrect number of gradients .expec"),
    (
        lambda c, x: x * 2,
        lambda c, g: smolder.ones(4),
        "returned an invalid gradient at index 0 - got .4. but expected",
    ),
    (lambda c, x: x * 2, lambda c, g: 5, "expected Variable or None .got int"),
    (lambda c, x: (c.mark_dirty(x), x * 2)[1], lambda c, g: g, "Some elements marked as dirty during the forward"),
]


@pytest.mark.parametrize("forward, backward, text", ERRORS)
def test_what_functions_must_not_do(forward, backward, text):
    with pytest.raises(RuntimeError, match=text):
        gradients(forward, backward, leaf())


def test_what_is_missing_is_named():
    with pytest.raises(TypeError, match="save_for_backward can only save variables, but argument 0 is of type int"):
        gradients(lambda c, x: c.save_for_backward(5), None, leaf())
    with pytest.raises(NotImplementedError, match="You must implement the forward function"):
        type("NoForward", (autograd.Function,), {}).apply(leaf())
    no_backward = type("NoBackward", (autograd.Function,), {"forward": staticmethod(lambda ctx, x: x * 1)})
    with pytest.raises(NotImplementedError, match="You must implement either the backward or vjp method"):
        no_backward.apply(leaf()).sum().backward()
    with pytest.raises(RuntimeError, match="a gradient different from None at position 2"):
        gradients(lambda c, x, k: x * k, lambda c, g: (g, g), leaf(), 2)


def test_gradients_fit_their_inputs():
    """More dimensions are summed, another dtype is cast, and extra Nones are let pass, as in torch."""
    assert gradients(lambda c, x: x * 2, lambda c, g: smolder.ones(2, 3), leaf())[0] == [[2, 2, 2]]
    assert gradients(lambda c, x: x * 2, lambda c, g: (g.double(), None), leaf())[0] == [[1, 1, 1]]


def test_once_differentiable():
    class Once(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @once_differentiable
        def backward(ctx, g):
            assert not smolder.is_grad_enabled()
            return g * 2 * ctx.saved_tensors[0]

    x = leaf()
    assert autograd.grad(Once.apply(x).sum(), x)[0].tolist() == [2, 2, 2]
    y = Once.apply(x * 1)
    seed = smolder.ones(3, requires_grad=True)
    (g,) = autograd.grad(y, x, seed, create_graph=True)
    assert g.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="marked with @once_differentiable"):
        g.sum().backward()


def test_calls_leave_nothing_behind():
    x = leaf()
    y = Exp.apply(x)
    context = weakref.ref(y.grad_fn)
    assert context() is not None
    del y
    gc.collect()
    assert context() is None


def test_saved_tensors_hooks():
    packed = []

    def pack(t):
        packed.append(t)
        return len(packed) - 1

    x = leaf()
    with autograd.graph.saved_tensors_hooks(pack, lambda i: packed[i]):
        y = x.exp()
        z = Cube.apply(y)
    n = len(packed)
    assert n == 2 and not any(t.requires_grad for t in packed)
    (g,) = autograd.grad(z.sum(), x, create_graph=True)
    np.testing.assert_allclose(g.tolist(), [3 * np.exp(3)] * 3, rtol=1e-6)
    np.testing.assert_allclose(autograd.grad(g.sum(), x)[0].tolist(), [9 * np.exp(3)] * 3, rtol=1e-6)
    with autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: smolder.ones(7)):
        z = x.exp()
    with pytest.raises(RuntimeError, match="unpack_hook returned a tensor of shape"):
        z.sum().backward()
