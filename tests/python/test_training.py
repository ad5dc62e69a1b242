"""Whole training loops: what repeats compiles once, memory is bounded, results don't depend on where steps end."""

import math

import numpy as np
import pytest
from conftest import assert_same_bits, compiled, of_the_cpu

import smolder
from smolder import nn, optim
from smolder.nn import functional as F


def counter(name):
    return smolder.metrics()["counters"].get(name, 0)


def make(dropout=0.1):
    smolder.manual_seed(1)
    model = nn.Sequential(nn.Linear(12, 16), nn.GELU(), nn.Dropout(dropout), nn.LayerNorm(16), nn.Linear(16, 4))
    return model, optim.AdamW(model.parameters(), lr=1e-2)


def batch(rng, n=8):
    x = smolder.tensor(rng.normal(size=(n, 12)).astype(np.float32))
    return x, smolder.tensor(rng.integers(0, 4, n))


def train_step(model, optimizer, x, y):
    model.train()
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


def test_a_thousand_steps_with_everything_changing_compile_nothing_new():
    rng, (model, optimizer) = np.random.default_rng(0), make()
    schedule = optim.lr_scheduler.LambdaLR(optimizer, lambda e: 1 + math.sin(e))
    x, y = batch(rng)
    before = None
    for step in range(1000):
        train_step(model, optimizer, x, y)
        smolder.mark_step()
        schedule.step()
        model.eval()
        with smolder.no_grad():
            score = model(x)
        smolder.mark_step()
        if step == 1:
            before = compiled(), counter("plans.compiled")
    assert (compiled(), counter("plans.compiled")) == before
    assert np.isfinite(score.numpy()).all()


@of_the_cpu("hand-written products of a device are chosen by size")
@pytest.mark.parametrize("mode", ["training", "evaluation"])
def test_two_hundred_batch_sizes_compile_what_two_need(mode):
    """Two sizes, one of them above the 128 rows that a column is reduced in at once: from there on no plan but one of
    size 1, an extent that is structural, with at most six kernels."""
    rng, (model, optimizer) = np.random.default_rng(0), make()
    sizes = [90, 400, *rng.permutation(np.setdiff1d(np.arange(2, 700), [90, 400]))[:197].tolist()]
    sizes.insert(100, 1)
    assert len({*sizes}) == 200
    train_step(model, optimizer, *batch(rng, sizes[0]))  # which makes the optimizer's state
    smolder.mark_step()
    for i, n in enumerate(sizes):
        if i == 2:
            before = compiled(), counter("plans.compiled")
        x, y = batch(rng, n)
        if mode == "training":
            train_step(model, optimizer, x, y)
        else:
            model.eval()
            with smolder.no_grad():
                model(x)
        smolder.mark_step()
        if i >= 2:
            kernels, plans = compiled() - before[0], counter("plans.compiled") - before[1]
            assert plans == (i >= 100) and kernels <= 6 * (i >= 100), f"{kernels} kernels, {plans} plans at size {n}"


# -- loops that never call mark_step()


