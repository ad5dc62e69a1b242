"""Sizes that no memory has: products and sums of extents that 64 bits do not hold raise torch's error, and what memory
cannot be had for raises too, in every op of the table, of whose calls a sample is made (op_rows.sampled). Nothing
crashes, and nothing comes out as another size."""

import contextlib
import functools
import json
import resource
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import ONE_BY_ONE
from op_rows import ERRORS, ROWS, TENSORS, arguments, call, ids, made, own_cases, results, sampled

import smolder
from smolder.nn import functional as F

pytestmark = ONE_BY_ONE

HUGE = 2**40
OVERFLOWS = "Storage size calculation overflowed with sizes="


def spread(*shape):
    """Tensors of one element, so of any shape."""
    return smolder.zeros(1).expand(*shape)


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (lambda: smolder.zeros(HUGE, HUGE), rf"{OVERFLOWS}\[1099511627776, 1099511627776\]"),
        (lambda: smolder.zeros(2**31, 2**31), OVERFLOWS),
        (lambda: smolder.zeros(HUGE, HUGE, 0), OVERFLOWS),
        (lambda: smolder.zeros(0, HUGE, HUGE), OVERFLOWS),
        (lambda: smolder.arange(2**62), OVERFLOWS),
        (lambda: smolder.linspace(0, 1, 2**62), OVERFLOWS),
        (lambda: smolder.eye(2**32), OVERFLOWS),
        (lambda: smolder.rand(HUGE, HUGE), OVERFLOWS),
        (lambda: smolder.full((HUGE, HUGE), 1.0), OVERFLOWS),
        (lambda: spread(HUGE, HUGE), OVERFLOWS),
        (lambda: smolder.zeros(4).resize_(HUGE, HUGE), "overflow"),
        (lambda: smolder.zeros(4).as_strided((HUGE, HUGE), (0, 0)), OVERFLOWS),
        (lambda: smolder.zeros(4).as_strided((2, 2), (2**62, 2**62)), "out of bounds|overflow"),
        (lambda: smolder.zeros(4, 4).repeat(2**62, 1), OVERFLOWS),
        (lambda: smolder.zeros(4).repeat_interleave(2**62), "overflow"),
        (lambda: smolder.zeros(4, 4).tile((HUGE, HUGE)), OVERFLOWS),
        (lambda: F.pad(smolder.zeros(4, 4), (2**62, 2**62)), "overflow"),
        (lambda: smolder.cat([spread(2**60)] * 9), "overflow"),
        (lambda: smolder.stack([spread(2**60)] * 9), OVERFLOWS),
        (lambda: smolder.kron(spread(HUGE), spread(HUGE)), "overflow"),
        (lambda: smolder.outer(spread(HUGE), spread(HUGE)), OVERFLOWS),
        (lambda: smolder.meshgrid(spread(HUGE), spread(HUGE)), OVERFLOWS),
        (lambda: smolder.cartesian_prod(spread(HUGE), spread(HUGE)), "overflow"),
        (lambda: spread(HUGE)[:, None] * spread(HUGE), OVERFLOWS),
        (lambda: smolder.tril_indices(2**32, 2**32), OVERFLOWS),
        (lambda: smolder.bincount(smolder.tensor([2**62])), OVERFLOWS),
        (lambda: F.one_hot(smolder.tensor([1]), 2**62), OVERFLOWS),
        (lambda: F.interpolate(smolder.zeros(1, 1, 2, 2), size=(2**32, 2**32)), OVERFLOWS),
        (lambda: F.interpolate(smolder.zeros(1, 1, 2, 2), scale_factor=1e30), "overflow"),
        (lambda: F.adaptive_avg_pool2d(smolder.zeros(1, 1, 4, 4), HUGE), OVERFLOWS),
        (lambda: F.pixel_shuffle(smolder.zeros(1, 4, 4, 4), 2**32), "overflow"),
        (lambda: F.conv2d(smolder.zeros(1, 1, 4, 4), smolder.zeros(1, 1, 2, 2), padding=2**62), "overflow"),
        (lambda: smolder.zeros(4).narrow(0, 2, 2**63 - 1), "exceeds dimension size"),
        (lambda: smolder.nn.Linear(HUGE, HUGE), OVERFLOWS),
    ],
)
def test_sizes_that_overflow(made, says):
    with pytest.raises(RuntimeError, match=says):
        made()


def test_views_of_almost_all_that_there_is():
    assert spread(2**31, 2**29)[3, 5].item() == 0
    assert spread(2**60).shape == (2**60,)


