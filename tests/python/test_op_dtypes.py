"""Every row on every dtype, and on a sample of mixed ones: refused when it is recorded, saying why, or computed, never
refused later."""

import re

import pytest
from conftest import assert_same_bits
from op_rows import DTYPES, ROWS, TENSORS, WRAPPED, Refused, arguments, both, domain_of, ids, own_cases, sampled

# Torch's words about x[...], which has no name.
SUBSCRIPTS = ("tensors used as indices must be long, int, byte or bool tensors", "Index put requires the source and")


# Partners of the dtypes that are computed as int32: each promotes otherwise.
BESIDE_WRAPPED = (*WRAPPED, "uint8", "int32", "bfloat16", "bool")


def is_paired(a, b):
    return (a not in WRAPPED or b in BESIDE_WRAPPED) and (b not in WRAPPED or a in BESIDE_WRAPPED)


def with_other_dtypes(row, arrays):
    """The arguments as they are, and with one operand of every other dtype."""
    yield arrays
    if sum(len(a) if isinstance(a, list) else 1 for a in arrays.values()) < 2:
        return
    for name, value in arrays.items():
        for dtype in DTYPES:
            its = value[0][1] if isinstance(value, list) else value[1]
            if not is_paired(its, dtype):
                continue
            if isinstance(value, list):
                yield arrays | {name: [(value[0][0], dtype), *value[1:]]}
            elif dtype != its:
                yield arrays | {name: (value[0], dtype)}


def with_numbers(row, arrays, words):
    """One operand a number of each category, where the row takes either."""
    for p in row["params"]:
        if p["type"] == "Tensor|Number" and p["name"] in arrays and len(arrays) > 1:
            rest = {k: v for k, v in arrays.items() if k != p["name"]}
            for number in (2, 0.5, True):
                yield rest, words | {p["name"]: number}


def calls_of(row):
    """(what, arguments, words) of every call to try: all dtypes alone, a sample of them mixed and beside numbers."""
    alone, mixtures = [], []
    for i, case in enumerate(own_cases(row)[:2]):
        for dtype in DTYPES:
            arrays, words = arguments(row, case, dtype)
            # All pairs of dtypes; where there are many operands, one of another dtype among float32.
            mixed = not i and (len(arrays) <= 3 or dtype == "float32")
            given = with_other_dtypes(row, arrays) if mixed else [arrays]
            calls = [(a, words) for a in given] + list(with_numbers(row, arrays, words))
            for at, (a, w) in enumerate(calls):
                dtypes = {k: [d for _, d in v] if isinstance(v, list) else v[1] for k, v in a.items()}
                numbers = {k: v for k, v in w.items() if k not in case.given or case.given[k] is None}
                what = f"{row['key']}, {case}, {dtypes} {numbers}"
                (mixtures if at else alone).append((what, a, w))
    chosen = set(sampled(row, "mixed", [(what,) for what, _, _ in mixtures]))
    return alone + [m for m in mixtures if m[:1] in chosen]


@pytest.mark.parametrize("row", ROWS, ids=ids(ROWS))
def test_a_dtype_is_refused_when_recorded_or_works(row):
    for what, arrays, words in calls_of(row):
        lazy, eager = both(row, arrays, words)
        if isinstance(lazy, Refused) or isinstance(eager, Refused):
            assert lazy == eager, what
            names = {row["name"], row["key"], *row["python"]}
            if lazy.text.startswith("Integers are divided by zero"):  # by a False that was drawn
                continue
            if row["key"] in ("index_at", "index_put_at") and lazy.text.startswith(SUBSCRIPTS):
                continue
            if row["name"] == "index_fill" and type(lazy.error) is IndexError:  # of what is no index, as torch's
                continue
            assert type(lazy.error) in (RuntimeError, TypeError, NotImplementedError), (what, lazy)
            assert any(re.match(rf"{name}\b", lazy.text) for name in names), (what, lazy.text)
            assert any(dtype in lazy.text for dtype in DTYPES), (what, lazy.text)
            continue
        for a, b in zip(lazy, eager, strict=True):
            assert_same_bits(a, b, what)


def test_index_operands_are_among_the_cases():
    indexed = {
        r["key"] for r in ROWS for p in r["params"] if p["type"] in TENSORS and isinstance(domain_of(r, p["name"]), str)
    }
    assert {
        "gather",
        "scatter_add",
        "index_select",
        "embedding",
        "embedding_backward",
        "cross_entropy",
        "one_hot",
    } <= indexed
