"""The rows of the op table as tests use them: their cases and edges, inputs of any layout, calls and their outcome."""

import dataclasses
import os
import re
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

import smolder

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools/opgen"))  # the rows are read as the generator reads them

import emit_json  # noqa: E402
import model  # noqa: E402

TABLE = [emit_json.entry(r) for r in model.load(ROOT / "src/ir/ops", ROOT / "src/ir/scalar/primitives.def").rows]
# test_complex.py has the tests of complex.toml's rows, whose operands or results are complex.
PUBLIC = [r for r in TABLE if not r["internal"] and (r["function"] or r["method"] or r["inplace"])]
ROWS = [r for r in PUBLIC if r["file"] != "complex"]
# Each call of these draws other numbers, the same from a seed: test_random.py has tests of what they are.
DRAWN = {
    "rand", "randn", "rand_like", "randn_like", "randint", "randint.high", "bernoulli", "bernoulli.p", "bernoulli_fill",
    "bernoulli_fill.tensor", "dropout", "uniform", "normal", "randperm", "multinomial", "exponential", "log_normal",
    "cauchy", "geometric", "random", "random.to", "random.range",
}  # fmt: skip
DTYPES = ["float32", "float64", "float16", "bfloat16", "int32", "int64", "int16", "int8", "uint8", "bool"]
# Computed as int32 and then wrapped, so that sizes, layouts and aliases say nothing of them that int32 does not.
WRAPPED = ("int16", "int8")
USUAL = [d for d in DTYPES if d not in WRAPPED]
INTEGERS, INTEGRAL = DTYPES[4:-1], DTYPES[4:]
FLOATS = ["float32", "float64", "float16", "bfloat16"]
FEW = ("float32", "int64")
TENSORS = ("Tensor", "Tensor?", "Tensor|Number")
WITH_TENSORS = [r for r in ROWS if any(p["type"].startswith("Tensor") for p in r["params"])]
# Errors that an op may raise when it is recorded: torch's.
ERRORS = (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError)


def ids(rows):
    return [r["key"] for r in rows]


def rng_of(*words):
    return np.random.default_rng(zlib.crc32(repr(words).encode()))


# -- cases


def same_size(n):
    return n


@dataclasses.dataclass
class Case:
    """Shapes for tensors and values for the rest, by parameter."""

    label: str
    given: dict
    size: Callable = same_size  # what became of each extent of the row's own case
    edge: str = "ordinary"
    dtypes: tuple = tuple(USUAL)  # that tests take it in

    def __str__(self):
        return f"{self.label} {self.given}"


def elementwise_edges(row):
    names = [p["name"] for p in row["params"] if p["type"] in TENSORS and "default" not in p]
    numbers = {p["name"] for p in row["params"] if p["type"] == "Number" and "default" not in p}
    words = {p["name"]: "trunc" for p in row["params"] if p["type"].startswith("str") and "default" not in p}
    shapes = {"odd": [(37,)] * 3, "broadcast": [(3, 1), (5,), (1, 5)], "0-d": [()] * 3, "empty": [(0, 3)] * 3}
    shapes |= {"one": [(1,)] * 3, "matrix": [(5, 33)] * 3, "mixed ranks": [(), (3,), (2, 1)]}
    called = {"0-d": "zero-dim", "one": "size one", "matrix": "odd", "mixed ranks": "broadcast"}
    for label, choice in shapes.items():
        edge = called.get(label, label)
        given = dict(zip(names, map(list, choice))) | dict.fromkeys(numbers) | words
        yield Case(label, given, edge="ordinary" if edge == "broadcast" and len(names) < 2 else edge)


