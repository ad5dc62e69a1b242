"""Random programs: eager, compiled anew, from memory, from disk, predictor off, fusion off and with syncs anywhere, all
give the same bits.

SMOLDER_TEST_PROGRAMS is how many (2,500, which takes two cores two minutes), SMOLDER_TEST_SEED the first seed. A
failure prints its seed, the program shrunk, and the command that runs it alone.
"""

import os

import pytest
from programs import MODES, Failure, Generator, Program, failure_of, shrunk

COUNT = int(os.environ.get("SMOLDER_TEST_PROGRAMS", "2500"))
FIRST = int(os.environ.get("SMOLDER_TEST_SEED", "0"))
CHUNK = 100


def report(seed, program, failure):
    return (
        f"seed {seed}, {failure.mode}: {failure.what}\n\nshrunk to\n\n{program}\n\nalone: "
        f"SMOLDER_TEST_SEED={seed} SMOLDER_TEST_PROGRAMS=1 python -m pytest tests/python/test_programs.py -k same_bits"
    )


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_random_programs_give_the_same_bits_in_every_mode(first):
    failures = []
    for seed in range(first, min(first + CHUNK, FIRST + COUNT)):
        program = Generator(seed).program
        if failure_of(program):
            failures.append(report(seed, *shrunk(program)))
            if len(failures) == 3:
                break
    assert not failures, "\n\n".join(failures)


def test_every_mode_runs():
    assert len(MODES) == 8


# -- shrinking


def uses(program, name):
    return any(words and words[0] == name for _, _, words in program.steps)


def test_shrinking_keeps_what_fails_and_no_more():
    """As if log1p of a softmax failed, wherever they are and whatever else is there."""

    def fails(program):
        names = [words[0] if words else name for name, _, words in program.steps]
        for i, (_, operands, _) in enumerate(program.steps):
            source = operands[0] - len(program.inputs)
            if names[i] == "log1p" and source >= 0 and names[source] == "softmax":
                return Failure("eager", "", "bits")
        return None

    found = 0
    for seed in range(3000):
        program = Generator(seed).program
        if fails(program):
            small, failure = shrunk(program, fails)
            assert failure.mode == "eager" and len(small.steps) == 2 and small.dtype == "float32"
            assert set(small.inputs) <= {(1, 1), (1,)}
            assert ".softmax(" in str(small) and ".log1p()" in str(small)
            found += 1
    assert found > 5


def test_a_difference_is_found_and_named(monkeypatch):
    """A mode that is wrong for one op is reported as such."""
    import programs

    def wrong(program, arrays):
        values = programs.execute(program, arrays)
        return [v + 1 for v in values] if uses(program, "tanh") else values

    monkeypatch.setitem(programs.MODES, "warm cache", wrong)
    seed = next(s for s in range(100) if uses(Generator(s).program, "tanh"))
    failure = failure_of(Generator(seed).program)
    assert (failure.mode, failure.kind) == ("warm cache", "bits")
    small, failure = shrunk(Generator(seed).program)
    assert [words[0] for _, _, words in small.steps] == ["tanh"]
    assert "value 0 differs" in failure.what


def test_a_program_is_printed_as_python_that_runs():
    import numpy as np

    import smolder

    for seed in range(20):
        program = Generator(seed).program
        names = {"smolder": smolder, "np": np}
        exec(str(program), names)
        assert names["v0"].shape == program.inputs[0] and isinstance(program, Program)