def optimizer_loop(steps, mark):
    """Trains, holding every logits and loss; what it ends with."""
    rng, (model, optimizer) = np.random.default_rng(0), make()
    data = [batch(rng) for _ in range(4)]
    kept = []
    for step in range(steps):
        logits = model(data[step % 4][0])
        loss = F.cross_entropy(logits, data[step % 4][1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept += [logits, loss]
        if mark:
            smolder.mark_step()
    return [*model.parameters(), *kept]


def bare_loop(steps, mark):
    """Gradient descent by hand: nothing in it ends a step but a bound on the trace."""
    rng = np.random.default_rng(0)
    x, y = batch(rng, 64)
    w = smolder.tensor(rng.normal(size=(12, 4)).astype(np.float32), requires_grad=True)
    kept = []
    for _ in range(steps):
        logits = (x @ w).tanh()
        loss = F.cross_entropy(logits, y)
        loss.backward()
        with smolder.no_grad():
            w.sub_(w.grad * 0.1)
        w.grad = None
        kept += [logits, loss]
        if mark:
            smolder.mark_step()
    return [w, *kept]


def growth(run, steps, mark):
    """The end of a loop, as arrays; by how much counters grew, and the highest memory over what was there."""
    smolder.mark_step()
    names = ["syncs", "trace.cuts", "traces.recorded", "plans.compiled", "kernels.compiled"]
    before = {name: counter(name) for name in names}
    live = smolder.memory_stats()["live"]
    smolder._core._reset_peak_memory()
    out = run(steps, mark)
    grew = {name: counter(name) - before[name] for name in names}  # before the reads, which end a step
    arrays = [t.detach().numpy() for t in out]
    return arrays, grew, smolder.memory_stats()["peak"] - live


def assert_unmarked_is_as_good_as_marked(run, steps, unmarked, peak):
    """The same bits of the same values, and no more memory than that of steps that are marked (which hold as much)."""
    marked, _, peak_marked = growth(run, steps, mark=True)
    assert peak <= 1.05 * peak_marked
    for a, b in zip(unmarked, marked, strict=True):
        assert_same_bits(a, b)


def test_a_loop_with_an_optimizer_that_never_marks_steps_is_bounded_and_the_same():
    smolder._core.forget_traces()
    _, first, _ = growth(optimizer_loop, 30, mark=False)
    unmarked, grew, peak = growth(optimizer_loop, 400, mark=False)
    assert first["traces.recorded"] <= 2 and first["plans.compiled"] <= 2
    # Each optimizer.step() ends a step, but for two after a mark_step, when the program may mark its steps itself.
    assert grew == {"syncs": 398, "trace.cuts": 0, "traces.recorded": 0, "plans.compiled": 0, "kernels.compiled": 0}
    assert_unmarked_is_as_good_as_marked(optimizer_loop, 400, unmarked, peak)


def test_a_loop_without_an_optimizer_is_cut_by_the_bound_and_the_same():
    smolder._core.forget_traces()
    _, first, _ = growth(bare_loop, 700, mark=False)
    unmarked, grew, peak = growth(bare_loop, 2100, mark=False)
    assert first["traces.recorded"] <= 2 and first["plans.compiled"] <= 2
    cuts = grew["trace.cuts"]
    assert cuts >= 5, "4,096 instructions are some 400 steps"
    assert grew == {"syncs": cuts, "trace.cuts": cuts, "traces.recorded": 0, "plans.compiled": 0, "kernels.compiled": 0}
    assert_unmarked_is_as_good_as_marked(bare_loop, 2100, unmarked, peak)


def test_outputs_held_across_replays_never_change():
    rng, (model, optimizer) = np.random.default_rng(0), make()
    x, y = batch(rng)
    held, copies = [], []
    for _ in range(100):
        model.train()
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        smolder.mark_step()
        held.append((logits, loss, model[0].weight.detach().clone()))
        copies.append([t.detach().numpy() for t in held[-1]])
    for tensors, arrays in zip(held, copies):
        for t, a in zip(tensors, arrays):
            assert_same_bits(t.detach().numpy(), a)


def test_where_steps_end_changes_no_bit():
    def run(sync):
        rng, (model, optimizer) = np.random.default_rng(0), make()
        dice = np.random.default_rng(5)
        for _ in range(20):
            x, y = batch(rng)
            loss = F.cross_entropy(model(x), y)
            if sync and dice.random() < 0.5:
                loss.item()
            optimizer.zero_grad()
            loss.backward()
            if sync and dice.random() < 0.5:
                model[0].weight.grad.tolist()
            optimizer.step()
        return [p.detach().numpy() for p in model.parameters()]

    plain = run(False)
    for a, b in zip(plain, run(True)):
        assert_same_bits(a, b)
    with smolder.eager():
        for a, b in zip(plain, run(False)):
            assert_same_bits(a, b)
