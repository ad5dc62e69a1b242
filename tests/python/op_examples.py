"""An example of every op, made of its row's first case: `python tests/python/op_examples.py` writes src/ir/op_examples.json.

Docstrings and the reference show them; test_op_examples.py runs them.
"""

import json
import math
import re

import numpy as np
from op_rows import DRAWN, PUBLIC, ROOT, Case, arguments, own_cases

import smolder

FILE = ROOT / "src/ir/op_examples.json"
_MOST_ELEMENTS = 8  # of a tensor that is written out
_MOST_LINES = 8  # of a result that is
_MOST_CHARACTERS = 240  # of a line


# Examples of complex numbers, which no row's cases have.
_BY_HAND = {
    name: ["input = smolder.tensor([1 + 2j, -3j])", f"smolder.{name}(input)"]
    for name in ("view_as_real", "real", "imag", "conj", "angle")
}
_BY_HAND["weight_int8pack_mm"] = [
    "input = smolder.tensor([[1.0, -2.0, 0.5]])",
    "mat2 = smolder.tensor([[10, 20, 30], [-1, 2, 4]], dtype=smolder.int8)",
    "smolder._weight_int8pack_mm(input, mat2, smolder.tensor([0.1, 0.5]))",
]


def literal(array, dtype):
    """The tensor of an array as a program makes it; numbers are short, and large tensors a range."""
    array = np.asarray(array)
    if array.size > _MOST_ELEMENTS:
        shape = ", ".join(map(str, array.shape))
        if dtype == "bool":
            return f"smolder.arange({array.size}).reshape({shape}) % 2 == 0"
        if "int" in dtype:
            return f"smolder.tensor({array.tolist()})"
        low, high = math.floor(array.min() * 4) / 4, math.ceil(array.max() * 4) / 4
        return f"smolder.linspace({low}, {high}, {array.size}).reshape({shape})"
    if array.size == 0:
        return f"smolder.zeros({tuple(array.shape)})"
    values = array if dtype == "bool" or "int" in dtype else np.round(array.astype(float), 1)
    return f"smolder.tensor({values.tolist()})"


def word(value):
    if isinstance(value, smolder.dtype):
        return str(value)
    return repr(round(value, 2) if isinstance(value, float) else value)


def program(row, case):
    """Lines that call the op: tensors under the names of their parameters, then the call."""
    tensors, words = arguments(row, case, "int64" if row["accepts"] in ("int", "integral") else "float32")
    lines, positional, named = [], [], []
    for i, p in enumerate(row["params"]):
        name = p["name"]
        shown = "input" if name == "self" else name
        if name in tensors:
            given = tensors[name]
            if isinstance(given, list):
                parts = [literal(*one) for one in given]
                lines.append(f"{shown} = [{', '.join(parts)}]")
            else:
                if name == "sorted_sequence":
                    given = np.sort(given[0]), given[1]
                lines.append(f"{shown} = {literal(*given)}")
            text = shown
        elif name in words:
            text = word(words[name])
        else:
            continue
        if p["keyword_only"] or len(positional) != i:
            named.append(f"{shown if row['function'] else name}={text}")
        else:
            positional.append(text)
    first, *rest = positional or [""]
    python = row["python"][0]
    if row["function"]:
        call = f"smolder.{python}({', '.join([*positional, *named])})"
    elif row["method"]:
        call = f"{first}.{python}({', '.join([*rest, *named])})"
    else:
        call = f"{first}.{python}_({', '.join([*rest, *named])})"
    return [*lines, call]


def run(lines):
    """The last line's value as it is printed."""
    names = {"smolder": smolder}
    smolder.manual_seed(0)
    exec("\n".join(lines[:-1]), names)
    return repr(eval(lines[-1], names))


def shape_of(lines, value):
    """The same call, of which shapes are shown."""
    call = f"{lines[-1]}.shape" if isinstance(value, smolder.Tensor) else f"[t.shape for t in {lines[-1]}]"
    return [*lines[:-1], call]


def example(row):
    """(lines, what is shown); None where no case of the row is short enough."""
    if row["key"] in _BY_HAND:
        return _BY_HAND[row["key"]], run(_BY_HAND[row["key"]])
    with_cases = "cases" in row["test"]
    for case in own_cases(row) if with_cases else [small(row)]:
        try:
            lines = program(row, case)
            names = {"smolder": smolder}
            smolder.manual_seed(0)
            exec("\n".join(lines[:-1]), names)
            value = eval(lines[-1], names)
            shown = repr(value)
        except Exception:
            continue
        if (
            row["key"] in DRAWN
            or row["random"]
            or shown.count("\n") >= _MOST_LINES
            or "\n\n" in shown
            or re.search(r"\bnan\b", shown)
        ):
            lines = shape_of(lines, value)
            shown = run(lines)
        if max(map(len, lines)) <= _MOST_CHARACTERS:
            return lines, shown
    return None


def small(row):
    """A vector of three elements for each operand of an elementwise op."""
    names = [p["name"] for p in row["params"] if p["type"] in ("Tensor", "Tensor|Number") and "default" not in p]
    numbers = {p["name"] for p in row["params"] if p["type"] == "Number" and "default" not in p}
    return Case("small", {n: [3] for n in names} | dict.fromkeys(numbers))


def examples():
    """By row: its example as a session of Python's."""
    out = {}
    for row in PUBLIC:
        found = example(row)
        if found is not None:
            lines, shown = found
            out[row["key"]] = "\n".join([f">>> {line}" for line in lines] + [shown])
    return out


if __name__ == "__main__":
    FILE.write_text(json.dumps(examples(), indent=1) + "\n")
