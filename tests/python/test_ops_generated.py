"""Every row of the op table, as its `test` entry says: dtypes, shapes, special values, gradients.

Lazy and eager must agree in every bit, errors included; where NumPy has the function, both must agree with it.
"""

import zlib

import numpy as np
import pytest
from conftest import assert_same_bits, op_table

import smolder

DTYPES = ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"]
ROWS = [r for r in op_table() if not r["internal"] and (r["function"] or r["method"])]
TESTED = [r for r in ROWS if "why" not in r["test"] and not (r["random"] and "cases" not in r["test"])]
TENSORS = ("Tensor", "Tensor?", "Tensor|Number")


def rng_of(*words):
    return np.random.default_rng(zlib.crc32(repr(words).encode()))


def domain_of(row, name):
    domain = row["test"].get("domain")
    if isinstance(domain, dict):
        return domain.get(name, [-2, 2])
    return domain or [-2, 2]


def elementwise_cases(row):
    """Shapes that an elementwise op must get right, for each of its tensors."""
    names = [p["name"] for p in row["params"] if p["type"] in TENSORS and "default" not in p]
    numbers = {p["name"] for p in row["params"] if p["type"] == "Number" and "default" not in p}
    shapes = {"0-d": [()] * 3, "empty": [(0, 3)] * 3, "one": [(1,)] * 3, "odd": [(37,)] * 3, "matrix": [(5, 33)] * 3}
    shapes["broadcast"] = [(3, 1), (5,), (1, 5)]
    for label, choice in shapes.items():
        yield label, dict(zip(names, map(list, choice))) | dict.fromkeys(numbers)


def cases_of(row):
    if "cases" in row["test"]:
        return [(f"case {i}", case) for i, case in enumerate(row["test"]["cases"])]
    return list(elementwise_cases(row))


def integers(row, name, shape, case, rng):
    """Index tensors: `class of self`, `index of self along dim`, `index below 7`."""
    words = domain_of(row, name).split()
    if words[1] == "below":
        bound = int(words[2])
    else:
        extents = case[words[2]]
        axis = (0 if len(extents) == 1 else 1) if words[0] == "class" else words[4]
        bound = extents[case[axis] if axis in case else int(axis)]
    return rng.integers(0, bound, shape)


def values(row, name, shape, dtype, case, rng):
    domain = domain_of(row, name)
    if isinstance(domain, str):
        return integers(row, name, shape, case, rng), "int64"
    low, high = domain
    if name in ("condition", "mask"):
        return rng.integers(0, 2, shape).astype(bool), "bool"
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool), dtype
    if "int" in dtype:
        low, high = int(np.ceil(max(low, 0) if dtype == "uint8" else low)), int(np.floor(high))
        return rng.integers(low, max(low, high) + 1, shape), dtype
    return rng.uniform(low, high, shape), dtype


def arguments(row, case, dtype, layout="plain", special=False):
    """Arrays for the tensors, and the words; numbers come from their domain."""
    rng, tensors, words = rng_of(row["key"], sorted(case), dtype), {}, {}
    for p in row["params"]:
        name, kind = p["name"], p["type"]
        if kind in TENSORS and isinstance(case.get(name), list):
            array, its = values(row, name, tuple(case[name]), dtype, case, rng)
            if special and its.startswith(("float", "bfloat")) and array.size > 8:
                array.flat[:6] = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40]
            tensors[name] = (array, its)
        elif kind == "Tensor[]":
            tensors[name] = [values(row, name, tuple(s), dtype, case, rng) for s in case[name]]
        elif kind == "Tensor?" or (kind in TENSORS and "default" in p):
            words[name] = None
        elif kind in ("Number", "Tensor|Number") and case.get(name) is None and "default" not in p:
            domain = domain_of(row, name)
            words[name] = (
                int(rng.integers(*domain)) if name in ("seed", "offset", "step") else float(rng.uniform(*domain))
            )
        elif name in case:
            words[name] = getattr(smolder, case[name]) if kind.startswith("dtype") else case[name]
    return tensors, words


def make(array, dtype, layout):
    t = smolder.tensor(np.asarray(array), dtype=getattr(smolder, dtype))
    if layout == "strided" and t.dim() == 2:
        return t.T.clone().T
    if layout == "sliced" and t.dim():
        return smolder.stack([t, t], 0)[1]
    return t


def call(row, tensors, words):
    """Calls the function, or the method where there is no function."""
    positional, named = [], {}
    for p in row["params"]:
        name = p["name"]
        if name in tensors or name in words:
            value = tensors.get(name, words.get(name))
            if p["keyword_only"]:
                named[name] = value
            elif len(positional) == row["params"].index(p):
                positional.append(value)
            else:
                named[name] = value
    if row["function"]:
        return getattr(smolder._core, row["name"])(*positional, **named)
    return getattr(positional[0], row["name"])(*positional[1:], **named)


def run(row, case, dtype, layout="plain", special=False):
    """Arrays of the results, or the kind and text of the error."""
    arrays, words = arguments(row, case, dtype, layout, special)
    tensors = {
        k: [make(*one, layout) for one in v] if isinstance(v, list) else make(*v, layout) for k, v in arrays.items()
    }
    try:
        out = call(row, tensors, words)
        return [t._to_numpy() for t in (out if isinstance(out, tuple) else (out,))]
    except (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError) as e:
        return [type(e).__name__]


