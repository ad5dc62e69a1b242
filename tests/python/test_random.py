"""Functions that draw from the default generator: repeatable, the same eagerly, and distributed as they say."""

import numpy as np
import pytest
from conftest import assert_same_bits
from op_rows import DRAWN

import smolder

N = 20000
FLAT = (0.5, 12**-0.5)  # mean and deviation of uniform numbers

# How each is called, and mean and deviation of what it draws.
DRAWS = {
    "rand": (lambda: smolder.rand(N), *FLAT),
    "rand float64": (lambda: smolder.rand(N, dtype=smolder.float64), *FLAT),
    "rand bfloat16": (lambda: smolder.rand(N, dtype=smolder.bfloat16), *FLAT),
    "rand_like": (lambda: smolder.rand_like(smolder.zeros(N)), *FLAT),
    "randn": (lambda: smolder.randn(N), 0, 1),
    "randn float16": (lambda: smolder.randn(N, dtype=smolder.float16), 0, 1),
    "randn_like": (lambda: smolder.randn_like(smolder.zeros(N, dtype=smolder.float64)), 0, 1),
    "randint": (lambda: smolder.randint(3, 7, (N,)), 4.5, 1.25**0.5),
    "randint.high": (lambda: smolder.randint(4, (N,)), 1.5, 1.25**0.5),
    "bernoulli": (lambda: smolder.full((N,), 0.25).bernoulli(), 0.25, 0.1875**0.5),
    "bernoulli.p": (lambda: smolder.zeros(N).bernoulli(0.25), 0.25, 0.1875**0.5),
    "bernoulli_fill": (lambda: smolder.zeros(N).bernoulli_(0.25), 0.25, 0.1875**0.5),
    "bernoulli_fill.tensor": (lambda: smolder.zeros(N).bernoulli_(smolder.full((), 0.25)), 0.25, 0.1875**0.5),
    "dropout": (lambda: smolder.dropout(smolder.ones(N), 0.25), 1, 3**-0.5),
    "uniform": (lambda: smolder.zeros(N).uniform_(-1, 3), 1, 4 * FLAT[1]),
    "normal": (lambda: smolder.zeros(N).normal_(2, 0.5), 2, 0.5),
    "randperm": (lambda: smolder.randperm(N), (N - 1) / 2, N * FLAT[1]),
    "multinomial": (lambda: smolder.ones(4).multinomial(N, True), 1.5, 1.25**0.5),
    "exponential": (lambda: smolder.zeros(N).exponential_(2), 0.5, 0.5),
    "log_normal": (lambda: smolder.zeros(N).log_normal_(0, 0.5), 1.1331485, 0.6039005),
    "cauchy": (lambda: smolder.zeros(N).cauchy_().atan(), 0, np.pi * FLAT[1]),
    "geometric": (lambda: smolder.zeros(N).geometric_(0.25), 4, 12**0.5),
    "random": (lambda: smolder.zeros(N, dtype=smolder.uint8).random_(), 127.5, 256 * FLAT[1]),
    "random.to": (lambda: smolder.zeros(N).random_(4), 1.5, 1.25**0.5),
    "random.range": (lambda: smolder.zeros(N).random_(3, 7), 4.5, 1.25**0.5),
}


def test_every_row_that_draws_is_here():
    assert {name.split()[0] for name in DRAWS} == DRAWN


@pytest.mark.parametrize("name", DRAWS)
def test_draws_repeat_and_are_distributed_as_said(name):
    draw, mean, deviation = DRAWS[name]
    smolder.manual_seed(11)
    first, second = draw()._to_numpy(), draw()._to_numpy()
    smolder.manual_seed(11)
    with smolder.eager():
        assert_same_bits(draw()._to_numpy(), first, name)
        assert_same_bits(draw()._to_numpy(), second, name)
    both = np.concatenate([first, second]).astype(np.float64)
    assert not np.array_equal(first, second)
    assert abs(np.corrcoef(first.astype(np.float64), second.astype(np.float64))[0, 1]) < 0.05
    assert abs(both.mean() - mean) < 5 * deviation / (2 * N) ** 0.5
    assert abs(both.std() / deviation - 1) < 0.02


def test_draws_of_nothing():
    assert smolder.rand(0).shape == (0,) and smolder.randn(3, 0).tolist() == [[], [], []]
    assert smolder.zeros(0).normal_().tolist() == []


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int8", "int16", "int32", "float16"])
def test_integers_that_the_dtype_does_not_hold_are_not_drawn(dtype):
    dtype = getattr(smolder, dtype)
    x = smolder.zeros(3, dtype=dtype)
    most = 65504 if dtype.is_floating_point else 1 if dtype == smolder.bool else smolder.iinfo(dtype).max
    for draw in (lambda low, high: smolder.randint(low, high, (3,), dtype=dtype), x.random_):
        assert draw(most, most + 1).tolist() == [most] * 3
        with pytest.raises(RuntimeError, match="to - 1 is out of bounds for"):
            draw(0, most + 2)
        with pytest.raises(RuntimeError, match="from is out of bounds for"):
            draw(-most - 2, 1)


@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_random_fills_what_is_not_negative(dtype):
    x = smolder.zeros(N, dtype=getattr(smolder, dtype)).random_()
    most = smolder.iinfo(x.dtype).max
    assert 0 <= x.min().item() < most * 0.01 and most * 0.99 < x.max().item() <= most


def test_a_permutation_that_a_dtype_cannot_hold_is_refused():
    for dtype, most in ((smolder.uint8, 256), (smolder.int8, 128), (smolder.bfloat16, 257), (smolder.float16, 2049)):
        assert smolder.randperm(most, dtype=dtype).sort()[0].tolist() == list(range(most))
        with pytest.raises(RuntimeError, match=f"n cannot be greater than {most} for dtype {dtype}"):
            smolder.randperm(most + 1, dtype=dtype)
    with pytest.raises(NotImplementedError, match="dtype bool"):
        smolder.randperm(2, dtype=smolder.bool)
