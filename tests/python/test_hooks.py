"""Hooks on tensors, nodes and leaves: what they get, what they may return, and in which order they run. The order and
the texts are torch's (probed with 2.15)."""

import warnings
import weakref

import pytest

import smolder
from smolder import autograd


def leaf(n=2):
    return smolder.ones(n, requires_grad=True)


def test_hooks_run_in_torchs_order():
    x, seen = leaf(), []
    y = x * 2
    y.register_hook(lambda g: seen.append("first"))
    y.retain_grad()
    y.grad_fn.register_prehook(lambda gs: seen.append("before"))
    y.register_hook(lambda g: g * 5)
    y.grad_fn.register_hook(lambda gi, go: seen.append(("after", len(gi), gi[1], go[0].tolist())))
    x.register_hook(lambda g: seen.append(("leaf", g.tolist())))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(("accumulated", t is x, t.grad.tolist())))
    y.sum().backward()
    want = ["first", "before", ("after", 2, None, [5, 5]), ("leaf", [10, 10]), ("accumulated", True, [10, 10])]
    assert seen == want
    assert y.grad.tolist() == [5, 5]  # what the tensor keeps is what its hooks made of it


def test_what_hooks_return_replaces_the_gradient():
    x = leaf()
    x.register_hook(lambda g: g + 1)
    x.register_hook(lambda g: g * 10)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [30, 30]
    y = x * 1
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 7,))
    y.grad_fn.register_hook(lambda gi, go: (gi[0] * 2, None))
    assert autograd.grad(y.sum(), x)[0].tolist() == [150, 150]


def test_a_leafs_hooks_outlive_the_graph_and_are_removed():
    x, seen = leaf(), []
    handle = x.register_hook(lambda g: seen.append(1))
    with x.register_hook(lambda g: seen.append(2)):
        (x * 2).sum().backward()
        (x * 3).sum().backward()
    assert seen == [1, 2, 1, 2]
    (x * 2).sum().backward()
    handle.remove()
    handle.remove()
    (x * 2).sum().backward()
    assert seen == [1, 2, 1, 2, 1]


def test_a_hook_that_takes_itself_off_runs_once():
    x, seen = leaf(), []
    handle = x.register_hook(lambda g: (seen.append(1), handle.remove())[0])
    x.register_hook(lambda g: seen.append(2))
    (x * 2).sum().backward()
    (x * 2).sum().backward()
    assert seen == [1, 2, 2]


def test_hooks_and_gradients_asked_for():
    """grad() returns what a tensor's hooks made of its gradient, unless the pass goes on below it (as torch)."""
    x = leaf()
    y = x * 2
    z = (y * 3).sum()
    y.register_hook(lambda g: g * 10)
    x.register_hook(lambda g: g * 100)
    assert autograd.grad(z, [y], retain_graph=True)[0].tolist() == [30, 30]
    assert autograd.grad(z, [x], retain_graph=True)[0].tolist() == [6000, 6000]
    assert [g.tolist() for g in autograd.grad(z, [x, y], retain_graph=True)] == [[6000, 6000], [3, 3]]


def test_only_what_leads_to_the_inputs_runs():
    x, y, seen = leaf(), leaf(), []
    h = y * 2
    h.register_hook(lambda g: seen.append("other branch"))
    y.register_hook(lambda g: seen.append("other leaf"))
    x.register_hook(lambda g: seen.append("asked"))
    z = (x * h).sum()
    autograd.grad(z, x, retain_graph=True)
    z.backward(inputs=[x], retain_graph=True)
    assert seen == ["asked", "asked"] and y.grad is None and x.grad is not None
    z.backward(inputs=[h])
    assert seen[2:] == ["other branch"] and h.grad.tolist() == [1, 1] and h.retains_grad and y.grad is None


def test_undefined_gradients_reach_hooks_as_none():
    class Nothing(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    x, seen = leaf(), []
    y = x * 2
    y.register_hook(lambda g: seen.append(g))
    x.register_hook(lambda g: seen.append(g))
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad))
    Nothing.apply(y).sum().backward()
    assert seen == [None, None, None]


def test_in_place_writes_and_kept_gradients():
    """A hook stays with the value it was put on; what retain_grad asked for follows the tensor."""
    x, seen = leaf(), []
    y = x * 2
    y.register_hook(lambda g: seen.append(("before", g.tolist())))
    y.retain_grad()
    y.mul_(3)
    y.register_hook(lambda g: seen.append(("after", g.tolist())))
    y.sum().backward()
    assert seen == [("after", [1, 1]), ("before", [3, 3])]
    assert y.grad.tolist() == [1, 1] and y.retains_grad


