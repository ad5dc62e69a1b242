"""Generators: their states, the functions that draw from one, and the default one."""

import threading

import numpy as np
import pytest
from conftest import assert_same_bits
from test_random import DRAWS

import smolder
from smolder.nn import init

N = 20

# Every function that takes a generator, drawing from it.
TAKING = {
    "rand": lambda g: smolder.rand(N, generator=g),
    "randn": lambda g: smolder.randn(N, generator=g),
    "rand_like": lambda g: smolder.rand_like(smolder.zeros(N), generator=g),
    "randn_like": lambda g: smolder.randn_like(smolder.zeros(N), generator=g),
    "randint": lambda g: smolder.randint(3, 700, (N,), generator=g),
    "randint.high": lambda g: smolder.randint(400, (N,), generator=g),
    "randperm": lambda g: smolder.randperm(N, generator=g),
    "normal of numbers": lambda g: smolder.normal(1.0, 2.0, (N,), generator=g),
    "normal of tensors": lambda g: smolder.normal(smolder.zeros(N), smolder.ones(N), generator=g),
    "bernoulli": lambda g: smolder.full((N,), 0.5).bernoulli(generator=g),
    "bernoulli.p": lambda g: smolder.bernoulli(smolder.zeros(N), 0.5, generator=g),
    "bernoulli_fill": lambda g: smolder.zeros(N).bernoulli_(0.5, generator=g),
    "bernoulli_fill.tensor": lambda g: smolder.zeros(N).bernoulli_(smolder.full((), 0.5), generator=g),
    "uniform": lambda g: smolder.zeros(N).uniform_(-1, 3, generator=g),
    "normal": lambda g: smolder.zeros(N).normal_(2, 0.5, generator=g),
    "multinomial": lambda g: smolder.multinomial(smolder.ones(100), N, True, generator=g),
    "multinomial without replacement": lambda g: smolder.ones(100).multinomial(N, generator=g),
    "exponential": lambda g: smolder.zeros(N).exponential_(2, generator=g),
    "log_normal": lambda g: smolder.zeros(N).log_normal_(0, 0.5, generator=g),
    "cauchy": lambda g: smolder.zeros(N).cauchy_(generator=g),
    "geometric": lambda g: smolder.zeros(N).geometric_(0.25, generator=g),
    "random": lambda g: smolder.zeros(N).random_(generator=g),
    "random.to": lambda g: smolder.zeros(N).random_(400, generator=g),
    "random.range": lambda g: smolder.zeros(N).random_(3, 700, generator=g),
    "init.uniform_": lambda g: init.uniform_(smolder.zeros(N), generator=g),
    "init.normal_": lambda g: init.normal_(smolder.zeros(N), generator=g),
    "init.trunc_normal_": lambda g: init.trunc_normal_(smolder.zeros(N), generator=g),
    "init.xavier_uniform_": lambda g: init.xavier_uniform_(smolder.zeros(4, 5), generator=g),
    "init.xavier_normal_": lambda g: init.xavier_normal_(smolder.zeros(4, 5), generator=g),
    "init.kaiming_uniform_": lambda g: init.kaiming_uniform_(smolder.zeros(4, 5), generator=g),
    "init.kaiming_normal_": lambda g: init.kaiming_normal_(smolder.zeros(4, 5), generator=g),
}


def test_every_function_that_draws_takes_a_generator():
    without = {"dropout"}  # as torch's
    drawn = {name.split()[0] for name in DRAWS}
    assert drawn - without <= {name.split()[0] for name in TAKING}


@pytest.mark.parametrize("name", TAKING)
def test_draws_are_the_generators(name):
    draw, g = TAKING[name], smolder.Generator()
    before = smolder.get_rng_state().tolist()
    first, second = draw(g.manual_seed(7))._to_numpy(), draw(g)._to_numpy()
    assert smolder.get_rng_state().tolist() == before
    assert not np.array_equal(first, second)
    assert_same_bits(draw(g.manual_seed(7))._to_numpy(), first)
    with smolder.eager():
        assert_same_bits(draw(g)._to_numpy(), second)
    smolder.manual_seed(7)
    assert_same_bits(draw(None)._to_numpy(), first)  # the default one is a generator like another


def test_states():
    g = smolder.Generator("cpu")
    assert g.device == smolder.device("cpu") and g.initial_seed() == smolder.Generator().initial_seed()
    assert g.manual_seed(3) is g and g.initial_seed() == 3
    smolder.rand(5, generator=g)
    state = g.get_state()
    assert state.dtype == smolder.uint8 and state.dim() == 1
    other = g.clone_state()
    drawn = smolder.rand(5, generator=g).tolist()
    assert smolder.rand(5, generator=other).tolist() == drawn
    g.set_state(state)
    assert g.initial_seed() == 3 and smolder.rand(5, generator=g).tolist() == drawn
    g.set_state(state.clone() + 0)  # still to be computed
    assert smolder.rand(5, generator=g).tolist() == drawn
    assert g.seed() == g.initial_seed() != g.seed()


