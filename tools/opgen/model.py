"""The op table as Python sees it: parses and checks src/ir/ops/*.toml.

Each table of a file is a row; its key is the op's enumerator (`layer_norm` is `Op::kLayerNorm`). A row
that scalar/primitives.def names is an elementwise primitive and takes arity and dtypes from there. A
row with `body` is a *composite*: a function over other ops with no enumerator of its own.
"""

import json
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

from signature import OpError, Signature, parse_signature

FIELDS = {
    "signature": str,  # `name(params) -> result`; implied for elementwise primitives
    "doc": str,
    "test": dict,  # domain, cases, tolerance: what the generated tests feed it
    "may_return_self": bool,  # Python gets the object back that it gave
    "variants": list,  # function, method; both by default where the first parameter is a tensor
    "inplace": bool,  # also a method `name_`
    "operator": str,  # C++ and Python operator
    "python": list,  # its names in Python, where they are not that of the signature
    "internal": bool,  # no user function
    "elementwise": str,  # dtype rule of an elementwise op that is no primitive: promote, float, bool, own
    "view": bool,
    "random": bool,
    "effect": bool,
    "updates": bool,
    "returns": int,  # outputs the user sees; the rest are saved for gradients
    "shape": (str, list),
    "dtype": (str, list),
    "check": str,
    "infer": str,
    "primitive": bool,  # known to the code generators: its decomposition only brings it into normal form
    "dtypes": str,
    "together": bool,  # dtypes is asked of what the operands promote to, not of the first
    "accepts": str,  # what `check` lets through, where that isn't `dtypes`: for people, and tests hold it true
    "decompose": str,
    "compute": (str, list),
    "batch": str,  # how vmap does it: a rule of src/lazy/batch_rules.h; an elementwise op has its own
    "prepare": str,
    "body": str,
    "history": str,  # what a composite's nodes are called in the history, as torch calls its own
    "grad": dict,
    "wraps_indices": bool,  # adds the extent to an index below 0 before it looks
    "called": str,  # what messages call it, where users call something else that records it
    "index_error": dict,  # what an index out of range raises, in words of its own: type and text
}
TEST_FIELDS = {"domain", "cases", "tolerance", "grad", "why"}
DTYPE_SETS = ("all", "number", "float", "int", "bool", "integral")
VARIANTS = ("function", "method")
INDEX_ERRORS = ("IndexError", "RuntimeError")
OPERATORS = ("+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "&", "|", "^", "~", "<<", ">>", "unary -")
# Fields that say nothing of a composite, which runs other ops.
NOT_COMPOSITE = (
    "elementwise", "primitive", "view", "random", "effect", "updates", "returns", "shape", "dtype", "check", "infer",
    "decompose", "compute", "batch", "prepare", "grad", "index_error", "wraps_indices", "called",
)  # fmt: skip

PRIMITIVE = re.compile(
    r'^PRIMITIVE\((k\w+),\s*"(\w+)",\s*(\d),\s*(B?I?F?),\s*(kSame|kBool),\s*(kExact|kRounded),\s*[\d.]+,'
)


@dataclass(frozen=True)
class Primitive:
    """A line of scalar/primitives.def."""

    enumerator: str
    name: str
    arity: int
    dtypes: str
    result: str


@dataclass
class Row:
    key: str
    file: str  # stem of the TOML file
    sig: Signature
    fields: dict
    elementwise_primitive: Primitive | None = None
    overload: str = ""
    autocast: dict = field(default_factory=dict)  # what autocast does with its operands, by device
    saved: dict = field(default_factory=dict)
    example: str = ""  # a session of Python's that calls it, of op_examples.json

    def __getattr__(self, name):
        if name in FIELDS:
            return self.fields.get(name)
        raise AttributeError(name)

    @property
    def enumerator(self):
        return "k" + "".join(w.capitalize() for w in self.key.split("_"))

    @property
    def api_name(self):
        return self.sig.name

    @property
    def python_names(self):
        return self.fields.get("python", [self.sig.name])

    @property
    def result_name(self):
        """The type of several results: a tuple whose members have names."""
        return self.python_names[0] if self.num_returned > 1 else None

    @property
    def is_composite(self):
        return "body" in self.fields

    @property
    def is_elementwise(self):
        return self.elementwise_primitive is not None or "elementwise" in self.fields

    @property
    def batch_rule(self):
        return "elementwise" if self.is_elementwise else self.batch

    @property
    def is_primitive(self):
        """Known to the code generators."""
        return self.elementwise_primitive is not None or self.file == "primitives" or bool(self.primitive)

    @property
    def num_outputs(self):
        return len(self.sig.outputs)

    @property
    def num_returned(self):
        return self.fields.get("returns", self.num_outputs)

    @property
    def has_method(self):
        default = self.sig.params and self.sig.params[0].type.name in ("Tensor", "Tensor|Number")
        return not self.internal and "method" in self.fields.get("variants", ["method"] if default else [])

    @property
    def has_function(self):
        return not self.internal and "function" in self.fields.get("variants", ["function"])

    @property
    def grads(self):
        return self.fields.get("grad", {})

    def error(self, where, message):
        return OpError(f"{self.file}.toml: [{self.key}] {where}: {message}")


@dataclass
class Table:
    rows: list  # in enumerator order: elementwise primitives as primitives.def has them, then by file
    files: list  # stems, sorted
    autocast: dict = field(default_factory=dict)  # of autocast.toml: rules by name, {name: {device: rule}}

    @property
    def ops(self):
        return [r for r in self.rows if not r.is_composite]

    def of_file(self, stem):
        return [r for r in self.rows if r.file == stem]


def read_primitives(path):
    out = []
    for number, line in enumerate(Path(path).read_text().splitlines(), 1):
        if m := PRIMITIVE.match(line):
            out.append(Primitive(m[1], m[2], int(m[3]), m[4], m[5]))
        elif line.startswith("PRIMITIVE("):
            columns = "enumerator, name, operands, dtypes, result, rounding, cost, arithmetic"
            raise OpError(f"{Path(path).name}:{number}: expected PRIMITIVE({columns}), got {line}")
    if not out:
        raise OpError(f"{path}: no PRIMITIVE line was found")
    return out


def default_signature(name, arity):
    number = "Tensor|Number"
    params = {1: "Tensor self", 2: f"{number} self, {number} other", 3: f"{number} self, {number} b, {number} c"}[arity]
    return f"{name}({params}) -> Tensor"


def check_fields(row):
    for name, value in row.fields.items():
        if name not in FIELDS:
            raise row.error(name, f"unknown field; known: {', '.join(FIELDS)}")
        if not isinstance(value, FIELDS[name]):
            raise row.error(name, f"wrong type of value {value!r}")
    if not row.doc:
        raise row.error("doc", "missing: say in a line what the op computes")
    tested = not (row.internal and row.file == "primitives")
    if tested and "domain" not in (row.test or {}):
        raise row.error("test", "missing 'domain': the range of inputs that tests draw from")
    for name in row.test or {}:
        if name not in TEST_FIELDS:
            raise row.error(f"test.{name}", f"unknown field; known: {', '.join(sorted(TEST_FIELDS))}")
    if row.operator and row.operator not in OPERATORS:
        raise row.error("operator", f"unknown operator {row.operator!r}")
    for v in row.variants or []:
        if v not in VARIANTS:
            raise row.error("variants", f"unknown variant {v!r}")
    if row.history and not row.is_composite:
        raise row.error("history", "is that of a row with a body")
    error = row.index_error or {"type": "IndexError", "text": ""}
    if set(error) != {"type", "text"} or error["type"] not in INDEX_ERRORS:
        raise row.error("index_error", f"expected text, and a type of {', '.join(INDEX_ERRORS)}")
    for name in ("dtypes", "accepts"):
        if row.fields.get(name, "all") not in DTYPE_SETS:
            raise row.error(name, f"unknown set {row.fields[name]!r}; known: {', '.join(DTYPE_SETS)}")


def check_kind(row):
    if row.is_composite:
        for name in NOT_COMPOSITE:
            if name in row.fields:
                raise row.error(name, "has no meaning for a composite (a row with 'body')")
        return
    if row.overload:
        raise row.error("body", "only composites may be overloads ('name.overload')")
    for p in row.sig.params:
        if not (p.type.is_operand or p.type.attr):
            raise row.error("signature", f"parameter {p.name}: {p.type.name} is for composites only")
        if p.type.name == "Tensor[]" and row.sig.operands[-1] is not p:
            raise row.error("signature", f"the list {p.name} must be the last operand")
    if row.sig.returns_list:
        raise row.error("signature", "only composites return lists")
    if row.elementwise_primitive:
        if len(row.sig.operands) != row.elementwise_primitive.arity:
            raise row.error("signature", f"primitives.def gives {row.elementwise_primitive.arity} operands")
        for name in ("shape", "dtype", "infer", "decompose", "elementwise", "primitive"):
            if name in row.fields:
                raise row.error(name, "follows from primitives.def for an elementwise primitive")
    elif row.file != "primitives":
        if not row.decompose:
            raise row.error("decompose", "missing")
        ruled = row.elementwise not in (None, "own")
        if ruled and (row.infer or row.shape or row.dtype):
            raise row.error("elementwise", "shape and dtype follow from it (use 'own' to give them)")
        if not row.infer and not ruled and not (row.shape and row.dtype):
            raise row.error("shape, dtype", "missing (or give 'infer')")
    if row.is_elementwise and row.batch:
        raise row.error("batch", "follows from what the op is: elementwise")
    reads = row.random or any(p.type.name.startswith("Tensor") for p in row.sig.operands)
    if reads and not (row.batch_rule or row.internal):
        raise row.error("batch", "missing: the rule by which vmap does it")
    for name in ("shape", "dtype"):
        value = row.fields.get(name)
        if isinstance(value, list) and len(value) != row.num_outputs:
            raise row.error(name, f"{len(value)} entries for {row.num_outputs} outputs")
    if not 1 <= row.num_returned <= row.num_outputs:
        raise row.error("returns", f"{row.num_returned} of {row.num_outputs} outputs")


def check_grads(row):
    operands = [p.name for p in row.sig.operands]
    if row.grads and "grad" in operands:
        raise row.error("signature", "'grad' is the result's gradient in formulas; call the operand grad_output")
    for names, formula in row.grads.items():
        if not isinstance(formula, str):
            raise row.error(f"grad.{names}", "a formula is C++ text")
        for n in names.replace(" ", "").split(","):
            if n not in operands:
                raise row.error(f"grad.{names}", f"no operand is called {n!r}; operands: {', '.join(operands)}")


def make_row(key, fields, stem, primitives):
    _base, _, overload = key.partition(".")
    shell = Row(key, stem, None, fields)
    if not isinstance(fields, dict):
        raise shell.error("", "expected a table")
    primitive = primitives.get(key)
    text = fields.get("signature") or (primitive and default_signature(key, primitive.arity))
    if not text:
        raise shell.error("signature", "missing")
    try:
        sig = parse_signature(text)
    except OpError as e:
        raise shell.error("signature", e) from None
    row = Row(key, stem, sig, fields, primitive, overload)
    check_fields(row)
    check_kind(row)
    if not row.is_composite:
        check_grads(row)
    return row


CAST_RULES = ("lower", "float32", "widest", "refused", "below")


def read_autocast(path, rows):
    """The rules of autocast.toml by name, which the rows of these names get as well."""
    try:
        lists = tomllib.loads(Path(path).read_text())
    except tomllib.TOMLDecodeError as e:
        raise OpError(f"{path.name}: {e}") from None
    named = {}
    for row in rows:
        for name in {row.api_name, *row.python_names} if not row.internal else ():
            named.setdefault(name, []).append(row)
    elsewhere, rules = set(lists.pop("python")["names"]), {}
    for device, by_rule in lists.items():
        for rule, names in by_rule.items():
            if rule not in CAST_RULES:
                raise OpError(f"{path.name}: [{device}] {rule}: unknown rule; known: {', '.join(CAST_RULES)}")
            for name in names:
                if name not in named and name not in elsewhere:
                    raise OpError(f"{path.name}: [{device}] {rule}: there is no op {name!r}")
                if rules.setdefault(name, {}).setdefault(device, rule) != rule:
                    raise OpError(f"{path.name}: [{device}] {rule}: {name!r} is listed twice")
    for name, by_device in rules.items():
        for row in named.get(name, ()):
            row.autocast |= by_device
    return rules


def load(rows_dir, primitives_path):
    """Reads every row. Raises OpError naming file, row and field at the first thing wrong."""
    primitives = {p.name: p for p in read_primitives(primitives_path)}
    rows, seen, files = [], {}, []
    for path in sorted(Path(rows_dir).glob("*.toml")):
        try:
            tables = tomllib.loads(path.read_text())
        except tomllib.TOMLDecodeError as e:
            raise OpError(f"{path.name}: {e}") from None
        files.append(path.stem)
        for key, fields in tables.items():
            row = make_row(key, fields, path.stem, primitives)
            if key in seen:
                raise row.error("", f"already declared in {seen[key]}.toml")
            seen[key] = path.stem
            rows.append(row)
    for name in primitives:
        if name not in seen:
            raise OpError(f"primitives.def names {name!r}, but no row of {rows_dir} does")
    order = {name: i for i, name in enumerate(primitives)}
    rows.sort(key=lambda r: order.get(r.key, len(order)))  # stable: the rest keeps file order
    for row in rows:
        if row.elementwise_primitive and row.enumerator != row.elementwise_primitive.enumerator:
            raise row.error(
                "", f"primitives.def calls it {row.elementwise_primitive.enumerator}, expected {row.enumerator}"
            )
    examples = Path(rows_dir).parent / "op_examples.json"
    for key, text in (json.loads(examples.read_text()) if examples.exists() else {}).items():
        if key not in seen:
            raise OpError(f"{examples.name}: no row is called {key!r}")
        next(row for row in rows if row.key == key).example = text
    lists = Path(rows_dir).parent / "autocast.toml"
    return Table(rows, files, read_autocast(lists, rows) if lists.exists() else {})