def test_kept_gradients_accumulate():
    x = leaf()
    assert not x.retains_grad
    x.retain_grad()  # leaves keep theirs anyway
    assert not x.retains_grad
    y = x * 2
    y.retain_grad()
    (y * 3).sum().backward(retain_graph=True)
    (y * 3).sum().backward()
    assert y.grad.tolist() == [6, 6]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad is not None and x.grad is not None
        with pytest.raises(UserWarning, match="not a leaf Tensor is being accessed"):
            _ = (x * 2).grad


def run(register):
    y = leaf() * 2
    register(y)
    y.sum().backward()


ERRORS = [
    (lambda y: y.register_hook(lambda g: 5), TypeError, "expected Variable, but hook returned 'int'"),
    (lambda y: y.register_hook(lambda g: smolder.ones(3)), RuntimeError, "has changed the size of value"),
    (
        lambda y: y.register_hook(lambda g: g.double()),
        RuntimeError,
        "has changed the type of value .was smolder.FloatTensor got smolder.DoubleTensor",
    ),
    (lambda y: y.grad_fn.register_hook(lambda gi, go: (gi[0],)), RuntimeError, "got 1, but expected 2"),
    (lambda y: y.grad_fn.register_hook(lambda gi, go: 5), TypeError, "expected tuple, but hook returned 'int'"),
    (
        lambda y: y.grad_fn.register_hook(lambda gi, go: (gi[0], gi[0])),
        RuntimeError,
        "can't replace a None gradient with a non-None value",
    ),
    (lambda y: y.grad_fn.register_prehook(lambda go: (5,)), TypeError, "expected Variable, but hook returned 'int'"),
    (lambda y: smolder.ones(2).register_hook(print), RuntimeError, "cannot register a hook on a tensor that doesn't"),
    (lambda y: smolder.ones(2).retain_grad(), RuntimeError, "can't retain_grad on Tensor that has requires_grad=False"),
    (
        lambda y: y.register_post_accumulate_grad_hook(print),
        RuntimeError,
        "post accumulate grad hooks cannot be registered on non-leaf tensors",
    ),
    (lambda y: y.register_hook(lambda g: [][1]), IndexError, "list index out of range"),
]


@pytest.mark.parametrize("register, kind, text", ERRORS)
def test_what_hooks_must_not_do(register, kind, text):
    with pytest.raises(kind, match=text):
        run(register)


def test_after_a_hook_raised_the_next_pass_works():
    x, broken = leaf(), [True]

    def hook(g):
        if broken:
            raise ValueError("no")

    x.register_hook(hook)
    with pytest.raises(ValueError):
        (x * 2).sum().backward()
    assert x.grad is None
    broken.clear()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_multi_grad_hooks():
    a, b, c, seen = leaf(), leaf(), leaf(), []
    handle = autograd.graph.register_multi_grad_hook([a, b, c], lambda gs: seen.append([g is None for g in gs]))
    (a * b).sum().backward()
    (a * b * c).sum().backward()
    assert seen == [[False, False, True], [False] * 3]
    handle.remove()
    autograd.graph.register_multi_grad_hook([a, b], lambda g: seen.append(g.tolist()), mode="any")
    (a * b).sum().backward()
    assert len(seen) == 3 and seen[2] == [1, 1]


def test_nodes():
    x = leaf()
    y = (x * 2).exp()
    assert y.grad_fn.name() == "ExpBackward0" == type(y.grad_fn).__name__
    assert y.grad_fn == y.grad_fn and hash(y.grad_fn) == hash(y.grad_fn) and y.grad_fn != x.exp().grad_fn
    (product, at), *_ = y.grad_fn.next_functions
    assert product.name() == "MulBackward0" and at == 0
    accumulate = product.next_functions[0][0]
    assert accumulate.name() == "AccumulateGrad" and accumulate.variable._is_same(x)
    edge = autograd.graph.get_gradient_edge(x)
    assert edge.node == accumulate and edge.output_nr == 0


def test_a_hook_is_let_go_of_with_its_graph():
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    y = leaf() * 2
    y.register_hook(lambda g, thing=thing: None)
    del thing
    assert gone() is not None
    del y
    assert gone() is None
