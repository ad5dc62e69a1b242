"""Signatures: `softmax(Tensor self, int dim, *, dtype? dtype=None) -> Tensor`.

Operand types are tensors and run-time numbers, everything else is an attribute. A string attribute
declares its choices: `str[none,tanh] approximate='none'`.
"""

import ast
import re
from dataclasses import dataclass


class OpError(Exception):
    """A row that can't be understood; the message names row and field."""


@dataclass(frozen=True)
class Type:
    """The generator's knowledge of a parameter type."""

    name: str
    cpp: str  # as a parameter of the user's C++ function
    operand: str | None = None  # OperandInfo::Kind
    attr: str | None = None  # AttrKind
    read: str | None = None  # member of ir::AttrReader and ir::AttrWriter
    is_position: bool = False  # AttrInfo::is_position

    @property
    def is_operand(self):
        return self.operand is not None


TYPES = {
    t.name: t
    for t in [
        Type("Tensor", "const Tensor&", operand="kTensor"),
        Type("Tensor?", "const Tensor&", operand="kOptionalTensor"),
        Type("Tensor[]", "TensorList", operand="kTensorList"),
        Type("Number", "Scalar", operand="kNumber"),
        Type("Tensor|Number", "lazy::Operand", operand="kTensorOrNumber"),
        Type("Number?", "std::optional<Scalar>"),  # composites only
        Type("str?", "std::optional<std::string_view>"),  # the same
        Type("text", "std::string_view"),  # any string; the same
        Type("Generator?", "Generator*"),  # the default one when absent; the same
        Type("ints", "const std::vector<int64_t>&"),  # as int[], of any length; the same
        Type("int", "int64_t", attr="kInt", read="integer"),
        Type("int?", "std::optional<int64_t>", attr="kOptionalInt", read="optional_integer"),
        Type("bool", "bool", attr="kBool", read="boolean"),
        Type("float", "double", attr="kFloat", read="real"),
        Type("float?", "std::optional<double>", attr="kOptionalFloat", read="optional_real"),
        Type("str", "std::string_view", attr="kString", read="choice"),
        Type("dtype", "DType", attr="kDType", read="dtype"),
        Type("dtype?", "std::optional<DType>", attr="kOptionalDType", read="optional_dtype"),
        Type("int[]", "const Dims&", attr="kIntList", read="integers"),
        Type("int[]?", "const std::optional<Dims>&", attr="kOptionalIntList", read="optional_integers"),
        Type("axes", "const Axes&", attr="kIntList", read="integers"),  # int or list; empty means all
        Type("size", "int64_t", attr="kSize", read="size"),
        Type("size?", "std::optional<int64_t>", attr="kOptionalSize", read="optional_size"),
        Type("size[]", "const Dims&", attr="kSizeList", read="sizes"),
        Type("position", "int64_t", attr="kSize", read="size", is_position=True),
        Type("position?", "std::optional<int64_t>", attr="kOptionalSize", read="optional_size", is_position=True),
    ]
}

REQUIRED = object()
RETURNS = {"Tensor", "Tensor[]"}


@dataclass(frozen=True)
class Param:
    name: str
    type: Type
    default: object = REQUIRED
    keyword_only: bool = False
    choices: tuple = ()

    @property
    def has_default(self):
        return self.default is not REQUIRED

    def schema(self):
        name = self.type.name.replace("str", f"str[{','.join(self.choices)}]") if self.choices else self.type.name
        return f"{name} {self.name}" + ("" if not self.has_default else f"={self.default!r}")


@dataclass(frozen=True)
class Signature:
    name: str
    params: tuple
    outputs: tuple  # names; ("result",) when there is one
    returns_list: bool = False

    @property
    def operands(self):
        return [p for p in self.params if p.type.is_operand]

    @property
    def attrs(self):
        return [p for p in self.params if p.type.attr]

    def schema(self):
        parts, starred = [], False
        for p in self.params:
            if p.keyword_only and not starred:
                parts.append("*")
                starred = True
            parts.append(p.schema())
        ret = "Tensor[]" if self.returns_list else "Tensor"
        if len(self.outputs) > 1:
            ret = "(" + ", ".join(f"Tensor {o}" for o in self.outputs) + ")"
        return f"{self.name}({', '.join(parts)}) -> {ret}"


def split_top(text):
    """Splits at commas that are inside no bracket or quote."""
    parts, depth, quote, start = [], 0, None, 0
    for i, c in enumerate(text):
        if quote:
            quote = None if c == quote else quote
        elif c in "'\"":
            quote = c
        elif c in "([{":
            depth += 1
        elif c in ")]}":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + ([last] if last else [])


PARAM = re.compile(
    r"(?P<type>[A-Za-z]+(?:\|[A-Za-z]+)?(?:\[[^\]]*\])?\??)\s+(?P<name>[a-z_]\w*)\s*(?:=\s*(?P<default>.+))?$"
)


def parse_param(text, keyword_only):
    m = PARAM.match(text)
    if not m:
        raise OpError(f"can't read parameter {text!r}")
    spelled, choices = m["type"], ()
    if spelled.startswith("str"):
        m_str = re.fullmatch(r"str\[(\w+(?:,\w+)*)\](\??)", spelled)
        if not m_str:
            raise OpError(f"parameter {m['name']}: a string declares its choices, as in str[none,tanh]")
        choices, spelled = tuple(m_str[1].split(",")), f"str{m_str[2]}"
    if spelled not in TYPES:
        raise OpError(f"parameter {m['name']}: unknown type {spelled!r}; known: {', '.join(TYPES)}")
    default = REQUIRED
    if m["default"] is not None:
        try:
            default = ast.literal_eval(m["default"])
        except (ValueError, SyntaxError):
            raise OpError(f"parameter {m['name']}: default {m['default']!r} is not a literal") from None
    if choices and default not in (REQUIRED, *choices) and not (default is None and spelled == "str?"):
        raise OpError(f"parameter {m['name']}: default {default!r} is not among {', '.join(choices)}")
    return Param(m["name"], TYPES[spelled], default, keyword_only, choices)


def parse_signature(text):
    m = re.fullmatch(r"\s*(?P<name>[a-z_]\w*)\((?P<params>.*)\)\s*->\s*(?P<ret>.+?)\s*", text, re.S)
    if not m:
        raise OpError(f"expected name(params) -> result, got {text!r}")
    params, keyword_only = [], False
    for part in split_top(m["params"]):
        if part == "*":
            keyword_only = True
            continue
        params.append(parse_param(part, keyword_only))
    names = [p.name for p in params]
    for n in names:
        if names.count(n) > 1:
            raise OpError(f"parameter {n} is declared twice")
    seen_default = False
    for p in params:
        if seen_default and not p.has_default and not p.keyword_only:
            raise OpError(f"parameter {p.name} has no default but follows one that has")
        seen_default = seen_default or p.has_default
    ret = m["ret"]
    if ret.startswith("("):
        outputs = []
        for part in split_top(ret[1:-1]):
            words = part.split()
            if len(words) != 2 or words[0] != "Tensor":
                raise OpError(f"an output of several reads 'Tensor name', got {part!r}")
            outputs.append(words[1])
        return Signature(m["name"], tuple(params), tuple(outputs))
    if ret not in RETURNS:
        raise OpError(f"unknown result type {ret!r}")
    return Signature(m["name"], tuple(params), ("result",), ret == "Tensor[]")
