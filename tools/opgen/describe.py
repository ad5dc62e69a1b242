"""The description of a row for people: its Python signature, its dtypes, its gradient. For bindings, stubs and the op page."""

import dataclasses
import itertools
import re

from signature import REQUIRED

# Dtypes that operands may have, by set. `accepts` of a row names one; else it follows from its other fields.
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
    """The name of a parameter in Python: in functions, self is input, wherever it stands."""
    return "input" if function and p.name == "self" else p.name


# The meaning of parameters, by name, where the same name means the same in every row.
MEANING = {
    "dim": "a dimension; below 0 it counts from the last",
    "dim0": "a dimension",
    "dim1": "a dimension",
    "dim2": "a dimension",
    "dims": "dimensions",
    "keepdim": "whether reduced dimensions stay, with one element",
    "dtype": "that of the result",
    "generator": "the stream of random numbers; the default one unless given",
    "other": "the second operand",
    "target": "what is wanted",
    "index": "positions along dim, int64",
    "indices": "positions",
    "reduction": 'what becomes of the losses of elements: "none", their "mean" or their "sum"',
    "eps": "a small number that keeps divisors from 0",
    "kernel_size": "extents of the window",
    "stride": "elements from one window to the next",
    "padding": "elements added at each side",
    "dilation": "elements from one of the window's to the next",
    "groups": "parts that channels are split into, each by itself",
    "ceil_mode": "whether a window that is cut off at the end counts",
    "count_include_pad": "whether padding counts in means",
    "divisor_override": "what sums are divided by, instead of the window's size",
    "output_size": "extents of the result",
    "align_corners": "whether corners of input and output are the same points",
    "size": "extents",
    "weight": "the weights",
    "bias": "what is added",
    "mask": "where it is true, bool",
    "condition": "what chooses, bool",
    "tensors": "the operands",
    "n": "how many",
    "unbiased": "whether sums are divided by one less than the count",
    "correction": "what is taken from the count that sums are divided by",
    "descending": "whether the largest comes first",
    "stable": "whether equal elements keep their order",
    "sorted": "whether the result is in order",
    "largest": "the largest, or else the smallest",
    "training": "whether the module trains",
    "ignore_index": "a class that counts for nothing",
    "label_smoothing": "the share of the target that is spread over all classes",
    "is_causal": "whether a query sees no key behind it",
    "attn_mask": "where a query may see a key, or what is added to their score",
    "diagonal": "the diagonal: 0 the main one, above it where positive",
    "offset": "the diagonal: 0 the main one, above it where positive",
    "equal_nan": "whether nan equals nan",
    "rtol": "the relative tolerance",
    "atol": "the absolute tolerance",
}
MEANING_OF_FEW = {"offset": ("diagonal", "diag_embed", "diagflat", "diagonal_scatter")}  # rows that a meaning is of


def meaning(row, p):
    """The description of a parameter besides its type; empty where its name means this and that."""
    if p.name not in MEANING or row.sig.name not in MEANING_OF_FEW.get(p.name, (row.sig.name,)):
        return ""
    return MEANING[p.name]


def argument(row, p, function):
    """`dim (int): a dimension; below 0 it counts from the last`."""
    kind = python_type(p).replace("_", "").removesuffix(" | None")
    text = f"{parameter_name(p, function)} ({kind}{', optional' if p.has_default else ''})"
    said = [meaning(row, p)]
    if p.has_default and p.default is not None and p.default != []:
        said.append(f"{python_default(p)} unless given")
    said = "; ".join(filter(None, said))
    return f"{text}: {said}" if said else text


def shape_of_result(row, function):
    """The result's extents, as known from the row's rule; empty where it has one of its own."""
    first = parameter_name(row.sig.params[0], function) if row.sig.params else ""
    if row.shape == "broadcast" or (row.elementwise_primitive and len(row.sig.operands) > 1):
        return "that which the operands broadcast to"
    if row.shape == "same" or (row.elementwise_primitive and len(row.sig.operands) == 1):
        return f"that of {first}"
    if row.shape == "reduce":
        return f"that of {first} without the reduced dimensions, which stay with one element where keepdim says so"
    return ""


def errors(row):
    """The errors of calls: (type, when)."""
    tensors = any(p.type.name.startswith("Tensor") for p in row.sig.params)
    if tensors and accepts(row) != "all":
        yield "RuntimeError", f"of other dtypes than {SETS[accepts(row)]}"
    if any(p.name == "dim" and p.type.name in ("int", "int?", "axes") for p in row.sig.params):
        yield "IndexError", "of a dim that there is not"
    if row.index_error:
        yield row.index_error.get("type", "IndexError"), "of an index out of range, when the step runs"


def docstring(row, function):
    """The text of help(): the documentation, arguments, shape, dtypes, gradient, errors and an example."""
    lines = [sentence(row, function), ""]
    params = row.sig.params if function else row.sig.params[1:]
    if params:
        lines += ["Arguments:", *(f"    {argument(row, p, function)}" for p in params), ""]
    if shape := shape_of_result(row, function):
        lines.append(f"Shape: {shape}.")
    if any(p.type.name.startswith("Tensor") for p in row.sig.params):
        lines.append(f"Dtypes: {SETS[accepts(row)]}.")
        names = ["input" if function and n == "self" else n for n in gradient(row)]
        if not row.is_composite:
            lines.append("Gradient: " + (", ".join(names) if names else "none") + ".")
    if len(row.sig.outputs) > 1 and row.num_returned > 1:
        lines.append(f"Returns: {', '.join(row.sig.outputs[: row.num_returned])}.")
    lines += [f"Raises: {kind}, {when}." for kind, when in errors(row)]
    if row.example:
        lines += ["", "Example:", *("    " + line if line else "" for line in row.example.split("\n"))]
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
    "position": "_int",
    "position?": "_int | None",
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
