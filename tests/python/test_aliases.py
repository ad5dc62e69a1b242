"""Random programs of views, writes and aliases: what NumPy's own views show is what tensors and the arrays that share
their memory show, eager, compiled, predictor off, replayed and with syncs anywhere.

SMOLDER_TEST_ALIASES is how many programs (500), SMOLDER_TEST_SEED the first seed.
"""

import collections
import os
import random
import warnings

import numpy as np
import pytest
from alias_programs import Generator, Model, Tensors, run, shrunk

import smolder
from smolder import _core

COUNT = int(os.environ.get("SMOLDER_TEST_ALIASES", "500"))
FIRST = int(os.environ.get("SMOLDER_TEST_SEED", "0"))
CHUNK = 100


def eager(lines):
    with smolder.eager():
        return run(lines, Tensors())


def compiled(lines):
    _core.forget_traces()
    return run(lines, Tensors())


def replayed(lines):
    run(lines, Tensors())
    smolder.mark_step()
    return run(lines, Tensors())


def predictor_off(lines):
    smolder.set_options(predict=False)
    try:
        return run(lines, Tensors())
    finally:
        smolder.set_options(predict=True)


def with_syncs(lines):
    dice = random.Random(len(lines))
    return run(lines, Tensors(), lambda names: smolder.mark_step() if dice.random() < 0.4 else None)


MODES = {f.__name__: f for f in (eager, compiled, replayed, predictor_off, with_syncs)}


def failure_of(lines):
    expected = run(lines, Model())
    for name, mode in MODES.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                got = mode(lines)
        except Exception as e:
            return f"{name}: {type(e).__name__}: {e}"
        assert got.keys() == expected.keys()
        for k, a in expected.items():
            if a.shape != got[k].shape or not np.array_equal(a, got[k], equal_nan=a.dtype.kind == "f"):
                return f"{name}: {k} is\n{got[k]}\nand should be\n{a}"
    return None


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_aliases_show_what_numpys_views_show(first):
    failures = []
    for seed in range(first, min(first + CHUNK, FIRST + COUNT)):
        lines = Generator(seed).lines
        with np.errstate(all="ignore"):
            if failure_of(lines):
                small, failure = shrunk(lines, failure_of)
                failures.append(f"seed {seed}, {failure}\n\nshrunk to\n\n" + "\n".join(small))
        if len(failures) == 3:
            break
    assert not failures, "\n\n".join(failures)


def test_programs_say_what_they_should():
    words = collections.Counter()
    for seed in range(300):
        text = "\n".join(Generator(seed).lines)
        words.update(word for word in WORDS if word in text)
    assert all(words[word] > 20 for word in WORDS), words


WORDS = "api.array( through_dlpack from_numpy from_dlpack set_data .reshape expand permute data( detach( :2 None +="
WORDS = [*WORDS.split(), "] = ", "api.indices", "copy_", "del ", "see("]