@pytest.mark.parametrize("eager", [False, True])
def test_memory_that_cannot_be_had(eager):
    """The error says how much, and where: at the op, or at the sync with the line that recorded it."""
    mode = smolder.eager if eager else contextlib.nullcontext
    for make in (lambda: smolder.zeros(2**60), lambda: spread(2**60) + 1, lambda: smolder.zeros(4).resize_(2**60)):
        with mode(), pytest.raises(smolder.OutOfMemoryError, match=r"\d{10,} bytes") as failed:
            make()[5].item()
        assert isinstance(failed.value, RuntimeError)
        assert "test_sizes.py" in str(failed.value)
    assert (smolder.ones(3) * 2).tolist() == [2, 2, 2]


# -- every op: its sizes and its operands at the limits

WORDS = ("int", "int?", "size", "size?", "position", "position?", "int[]", "size[]", "ints", "axes")
LIMITS = (2**31, HUGE + 1, 2**62, 2**63 - 1, -(2**63))
SECONDS = 20  # in which a call ends that does next to nothing, on a slow machine
# Asked for so many times the work, that is what they do, as torch: a loop of as many parts or powers.
ENDLESS = {"tensor_split": "makes as many views"}


def replaced(value):
    """A value with one of its integers at a limit, for each."""
    for limit in LIMITS:
        if isinstance(value, list):
            yield from ([*value[:i], limit, *value[i + 1 :]] for i in range(len(value)))
        else:
            yield limit


def at_limits(row):
    """Calls of an op: operands and words, by what they are called."""
    for case in own_cases(row):
        tensors, words = arguments(row, case, "float32")
        for p in row["params"]:
            name = p["name"]
            if p["type"] in WORDS and (name in words or p.get("default") is not None):
                for i, value in enumerate(replaced(words.get(name, 0))):
                    yield f"{case} {name} {i}", tensors, words | {name: value}, {}
            if p["type"] in TENSORS and name in tensors:
                shape = np.asarray(tensors[name][0]).shape
                for axis, n in ((a, n) for a in range(len(shape)) for n in (2**31, HUGE, 2**60)):
                    yield f"{case} {name} {axis} {n}", tensors, words, {name: (axis, n)}


def widened(tensor, axis, n):
    """A view with n elements along an axis, all of them the first."""
    shape = [*tensor.shape]
    shape[axis] = n
    return tensor.narrow(axis, 0, min(1, tensor.shape[axis])).expand(shape)


def attempt(row, tensors, words, wide):
    given = made(tensors)
    try:
        for name, (axis, n) in wide.items():
            given[name] = widened(given[name], axis, n)
        for out in results(call(row, given, words)):
            if isinstance(out, smolder.Tensor) and out.numel():
                out[(-1,) * out.dim()].item()
    except (*ERRORS, OverflowError, MemoryError) as e:
        return str(e)
    return ""


def in_a_child(keys):
    """Says of each call that it begins, so that who waits knows which one was the last."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    space = pages * resource.getpagesize() + (1 << 30)
    resource.setrlimit(resource.RLIMIT_AS, (space, space))
    for row in (r for r in ROWS if r["key"] in keys):
        calls = {label: call for label, *call in at_limits(row)}
        for (label,) in sampled(row, "limits", [(label,) for label in calls]):
            tensors, words, wide = calls[label]
            print(json.dumps([row["key"], label]), flush=True)
            signal.setitimer(signal.ITIMER_REAL, SECONDS)
            said = attempt(row, tensors, words, wide)
            signal.setitimer(signal.ITIMER_REAL, 0)
            if "internal error" in said:
                print(json.dumps([row["key"], f"{label}: {said}", "wrong"]), flush=True)
    print(json.dumps(["", "end"]), flush=True)


CHUNK = 24


@functools.cache
def chunks():
    keys = [k for k in ids(ROWS) if k not in ENDLESS]
    return [keys[i : i + CHUNK] for i in range(0, len(keys), CHUNK)]


@pytest.mark.parametrize("keys", chunks(), ids=lambda keys: keys[0])
def test_every_op_at_the_limits(keys):
    left, wrong = list(keys), []
    while left:
        out = subprocess.run([sys.executable, __file__, *left], capture_output=True, text=True)
        told = [json.loads(line) for line in out.stdout.splitlines()]
        wrong += [t for t in told if len(t) == 3]
        if told and told[-1][1] == "end":
            break
        key, label = told[-1][:2] if told else (left[0], "import")
        wrong.append(
            [key, label, f"ended by {signal.Signals(-out.returncode).name}" if out.returncode < 0 else out.stderr]
        )
        left = left[left.index(key) + 1 :]
    assert not wrong, "\n".join(map(str, wrong))


if __name__ == "__main__":
    in_a_child(set(sys.argv[1:]))
