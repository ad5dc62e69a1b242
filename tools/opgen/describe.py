"""What a row says to people: its Python signature, its dtypes, its gradient. For bindings, stubs and the op page."""

import dataclasses
import itertools
import re

from signature import REQUIRED

# What operands may have, by set. `accepts` of a row names one; else it follows from its other fields.
SETS = {
    "all": "all",
    "number": "integers and floats",
    "float": "floats",
    "int": "integers",
    "integral": "integers and bool",
    "bool": "bool",
}
PRIMITIVE_SETS = {
    "BIF": "all",
    "IF": "number",
    "F": "all",
    "I": "int",
    "BI": "integral",
}  # of F: integers become floats


def accepts(row):
    """The name of the set of dtypes that a call with operands of one dtype takes."""
    if row.accepts:
        return row.accepts
    if row.elementwise_primitive:
        return PRIMITIVE_SETS[row.elementwise_primitive.dtypes]
    return row.dtypes or "all"


def gradient(row):
    """`self, other`: the operands that have a gradient; empty where none has. Composites: that of what they run."""
    return [n.strip() for names in row.grads for n in names.split(",")]


def made_of(row):
    return "other ops" if row.is_composite else "primitive" if row.is_primitive else "a decomposition"


def sentence(row, function):
    """The row's documentation; in functions self is called input."""
    text = " ".join(row.doc.split())
    return re.sub(r"\bself\b", "input", text) if function and named_input(row) else text


def named_input(row):
    return any(p.name == "self" for p in row.sig.params)


def parameter_name(p, function):
    """What Python calls a parameter: in functions, self is input, wherever it stands."""
    return "input" if function and p.name == "self" else p.name


def docstring(row, function):
    """What help() shows: the documentation, then dtypes and gradients."""
    lines = [sentence(row, function), ""]
    if any(p.type.name.startswith("Tensor") for p in row.sig.params):
        lines.append(f"Dtypes: {SETS[accepts(row)]}.")
        names = ["input" if function and n == "self" else n for n in gradient(row)]
        if not row.is_composite:
            lines.append("Gradient: " + (", ".join(names) if names else "none") + ".")
    if len(row.sig.outputs) > 1 and row.num_returned > 1:
        lines.append(f"Returns: {', '.join(row.sig.outputs[: row.num_returned])}.")
    return "\n".join(lines).strip()


# -- Python's spelling

# NumPy's names of parameters, which torch takes as well.
NUMPY_NAMES = {"dim": "axis", "keepdim": "keepdims"}


def spellings(row):
    """The parameters, as the row has them, then with NumPy's names, each of which has to be given by name."""
    params = row.sig.params
    yield params
    named = [p.name for p in params if p.name in NUMPY_NAMES]
    for chosen in itertools.chain(*(itertools.combinations(named, n) for n in range(1, len(named) + 1))):
        out, renamed = [], False
        for p in params:
            renamed |= p.name in chosen
            if p.name in chosen:
                p = dataclasses.replace(p, name=NUMPY_NAMES[p.name], default=REQUIRED)
            out.append(dataclasses.replace(p, keyword_only=p.keyword_only or renamed))
        yield tuple(out)


TYPES = {
    "Tensor": "Tensor",
    "Tensor?": "Tensor | None",
    "Tensor[]": "Sequence[Tensor]",
    "Number": "_Number",
    "Number?": "_Number | None",
    "Tensor|Number": "Tensor | _Number",
    "int": "_int",
    "int?": "_int | None",
    "bool": "_bool",
    "float": "_float",
    "float?": "_float | None",
    "dtype": "_dtype",
    "dtype?": "_dtype | None",
    "int[]": "Sequence[_int]",
    "Generator?": "Generator | None",
    "ints": "Sequence[_int]",
    "text": "str",
    "int[]?": "Sequence[_int] | None",
    "axes": "_int | Sequence[_int] | None",
    "size": "_int",
    "size?": "_int | None",
    "size[]": "Sequence[_int]",
}


def python_type(p):
    if p.choices:
        return f"Literal[{', '.join(map(repr, p.choices))}]" + " | None" * p.type.name.endswith("?")
    return TYPES[p.type.name]


def python_default(p):
    if p.type.name == "dtype":
        return p.default
    return repr(None if p.type.name == "axes" and p.default == [] else p.default)


def parameter(p, name, typed):
    text = f"{name}: {python_type(p)}" if typed else name
    if not p.has_default:
        return text
    return f"{text} = {python_default(p)}" if typed else f"{text}={python_default(p)}"


def parameters(row, function=True, typed=True, params=None):
    """`input: Tensor, dim: _int, *, dtype: _dtype | None = None`; of a method, those after self."""
    out, starred = [], False
    for i, p in enumerate(params or row.sig.params):
        if i == 0 and not function:
            continue
        if p.keyword_only and not starred:
            out.append("*")
            starred = True
        out.append(parameter(p, parameter_name(p, function), typed))
    return ", ".join(out)


def python_return(row):
    if row.sig.returns_list:
        return "tuple[Tensor, ...]"
    return "Tensor" if row.num_returned == 1 else f"_return_{row.result_name}"
