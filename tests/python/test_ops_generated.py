"""Every row of the op table, as its `test` entry says: dtypes, shapes, layouts, special values.

Recorded and eager must agree in every bit, errors included; where NumPy has the function, both must agree with it. Each
dtype is tried with every case of the row; of other sizes, layouts and special values a sample (op_rows.sampled).
"""

import itertools

import numpy as np
from conftest import assert_same_bits
from op_results import generated
from op_rows import (
    DTYPES,
    LAYOUTS,
    ROWS,
    USUAL,
    WITH_TENSORS,
    Refused,
    arguments,
    both,
    call,
    edges,
    made,
    own_cases,
    sampled,
)

import smolder


def assert_agree(row, case, dtype, layout="plain", special=False, inplace=False):
    """Whether the op took it."""
    lazy, eager = both(row, *arguments(row, case, dtype, special), layout, inplace)
    what = f"{row['key']}, {case}, {dtype}, {layout}{', special values' * special}{', in place' * inplace}"
    if isinstance(lazy, Refused) or isinstance(eager, Refused):
        assert lazy == eager, what
        return False
    assert len(lazy) == len(eager), what
    for a, b in zip(lazy, eager):
        assert_same_bits(a, b, what)
    return True


@generated(ROWS)
def test_recorded_and_eager_agree_on_every_dtype(row, shows):
    took = []
    for case in own_cases(row):
        for dtype in DTYPES:
            took.append(assert_agree(row, case, dtype))
            shows(case.edge, dtype, took[-1])
    assert any(took), "no dtype works"


@generated(ROWS)
def test_recorded_and_eager_agree_on_edges(row, shows):
    calls = {}
    for case in edges(row):
        calls.setdefault(case.edge, []).extend((case, dtype) for dtype in case.dtypes)
    for edge, its in calls.items():
        for case, dtype in sampled(row, edge, its):
            shows(edge, dtype, assert_agree(row, case, dtype))


@generated(WITH_TENSORS)
def test_recorded_and_eager_agree_on_views(row, shows):
    for layout in LAYOUTS[1:]:
        for case, dtype in sampled(row, layout, itertools.product(own_cases(row), USUAL)):
            shows("strided", dtype, assert_agree(row, case, dtype, layout))


@generated(WITH_TENSORS)
def test_recorded_and_eager_agree_on_nan_infinity_and_huge_values(row, shows):
    for case, dtype in sampled(row, "special", itertools.product(own_cases(row), DTYPES[:-1])):
        shows("nan, inf", dtype, assert_agree(row, case, dtype, special=True))


IN_PLACE = [r for r in ROWS if r["inplace"] and (r["function"] or r["method"])]


@generated(IN_PLACE)
def test_in_place_writes_what_the_function_returns(row, shows):
    took = []
    for case in own_cases(row):
        for dtype in DTYPES:
            arrays, words = arguments(row, case, dtype)
            took.append(assert_agree(row, case, dtype, inplace=True))
            shows("in place", dtype, took[-1])
            tensors = made(arrays)
            if took[-1]:
                want = call(row, made(arrays), words)
                out = call(row, tensors, words, inplace=True)
                self = tensors[row["params"][0]["name"]]
                assert out is self and out.dtype == getattr(smolder, dtype)
                assert_same_bits(out._to_numpy(), want.to(out.dtype)._to_numpy(), f"{row['key']}_, {case}, {dtype}")
    assert any(took)


# NumPy's name where it has the function; its result in float64 is what ours may differ from by rounding.
NUMPY = dict.fromkeys(
    [
        "abs",
        "sign",
        "floor",
        "ceil",
        "trunc",
        "sqrt",
        "reciprocal",
        "square",
        "exp",
        "exp2",
        "expm1",
        "log",
        "log2",
        "log10",
        "log1p",
        "sin",
        "cos",
        "tan",
        "sinh",
        "cosh",
        "tanh",
        "maximum",
        "minimum",
        "fmod",
        "remainder",
        "isnan",
        "isinf",
        "isfinite",
        "logical_not",
        "logical_and",
        "logical_or",
        "logical_xor",
        "flip",
        "bitwise_and",
        "bitwise_or",
        "bitwise_xor",
        "tril",
        "triu",
        "matmul",
        "where",
    ]
)
NUMPY |= {"neg": "negative", "sub": "subtract", "mul": "multiply", "div": "true_divide", "round": "rint", "add": "add"}
NUMPY |= {"floor_div": "floor_divide", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}
NUMPY |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "pow": "power", "eq": "equal", "ne": "not_equal"}
NUMPY |= {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"}
NUMPY = {key: getattr(np, name or key) for key, name in NUMPY.items()}
COMPARED = [r for r in ROWS if r["key"] in NUMPY]
EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


def as_numpy(t):
    return t.double().numpy() if t.dtype.is_floating_point else t.numpy()


@generated(COMPARED)
def test_values_agree_with_numpy(row, shows):
    compared = 0
    for case in own_cases(row):
        for dtype, eps in EPS.items():
            arrays, words = arguments(row, case, dtype)
            tensors = made(arrays)
            try:
                got = call(row, tensors, words)
            except (RuntimeError, TypeError):
                continue  # the row has no such dtype
            want = NUMPY[row["key"]](*map(as_numpy, tensors.values()), *words.values())
            slack = 16 * eps * (8 if row["key"] == "matmul" else 1)
            what = f"{row['key']}, {case}, {dtype}"
            np.testing.assert_allclose(as_numpy(got), want, rtol=slack, atol=slack, err_msg=what)
            compared += 1
            shows("NumPy", dtype, True)
    assert compared or row["key"].startswith("bitwise")


# NumPy's floor_divide and remainder of infinities, and its sign of nan, are not torch's, which ours are.
ORDINARY = [r for r in COMPARED if r["elementwise"] and r["key"] not in ("floor_div", "remainder", "sign")]


@generated(ORDINARY)
def test_nan_infinity_and_huge_values_agree_with_numpy(row, shows):
    for dtype in ("float32", "float64"):
        arrays, words = arguments(row, own_cases(row)[0], dtype, special=True)
        tensors = made(arrays)
        try:
            got = call(row, tensors, words)
        except RuntimeError:
            assert row["key"].startswith("bitwise")
            return
        with np.errstate(all="ignore"):
            want = NUMPY[row["key"]](*(t.numpy() for t in tensors.values()), *words.values())
        slack = 16 * EPS[dtype]
        np.testing.assert_allclose(got.numpy(), want, rtol=slack, atol=slack, err_msg=f"{row['key']}, {dtype}")
        shows("NumPy", dtype, True)


def test_values_written_in_place_by_rows_without_a_function():
    x = smolder.ones(2, 3)
    assert x.fill_(2.5).tolist() == [[2.5] * 3] * 2
    assert x.copy_(smolder.arange(3)).tolist() == [[0.0, 1.0, 2.0]] * 2
    assert x.zero_().tolist() == [[0.0] * 3] * 2
