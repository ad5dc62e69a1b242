"""Files of recorded steps: safetensors files whose metadata `smolder.trace` is JSON.

    {"version": 1, "smolder": "0.1.0", "created": ms since 1970, "program": [argv], "steps": [step, ...],
     "order": [[step, times], ...], "sources": [{"where": "train.py:12 in f", "code": "y = x @ w"}, ...],
     "dropped_runs": 0, "dropped_leaves": 0, "unordered_runs": 0}

A step has its `graph` as text (`src/ir/parse.cpp` has the grammar; `@n` is the n-th source, from 1), `symbols`,
`numbers` [["float", 0.1], ...], `leaves` [{"dtype", "shape", "data": name of a tensor of the file or null}], `device`,
`options`, `modes` (under which autocast each op was recorded, or []), `reason` (what ended it), `source`, `error` (why it
was no plan) and `runs`.
"""

import dataclasses
import json
import math
import sys
import time

from smolder import _core, safetensors
from smolder._lines import source_line
from smolder._types import name_of
from smolder._version import __version__

VERSION = 1
_KEY = "smolder.trace"
_CATEGORIES = {"bool": bool, "int": int, "float": float}
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_MISSING = "there is no op called"  # what keeps one step from being read, not the file
_DTYPES = {name_of(d): d for d in safetensors._NAMES}


class TraceError(ValueError):
    """A file that is no recorded trace, or says what is not so."""


@dataclasses.dataclass
class Node:
    """One op of a step. Operands are value numbers, -1 where absent; results are (dtype, shape, is it a number)."""

    op: str
    inputs: list
    words: list
    results: list
    source: int = 0
    attrs: str = ""

    @property
    def is_leaf(self):
        return self.op == "leaf"

    @property
    def is_number(self):
        return self.op == "parameter"

    def plain(self, token=0):
        """As _core._ReplayGraph takes it."""
        dtype, shape, _ = self.results[0]
        if self.is_number:
            dtype, shape = {"float64": "float", "int64": "int", "bool": "bool"}[dtype], []
        return (self.op, self.inputs, [] if self.is_leaf or self.is_number else self.words, (dtype, shape), token)


@dataclasses.dataclass
class Leaf:
    """A tensor that a step reads; `data` names it in the file."""

    dtype: str
    shape: list
    data: str | None = None

    @property
    def bytes(self):
        return math.prod(self.shape) * _DTYPES[self.dtype].itemsize

    def __str__(self):
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclasses.dataclass
class Step:
    """A recorded step."""

    nodes: list
    outputs: list
    leaves: list
    numbers: list
    device: str = "cpu"
    options: dict = dataclasses.field(default_factory=lambda: {"fuse": True, "simplify": True})
    reason: str = ""
    error: str = ""
    source: int = 0
    runs: int = 1
    modes: list = dataclasses.field(default_factory=list)  # under which autocast each op was recorded; empty for none
    unreadable: str = ""  # why it has no nodes: an op of the program's own that is not registered here

    def ops(self):
        """Nodes that compute."""
        return [n for n in self.nodes if not (n.is_leaf or n.is_number)]

    def first_values(self):
        """The number of each node's first result."""
        out, at = [], 0
        for node in self.nodes:
            out.append(at)
            at += len(node.results)
        return out


@dataclasses.dataclass
class Trace:
    """The contents of a file."""

    steps: list
    sources: list  # (where, code)
    order: list
    path: str = ""
    created: int = 0
    program: list = dataclasses.field(default_factory=list)
    smolder: str = ""
    dropped_runs: int = 0
    dropped_leaves: int = 0
    unordered_runs: int = 0

    def where(self, source):
        """The line a number stands for, as "train.py:12 in f"; empty where it is unknown."""
        return self.sources[source - 1][0] if 0 < source <= len(self.sources) else ""

    def code(self, source):
        """The text of that line, as it was when the file was written."""
        return self.sources[source - 1][1] if 0 < source <= len(self.sources) else ""


# -- writing


def _number_json(category, value):
    return [category, str(value) if category == "float" and not math.isfinite(value) else value]