def ids(rows):
    return [r["key"] for r in rows]


@pytest.mark.skipif(not ROWS, reason="ops.json is only there in a build folder")
def test_the_table_was_found():
    assert len(TESTED) > 100


@pytest.mark.parametrize("row", TESTED, ids=ids(TESTED))
def test_lazy_and_eager_agree(row):
    worked = set()
    for label, case in cases_of(row):
        for dtype in DTYPES:
            for layout, special in [("plain", False), ("strided", False), ("sliced", False), ("plain", True)]:
                if layout != "plain" and dtype not in ("float32", "int64"):
                    continue
                if special and (not dtype.endswith(("32", "16")) or not row["elementwise"]):
                    continue
                lazy = run(row, case, dtype, layout, special)
                with smolder.eager():
                    eager = run(row, case, dtype, layout, special)
                what = f"{row['name']}, {label} {case}, {dtype}, {layout}{', special values' if special else ''}"
                assert len(lazy) == len(eager), what
                for a, b in zip(lazy, eager):
                    if isinstance(a, str) or isinstance(b, str):
                        assert a is b or a == b, what
                    else:
                        assert_same_bits(a, b, what)
                        worked.add(dtype)
    assert worked, "no dtype works"


# NumPy's name, and how far (in units of the dtype's eps) the result may be from its float64 result.
NUMPY = {
    name: name
    for name in [
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
    ]
}
NUMPY |= {"neg": "negative", "add": "add", "sub": "subtract", "mul": "multiply", "div": "true_divide", "round": "rint"}
NUMPY |= {"floor_div": "floor_divide", "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2"}
NUMPY |= {"asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh", "pow": "power", "eq": "equal", "ne": "not_equal"}
NUMPY |= {
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "matmul": "matmul",
    "where": "where",
}
COMPARED = [r for r in TESTED if r["key"] in NUMPY]
EPS = {"float32": 2.0**-23, "float64": 2.0**-52, "float16": 2.0**-10, "bfloat16": 2.0**-7}


@pytest.mark.parametrize("row", COMPARED, ids=ids(COMPARED))
def test_values_agree_with_numpy(row):
    function, compared = getattr(np, NUMPY[row["key"]]), 0
    for label, case in cases_of(row):
        for dtype, eps in EPS.items():
            arrays, words = arguments(row, case, dtype)
            tensors = {k: make(*v, "plain") for k, v in arrays.items()}
            try:
                got = call(row, tensors, words)
            except (RuntimeError, TypeError):
                continue  # the row has no such dtype
            rounded = [t.double().numpy() if t.dtype.is_floating_point else t.numpy() for t in tensors.values()]
            want = function(*rounded, *words.values())
            slack = 16 * eps * (8 if row["key"] == "matmul" else 1)
            np.testing.assert_allclose(
                got.double().numpy() if got.dtype.is_floating_point else got.numpy(),
                want,
                rtol=slack,
                atol=slack,
                err_msg=f"{row['name']}, {label}, {dtype}",
            )
            compared += 1
    assert compared or row["key"].startswith("bitwise")


DIFFERENTIABLE = [r for r in TESTED if r["differentiable"] and not r["name"].endswith("_step")]
FLAT = {"sign", "floor", "ceil", "round", "trunc"}  # gradient zero by definition, and steps between


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=ids(DIFFERENTIABLE))
def test_gradients_agree_with_differences(row):
    for label, case in cases_of(row):
        arrays, words = arguments(row, case, "float64")
        if "dtype" in words or any(isinstance(v, list) for v in arrays.values()):
            words.pop("dtype", None)
        names = [n for n in row["differentiable"] if n in arrays]
        if not names:
            continue
        rng = rng_of("direction", row["key"], label)

        def total(moved, arrays=arrays, words=words, names=names, label=label):
            tensors = {
                k: [make(*one, "plain") for one in v] if isinstance(v, list) else make(*moved.get(k, v), "plain")
                for k, v in arrays.items()
            }
            leaves = []
            for k in names:
                leaves += tensors[k] if isinstance(tensors[k], list) else [tensors[k]]
            leaves = [t for t in leaves if t.dtype.is_floating_point]
            for t in leaves:
                t.requires_grad_()
            out = call(row, tensors, words)
            out = out[0] if isinstance(out, tuple) else out
            factor = smolder.tensor(rng_of("weights", row["key"], label).normal(size=tuple(out.shape)))
            return (out * factor).sum(), leaves

        loss, leaves = total({})
        if not loss.requires_grad or any(isinstance(arrays[n], list) for n in names):
            continue
        loss.backward()
        steps = {n: rng.normal(size=arrays[n][0].shape) for n in names if arrays[n][1] == "float64"}
        slope = sum((t.grad.numpy() * d).sum() for t, d in zip(leaves, steps.values()) if t.grad is not None)
        ends = []
        for sign in (1, -1):
            moved = {n: (arrays[n][0] + sign * 1e-6 * d, "float64") for n, d in steps.items()}
            ends.append(total(moved)[0].item())
        want = 0.0 if row["key"] in FLAT else (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(slope, want, rtol=2e-5, atol=2e-6, err_msg=f"{row['name']}, {label} {case}")