def resized(row, case, label, edge, size):
    """The case with every extent n as size(n), in tensors and in sizes alike."""
    given = dict(case.given)
    for p in row["params"]:
        value = given.get(p["name"])
        if p["type"] in TENSORS and isinstance(value, list):
            given[p["name"]] = [size(n) for n in value]
        elif p["type"] == "Tensor[]":
            given[p["name"]] = [[size(n) for n in shape] for shape in value]
        elif p["type"].startswith(("size", "position")) and value is not None:
            given[p["name"]] = [size(n) for n in value] if isinstance(value, list) else size(value)
    return Case(f"{label} {case.label}", given, size, edge)


def without_dimensions(row, case):
    """The case with zero-dim tensors: axes are 0, lists empty."""
    given = dict(case.given)
    for p in row["params"]:
        value = given.get(p["name"])
        if p["type"] == "Tensor[]":
            given[p["name"]] = [[] for _ in value]
        elif isinstance(value, list):
            given[p["name"]] = []
        elif p["type"] in ("int", "axes") and isinstance(value, int) and p["name"].startswith("dim"):
            given[p["name"]] = 0
    return Case(f"0-d {case.label}", given, edge="zero-dim")


def broadcasts(row, case):
    """The case with one operand smaller: one element along a dimension, or a dimension fewer."""
    operands = [p["name"] for p in row["params"] if p["type"].startswith("Tensor")]
    operands = [name for name in operands if isinstance(case.given.get(name), list)]
    for name in operands:
        if name in permuted(row, case):
            continue  # there would be an index twice
        shape = case.given[name]
        listed = bool(shape) and isinstance(shape[0], list)
        shape, rest = (shape[0], shape[1:]) if listed else (shape, [])
        if len(operands) + len(rest) < 2:
            continue
        smaller = {f"one {i}": [*shape[:i], 1, *shape[i + 1 :]] for i, n in enumerate(shape) if n > 1}
        smaller |= {"fewer": shape[1:]} if shape else {}
        for label, other in smaller.items():
            given = case.given | {name: [other, *rest] if listed else other}
            yield Case(f"{name} {label} {case.label}", given, edge="broadcast")


def extents_of(row, case):
    """The different extents above one of tensors and sizes, in order."""
    out = {}
    for p in row["params"]:
        given = case.given.get(p["name"])
        shapes = given if p["type"] == "Tensor[]" else [given]
        for shape in shapes if p["type"].startswith(("Tensor", "size")) else []:
            out |= {n: None for n in shape if n > 1} if isinstance(shape, list) else {}
    return list(out)


def most_elements(row, case):
    """The elements of the largest operand."""
    shapes = [case.given.get(p["name"]) for p in row["params"] if p["type"] in TENSORS]
    return max((int(np.prod(shape)) for shape in shapes if isinstance(shape, list)), default=0)


def permuted(row, case):
    """The operands that are indexed without an index twice."""
    domains = [domain_of(row, p["name"]) for p in row["params"] if p["name"] in case.given]
    return {words.split()[2] for words in domains if isinstance(words, str) and words.startswith("permutation")}


def is_permuted(row, case, extent):
    """Whether an operand has the extent, and smaller would be given an index twice."""
    return any(extent in case.given[name] for name in permuted(row, case))


def own_cases(row):
    """The row's cases; for an elementwise op without, shapes that any must take."""
    if "cases" in row["test"]:
        return [Case(f"case {i}", given) for i, given in enumerate(row["test"]["cases"])]
    return list(elementwise_edges(row))


MOST_ELEMENTS = 200_000  # of an operand whose extents are all resized

RESIZED = {"size one": lambda n: 1, "odd": lambda n: n + 15 + n % 2, "empty": lambda n: 0}


def edges(row):
    """The row's cases with other sizes, all of them and one after another: one, odd and longer than a vector, none at
    all; with no dimensions; with operands that are broadcast."""
    for case in own_cases(row) if "cases" in row["test"] else []:
        extents = extents_of(row, case)
        for edge, size in RESIZED.items():
            every = resized(row, case, edge, edge, lambda n, size=size: size(n) if n > 1 else n)
            if edge != "empty" and len(extents) != 1 and most_elements(row, every) < MOST_ELEMENTS:
                yield every
            for one in extents:
                alone = lambda n, size=size, one=one: size(n) if n == one else n  # noqa: E731
                if not (edge == "size one" and is_permuted(row, case, one)):
                    yield dataclasses.replace(resized(row, case, f"{edge} {one}", edge, alone), dtypes=FEW)
        yield without_dimensions(row, case)
        yield from broadcasts(row, case)


