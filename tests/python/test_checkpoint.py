"""Checkpoints: the same gradients, the same random numbers, and less memory, in one step."""

import contextlib

import numpy as np
import pytest
from conftest import assert_same_bits, of_the_cpu

import smolder
from smolder import autograd, nn
from smolder.utils.checkpoint import CheckpointError, checkpoint, checkpoint_sequential, set_checkpoint_early_stop

BOTH = pytest.mark.parametrize("reentrant", [False, True])


def gradients(model, run, x):
    """The results of a run, and all gradients, each as an array."""
    smolder.manual_seed(3)
    x = x.detach().requires_grad_()
    for p in model.parameters():
        p.grad = None
    out = run(x)
    out.square().sum().backward()
    return [t._to_numpy() for t in (out.detach(), x.grad, *(p.grad for p in model.parameters()))]


def block(n=8, p=0.4):
    return nn.Sequential(nn.Linear(n, 2 * n), nn.GELU(), nn.Dropout(p), nn.Linear(2 * n, n), nn.LayerNorm(n))


@BOTH
@pytest.mark.parametrize("eager", [False, True])
def test_gradients_are_those_without(reentrant, eager):
    model, x = block(), smolder.randn(5, 8)
    with smolder.eager() if eager else contextlib.nullcontext():
        want = gradients(model, model, x)
        got = gradients(model, lambda x: checkpoint(model, x, use_reentrant=reentrant), x)
    for a, b in zip(got, want, strict=True):
        assert_same_bits(a, b)


@BOTH
def test_random_numbers_repeat_and_the_stream_goes_on(reentrant):
    def masked(x):
        return nn.functional.dropout(x, 0.5).exp()  # which keeps its result: exp(0) or exp(2)

    x = smolder.ones(100, requires_grad=True)
    y = checkpoint(masked, x, use_reentrant=reentrant)
    after = smolder.rand(3).tolist()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.tolist(), (y * y.log()).tolist(), rtol=1e-6)
    follows = smolder.rand(3)
    smolder.manual_seed(0)
    masked(x)
    assert smolder.rand(3).tolist() == after and smolder.rand(3).tolist() == follows.tolist()
    x.grad = None
    y = checkpoint(masked, x, use_reentrant=reentrant, preserve_rng_state=False)
    y.sum().backward()
    assert not np.allclose(x.grad.tolist(), (y * y.log()).tolist())


def deep(depth, n, run):
    """A training step of a deep model; arrays of its gradients and the bytes at its peak beyond what it began with."""
    smolder.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(n, n), nn.Tanh(), nn.Linear(n, n), nn.Tanh()) for _ in range(depth)]
    parameters = [p for layer in layers for p in layer.parameters()]
    x = smolder.randn(512, n)
    smolder.mark_step()
    for _ in range(2):  # recorded, then predicted
        for p in parameters:
            p.grad = None
        smolder.mark_step()
        smolder.empty_cache()  # what plans keep their values in, too
        smolder._core._reset_peak_memory()
        before = smolder.memory_stats()["live"]
        syncs = smolder.metrics()["counters"]["syncs"]
        run(layers, x).square().mean().backward()
        smolder.mark_step()
        peak = smolder.memory_stats()["peak"] - before
        assert smolder.metrics()["counters"]["syncs"] == syncs + 1
    return [p.grad._to_numpy() for p in parameters], peak


def in_order(layers, x):
    for layer in layers:
        x = layer(x)
    return x


def each_checkpointed(reentrant):
    def run(layers, x):
        x = x.clone().requires_grad_() if reentrant else x
        for layer in layers:
            x = checkpoint(layer, x, use_reentrant=reentrant)
        return x

    return run


def nested(layers, x):
    """Halves within halves, down to a layer."""
    if len(layers) == 1:
        return layers[0](x)
    half = len(layers) // 2
    x = checkpoint(nested, layers[:half], x, use_reentrant=False)
    return checkpoint(nested, layers[half:], x, use_reentrant=False)


DEPTH, WIDTH = 16, 64
ACTIVATION = 512 * WIDTH * 4  # bytes of what a layer makes


@of_the_cpu("a device's memory is counted by a pool of its own")
@pytest.mark.parametrize(
    "run, kept",
    [
        # Each block keeps what it got, and one at a time what is in it; plus what backward itself needs.
        (each_checkpointed(False), DEPTH + 8),
        (each_checkpointed(True), DEPTH + 8),
        (lambda layers, x: checkpoint_sequential(layers, 4, x, use_reentrant=False), DEPTH + 8),
        (nested, 14),
    ],
    ids=["each", "reentrant", "sequential", "nested"],
)
def test_the_peak_of_one_step_falls(run, kept):
    want, without = deep(DEPTH, WIDTH, in_order)
    got, peak = deep(DEPTH, WIDTH, run)
    for a, b in zip(got, want, strict=True):
        assert_same_bits(a, b)
    weights = DEPTH * 2 * (WIDTH * WIDTH + WIDTH) * 4  # their gradients are there at the end
    assert without >= 2 * DEPTH * ACTIVATION
    assert peak <= weights + kept * ACTIVATION
    assert peak < 0.75 * without