@pytest.mark.parametrize("seed, initial", [(2**64 - 1, 2**64 - 1), (-1, 2**64 - 1), (-(2**63), 2**63), (0, 0)])
def test_seeds_are_what_64_bits_hold(seed, initial):
    assert smolder.Generator().manual_seed(seed).initial_seed() == initial
    assert smolder.manual_seed(seed) is smolder.default_generator and smolder.initial_seed() == initial
    assert smolder.rand(3, generator=smolder.Generator().manual_seed(seed)).tolist() == smolder.rand(3).tolist()


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda g: g.manual_seed(2**64), ValueError, "Overflow when unpacking long long"),
        (lambda g: g.manual_seed(-(2**63) - 1), ValueError, "Overflow when unpacking long long"),
        (lambda g: g.manual_seed("a"), RuntimeError, "manual_seed expected a long, but got str"),
        (lambda g: g.set_state([1]), TypeError, "expected a smolder.ByteTensor, but got list"),
        (lambda g: g.set_state(smolder.zeros(16)), TypeError, "RNG state must be a smolder.ByteTensor.*float32"),
        (lambda g: g.set_state(g.get_state()[:3]), RuntimeError, "RNG state is wrong size: expected 16 bytes, got 3"),
        (lambda g: g.set_state(g.get_state() * 0 + 1), RuntimeError, "RNG state is invalid"),
        (lambda g: smolder.set_rng_state(g.get_state()[3:]), RuntimeError, "wrong size: expected 16 bytes, got 13"),
        (lambda g: smolder.Generator("cuda"), NotImplementedError, "'cuda' is not supported"),
        (lambda g: smolder.rand(3, generator=3), TypeError, "argument .generator. must be Generator, not int"),
    ],
)
def test_mistakes(call, error, text):
    g = smolder.Generator().manual_seed(5)
    with pytest.raises(error, match=text):
        call(g)
    assert g.initial_seed() == 5


def test_the_default_generators_state():
    smolder.manual_seed(1)
    state = smolder.get_rng_state()
    a = smolder.rand(3).tolist()
    smolder.set_rng_state(state)
    assert smolder.rand(3).tolist() == a
    assert smolder.seed() == smolder.initial_seed() == smolder.random.initial_seed()


def test_fork_rng():
    smolder.manual_seed(1)
    a, b = smolder.rand(3).tolist(), smolder.rand(3).tolist()
    smolder.manual_seed(1)
    with smolder.random.fork_rng():
        assert smolder.rand(3).tolist() == a
        smolder.manual_seed(99)
    assert smolder.rand(3).tolist() == a
    with pytest.raises(ZeroDivisionError), smolder.random.fork_rng(devices=[]):
        smolder.rand(3)
        raise ZeroDivisionError
    assert smolder.rand(3).tolist() == b
    smolder.manual_seed(1)
    with smolder.random.fork_rng(enabled=False):
        smolder.rand(3)
    assert smolder.rand(3).tolist() == b
    with pytest.raises(RuntimeError, match="lava"), smolder.random.fork_rng(devices=["lava"]):
        pass


def test_numbers_are_reserved_when_recorded():
    """Neither the order in which values are read, nor steps, nor what is never read moves a draw."""

    def draws(read):
        smolder.manual_seed(4)
        a, b, c = smolder.rand(5), smolder.randn(5), smolder.rand(5)
        return read(a, b, c)

    def with_steps(a, b, c):
        smolder.mark_step()
        return a.tolist(), b.tolist(), c.tolist()

    def backwards(a, b, c):
        third, second = c.tolist(), b.tolist()
        return a.tolist(), second, third

    def without_the_second(a, b, c):
        del b
        return a.tolist(), None, c.tolist()

    want = draws(with_steps)
    for _ in range(3):  # recorded, predicted, predicted again
        assert draws(backwards) == want
        assert draws(without_the_second)[2] == want[2]


def test_a_repeated_step_compiles_once_and_draws_anew():
    g, seen = smolder.Generator().manual_seed(0), []
    for _ in range(6):
        seen.append(smolder.dropout(smolder.rand(50, generator=g), 0.5))
        smolder.mark_step()
    assert len({tuple(t.tolist()) for t in seen}) == 6


def test_threads_share_a_generator_without_loss():
    g, drawn = smolder.Generator().manual_seed(0), []

    def work():
        for _ in range(50):
            drawn.append(smolder.rand(4, generator=g))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    g.manual_seed(0)
    in_turn = [smolder.rand(4, generator=g).tolist() for _ in range(200)]
    assert sorted(t.tolist() for t in drawn) == sorted(in_turn)