# Tests try a sample of the calls that differ in dtype, layout or size alone, most of which are a kernel to compile each.
WHOLE = os.environ.get("SMOLDER_TEST_OPS") == "all"


def sampled(row, what, calls, one_of=12):
    """One in `one_of` of a row's calls, each a tuple of what it differs in, or all with SMOLDER_TEST_OPS=all. A hash of
    the call chooses, the same ones in each run: at least one of every row, and over the rows all that calls differ in."""

    def of(call):
        return zlib.crc32(" ".join(map(str, (row["key"], what, *call))).encode())

    calls = list(calls)
    if WHOLE or not calls:
        return calls
    return [c for c in calls if of(c) % one_of == 0] or [min(calls, key=of)]


# -- inputs


def domain_of(row, name):
    domain = row["test"].get("domain")
    if isinstance(domain, dict):
        return domain.get(name, [-2, 2])
    return domain or [-2, 2]


def integers(row, name, shape, case, rng):
    """Index tensors: `class of self`, `index of self along dim`, `permutation of self along dim`, `index below 7`."""
    words = domain_of(row, name).split()
    if words[1] == "below":
        bound = case.size(int(words[2]))
    else:
        extents = case.given[words[2]]
        axis = (0 if len(extents) == 1 else 1) if words[0] == "class" else words[4]
        axis = case.given.get(axis, axis)
        bound = extents[int(axis)] if int(axis) < len(extents) else 1  # refused if there is no such axis
    if words[0] == "permutation" and shape and extents and bound > 0:  # no index twice
        along = int(case.given[words[4]]) % max(len(extents), 1)
        order = rng.random([bound if i == along else n for i, n in enumerate(shape)] if len(shape) > 1 else bound)
        along = along if len(shape) > 1 else 0
        return np.argsort(order, along).take(range(shape[along]), along, mode="wrap")
    return rng.integers(0, max(bound, 1), shape)


def values(row, name, shape, dtype, case, rng):
    """An array and its dtype for a tensor operand."""
    domain = domain_of(row, name)
    if domain == "int8":
        return rng.integers(-128, 128, shape), domain
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


def special_values(dtype):
    if dtype == "bool":
        return []
    if "int" in dtype:
        limits = np.iinfo(dtype)
        return [limits.max, limits.min, 0, 1] + ([-1] if limits.min else [])
    limits = smolder.finfo(getattr(smolder, dtype))
    return [np.nan, np.inf, -np.inf, 0.0, -0.0, limits.max, limits.min, limits.tiny, limits.tiny / 2]


def arguments(row, case, dtype, special=False):
    """Arrays for the tensors, and the words; numbers come from their domain."""
    given = case.given
    rng, tensors, words = rng_of(row["key"], sorted(given), dtype), {}, {}

    def array_for(name, shape):
        array, its = values(row, name, tuple(shape), dtype, case, rng)
        if special and its == dtype and not isinstance(domain_of(row, name), str):
            chosen = special_values(dtype)[: array.size]
            array.flat[rng.permutation(array.size)[: len(chosen)]] = chosen
        return array, its

    for p in row["params"]:
        name, kind = p["name"], p["type"]
        if kind in TENSORS and isinstance(given.get(name), list):
            tensors[name] = array_for(name, given[name])
        elif kind == "Tensor[]":
            tensors[name] = [array_for(name, shape) for shape in given[name]]
        elif kind == "Tensor?" or (kind in TENSORS and "default" in p):
            words[name] = None
        elif kind in ("Number", "Tensor|Number") and given.get(name) is None and "default" not in p:
            domain = domain_of(row, name)
            whole = name in ("seed", "offset", "step")
            words[name] = int(rng.integers(*domain)) if whole else float(rng.uniform(*domain))
        elif name in given:
            words[name] = getattr(smolder, given[name]) if kind.startswith("dtype") else given[name]
    return tensors, words