def write_log(path, contents):
    """Writes what a _core._TraceLog kept."""
    tensors, steps = {}, []
    for index, step in enumerate(contents["steps"]):
        leaves = []
        for number, ((dtype, shape), data) in enumerate(zip(step["leaves"], step["data"], strict=True)):
            name = f"step{index}.leaf{number}" if data is not None else None
            if name:
                tensors[name] = data
            leaves.append({"dtype": dtype, "shape": shape, "data": name})
        kept = ("graph", "symbols", "device", "options", "modes", "reason", "error", "source", "runs")
        numbers = [_number_json(*number) for number in step["numbers"]]
        steps.append({k: step[k] for k in kept} | {"numbers": numbers, "leaves": leaves})
    sources = [{"where": where, "code": source_line(where)[:200]} for where in contents["sources"]]
    counts = {k: contents[k] for k in ("order", "dropped_runs", "dropped_leaves", "unordered_runs")}
    _write(path, tensors, {"steps": steps, "sources": sources} | counts)


def _write(path, tensors, contents):
    head = {"version": VERSION, "smolder": __version__, "created": int(time.time() * 1000), "program": list(sys.argv)}
    text = json.dumps(head | contents, separators=(",", ":"), allow_nan=False)
    safetensors.save_file(tensors, path, {"format": "smolder.trace", _KEY: text})


def write(path, trace, data=None):
    """Writes a trace; `data` holds tensors by (step, leaf)."""
    tensors, steps = {}, []
    for index, step in enumerate(trace.steps):
        graph = _core._ReplayGraph([n.plain(n.source) for n in step.nodes], step.outputs)
        leaves = []
        for number, leaf in enumerate(step.leaves):
            tensor = (data or {}).get((index, number))
            name = f"step{index}.leaf{number}" if tensor is not None else None
            if name:
                tensors[name] = tensor
            leaves.append({"dtype": leaf.dtype, "shape": leaf.shape, "data": name})
        kept = ("device", "options", "modes", "reason", "error", "source", "runs")
        fields = {k: getattr(step, k) for k in kept}
        numbers = [_number_json(*number) for number in step.numbers]
        steps.append({"graph": graph.text, "symbols": graph.symbols, "numbers": numbers, "leaves": leaves} | fields)
    sources = [{"where": where, "code": code} for where, code in trace.sources]
    counts = {k: getattr(trace, k) for k in ("order", "dropped_runs", "dropped_leaves", "unordered_runs")}
    _write(path, tensors, {"steps": steps, "sources": sources} | counts)


# -- reading


def _plain(text):
    """Text of a file as a terminal may be given it: what would move its cursor, or cannot be written, is spelt out."""
    shown = lambda c: c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode()  # noqa: E731
    return text if text.isprintable() else "".join(map(shown, text))


def _field(owner, name, kind, what):
    value = owner.get(name) if isinstance(owner, dict) else None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TraceError(f"{what} has no {name!r} that is {'a number' if kind is int else 'a ' + kind.__name__}")
    return _plain(value) if kind is str and name != "graph" else value


def _check(holds, what):
    if not holds:
        raise TraceError(what)


def _read_numbers(values, what):
    out = []
    for value in values:
        _check(
            isinstance(value, list) and len(value) == 2 and value[0] in list(_CATEGORIES),
            f"{what}: {value!r:.60} is no number",
        )
        category, number = value
        if category == "float" and isinstance(number, str):
            _check(number in _FLOATS, f"{what}: {number!r:.60} is no number")
            number = _FLOATS[number]
        _check(isinstance(number, (bool, int, float)), f"{what}: {number!r:.60} is no number")
        _check(not isinstance(number, int) or -(2**63) <= number < 2**63, f"{what}: {number!r:.60} is beyond 64 bits")
        _check(category != "int" or isinstance(number, int), f"{what}: {number!r:.60} is no integer")
        out.append((category, _CATEGORIES[category](number)))
    return out


def _read_leaves(values, nodes, tensors, what):
    found = [n for n in nodes if n.is_leaf]
    _check(len(values) == len(found), f"{what} lists {len(values)} leaves, its graph has {len(found)}")
    leaves = []
    for number, (value, node) in enumerate(zip(values, found, strict=True)):
        dtype, shape, _ = node.results[0]
        where = f"{what}, leaf {number}"
        _check(_field(value, "dtype", str, where) == dtype and _field(value, "shape", list, where) == shape,
               f"{where} is not what the graph says: {Leaf(dtype, shape)}")  # fmt: skip
        data = value.get("data")
        if data is not None:
            _check(isinstance(data, str) and data in tensors, f"{where}: the file has no tensor {data!r:.60}")
            entry = tensors[data]
            _check(entry["shape"] == shape and entry["dtype"] == safetensors._NAMES[_DTYPES[dtype]],
                   f"{where}: tensor {data!r} is {entry['dtype']} {entry['shape']}")  # fmt: skip
        leaves.append(Leaf(dtype, shape, data))
    return leaves


