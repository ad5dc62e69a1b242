"""Steps whose positions, sizes or number of turns vary compile few plans and kernels, and then none. What is counted are
plans, and the keys of kernels, which no cache changes. Results are those of op by op."""

import random

import pytest
from conftest import of_the_cpu, same_bits

import smolder
from smolder import _core, nn, optim
from smolder.nn import functional as F

pytestmark = of_the_cpu("counts are of its plans")


def plans():
    return smolder.metrics()["counters"].get("plans.compiled", 0)


def compiled_by(steps):
    """How many plans each step, a call, compiled."""
    smolder.mark_step()
    out = []
    for step in steps:
        before = plans()
        step()
        smolder.mark_step()
        out.append(plans() - before)
    return out


def eagerly(f):
    with smolder.eager():
        return f()


def kernels_of(step):
    """Keys of the kernels of the plans that a call runs."""
    smolder.mark_step()
    log = _core._start_step_log(False)
    try:
        step()
        smolder.mark_step()
    finally:
        steps = _core._stop_step_log(log)
    return {k["key"] for s in steps for k in s.report()["steps"] if k["key"]}


# -- positions


def take(x, i):
    return x[i] * 2.0


def take_of_one_row(x, i):
    return x[:1, i].exp()


def slice_of_one(x, i):
    return x[i : i + 1] - 1.0


def written(x, i):
    y = x * 1.0
    y[i] = 3.0
    return y


def written_to_memory(x, i):
    y = x.clone()
    smolder.mark_step()
    y[i] = y[i] + 5.0
    return y


def narrowed(x, i):
    return x.narrow(0, i, 1).sum(0)


def inserted(x, i):
    return smolder.select_scatter(x * 2.0, x[0], 0, i)


POSITIONS = [take, take_of_one_row, slice_of_one, written, written_to_memory, narrowed, inserted]


@pytest.mark.parametrize("f", POSITIONS, ids=lambda f: f.__name__)
def test_a_position_is_a_number(f):
    x = smolder.randn(5, 5)
    results = []
    first, *later = compiled_by([lambda i=i: results.append(f(x, i)) for i in (0, 1, 4, 2, 1, 0, 3)])
    assert first > 0 and later == [0] * 6
    for i, result in zip((0, 1, 4, 2, 1, 0, 3), results):
        assert same_bits(result, eagerly(lambda i=i: f(x, i)))


@pytest.mark.parametrize("rank", [1, 2])
def test_gradients_of_positions(rank):
    x = smolder.randn(4, requires_grad=True) if rank == 1 else smolder.randn(4, 3, requires_grad=True)

    def step(i, j):
        (g,) = smolder.autograd.grad((x[i].exp() * x[j]).sum(), x)
        return g

    results = []
    places = [(0, 1), (1, 0), (2, 3), (0, 0), (3, 1), (1, 1)]
    first, *later = compiled_by([lambda at=at: results.append(step(*at)) for at in places])
    assert first > 0 and later == [0] * 5
    for at, result in zip(places, results):
        assert same_bits(result, eagerly(lambda at=at: step(*at)))


def test_ranges_compile_once_for_0_and_once_for_1_and_once_for_others():
    x = smolder.randn(9, 9)
    starts = [(0, 0), (0, 4), (5, 0), (3, 3), (0, 2), (4, 0), (1, 2), (2, 1), (0, 0), (1, 1)]
    results = []
    counts = compiled_by([lambda at=at: results.append(x[at[0] : at[0] + 3, at[1] : at[1] + 4] * 2.0) for at in starts])
    assert sum(counts[:4]) <= 4 and counts[4:] == [0] * 6
    for (i, j), result in zip(starts, results):
        assert same_bits(result, eagerly(lambda i=i, j=j: x[i : i + 3, j : j + 4] * 2.0))


def test_patterns_of_actions_are_one_plan():
    model = nn.Linear(4, 2)
    draw = random.Random(0)

    def episode():
        state = smolder.randn(6, 4)
        logs = [F.softmax(model(state[t]), -1)[draw.randrange(2)].log() for t in range(6)]
        model.zero_grad()
        smolder.stack(logs).sum().backward()

    first, *later = compiled_by([episode] * 6)
    assert first > 0 and later == [0] * 5


def test_positions_are_what_an_extent_is_not():
    """A plan for x[3:5] is none for x[3:4], whose row is spread over others."""
    x, y = smolder.randn(6, 3), smolder.randn(2, 3)
    for a, b in ((3, 5), (3, 4), (0, 1), (0, 2), (5, 6), (4, 6)):
        assert same_bits(x[a:b] + y, eagerly(lambda a=a, b=b: x[a:b] + y))
    for a, b in ((0, 0), (1, 1), (4, 4), (0, 6), (1, 6)):
        assert same_bits(x[a:b].sum(0), eagerly(lambda a=a, b=b: x[a:b].sum(0)))


# -- turns


def unrolled(cell, optimizer, turns):
    xs, state = smolder.randn(turns, 3, 4), (smolder.zeros(3, 8), smolder.zeros(3, 8))
    outs = []
    for t in range(turns):
        state = cell(xs[t], state)
        outs.append(state[0])
    optimizer.zero_grad()
    smolder.stack(outs).pow(2).mean().backward()
    optimizer.step()


def test_a_new_number_of_turns_has_no_kernel_of_its_own():
    cell = nn.LSTMCell(4, 8)
    optimizer = optim.Adam(cell.parameters(), lr=1e-3)
    seen = set()
    for turns in (16, 30, 60):
        seen |= kernels_of(lambda turns=turns: unrolled(cell, optimizer, turns))
    assert seen
    for turns in (18, 33, 47, 90):
        assert kernels_of(lambda turns=turns: unrolled(cell, optimizer, turns)) <= seen, turns


def test_long_sums_have_the_bits_of_short_ones():
    weights = [smolder.randn(4, 8, requires_grad=True) for _ in range(2)]
    for turns in (7, 8, 9, 17, 24, 38):
        xs = smolder.randn(turns, 3, 4)

        def gradient(xs=xs, turns=turns):
            out = sum((xs[t] @ weights[t % 2]).tanh().sum(0) for t in range(turns))
            return smolder.autograd.grad((out * out).sum(), weights)

        for a, b in zip(gradient(), eagerly(gradient)):
            assert same_bits(a, b), turns
