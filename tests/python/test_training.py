"""Whole training loops: what repeats compiles once, memory is bounded, results don't depend on where steps end."""

import math

import numpy as np
from conftest import assert_same_bits, compiled

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


def test_two_hundred_batch_sizes_compile_what_two_need():
    rng, (model, optimizer) = np.random.default_rng(0), make()
    sizes = rng.permutation(np.arange(2, 700))[:200].tolist()
    for i, n in enumerate(sizes):
        if i == 2:
            before = compiled()
        train_step(model, optimizer, *batch(rng, n))
        smolder.mark_step()
    assert compiled() <= before + 4


def loop(steps, mark):
    rng, (model, optimizer) = np.random.default_rng(0), make()
    data = [batch(rng) for _ in range(4)]
    kept = []
    for step in range(steps):
        x, y = data[step % 4]
        model.train()
        logits = model(x)
        loss = F.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        kept = [*kept[-8:], logits, loss]
        if mark:
            smolder.mark_step()
    return [p.detach().numpy() for p in model.parameters()], [t.detach().numpy() for t in kept]


def test_a_loop_that_never_marks_steps_is_bounded_and_the_same():
    smolder.mark_step()
    loop(30, mark=False)
    plans = counter("plans.compiled")
    live = smolder.memory_stats()["live"]
    unmarked = loop(400, mark=False)
    assert smolder.memory_stats()["live"] < live + (1 << 20)
    assert counter("plans.compiled") <= plans + 4
    marked = loop(400, mark=True)
    for a, b in zip(unmarked[0] + unmarked[1], marked[0] + marked[1]):
        assert_same_bits(a, b)


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