def _read_step(value, sources, tensors, what):
    text = _field(value, "graph", str, what)
    try:
        if "dist::" in text:
            _core._dist_define()  # ops that groups of processes bring: none need be made
        nodes, outputs = _core._parse_graph(text)
    except (ValueError, RuntimeError, NotImplementedError, TypeError, IndexError, SystemError) as e:
        if _MISSING not in str(e):
            raise TraceError(f"{what}: {_plain(str(e))}") from None
        fields = [_field(value, k, t, what) for k, t in (("reason", str), ("source", int), ("runs", int))]
        device = _field(value, "device", str, what)
        return Step([], [], [], [], device, {}, fields[0], "", *fields[1:], unreadable=f"{what}: {_plain(str(e))}")
    nodes = [Node(*node) for node in nodes]
    for node in nodes:
        _check(node.source <= sources, f"{what}: source @{node.source} is not in the file")
    numbers = _read_numbers(_field(value, "numbers", list, what), what)
    wanted = [n.plain()[3][0] for n in nodes if n.is_number]
    _check([c for c, _ in numbers] == wanted, f"{what}: its numbers are not those of its graph")
    options = _field(value, "options", dict, what)
    step = Step(
        nodes,
        outputs,
        _read_leaves(_field(value, "leaves", list, what), nodes, tensors, what),
        numbers,
        _field(value, "device", str, what),
        {**options, "fuse": bool(options.get("fuse", True)), "simplify": bool(options.get("simplify", True))},
        _field(value, "reason", str, what),
        _field(value, "error", str, what),
        _field(value, "source", int, what),
        _field(value, "runs", int, what),
        _field(value, "modes", list, what),
    )
    fine = all(type(m) is int and 0 <= m < 256 for m in step.modes) and len(step.modes) in (0, len(step.ops()))
    _check(fine, f"{what}: its modes are not those of its ops")
    _check(all(not nodes_of_value(step, v).results[0][2] for v in outputs), f"{what}: a number is no output")
    return step


def nodes_of_value(step, value):
    """The node that makes a value."""
    at = 0
    for node in step.nodes:
        at += len(node.results)
        if value < at:
            return node
    raise TraceError(f"there is no value %{value}")


def read(path):
    """Reads a file and checks all it says. Throws TraceError, or OSError where it cannot be opened."""
    try:
        with safetensors.safe_open(path) as file:
            metadata, tensors = file.metadata() or {}, file._tensors
    except safetensors.SafetensorError as e:
        reason = str(e).removeprefix(f"{path}: ")
        raise TraceError(f"{path} is no trace: {_plain(reason)}") from None
    if _KEY not in metadata:
        raise TraceError(f"{path} is no trace: it is a safetensors file without `{_KEY}` in its metadata")
    try:
        contents = json.loads(metadata[_KEY])
    except (ValueError, RecursionError) as e:
        raise TraceError(f"{path}: its `{_KEY}` is no JSON: {_plain(str(e))}") from None
    version = _field(contents, "version", int, path)
    if version != VERSION:
        raise TraceError(f"{path} is of version {version} of the format; this Smolder reads version {VERSION}")
    sources = []
    for value in _field(contents, "sources", list, path):
        sources.append(
            (_field(value, "where", str, f"{path}: a source"), _field(value, "code", str, f"{path}: a source"))
        )
    steps = [
        _read_step(step, len(sources), tensors, f"{path}: step {i}")
        for i, step in enumerate(_field(contents, "steps", list, path))
    ]
    order = _field(contents, "order", list, path)
    for entry in order:
        fine = isinstance(entry, list) and len(entry) == 2 and all(type(n) is int and n >= 0 for n in entry)
        _check(fine and entry[0] < len(steps), f"{path}: the order names {entry!r:.60}")
    program = _field(contents, "program", list, path)
    counts = [_field(contents, k, int, path) for k in ("dropped_runs", "dropped_leaves", "unordered_runs")]
    created = _field(contents, "created", int, path)
    return Trace(steps, sources, order, str(path), created, [_plain(str(a)) for a in program],
                 _field(contents, "smolder", str, path), *counts)  # fmt: skip


def read_data(trace, step):
    """Saved leaves of a step on the CPU, by number."""
    leaves = trace.steps[step].leaves
    if not any(leaf.data for leaf in leaves):
        return {}
    with safetensors.safe_open(trace.path) as file:
        return {i: file.get_tensor(leaf.data) for i, leaf in enumerate(leaves) if leaf.data}