@of_the_cpu("a device's memory is counted by a pool of its own")
def test_a_function_that_closes_over_its_tensors():
    """Values that are no arguments are computed again too, and merged with nothing."""
    n, width = 12, 1 << 16

    def step(run):
        smolder.empty_cache()
        x = smolder.randn(width)
        smolder.mark_step()
        w = smolder.ones(width, requires_grad=True)
        smolder.mark_step()
        smolder._core._reset_peak_memory()
        before = smolder.memory_stats()["live"]

        def long():
            y = x * w
            for _ in range(n):
                y = smolder.cumsum(y.sin(), 0) * 1e-3  # a scan keeps its operand in memory
            return y

        smolder.manual_seed(0)
        run(long).sum().backward()
        smolder.mark_step()
        return smolder.memory_stats()["peak"] - before, w.grad._to_numpy()

    smolder.manual_seed(1)
    without, want = step(lambda f: f())
    smolder.manual_seed(1)
    _, got = step(lambda f: checkpoint(f, use_reentrant=False))
    assert without > 0
    assert_same_bits(got, want)


def test_keyword_arguments_and_results_of_any_kind():
    def f(x, *, y, scale=1):
        return {"sum": x * y * scale, "name": "f", "both": (x.exp(), y)}

    x, y = smolder.ones(3, requires_grad=True), smolder.full((3,), 2.0, requires_grad=True)
    out = checkpoint(f, x, y=y, scale=3, use_reentrant=False)
    assert out["name"] == "f" and out["both"][1] is y
    (out["sum"].sum() + out["both"][0].sum()).backward()
    np.testing.assert_allclose(x.grad.tolist(), [6 + np.e] * 3, rtol=1e-6)
    assert y.grad.tolist() == [3, 3, 3]


def test_grad_inputs_and_higher_derivatives():
    x = smolder.full((3,), 0.5, dtype=smolder.float64, requires_grad=True)
    w = smolder.full((3,), 2.0, dtype=smolder.float64, requires_grad=True)

    def f(x):
        return (x * w).sin().exp()

    def third(run):
        (g,) = autograd.grad(run(x).sum(), x, create_graph=True)
        (gg,) = autograd.grad(g.sum(), x, create_graph=True)
        return autograd.grad(gg.sum(), (x, w))

    for a, b in zip(third(lambda x: checkpoint(f, x, use_reentrant=False)), third(f), strict=True):
        np.testing.assert_allclose(a.tolist(), b.tolist(), rtol=1e-12)
    y = checkpoint(f, x, use_reentrant=False)
    y.sum().backward(inputs=[w])
    assert x.grad is None and w.grad.tolist() == autograd.grad(f(x).sum(), w)[0].tolist()
    assert autograd.gradcheck(lambda x, w: checkpoint(lambda x: (x * w).sin().exp(), x, use_reentrant=False), (x, w))


def test_graphs_that_are_kept_are_computed_again_each_time():
    calls = []

    def f(x):
        calls.append(1)
        return x.exp().sin()

    x = smolder.ones(2, requires_grad=True)
    y = checkpoint(f, x, use_reentrant=False).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert len(calls) == 3 and x.grad.tolist() == (2 * autograd.grad(x.exp().sin().sum(), x)[0]).tolist()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_recomputation_stops_early_unless_told():
    def run(**given):
        ends = []

        def f(x):
            y = x.exp()
            ends.append("kept")
            y = y + 1  # keeps nothing
            ends.append("end")
            return y

        checkpoint(f, smolder.ones(2, requires_grad=True), use_reentrant=False, **given).sum().backward()
        return ends

    assert run() == ["kept", "end"]  # exp keeps its result, so not even what follows at once runs again
    assert run(early_stop=False) == ["kept", "end"] * 2
    with set_checkpoint_early_stop(False):
        assert run() == ["kept", "end"] * 2


def test_arguments_are_kept_as_they_were():
    x = smolder.ones(3, requires_grad=True)
    y = x * 2
    out = checkpoint(lambda y: y.square(), y, use_reentrant=False)
    y.mul_(10)
    out.sum().backward()
    assert x.grad.tolist() == [8, 8, 8]


def test_without_gradients_it_is_a_call():
    calls = []
    with smolder.no_grad():
        out = checkpoint(lambda x: calls.append(1) or x * 2, smolder.ones(2, requires_grad=True), use_reentrant=False)
    assert calls == [1] and not out.requires_grad


