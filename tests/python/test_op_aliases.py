"""Every row on operands that share memory with each other, with what is written after the call, and in place: a sample of
its calls (op_rows.sampled)."""

import itertools

import numpy as np
from conftest import assert_same_bits
from op_results import generated
from op_rows import (
    ERRORS,
    WITH_TENSORS,
    Refused,
    arguments,
    both,
    call,
    domain_of,
    made,
    make,
    outcome,
    own_cases,
    results,
    sampled,
)

import smolder

IN_PLACE = [r for r in WITH_TENSORS if r["inplace"]]
# Ops whose results may show a later write to their operand: they write there, are views, or return it or a view of it.
SHARING = {r["key"] for r in WITH_TENSORS if r["view"] or r["kind"] == "composite"} | {"to", "fill", "copy", "zero"}


def flat(arrays):
    """The (array, dtype) of every operand, in order."""
    return [one for v in arrays.values() for one in (v if isinstance(v, list) else [v])]


def with_flat(arrays, tensors):
    tensors = iter(tensors)
    return {k: [next(tensors) for _ in v] if isinstance(v, list) else next(tensors) for k, v in arrays.items()}


def one_tensor(arrays):
    """Operands of a shape and dtype as one tensor: (arrays that are equal, a function that makes the tensors)."""
    first = {}
    equal = [first.setdefault((np.shape(a), d), (a, d)) for a, d in flat(arrays)]

    def tensors():
        same = {key: make(*one) for key, one in first.items()}
        return with_flat(arrays, [same[np.shape(a), d] for a, d in equal])

    return with_flat(arrays, equal), tensors


def overlapping(arrays):
    """Operands of a dtype as windows of one buffer, each an element further on than the one before."""
    buffers, windows = {}, []
    for d in {d for _, d in flat(arrays)}:
        mine = [np.ravel(a) for a, its in flat(arrays) if its == d]
        buffers[d] = np.concatenate(mine + [a[:1] for a in mine])
    starts = dict.fromkeys(buffers, 0)
    for a, d in flat(arrays):
        windows.append((slice(starts[d], starts[d] + np.size(a)), np.shape(a), d))
        starts[d] += 1
    equal = [(buffers[d][at].reshape(shape), d) for at, shape, d in windows]

    def tensors():
        whole = {d: make(buffer, d) for d, buffer in buffers.items()}
        return with_flat(arrays, [whole[d][at].view(shape) for at, shape, d in windows])

    return with_flat(arrays, equal), tensors


# One dtype of each width: what shares memory says nothing of arithmetic.
WIDTHS = ("float32", "bfloat16", "int64", "bool")

# Operands whose values are looked at: some of those that others have would be refused.
LOOKED_AT = dict.fromkeys(("floor_div", "remainder", "fmod", "div.rounding", "trunc_divide"), "other")
LOOKED_AT["bernoulli_fill.tensor"] = "p"


def shared(row, arrays, share):
    """As `share` has it, but for indices, which must be in range, and what else must be of some values."""
    looked_at = LOOKED_AT.get(row["key"])
    apart = {k: v for k, v in arrays.items() if isinstance(domain_of(row, k), str) or k == looked_at}
    equal, tensors = share({k: v for k, v in arrays.items() if k not in apart})
    return equal | apart, lambda: tensors() | made(apart)


def result_of(row, tensors, words, after=lambda: None, inplace=False):
    smolder.manual_seed(0)
    try:
        out = results(call(row, tensors, words, inplace))
    except ERRORS as e:
        return Refused(e)
    after()
    return [t._to_numpy() for t in out]


def assert_agree(a, b, what):
    """Whether the op took it."""
    if isinstance(a, Refused) or isinstance(b, Refused):
        assert a == b, what
        return False
    for x, y in zip(a, b, strict=True):
        assert_same_bits(x, y, what)
    return True


def in_both(run):
    recorded = run()
    with smolder.eager():
        return recorded, run()


@generated(WITH_TENSORS)
def test_operands_that_share_memory(row, shows):
    ways = {share.__name__: share for share in (one_tensor, overlapping)}
    for case, dtype, share in sampled(row, "shared", itertools.product(own_cases(row), WIDTHS, ways)):
        arrays, words = arguments(row, case, dtype)
        equal, tensors = shared(row, arrays, ways[share])
        what = f"{row['key']}, {case}, {dtype}, {share}"
        recorded, eager = in_both(lambda tensors=tensors, words=words: result_of(row, tensors(), words))
        took = assert_agree(recorded, eager, what)
        if took and (row["function"] or row["method"]):
            for got, copied in zip((recorded, eager), both(row, equal, words), strict=True):
                assert_agree(got, copied, what)
        shows("aliased", dtype, took)


@generated(WITH_TENSORS)
def test_operands_that_are_written_after_the_call(row, shows):
    for case, dtype in sampled(row, "written after", itertools.product(own_cases(row), WIDTHS)):
        arrays, words = arguments(row, case, dtype)

        def run(arrays=arrays, words=words):
            tensors = made(arrays)
            given = [t for v in tensors.values() for t in (v if isinstance(v, list) else [v])]
            return result_of(row, tensors, words, lambda: [t.zero_() for t in given])

        recorded, eager = in_both(run)
        what = f"{row['key']}, {case}, {dtype}, written after the call"
        took = assert_agree(recorded, eager, what)
        if took and row["key"] not in SHARING:
            assert_agree(recorded, both(row, arrays, words)[0], what)
        shows("aliased", dtype, took)


@generated(IN_PLACE)
def test_views_of_what_is_written_in_place(row, shows):
    name = row["params"][0]["name"]
    for case, dtype in sampled(row, "in place", itertools.product(own_cases(row), WIDTHS)):
        arrays, words = arguments(row, case, dtype)

        def run(arrays=arrays, words=words):
            tensors, (array, its) = made(arrays), arrays[name]
            whole = make(np.stack([array, array, array]), its)
            tensors[name], seen = whole[1], whole[1].view(-1)
            out = result_of(row, tensors, words, inplace=True)
            return out if isinstance(out, Refused) else [t._to_numpy() for t in (whole, seen, whole.sum())]

        recorded, eager = in_both(run)
        what = f"{row['key']}_, {case}, {dtype}"
        took = assert_agree(recorded, eager, what)
        if took:
            want, before = outcome(row, arrays, words, inplace=True)[0], make(*arrays[name])._to_numpy()
            assert_same_bits(recorded[0], np.stack([before, want, before]), what)
            assert_same_bits(recorded[1], want.ravel(), what)
        shows("aliased", dtype, took)
