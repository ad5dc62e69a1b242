"""Modes of gradients: scopes, functions and decorators, each for its thread; and tensors made in inference mode. The
texts are torch's (probed with 2.15)."""

import threading
import warnings

import pytest

import smolder
from smolder import autograd

MODES = {
    "no_grad": (smolder.no_grad, False),
    "enable_grad": (smolder.enable_grad, True),
    "set_grad_enabled(False)": (lambda: smolder.set_grad_enabled(False), False),
    "set_grad_enabled(True)": (lambda: smolder.set_grad_enabled(True), True),
    "inference_mode": (smolder.inference_mode, False),
    "inference_mode(False)": (lambda: smolder.inference_mode(False), True),
    "inference_mode(mode=False)": (lambda: smolder.inference_mode(mode=False), True),
}
EACH = pytest.mark.parametrize("name", MODES)


@EACH
@pytest.mark.parametrize("around", [False, True])
def test_scopes_put_back_what_was(name, around):
    mode, inside = MODES[name]
    with smolder.set_grad_enabled(around):
        with mode():
            assert smolder.is_grad_enabled() is inside
        assert smolder.is_grad_enabled() is around
        with pytest.raises(KeyError), mode(), mode():
            raise KeyError
        assert smolder.is_grad_enabled() is around
    assert smolder.is_grad_enabled() and not smolder.is_inference_mode_enabled()


@EACH
def test_functions_that_are_decorated(name):
    mode, inside = MODES[name]

    def f(n):
        """Doc."""
        return smolder.is_grad_enabled(), f(n - 1) if n else None

    for around in (False, True):
        with smolder.set_grad_enabled(around):
            f = mode()(f)
            assert smolder.is_grad_enabled() is around
            assert f(1) == (inside, (inside, None)) and f.__doc__ == "Doc."
            assert smolder.is_grad_enabled() is around


@EACH
def test_generators_that_are_decorated(name):
    """The mode is the generator's while it runs, and the caller's while that does."""
    mode, inside = MODES[name]
    ends = []

    @mode()
    def count():
        try:
            try:
                got = yield smolder.is_grad_enabled()
                assert got == "sent" and smolder.is_grad_enabled() is inside
                yield smolder.is_grad_enabled()
            except KeyError:
                yield ("thrown", smolder.is_grad_enabled())
            return smolder.is_grad_enabled()
        finally:
            ends.append(smolder.is_grad_enabled())

    for around in (False, True):
        with smolder.set_grad_enabled(around):
            g = count()
            assert next(g) is inside and smolder.is_grad_enabled() is around
            assert g.send("sent") is inside and smolder.is_grad_enabled() is around
            assert g.throw(KeyError()) == ("thrown", inside) and smolder.is_grad_enabled() is around
            with pytest.raises(StopIteration) as end:
                next(g)
            assert end.value.value is inside
            g = count()
            next(g)
            g.close()
            assert smolder.is_grad_enabled() is around
    assert ends == [inside] * 4


def test_decorators_without_parentheses_and_of_classes():
    @smolder.no_grad
    def f():
        return smolder.is_grad_enabled()

    @smolder.inference_mode
    def g():
        return smolder.is_inference_mode_enabled()

    assert f() is False and g() is True
    with pytest.warns(FutureWarning, match="Decorating classes is deprecated"):

        @smolder.no_grad()
        class Model:
            def __init__(self):
                self.on = smolder.is_grad_enabled()

    assert isinstance(Model(), Model) and Model().on is False


def test_set_grad_enabled_is_a_function_too():
    smolder.set_grad_enabled(False)
    assert not smolder.is_grad_enabled()
    smolder.set_grad_enabled(True)
    assert smolder.is_grad_enabled()

    @smolder.set_grad_enabled(False)
    def f():
        return smolder.is_grad_enabled()

    assert smolder.is_grad_enabled() and not f()


def test_modes_are_the_threads_own():
    seen = []

    def look():
        seen.append((smolder.is_grad_enabled(), smolder.is_inference_mode_enabled()))
        smolder.set_grad_enabled(False)

    with smolder.inference_mode():
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        seen.append((smolder.is_grad_enabled(), smolder.is_inference_mode_enabled()))
    assert seen == [(True, False), (False, True)] and smolder.is_grad_enabled()


# -- inference tensors


def made_in_inference():
    with smolder.inference_mode():
        return smolder.ones(3) * 2


