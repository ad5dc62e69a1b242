"""From a captured graph, of ops, to a graph of calls."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

from smolder import _core, _graph
from smolder._names import listing as _listing
from smolder.fx.graph import Graph
from smolder.fx.graph_module import GraphModule
from smolder.fx.node import Node

__all__ = ["from_captured"]
__dir__ = _listing(__name__)

_LINE = re.compile(r"^(%\d+)(?:, %\d+)* = (\w+)\((.*)\) : (.*?)(?: @\d+)?$")


def from_captured(graph: _graph.Graph) -> GraphModule:
    """The GraphModule of a graph that smolder.capture made: each op is a call of the function that records it.

    Inputs are its tensors in order, results are nested as the function's were, weights are buffers, or the parameters that
    they are. Raises NotImplementedError for a graph with dynamic sizes or random numbers.
    """
    if graph.dynamic_sizes:
        raise NotImplementedError(
            f"fx.from_captured: sizes of the graph are dynamic ({', '.join(graph.dynamic_sizes)}); capture it without"
        )
    return _Reader(graph).module()


class _Reader:
    def __init__(self, graph):
        self.graph, self.made = graph, Graph()
        self.weights = graph.state_dict()
        self.values = {}  # by name of a value, the node or number that stands for it
        self.types = {}  # by name of a value, its dtype and shape

    def module(self):
        self._read_leaves()
        for node in self.graph.nodes:
            self._add(node)
        results = [self.values[v.name] for v in self.graph.outputs]
        spec = self.graph._spec
        if spec is not None:
            out = _graph._build(spec["results"], results)
        else:
            out = results[0] if len(results) == 1 else tuple(results)
        self.made.output(out)
        used = {n.target for n in self.made.find_nodes(op="get_attr")}
        return GraphModule({name: weight for name, weight in self.weights.items() if name in used}, self.made)

    def _read_leaves(self):
        """Nodes of the inputs and of weights that are read, and numbers."""
        inputs, weights = self.graph.input_names, list(self.weights)
        leaves, names = {}, [None] * len(inputs)
        for line in str(self.graph).splitlines():
            found = _LINE.match(line)
            if found is None:
                continue
            name, op, text, kind = found.groups()
            if op in ("leaf", "constant"):
                self.types[name] = kind
            if op == "leaf":
                number = int(re.search(r"number=(\d+)", text)[1])
                leaves[name] = number
                if number < len(inputs):
                    names[number] = name
            elif op == "constant":
                self.values[name] = _number(text)
            elif op == "parameter":
                raise NotImplementedError("fx.from_captured: the graph draws random numbers")
        for number, name in enumerate(names):
            node = self.made.placeholder(re.sub(r"\W", "_", inputs[number]))
            if name is not None:
                self.values[name] = node
        for name, number in leaves.items():
            if number >= len(inputs):
                self.values[name] = self.made.get_attr(weights[number - len(inputs)])

    def _add(self, node):
        if node.op in ("extent", "subgraph"):
            raise NotImplementedError(f"fx.from_captured: {node.op} is not supported, {node.source}")
        for value in node.outputs:
            self.types[value.name] = f"{str(value.dtype).rpartition('.')[2]}{list(value.shape)}"
        inputs = [self.values[name] for name in node.inputs]
        function, attributes, listed = self._function_of(node) or (_one_op(self.graph, node, self.types), {}, False)
        call = self.made.call_function(function, (inputs,) if listed else tuple(inputs), attributes)
        if len(node.outputs) == 1:
            self.values[node.outputs[0].name] = call
            return
        for i, value in enumerate(node.outputs):
            self.values[value.name] = self.made.call_function(operator.getitem, (call, i))

    def _function_of(self, node):
        """The public function that records just this op, with named arguments, and whether operands are one list.

        None where there is none: what a function records of such arguments is looked at.
        """
        import smolder

        function = vars(smolder).get(node.op)
        if not callable(function):
            return None
        attributes = {name: _attribute(text) for name, text in node.attributes.items()}
        worded = {name: "none" if value is None else value for name, value in attributes.items()}
        given = [self.values[name] for name in node.inputs]
        for named in (attributes, worded) if worded != attributes else (attributes,):
            for listed in (False, True):
                if self._records(node, function, given, named, listed):
                    return function, named, listed
        return None

    def _records(self, node, function, given, named, listed):
        from smolder import capture, no_grad

        is_tensor = [isinstance(v, Node) for v in given]
        examples = [_example(self.types[n]) for n, t in zip(node.inputs, is_tensor, strict=True) if t]

        def call(*tensors):
            left = iter(tensors)
            args = [next(left) if t else v for v, t in zip(given, is_tensor, strict=True)]
            out = function(args, **named) if listed else function(*args, **named)
            return list(out) if isinstance(out, tuple) else out

        try:
            with no_grad():
                found = capture(call, *examples).nodes
        except (TypeError, ValueError, RuntimeError, NotImplementedError, AttributeError):
            return False
        if len(found) != 1 or len(found[0].inputs) != len(node.inputs) or len(found[0].outputs) != len(node.outputs):
            return False
        return found[0].op == node.op and found[0].attributes == node.attributes


def _number(text):
    return {"true": True, "false": False}[text] if text in ("true", "false") else _attribute(text)


def _attribute(text):
    """The value of an attribute as a graph's text has it."""
    import smolder

    if text in ("true", "false", "none"):
        return {"true": True, "false": False, "none": None}[text]
    if text.startswith("["):
        return [int(part) for part in text[1:-1].split(",") if part.strip()]
    if text.startswith("nan("):
        return float("nan")
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    text = text.strip('"')
    found = getattr(smolder, text, None)
    return found if isinstance(found, _core.dtype) else text