def test_contexts_of_both_runs():
    seen = []

    @contextlib.contextmanager
    def noting(name):
        seen.append(name)
        try:
            yield
        finally:
            seen.append("end of " + name)

    x = smolder.ones(2, requires_grad=True)
    both = lambda: (noting("forward"), noting("again"))  # noqa: E731
    checkpoint(lambda x: x.exp(), x, use_reentrant=False, context_fn=both).sum().backward()
    assert seen == ["forward", "end of forward", "again", "end of again"]


def test_a_decorator():
    @checkpoint(use_reentrant=False)
    def f(x):
        """Doc."""
        return x.exp()

    x = smolder.zeros(2, requires_grad=True)
    f(x).sum().backward()
    assert x.grad.tolist() == [1, 1] and f.__doc__ == "Doc."


def test_functions_that_do_something_else_again():
    def different(first, then):
        calls = []

        def f(x):
            calls.append(1)
            return (first if len(calls) == 1 else then)(x)

        out = checkpoint(f, smolder.ones(4, requires_grad=True), use_reentrant=False)
        out.sum().backward()

    with pytest.raises(CheckpointError, match=r"different metadata.*\n.*position 0.*\n.*\(4\).*\n.*\(2\)|metadata"):
        different(lambda x: x.exp(), lambda x: x[:2].exp())
    with pytest.raises(CheckpointError, match="during forward: 2\nNumber of tensors saved during recomputation: 1"):
        different(lambda x: x.exp().sin(), lambda x: x.exp())
    with set_checkpoint_early_stop(False), pytest.raises(CheckpointError, match="trying to save more tensors"):
        different(lambda x: x.exp(), lambda x: x.exp().sin())


def test_errors_of_the_function_go_through():
    def fails(x):
        if calls:
            raise KeyError("mine")
        calls.append(1)
        return x.exp()

    calls = [1]
    x = smolder.ones(2, requires_grad=True)
    with pytest.raises(KeyError, match="mine"):
        checkpoint(fails, x, use_reentrant=False)
    calls.clear()
    y = checkpoint(fails, x, use_reentrant=False)
    with pytest.raises(KeyError, match="mine"):
        y.sum().backward()
    (x * 2).exp().sum().backward()  # hooks and modes are as they were
    assert smolder.is_grad_enabled() and x.grad is not None


def test_what_the_reentrant_kind_cannot():
    x = smolder.ones(2, requires_grad=True)
    y = checkpoint(lambda x: x.exp(), x, use_reentrant=True)
    with pytest.raises(RuntimeError, match=r"incompatible with \.grad"):
        autograd.grad(y.sum(), x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: scale"):
        checkpoint(lambda x, scale: x, x, scale=2, use_reentrant=True)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(lambda x: x, x, use_reentrant=True, context_fn=lambda: None)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(lambda x: x.exp(), x.detach(), use_reentrant=True)


def test_mistakes():
    x = smolder.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(lambda x: x.exp(), x)
    with pytest.warns(UserWarning, match="checkpoint_sequential: the use_reentrant parameter"):
        checkpoint_sequential([nn.Tanh(), nn.Tanh()], 1, x)
    with pytest.raises(NotImplementedError, match="debug=True is not supported"):
        checkpoint(lambda x: x, x, use_reentrant=False, debug=True)
    with pytest.raises(ValueError, match="determinism_check should be one of"):
        checkpoint(lambda x: x, x, use_reentrant=False, determinism_check="bits")
    with pytest.raises(ValueError, match="Unexpected keyword arguments: y"):
        checkpoint_sequential([nn.Tanh()], 1, x, use_reentrant=False, y=3)


def test_checkpoints_in_sequence():
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.3)) for _ in range(5)))
    x = smolder.randn(4, 8)
    want = gradients(model, model, x)
    for segments in (1, 2, 3, 5):
        for reentrant in (False, True):
            got = gradients(model, lambda x: checkpoint_sequential(model, segments, x, use_reentrant=reentrant), x)  # noqa: B023
            for a, b in zip(got, want, strict=True):
                assert_same_bits(a, b)


def test_backward_within_the_function():
    def f(x):
        y = x.exp()
        (g,) = autograd.grad(y.sum(), x, create_graph=True)
        return g * y.sin()

    x = smolder.full((2,), 0.5, dtype=smolder.float64, requires_grad=True)
    (want,) = autograd.grad(f(x).sum(), x)
    (got,) = autograd.grad(checkpoint(f, x, use_reentrant=False).sum(), x)
    np.testing.assert_allclose(got.tolist(), want.tolist(), rtol=1e-14)


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_complex_arguments(use_reentrant):
    pairs = smolder.rand(3, 2).requires_grad_()

    def gradient(call):
        z = smolder.view_as_complex(pairs)
        call(lambda z: (z * z + z.conj() * 2j).real.sum(), z).backward()
        found, pairs.grad = pairs.grad.flatten().tolist(), None
        return found

    again = gradient(lambda f, z: checkpoint(f, z, use_reentrant=use_reentrant))
    assert again == pytest.approx(gradient(lambda f, z: f(z)))