def test_which_tensors_are_inference_tensors():
    normal = smolder.ones(3, requires_grad=True)
    with smolder.inference_mode():
        made = {
            "created": smolder.zeros(3),
            "from a list": smolder.tensor([1.0]),
            "computed": normal * 2,
            "a view of one": smolder.zeros(3)[1:],
            "copied": normal.clone(),
        }
        assert not normal[1:].is_inference() and not normal.detach().is_inference() and not normal.is_inference()
        with smolder.inference_mode(False):
            assert smolder.is_grad_enabled() and not (normal * 2).is_inference()
    for name, t in made.items():
        assert t.is_inference() and smolder.is_inference(t) and not t.requires_grad, name
        assert t[:1].is_inference() and t.detach().is_inference()
        assert not (t + 1).is_inference() and not t.clone().is_inference()
    with smolder.no_grad():
        assert not smolder.zeros(3).is_inference()


def test_inference_tensors_are_no_part_of_histories():
    x, w = made_in_inference(), smolder.ones(3, requires_grad=True)
    text = "Inference tensors cannot be saved for backward"
    for use in (lambda: x * w, lambda: w.sin() * x, lambda: smolder.where(x > 0, x, w).square() * x):
        with pytest.raises(RuntimeError, match=text):
            use()
    (x + w).sum().backward()  # which saves nothing
    assert w.grad.tolist() == [1, 1, 1]
    (x.clone() * w).sum().backward()
    assert w.grad.tolist() == [3, 3, 3]
    with smolder.no_grad():
        assert (x * w).tolist() == [2, 2, 2]

    class Keeps(autograd.Function):
        @staticmethod
        def forward(ctx, w):
            ctx.save_for_backward(x)
            return w * 1

    with pytest.raises(RuntimeError, match=text):
        Keeps.apply(w)


def test_inference_tensors_change_in_inference_mode_alone():
    x = made_in_inference()
    for write in (
        lambda t: t.add_(1),
        lambda t: t[0].zero_(),
        lambda t: t.__setitem__(0, 3.0),
        lambda t: t.detach().mul_(2),
    ):
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            write(x)
        with smolder.no_grad(), pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
            write(x)
    with smolder.inference_mode():
        x.add_(1)
        x[0] = 7
    assert x.tolist() == [7, 3, 3]
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        x.requires_grad_()
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        x.requires_grad = True
    with pytest.raises(RuntimeError, match="Inference tensors do not track version counter"):
        x._version  # noqa: B018


def test_normal_tensors_change_in_inference_mode():
    x = smolder.ones(3)
    w = smolder.ones(3, requires_grad=True)
    with smolder.inference_mode():
        x.add_(1)
        w.mul_(3)
        x[1:].zero_()
    assert x.tolist() == [2, 0, 0] and w.tolist() == [3, 3, 3] and w.requires_grad and w.is_leaf
    (x * w).sum().backward()
    assert w.grad.tolist() == [2, 0, 0]


def test_a_model_in_inference_mode():
    model = smolder.nn.Sequential(smolder.nn.Linear(4, 4), smolder.nn.LayerNorm(4))
    x = smolder.ones(2, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with smolder.inference_mode():
            out = model(x)
    assert out.is_inference() and not out.requires_grad
    model(x).sum().backward()
    assert all(p.grad is not None for p in model.parameters())


def test_no_history_in_inference_mode():
    """Where gradients are on in it, too."""
    x = smolder.ones(3, requires_grad=True)
    h = x * 2

    class Twice(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with smolder.inference_mode(), smolder.enable_grad():
        assert smolder.is_grad_enabled()
        y, z = x * 2, Twice.apply(x)
        h.add_(1)
        leaf = smolder.ones(2, requires_grad=True)
    assert not y.requires_grad and y.is_inference() and not z.requires_grad
    assert leaf.requires_grad
    h.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]


def test_flags_of_tensors_that_are_computed():
    y = smolder.ones(3, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables"):
        y.requires_grad = True
    assert y.requires_grad_() is y


@pytest.mark.parametrize("mode", [smolder.no_grad, smolder.inference_mode])
@pytest.mark.parametrize("change", ["t_", "unsqueeze_", "squeeze_"])
def test_a_shape_changed_in_place_keeps_its_history(mode, change):
    """Whether it is recorded or not does not matter: the tensor is what it was, in another shape."""
    leaf = smolder.arange(6.0).reshape(2, 3).clone().requires_grad_()
    made = leaf * 2
    with mode():
        getattr(made, change)(*([0] if change == "unsqueeze_" else []))
    assert made.requires_grad and not made.is_leaf and not made.is_inference()
    made.sum().backward()
    assert leaf.grad.tolist() == [[2, 2, 2]] * 2
    with mode():
        getattr(leaf, change)(*([0] if change == "unsqueeze_" else []))
    assert leaf.is_leaf and leaf.requires_grad
    assert leaf.shape == {"t_": (3, 2), "unsqueeze_": (1, 2, 3), "squeeze_": (2, 3)}[change]