def _example(kind):
    """A tensor of a dtype and shape: `float32[2, 3]`."""
    import smolder

    dtype, _, sizes = kind.removeprefix("weak ").partition("[")
    shape = [int(size) for size in sizes.rstrip("]").split(",") if size.strip()]
    return smolder.zeros(shape, dtype=getattr(smolder, dtype))


def _one_op(graph, node, types) -> Callable[..., Any]:
    """A function that runs one op of a graph, which no public function records."""
    lines = {m[1]: line for line in str(graph).splitlines() if (m := _LINE.match(line))}
    body = re.sub(r" @\d+$", "", lines[node.outputs[0].name])
    names = list(dict.fromkeys(node.inputs))
    tensors = [n for n in names if not lines[n].partition(" = ")[2].startswith("constant")]
    text = ["smolder.graph 1", *(f'input "input_{i}"' for i in range(len(tensors)))]
    text += [f'output "output_{i}"' for i in range(len(node.outputs))]
    new = {name: f"%{i}" for i, name in enumerate([*tensors, *(n for n in names if n not in tensors)])}
    for i, name in enumerate(tensors):
        text.append(f"%{i} = leaf(number={i}, offset=0, strides=[]) : {types[name]}")
    text += [re.sub(r"^%\d+|(?: @\d+)$", lambda m, n=n: new[n] if m[0][0] == "%" else "", lines[n])
             for n in names if n not in tensors]  # fmt: skip
    new |= {value.name: f"%{len(names) + i}" for i, value in enumerate(node.outputs)}
    text.append(re.sub(r"%\d+", lambda m: new[m[0]], body))
    text.append("return " + ", ".join(new[value.name] for value in node.outputs))
    one = _graph.Graph.parse("\n".join(text) + "\n")
    places = [node.inputs.index(name) for name in tensors]

    def call(*inputs):
        out = one.run(*(inputs[i] for i in places))
        return out[0] if len(out) == 1 else out

    call.__name__ = call.__qualname__ = node.op
    call.__module__ = "graph_op"
    return call
