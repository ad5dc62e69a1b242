"""Gradients that are sums of small products, as those of a weight that a loop over times reads: one product."""

import contextlib

import numpy as np
import pytest

import smolder
from smolder import nn

TIMES, BATCH, WIDTH = 6, 3, 16


def joined():
    return smolder.metrics()["counters"].get("autograd.joined_products", 0)


def by_linear(h, w):
    return nn.functional.linear(h, w)


def by_transpose(h, w):
    return h @ w.T


def by_matmul(h, w):
    return h @ w


def states(advance, w, first):
    h, total = first, 0.0
    for t in range(TIMES):
        h = advance(h, w).tanh()
        total = total + (h * (t + 1)).sum()
    return total


def numeric(f, w, places, eps=1e-6):
    found = []
    for at in places:
        values = []
        for sign in (1, -1):
            moved = w.detach().numpy().copy()
            moved[at] += sign * eps
            values.append(f(smolder.tensor(moved)).item())
        found.append((values[0] - values[1]) / (2 * eps))
    return np.array(found)


def given(dtype=smolder.float64):
    rng = np.random.default_rng(0)
    w = smolder.tensor(rng.normal(size=(WIDTH, WIDTH)) / 4).to(dtype)
    return w.requires_grad_(), smolder.tensor(rng.normal(size=(BATCH, WIDTH))).to(dtype)


PLACES = [(0, 0), (3, 7), (WIDTH - 1, 2)]


@pytest.mark.parametrize("advance", [by_linear, by_transpose, by_matmul])
def test_a_loop_over_times(advance):
    w, first = given()
    before = joined()
    states(advance, w, first).backward()
    assert joined() == before + TIMES
    want = numeric(lambda x: states(advance, x, first), w, PLACES)
    np.testing.assert_allclose([w.grad.numpy()[at] for at in PLACES], want, rtol=1e-6)


@pytest.mark.parametrize("advance", [by_linear, by_transpose])
def test_eager_and_compiled_steps_have_the_same_bits(advance):
    found = []
    for eager in (False, True):
        w, first = given(smolder.float32)
        with smolder.eager() if eager else contextlib.nullcontext():
            states(advance, w, first).backward()
            found.append(w.grad.numpy())
    assert found[0].tobytes() == found[1].tobytes()


def test_what_else_reads_the_weight_is_added():
    w, first = given()

    def f(w):
        return (
            states(by_transpose, w, first) + (w * w).sum() + by_linear(first.expand(64, BATCH, WIDTH), w).exp().mean()
        )

    before = joined()
    f(w).backward()
    assert joined() == before + TIMES  # the product of many rows is not among them
    np.testing.assert_allclose([w.grad.numpy()[at] for at in PLACES], numeric(f, w, PLACES), rtol=1e-6)


def test_hooks_see_the_sum_and_transposes_their_gradient():
    w, first = given()
    seen = []
    w.register_hook(lambda g: seen.append(g.detach()))
    states(by_linear, w, first).backward()
    assert len(seen) == 1 and seen[0].numpy().tobytes() == w.grad.numpy().tobytes()

    def hooked(h, w):
        turned = w.T
        turned.register_hook(lambda g: 2 * g)
        return h @ turned

    doubled = given()[0]
    states(hooked, doubled, first).backward()
    np.testing.assert_allclose(doubled.grad.numpy(), 2 * w.grad.numpy(), rtol=1e-12)


def test_autograd_grad_of_some_inputs_and_second_derivatives():
    w, first = given()
    first.requires_grad_()
    (g,) = smolder.autograd.grad(states(by_transpose, w, first), [w], create_graph=True)
    (second,) = smolder.autograd.grad(g.square().sum(), [first])

    def slope(x):
        v = w.detach().clone().requires_grad_()
        return smolder.autograd.grad(states(by_transpose, v, x), [v])[0].square().sum()

    want = numeric(slope, first, [(0, 0), (2, 5)])
    np.testing.assert_allclose([second.numpy()[0, 0], second.numpy()[2, 5]], want, rtol=1e-5)


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_anomaly_mode_computes_each():
    w, first = given()
    before = joined()
    with smolder.autograd.detect_anomaly():
        states(by_transpose, w, first).backward()
    assert joined() == before
    other = given()[0]
    states(by_transpose, other, first).backward()
    np.testing.assert_allclose(w.grad.numpy(), other.grad.numpy(), rtol=1e-12)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_layers(kind):
    layer = kind(5, WIDTH, bidirectional=True).double()
    x = smolder.randn(TIMES, BATCH, 5, dtype=smolder.float64)
    packed = nn.utils.rnn.pack_padded_sequence(x, [6, 4, 3])
    before = joined()
    (layer(x)[0].square().sum() + layer(packed)[0].data.sum()).backward()
    assert joined() >= before + 2 * TIMES

    def loss(w):
        old = layer.weight_hh_l0_reverse.data
        layer.weight_hh_l0_reverse.data = w
        value = layer(x)[0].square().sum() + layer(packed)[0].data.sum()
        layer.weight_hh_l0_reverse.data = old
        return value

    w = layer.weight_hh_l0_reverse
    np.testing.assert_allclose([w.grad.numpy()[at] for at in PLACES], numeric(loss, w, PLACES), rtol=1e-5, atol=1e-8)
