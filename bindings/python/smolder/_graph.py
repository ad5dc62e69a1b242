"""Graphs: functions captured once, which are looked at, changed, saved and run without Python."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from smolder import _core, _notebook, safetensors
from smolder._tensor import Tensor
from smolder._typing import Device, PathLike

__all__ = ["Graph", "capture", "load_graph"]

_SCALARS = (bool, int, float, str, type(None))


# -- nested arguments: a spec in JSON says how tensors, and values that are fixed, are nested


def _flatten(value, name, tensors, names):
    """The spec of `value`; its tensors and their names are appended."""
    if isinstance(value, Tensor):
        tensors.append(value)
        names.append(name)
        return {"tensor": len(tensors) - 1}
    if type(value) in _SCALARS:
        return {"value": value}
    if type(value) in (list, tuple):
        parts = [_flatten(v, f"{name}.{i}" if name else str(i), tensors, names) for i, v in enumerate(value)]
        return {type(value).__name__: parts}
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {"dict": {k: _flatten(v, f"{name}.{k}" if name else k, tensors, names) for k, v in value.items()}}
    raise TypeError(
        f"a graph's arguments and results are tensors, numbers, strings and None in lists, tuples and dicts with "
        f"strings as keys; {name or 'this'} is a {type(value).__qualname__}"
    )


def _build(spec, tensors):
    """Puts these tensors into the structure that `_flatten` made the spec of."""
    ((kind, what),) = spec.items()
    if kind == "tensor":
        return tensors[what]
    if kind == "value":
        return what
    if kind == "dict":
        return {k: _build(v, tensors) for k, v in what.items()}
    return {"list": list, "tuple": tuple}[kind](_build(v, tensors) for v in what)


def _match(spec, value, where, tensors):
    """Appends the tensors of `value`, which must be nested as the spec says and hold the same fixed values."""
    ((kind, what),) = spec.items()
    if kind == "tensor":
        if not isinstance(value, Tensor):
            raise TypeError(
                f"{where} must be a tensor, as it was when the graph was captured, got {type(value).__name__}"
            )
        tensors.append(value)
    elif kind == "value":
        if type(value) is not type(what) or value != what:
            raise ValueError(f"{where} was {what!r} when the graph was captured, and is fixed: got {value!r}")
    elif kind == "dict":
        if not isinstance(value, dict) or list(value) != list(what):
            raise TypeError(f"{where} must be a dict of {list(what)}, as it was when the graph was captured")
        for key, part in what.items():
            _match(part, value[key], f"{where}[{key!r}]", tensors)
    else:
        if type(value).__name__ != kind or len(value) != len(what):
            raise TypeError(f"{where} must be a {kind} of {len(what)}, as it was when the graph was captured")
        for i, part in enumerate(what):
            _match(part, value[i], f"{where}[{i}]", tensors)


def _valid(spec, tensors):
    """Whether it is a spec over that many tensors: it may come of a file."""
    if not isinstance(spec, dict) or len(spec) != 1:
        return False
    ((kind, what),) = spec.items()
    if kind == "tensor":
        return type(what) is int and 0 <= what < tensors
    if kind == "value":
        return type(what) in _SCALARS
    if kind == "dict":
        return isinstance(what, dict) and all(_valid(v, tensors) for v in what.values())
    return kind in ("list", "tuple") and isinstance(what, list) and all(_valid(v, tensors) for v in what)


class Graph:
    """A captured function: ops over inputs and named weights.

    Calling it runs it as the function ran; `run` takes and returns lists of tensors. It is changed by `insert`, `replace`,
    `replace_node` and `erase`, which name nodes and values as printed ("%3"); an edit that raises changes nothing.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._spec = None
        if graph.structure:
            try:
                spec = json.loads(graph.structure)
                kinds = (len(graph.input_names), len(graph.input_names), len(graph.output_names))
                valid = (
                    isinstance(spec, dict)
                    and isinstance(spec.get("names"), list)
                    and all(_valid(spec.get(k), n) for k, n in zip(("args", "kwargs", "results"), kinds, strict=True))
                    and "tuple" in spec["args"]
                    and "dict" in spec["kwargs"]
                )
            except (ValueError, RecursionError):
                valid = False
            if not valid:
                raise ValueError("the graph's structure, which says how arguments are nested, is damaged")
            self._spec = spec

    # -- what it is

    @property
    def input_names(self) -> list[str]:
        """Names of the tensors that `run` takes."""
        return self._graph.input_names

    @property
    def output_names(self) -> list[str]:
        """Names of the tensors that `run` returns."""
        return self._graph.output_names

    @property
    def dynamic_sizes(self) -> list[str]:
        """Names of the sizes that may differ from run to run."""
        return self._graph.dynamic_sizes

    @property
    def inputs(self) -> list[Any]:
        """The values that are inputs, with dtypes and shapes."""
        return self._graph.inputs

    @property
    def outputs(self) -> list[Any]:
        """The values that are returned, with dtypes and shapes."""
        return self._graph.outputs

    @property
    def nodes(self) -> list[Any]:
        """The ops in order: each has `op`, `name`, `inputs`, `outputs`, `attributes` and `source`."""
        return self._graph.nodes

    def state_dict(self) -> dict[str, Tensor]:
        """The weights by name; None for one that is not bound."""
        return dict(self._graph.weights())

    def __str__(self) -> str:
        return str(self._graph)

    def _repr_html_(self) -> str:
        return _notebook.graph_html(self)

    def __repr__(self) -> str:
        ops = len(self.nodes)
        return f"Graph({', '.join(self.input_names)}) -> ({', '.join(self.output_names)}), {ops} op{'s' * (ops != 1)}"

    def verify(self) -> None:
        """Raises ValueError naming the node that is not as its op's rule says."""
        self._graph.verify()

    @staticmethod
    def parse(text: str) -> Graph:
        """The graph that prints as `text`, without weights: `bind` gives it some."""
        return Graph(_core._Graph.parse(text))

    # -- running

    def run(self, *inputs: Any) -> Any:
        """The results for input tensors, as a tuple."""
        return self._graph.run(list(inputs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._spec is None:
            out = self.run(*args, **kwargs)
            return out[0] if len(out) == 1 else out
        given, expected = len(args), len(self._spec["args"]["tuple"])
        names = self._spec["names"]
        for name in names[given:expected]:  # by keyword, what was given by position
            if name not in kwargs:
                break
            args += (kwargs.pop(name),)
        if len(args) != expected or set(kwargs) != set(self._spec["kwargs"]["dict"]):
            keywords = ", ".join(self._spec["kwargs"]["dict"]) or "none"
            raise TypeError(
                f"this graph was captured with {expected} positional arguments and keywords {keywords}; got {len(args)} and "
                f"{', '.join(kwargs) or 'none'}"
            )
        tensors = []
        for i, (spec, arg) in enumerate(zip(self._spec["args"]["tuple"], args, strict=True)):
            _match(spec, arg, f"argument {names[i] if i < len(names) else i}", tensors)
        for key, spec in self._spec["kwargs"]["dict"].items():
            _match(spec, kwargs[key], f"argument {key}", tensors)
        return _build(self._spec["results"], self._graph.run(tensors))

    def to(self, device: Device) -> Graph:
        """The graph with its weights on a device."""
        return Graph(self._graph.to(str(device)))

    def bind(self, weights: Mapping[str, Tensor], strict: bool = True) -> Graph:
        """The graph with weights bound to the tensors of a dict, as a state_dict."""
        return Graph(self._graph.bind(list(weights.items()), strict))

    # -- files

    def save(self, path: PathLike, weights: bool = True) -> None:
        """Writes a file for `load_graph`, which is a safetensors file; without `weights`, the graph alone."""
        self._graph.save(os.fspath(path), weights)

    # -- edits

    def copy(self) -> Graph:
        """A graph whose edits this one does not see. Weights are shared."""
        return Graph(self._graph.copy())

    def insert(self, op: str, *args: Any, before: Any = None, **kwargs: Any) -> Any:
        """Makes a node, before the one of that name or last, and returns its result's name, or names."""
        names = self._graph.insert(_name(before) if before else "", op, _names(args), _names(kwargs))
        return names[0] if len(names) == 1 else tuple(names)

    def replace(self, old: Any, new: Any) -> None:
        """Has the nodes after value `new` read it where they read `old`."""
        self._graph.replace(_name(old), _name(new))

    def replace_node(self, node: Any, op: str, *args: Any, **kwargs: Any) -> None:
        """Makes a node another op, whose results take the place of its results."""
        self._graph.replace_node(_name(node), op, _names(args), _names(kwargs))

    def erase(self, node: Any) -> None:
        """Takes a node away that nothing reads."""
        self._graph.erase(_name(node))

    def eliminate_dead(self) -> int:
        """Takes away what no output needs; returns how many nodes."""
        return self._graph.eliminate_dead()

    def differentiate(self, wrt: Sequence[str] = (), outputs: bool = False) -> Graph:
        """The graph that computes gradients with respect to inputs or weights by name, of all floating inputs unless
        given. It takes what this takes and `grad_NAME` of each floating output, but of one of one element; `outputs`
        returns what this returns before them."""
        derived = self._graph.differentiate([wrt] if isinstance(wrt, str) else list(wrt), outputs)
        derived.structure = ""
        return Graph(derived)


def _name(value):
    """The name of a value, or of a node."""
    return value if isinstance(value, str) else value.name


def _names(values):
    """Arguments with values and nodes as their names."""
    if isinstance(values, dict):
        return {k: _names(v) for k, v in values.items()}
    if isinstance(values, list | tuple):
        return [_names(v) for v in values]
    return values.name if isinstance(values, _core._GraphValue | _core._GraphNode) else values


# -- capture


def _sizes(shapes, value, where, found, ranges):
    """Appends, for each tensor of `value`, the names of its dynamic sizes by dimension."""
    if isinstance(value, Tensor):
        sizes = {}
        given = shapes.items() if isinstance(shapes, dict) else enumerate(shapes or ())
        for dim, size in given:
            if size is None:
                continue
            if not isinstance(size, str):
                if not hasattr(size, "min") or not hasattr(size, "__name__"):
                    raise TypeError(f"dynamic_shapes: size {dim} of {where} is a Dim, a name or None, got {size!r}")
                ranges[size.__name__] = (size.min or 0, 2**63 - 1 if size.max is None else size.max)
                size = size.__name__
            sizes[dim] = size
        found.append(sizes)
    elif isinstance(value, dict):
        for key, part in value.items():
            _sizes(shapes and shapes.get(key), part, f"{where}[{key!r}]", found, ranges)
    elif isinstance(value, list | tuple):
        if shapes is not None and len(shapes) != len(value):
            raise ValueError(f"dynamic_shapes: {where} has {len(value)} parts, and shapes are given for {len(shapes)}")
        for i, part in enumerate(value):
            _sizes(shapes and shapes[i], part, f"{where}[{i}]", found, ranges)
    elif shapes:
        raise ValueError(f"dynamic_shapes: {where} is no tensor")


def _positional_names(fn, count):
    """Names of the parameters that take the positional arguments."""
    try:
        parameters = list(inspect.signature(getattr(fn, "forward", fn)).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in parameters if p.kind in kinds][:count]
    return names + [f"input_{i}" for i in range(len(names), count)]


def _shapes_by_name(dynamic_shapes, names, kwargs):
    """Shapes for each argument, by its name; torch takes a dict of names, or as many as there are arguments."""
    every = names + list(kwargs)
    if dynamic_shapes is None:
        return {}
    if isinstance(dynamic_shapes, dict):
        for name in dynamic_shapes:
            if name not in every:
                raise ValueError(f"dynamic_shapes: there is no argument {name!r}, only {', '.join(every) or 'none'}")
        return dynamic_shapes
    if len(dynamic_shapes) != len(every):
        raise ValueError(f"dynamic_shapes: {len(every)} arguments, and shapes are given for {len(dynamic_shapes)}")
    return dict(zip(every, dynamic_shapes, strict=True))


def _weights_of(fn):
    """Parameters and buffers of a module by name."""
    if not hasattr(fn, "named_parameters"):
        return []
    return [*fn.named_parameters(remove_duplicate=False), *fn.named_buffers(remove_duplicate=False)]


def capture(fn: Callable[..., Any], /, *args: Any, dynamic_shapes: Any = None, **kwargs: Any) -> Graph:
    """The graph of what `fn`, a function or a module, does with arguments like these, whose values it does not see.

    Arguments may be nested in lists, tuples and dicts; numbers, strings and None are fixed. A module's parameters and
    buffers are weights by their names; other tensors that `fn` reads are weights `constant_0` and so on. Sizes are fixed
    but for those of `dynamic_shapes`: for each argument, by name or in order, `{dimension: name}` with a name or a
    `smolder.export.Dim`. Equal names are equal sizes. `fn` is called once more for each of a few other sizes.

    Raises RuntimeError when `fn` reads values, writes to a tensor that it did not make, or does something else for
    another size.
    """
    names = _positional_names(fn, len(args))
    shapes = _shapes_by_name(dynamic_shapes, names, kwargs)
    tensors, tensor_names, found, ranges = [], [], [], {}
    spec = {
        "names": names,
        "args": {"tuple": [_flatten(a, n, tensors, tensor_names) for n, a in zip(names, args, strict=True)]},
        "kwargs": {"dict": {k: _flatten(v, k, tensors, tensor_names) for k, v in kwargs.items()}},
    }
    for name, value in [*zip(names, args, strict=True), *kwargs.items()]:
        _sizes(shapes.get(name), value, name, found, ranges)
    result_names = []

    def call(inputs):
        given = [_build(s, inputs) for s in spec["args"]["tuple"]]
        _captures.append(fn)
        try:
            out = fn(*given, **_build(spec["kwargs"], inputs))
        finally:
            _captures.pop()
        results, result_names[:] = [], []
        spec["results"] = _flatten(out, "", results, result_names)
        return results

    weights = _weights_of(fn)
    taken = {name for name, _ in weights}
    tensor_names = [f"{name}_" if name in taken else name for name in tensor_names]
    graph = _core._capture_graph(call, tensors, weights, tensor_names, found, ranges)
    outputs = [name if name and not name[0].isdigit() else f"output_{i}" for i, name in enumerate(result_names)]
    graph.rename(tensor_names, outputs)
    graph.structure = json.dumps(spec)
    return Graph(graph)


_captures = []  # functions that are being captured, the innermost last


def is_capturing():
    """Whether a function is being captured."""
    return bool(_captures)


def load_graph(path: PathLike, weights: Mapping[str, Tensor] | None = None) -> Graph:
    """The graph of a file that Graph.save() wrote, or a C++ program. Raises ValueError for a file that is none.

    `weights`, for a file without: a dict of tensors by name, or the path of a safetensors file of them.
    """
    path = os.fspath(path)
    os.stat(path)  # raises what Python raises where there is none
    try:
        graph = Graph(_core._Graph.load(path))
    except ValueError as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path} is no file of a graph: {error}") from error
    if weights is None:
        return graph
    return graph.bind(weights if isinstance(weights, Mapping) else safetensors.load_file(weights))
