"""Every row of the op table, captured, saved, loaded and run: the bits of the call itself. A sample of the dtypes."""

import pytest
from conftest import assert_same_bits
from op_rows import DTYPES, FEW, ROWS, Refused, arguments, call, ids, made, outcome, own_cases, results, sampled

import smolder

# The shapes of what these return follow from values, which a capture does not see.
READ_VALUES = {
    "repeat_interleave.tensor",
    "repeat_interleave.repeats",
    "masked_select",
    "nonzero",
    "argwhere",
    "unique_of",
    "unique_rows",
    "bincount",
}

CAPTURED = [r for r in ROWS if r["function"] or r["method"]]


def captured(row, arrays, words, path):
    """The outcome of the call as a graph that was saved and loaded; None where it reads values."""
    tensors = made(arrays)
    names = list(tensors)
    flat = [t for v in tensors.values() for t in (v if isinstance(v, list) else [v])]

    def function(*given):
        rest = iter(given)
        again = {n: [next(rest) for _ in tensors[n]] if isinstance(tensors[n], list) else next(rest) for n in names}
        return results(call(row, again, words))

    try:
        graph = smolder.capture(function, *flat)
    except RuntimeError as e:
        if "needs values while the function is recorded" in str(e):
            return None
        raise
    graph.save(path)
    loaded = smolder.load_graph(path)
    assert str(loaded) == str(graph)
    smolder.manual_seed(0)
    return [t._to_numpy() for t in loaded(*flat)]


@pytest.mark.parametrize("row", CAPTURED, ids=ids(CAPTURED))
def test_every_op_survives_a_file(row, tmp_path):
    took = False
    others = {d for (d,) in sampled(row, "file", [(d,) for d in DTYPES if d not in FEW])}
    for i, case in enumerate(own_cases(row)):
        for dtype in (d for d in DTYPES if d in FEW or (i == 0 and d in others)):
            arrays, words = arguments(row, case, dtype)
            expected = outcome(row, arrays, words)
            if isinstance(expected, Refused):
                continue
            found = captured(row, arrays, words, tmp_path / "op.safetensors")
            if found is None:
                continue
            took = True
            for a, b in zip(found, expected, strict=True):
                assert_same_bits(a, b, f"{row['key']}, {case}, {dtype}")
    assert took != (row["key"] in READ_VALUES)
