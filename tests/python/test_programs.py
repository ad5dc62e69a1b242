"""Random programs: eager, compiled anew, from memory, from disk, predictor off, fusion off and with syncs anywhere, all
give the same bits.

SMOLDER_TEST_PROGRAMS is how many (100; 200 take two cores a minute), SMOLDER_TEST_SEED the first seed. A
failure prints its seed, the program shrunk, and the command that runs it alone.
"""

import collections
import os

import numpy as np
import program_modes
import pytest
from conftest import assert_same_bits
from program_modes import MODES, Failure, execute, failure_of
from program_shrink import shrunk
from programs import FLOATS, INTEGERS, Generator

import smolder
from smolder.nn import functional as F

COUNT = int(os.environ.get("SMOLDER_TEST_PROGRAMS", "100"))
FIRST = int(os.environ.get("SMOLDER_TEST_SEED", "0"))
CHUNK = 100
# Statements of a kernel: 256 of its body, by the budget, and what indices and loops take.
LARGEST = 1000


def report(seed, program, failure):
    return (
        f"seed {seed}, {failure.mode}: {failure.what}\n\nshrunk to\n\n{program}\n\nalone: "
        f"SMOLDER_TEST_SEED={seed} SMOLDER_TEST_PROGRAMS=1 python -m pytest tests/python/test_programs.py -k same_bits"
    )


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_random_programs_give_the_same_bits_in_every_mode(first):
    failures = []
    smolder.reset_metrics()
    for seed in range(first, min(first + CHUNK, FIRST + COUNT)):
        program = Generator(seed).program
        if failure_of(program):
            failures.append(report(seed, *shrunk(program)))
            if len(failures) == 3:
                break
    assert not failures, "\n\n".join(failures)
    assert smolder.metrics()["counters"]["compile.largest_kernel"] <= LARGEST


def test_every_mode_runs():
    assert len(MODES) == 11


# -- programs that failed once


def test_a_kept_row_outlives_the_store_of_an_output_of_one_row():
    """layer_norm's centred row was kept in the row of an output that is stored before the row is read for the last
    time, which a gradient does through a sum over one row."""
    dice = np.random.default_rng(0)
    w = smolder.tensor(dice.normal(size=2), dtype=smolder.float32).requires_grad_()

    def run():
        w.grad = None
        x = smolder.atan2(w.softmax(0), w == smolder.tensor([[4, 2]]))
        y = F.layer_norm(x, (2,), w, w)
        y.sum().backward()
        return x.detach().numpy(), y.detach().numpy(), w.grad.numpy()

    compiled = run()
    with smolder.eager():
        for a, b in zip(compiled, run(), strict=True):
            assert_same_bits(a, b)


def test_a_kept_row_outlives_the_store_of_an_output_of_an_earlier_phase():
    def run():
        smolder.manual_seed(1)
        dice = np.random.default_rng(200010)
        x, v = (smolder.tensor(dice.normal(size=s), dtype=smolder.float32).requires_grad_() for s in ((1, 2), (2,)))
        y = F.scaled_dot_product_attention(v.unsqueeze(0), x.unsqueeze(0), x.unsqueeze(0), is_causal=True).squeeze(0)
        y, w = y * y, F.layer_norm(F.dropout(v, 0.3), (2,))
        out = F.layer_norm(y, (2,), w, w)
        del y, w
        out.sum().backward()
        return x.grad.numpy()

    compiled = run()
    with smolder.eager():
        assert_same_bits(compiled, run())


# -- what programs are made of


def test_programs_say_what_they_should():
    """Every kind of step, dtype and in-place write turns up, and values die before the end."""
    texts, dtypes, dead, large, steps = collections.Counter(), set(), 0, 0, 0
    for seed in range(1000):
        program = Generator(seed).program
        texts.update(step.text for step in program.steps)
        dtypes |= {x.dtype for x in program.inputs}
        dead += any(line.startswith("del ") for line in program.lines)
        large += any(np.prod(x.shape) > 8192 for x in program.inputs)
        steps += bool(program.optimizer)
    assert dtypes == {*FLOATS, *INTEGERS, "bool"}
    assert dead > 800 and large > 15 and steps > 100
    words = "cat stack gather scatter_add embedding index_select layer_norm softmax dropout cross_entropy where @ .T "
    words += "F.linear logsumexp argmax masked_fill .add_ .mul_ .copy_ .select( [...,::2] .transpose( .to( % // squeeze"
    for word in words.split():
        assert any(word in text.replace("[..., ::2]", "[...,::2]") for text in texts), word


def test_a_program_is_printed_as_python_that_runs():
    for seed in range(20):
        program = Generator(seed).program
        names = {}
        exec(str(program), names)
        assert names["v0"].shape == program.inputs[0].shape
        assert not set(names) & {f"v{i}" for i in range(50) if i < len(program.lines) and not program.lives(i)}


# -- shrinking


def uses(program, name):
    return any(name in step.text for step in program.steps)


def test_shrinking_keeps_what_fails_and_no_more():
    """As if a cast of a softmax failed, wherever they are and whatever else is there."""

    def fails(program):
        for step in program.steps:
            source = step.operands[0] - len(program.inputs)
            if ".to(" in step.text and source >= 0 and ".softmax" in program.steps[source].text:
                return Failure("eager", "", "bits")
        return None

    found = 0
    for seed in range(1500):
        program = Generator(seed).program
        if fails(program):
            small, failure = shrunk(program, fails)
            assert failure.mode == "eager" and len(small.steps) == 2
            assert not small.losses and not small.kept and not small.optimizer
            assert {x.dtype for x in small.inputs} <= {"float32", *INTEGERS, "bool"}
            assert {n for x in small.inputs for n in x.shape} == {1}
            assert ".softmax(" in str(small) and ".to(" in str(small)
            found += 1
    assert found > 3


def test_a_difference_is_found_and_named(monkeypatch):
    """A mode that is wrong for one op is reported as such, and the program shrunk to that op."""

    def wrong(program):
        values = execute(program)
        return {k: v + 1 for k, v in values.items()} if uses(program, "tanh") else values

    monkeypatch.setitem(program_modes.MODES, "warm cache", wrong)
    seed = next(s for s in range(100) if uses(Generator(s).program, "tanh"))
    failure = failure_of(Generator(seed).program)
    assert (failure.mode, failure.kind) == ("warm cache", "bits")
    small, failure = shrunk(Generator(seed).program)
    assert [".tanh" in step.text for step in small.steps] == [True]
    assert "v0 differs" in failure.what
