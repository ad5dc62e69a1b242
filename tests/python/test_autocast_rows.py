"""Every row in a region of autocast: what it gives out of operands that were cast by hand as the lists say, bit for bit."""

import pytest
from conftest import assert_same_bits
from op_rows import DRAWN, ROWS, arguments, call, made, own_cases, results
from test_cuda import on_a_device

import smolder

HALVES = ("bfloat16", "float16")


def calls():
    """Rows by device: those listed, and those made of no others, which would be cast instead."""
    for device, marks in (("cpu", ()), ("cuda", on_a_device)):
        for row in ROWS:
            called = row["key"] not in DRAWN and (row["function"] or row["method"]) and row["params"]
            if called and (device in row["autocast"] or row["kind"] != "composite"):
                yield pytest.param(row, device, marks=marks, id=f"{device}-{row['key']}")


def each(tensors, f):
    """f of every tensor among arguments, which may be in lists."""
    return {k: [f(t) for t in v] if isinstance(v, list) else f(v) for k, v in tensors.items()}


def flat(tensors):
    return [t for v in tensors.values() for t in (v if isinstance(v, list) else [v])]


def floats(tensors):
    """Those that autocast may cast."""
    return [t for t in flat(tensors) if t.dtype.is_floating_point and t.dtype != smolder.float64]


def by_rule(rule, tensors, lower):
    """The operands as a rule casts them."""
    to = {"lower": lower, "float32": smolder.float32}.get(rule)
    if rule == "widest":
        to = smolder.float32 if any(t.dtype == smolder.float32 for t in floats(tensors)) else lower
    castable = floats(tensors)
    return each(tensors, lambda t: t.to(to) if to and any(t is c for c in castable) else t)


def calls_of(row, device):
    """(operands, words, dtype of the region): a case in each dtype, and with a first operand of another."""
    for case in own_cases(row)[:1]:
        for dtype in ("float32", "bfloat16", "float16", "float64", "int64"):
            arrays, words = arguments(row, case, dtype)
            for lower in HALVES if dtype == "float32" else HALVES[:1]:
                tensors = each(made(arrays), lambda t: t.to(device))
                yield tensors, words, getattr(smolder, lower)
                first = next((k for k, v in tensors.items() if not isinstance(v, list)), None)
                if dtype == "float32" and first and tensors[first].dtype == smolder.float32:
                    yield tensors | {first: tensors[first].to(getattr(smolder, lower))}, words, getattr(smolder, lower)


def outcome(row, tensors, words):
    """Results, or the error that there was."""
    try:
        return results(call(row, tensors, words))
    except Exception as error:
        return type(error)


@pytest.mark.parametrize(("row", "device"), list(calls()))
def test_operands_are_cast_as_listed(row, device):
    rule = row["autocast"].get(device)
    asked = any(p["name"] == "dtype" for p in row["params"])
    for tensors, words, lower in calls_of(row, device):
        if asked and words.get("dtype") is not None:
            continue
        smolder.set_autocast_enabled(device, True)
        smolder.set_autocast_dtype(device, lower)
        try:
            got = outcome(row, tensors, words)
        finally:
            smolder.set_autocast_enabled(device, False)
            smolder.set_autocast_dtype(device, smolder.bfloat16 if device == "cpu" else smolder.float16)
        mixed = {t.dtype for t in floats(tensors)} - {smolder.float32, lower}
        if rule == "refused" or (rule == "widest" and mixed):
            assert got is RuntimeError
            continue
        expected = outcome(row, by_rule(rule, tensors, lower), words)
        what = f"{row['key']} of {[t.dtype for t in flat(tensors)]} in {lower}"
        if isinstance(expected, type) or isinstance(got, type):
            assert got is expected, what
            continue
        for a, b in zip(got, expected, strict=True):
            assert a.dtype == b.dtype, what
            assert_same_bits(a._to_numpy(), b._to_numpy())