LAYOUTS = ["plain", "transposed", "sliced", "expanded"]


def make(array, dtype, layout="plain"):
    """A tensor of an array's elements; in other layouts it is a view that is not row-major."""
    array, its = np.asarray(array), getattr(smolder, dtype)
    if layout == "transposed" and array.ndim > 1:
        return smolder.tensor(np.ascontiguousarray(array.T), dtype=its).T
    if layout == "sliced" and array.ndim:
        wide = np.repeat(array, 2, -1)
        wide[..., ::2] = 1
        return smolder.tensor(wide, dtype=its)[..., 1::2]
    if layout == "expanded" and array.ndim and array.shape[0]:
        return smolder.tensor(array[:1], dtype=its).expand(array.shape)
    return smolder.tensor(array, dtype=its)


def made(arrays, layout="plain"):
    return {
        k: [make(*one, layout) for one in v] if isinstance(v, list) else make(*v, layout) for k, v in arrays.items()
    }


# -- calls

# Errors that only values tell, and so a step that runs: a position out of range, in the words of the op where it has some.
WORDS_OF_ROWS = {r["index_error"]["text"] for r in TABLE if r["index_error"]} - {""}
LATE_ERROR = re.compile(
    "|".join(["index out of range", "is out of bounds for a dimension", *map(re.escape, WORDS_OF_ROWS)])
)


def call(row, tensors, words, inplace=False):
    """Calls the function, the method where there is no function, or the method that writes in place."""
    positional, named = [], {}
    for i, p in enumerate(row["params"]):
        name = p["name"]
        if name in tensors or name in words:
            value = tensors.get(name, words.get(name))
            if p["keyword_only"] or len(positional) != i:
                named[name] = value
            else:
                positional.append(value)
    if inplace or not (row["function"] or row["method"]):
        return getattr(positional[0], row["python"][0] + "_")(*positional[1:], **named)
    if row["function"]:
        return getattr(smolder._core, row["python"][0])(*positional, **named)
    return getattr(positional[0], row["python"][0])(*positional[1:], **named)


def results(out):
    return list(out) if isinstance(out, tuple) else [out]


@dataclasses.dataclass
class Refused:
    """An op was not recorded."""

    error: Exception

    def __eq__(self, other):
        return isinstance(other, Refused) and (type(self.error), self.text) == (type(other.error), other.text)

    @property
    def text(self):
        return str(self.error).split("\n  at ")[0]

    @property
    def at_once(self):
        """This error as eager execution may raise it already at the call: without where it was met."""
        late = LATE_ERROR.search(str(self.error))
        return Refused(type(self.error)(late[0])) if late else self


def outcome(row, arrays, words, layout="plain", inplace=False):
    """Arrays of the results, or Refused. Only what values tell may be found out later than the call."""
    tensors = made(arrays, layout)
    smolder.manual_seed(0)
    try:
        out = results(call(row, tensors, words, inplace))
    except ERRORS as e:
        return Refused(e)
    try:
        return [t._to_numpy() for t in out]
    except (IndexError, RuntimeError) as e:
        assert LATE_ERROR.search(str(e)), e
        return Refused(e).at_once


def both(row, arrays, words, layout="plain", inplace=False):
    """The outcome recorded and compiled, and that of eager execution."""
    lazy = outcome(row, arrays, words, layout, inplace)
    with smolder.eager():
        eager = outcome(row, arrays, words, layout, inplace)
    late = isinstance(lazy, Refused) and lazy == lazy.at_once
    return lazy, eager.at_once if late and isinstance(eager, Refused) else eager
