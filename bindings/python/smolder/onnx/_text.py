"""The text form of graphs (docs/graph.md), read into nodes."""

import ast
import dataclasses
import json
import re

_NODE = re.compile(
    r"(?:(?P<results>%[\d, %]*) = )?(?P<op>[\w:]+)\((?P<args>.*?)\)(?: : (?P<metas>.*?))?(?: @(?P<at>\d+))?$"
)


@dataclasses.dataclass
class Value:
    """The facts known about a value: a shape has ints, and text where it follows from dynamic sizes."""

    dtype: str
    shape: tuple
    weak: bool


@dataclasses.dataclass
class Node:
    """One op: its operands and results by number, attributes as text."""

    op: str
    inputs: list
    outputs: list
    attrs: dict
    source: str

    def integer(self, name):
        return int(self.attrs[name])

    def flag(self, name):
        return self.attrs[name] == "true"

    def sizes(self, name):
        """A list of ints, and text where a size is dynamic."""
        return [dim(x) for x in split(self.attrs[name][1:-1])]

    def sizes_of(self, name):
        """A size, in a list."""
        return [dim(self.attrs[name])]

    def real(self, name):
        return number(self.attrs[name])

    def given(self, name):
        return self.attrs[name] != "none"


def split(text):
    """Parts between commas that are in no brackets."""
    parts, depth, begin = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[begin:i].strip())
            begin = i + 1
    return [*parts, text[begin:].strip()] if text.strip() else []


def dim(text):
    """A size: an int, or text."""
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def number(text):
    """A bool, int or float as graphs write it."""
    if text in ("true", "false"):
        return text == "true"
    if text.startswith("nan"):
        return float("nan")
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)


def size_tree(text):
    """The expression of a dynamic size, as Python's syntax tree."""
    return ast.parse(text.replace("/", "//"), mode="eval").body


class GraphText:
    """Nodes and names of a graph that was printed."""

    def __init__(self, text):
        self.inputs, self.weights, self.outputs, self.sizes, sources = [], [], [], [], []
        lists = {
            "input": self.inputs,
            "weight": self.weights,
            "output": self.outputs,
            "size": self.sizes,
            "source": sources,
        }
        self.nodes, self.values, self.returned = [], {}, []
        elsewhere = False  # in a graph that control flow runs
        for line in text.splitlines()[1:]:
            word, _, rest = line.partition(" ")
            if word == "subgraph" or elsewhere:
                elsewhere = word != "return"
            elif word in lists:
                lists[word].append(json.loads(rest))
            elif word == "return":
                self.returned = [_value(x) for x in split(rest)]
            elif word not in ("symbols", "guard") and line:
                self._read_node(line, sources)

    def _read_node(self, line, sources):
        found = _NODE.match(line)
        args = split(found["args"])
        inputs = [_value(a) for a in args if a[0] == "%" or a == "_"]
        attrs = dict(a.split("=", 1) for a in args if "=" in a)
        if found["op"] == "constant":
            attrs["value"] = args[0]
        outputs = [_value(x) for x in split(found["results"] or "")]
        for v, meta in zip(outputs, split(found["metas"] or ""), strict=True):
            weak = meta.startswith("weak ")
            dtype, shape = meta.removeprefix("weak ")[:-1].split("[", 1)
            self.values[v] = Value(dtype, tuple(dim(x) for x in split(shape)), weak)
        source = sources[int(found["at"]) - 1] if found["at"] else ""
        self.nodes.append(Node(found["op"], inputs, outputs, attrs, source))


def _value(text):
    return None if text == "_" else int(text[1:])
