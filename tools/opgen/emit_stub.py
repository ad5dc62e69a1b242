"""_core.pyi and __init__.pyi: the package as type checkers and editors see it. core.pyi has what is in no row."""

import ast
import re
from pathlib import Path

import describe

# Operators that bindings/python/src/slots.cpp binds, by row: of two operands, those that reflect, those in place.
BINARY = {"add": "add", "sub": "sub", "mul": "mul", "div": "truediv", "floor_div": "floordiv", "remainder": "mod"}
BINARY |= {"pow": "pow", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "xor", "shl": "lshift"}
BINARY |= {"shr": "rshift"}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
OVERRIDES_OBJECT = ("eq", "ne")
# Forms of methods that bindings/python/src/tensor.cpp binds beside those of the row: parameters and what they do.
BESIDE = {"view": ("dtype: _dtype", "The bytes as elements of another dtype, in the same memory: docs/torch.md.")}

# Numbers of functions that may be tensors too, which bindings/python/src/numbers.cpp binds, by row.
FACTORS = {"add_scaled": "alpha", "sub_scaled": "alpha", "addcmul": "value", "addcdiv": "value"}


def block(text, by):
    return "\n".join(" " * by + line if line else line for line in text.split("\n"))


def definition(name, params, returns, doc, by=0):
    quoted = doc.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    closing = '"""' if "\n" not in quoted else '\n"""'
    return f"def {name}({params}) -> {returns}:\n" + block(f'"""{quoted}{closing}', 4)


def spread(row, function):
    """The form x.view(2, 3) of x.view((2, 3)), where bindings have it."""
    params = row.sig.params
    at = 1 if not function else 0
    if len(params) <= at or params[at].type.name not in ("size[]", "int[]"):
        return None
    if any(not p.has_default for p in params[at + 1 :]):
        return None
    rest = [describe.parameter(p, p.name, True) for p in params[at + 1 :]]
    return ", ".join([f"*{params[at].name}: _int", *rest])


def takes_out(row, params):
    """The parameter that every function has which makes tensors."""
    if row.sig.returns_list:
        return ""
    results = "Tensor" if row.num_returned == 1 else "Sequence[Tensor]"
    return ", " * bool(params) + "*, " * ("*," not in params) + f"out: {results} | None = None"


def forms(rows, function):
    """(parameters, row) of every overload."""
    for row in rows:
        for params in describe.spellings(row):
            text = describe.parameters(row, function, params=params)
            yield text + takes_out(row, text) if function else text, row
        if (more := spread(row, function)) is not None:
            yield more, row
        if (factor := FACTORS.get(row.key)) is not None:
            text = describe.parameters(row, function).replace("Tensor | _Number", "Tensor")
            text = re.sub(rf"{factor}: _Number( = \d+)?", f"{factor}: Tensor", text)
            yield text + takes_out(row, text) if function else text, row


def overloads(name, rows, function):
    every = list(forms(rows, function))
    parts = []
    if not function and name in BESIDE:
        params, doc = BESIDE[name]
        parts.append(f"@overload\n{definition(name, f'self, {params}', 'Tensor', doc)}")
    for params, row in every:
        if not function:
            params = f"self, {params}" if params else "self"
        text = definition(name, params, describe.python_return(row), describe.docstring(row, function))
        parts.append(f"@overload\n{text}" if len(every) > 1 or parts else text)
    return "\n".join(parts)


def by_name(rows):
    out = {}
    for row in rows:
        for name in row.python_names:
            out.setdefault(name, []).append(row)
    return sorted(out.items())


def functions(table):
    rows = [r for r in table.rows if not r.internal and r.has_function]
    return "\n\n".join(overloads(name, same, True) for name, same in by_name(rows))


def in_place(name, rows):
    every = [(describe.parameters(row, False, params=p), row) for row in rows for p in describe.spellings(row)]
    parts = []
    for params, row in every:
        doc = f"In place: {describe.sentence(row, False)}"
        text = definition(f"{name}_", f"self, {params}" if params else "self", "Tensor", doc)
        parts.append(f"@overload\n{text}" if len(every) > 1 else text)
    return "\n".join(parts)


def return_types(table):
    """Tuples whose members have names: what ops of several results return."""
    parts = []
    for row in {r.result_name: r for r in table.rows if r.result_name and not r.internal}.values():
        outputs = row.sig.outputs[: row.num_returned]
        members = "\n".join(f"    @property\n    def {o}(self) -> Tensor: ..." for o in outputs)
        parts.append(f"class _return_{row.result_name}(tuple[{', '.join(['Tensor'] * len(outputs))}]):\n{members}\n")
    return "\n".join(parts)


def methods(table, written):
    rows = [r for r in table.rows if not r.internal]
    parts = [overloads(n, same, False) for n, same in by_name(r for r in rows if r.has_method) if n not in written]
    parts += [in_place(n, same) for n, same in by_name(r for r in rows if r.inplace)]
    return block("\n\n".join(parts), 4)


def operators(table):
    keys = {r.key for r in table.rows}
    lines = []
    for key, name in BINARY.items():
        if key in keys:
            lines.append(f"def __{name}__(self, other: Tensor | _Number | NDArray[Any]) -> Tensor: ...")
            lines.append(f"def __r{name}__(self, other: Tensor | _Number) -> Tensor: ...")
    lines += [
        f"def __i{name}__(self, other: Tensor | _Number | NDArray[Any]) -> Tensor: ..."
        for key, name in BINARY.items()
        if key in keys
    ]
    for key in COMPARISONS:
        if key in keys:
            ignored = "  # type: ignore[override]" if key in OVERRIDES_OBJECT else ""
            lines.append(f"def __{key}__(self, other: Tensor | _Number) -> Tensor: ...{ignored}")
    return block("\n".join(lines), 4)


def stub(table):
    text = (Path(__file__).parent / "core.pyi").read_text()
    written = {line.split("(")[0].split()[-1] for line in text.split("\n") if line.startswith("    def ")}
    for marker, code in (
        ("    # opgen: operators", operators(table)),
        ("    # opgen: methods", methods(table, written)),
        ("# opgen: return types", return_types(table)),
        ("# opgen: functions", functions(table)),
    ):
        text = text.replace(marker, code, 1)
    return "# Generated by tools/opgen from src/ir/ops. Do not edit.\n" + text


PACKAGE = Path(__file__).parents[2] / "bindings/python/smolder"
# Names that the package deletes after importing everything from _core.
INTERNAL = {"assign", "backward", "dtype_named", "from_numpy_copy", "grad"}


def exported(path):
    """The names in a module's __all__."""
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets):
            return ast.literal_eval(node.value)
    return []


def package_imports():
    """The names that __init__.py imports, now or when they are asked for: (module, name)."""
    for node in ast.parse((PACKAGE / "__init__.py").read_text()).body:
        if isinstance(node, ast.ImportFrom):
            yield from ((node.module, a.name) for a in node.names if a.asname == a.name)
        elif isinstance(node, ast.Assign) and node.targets[0].id == "_LATER":
            yield from (("smolder", name) for name in sorted(ast.literal_eval(node.value)))
        elif isinstance(node, ast.Assign) and node.targets[0].id == "_LATER_NAMES":
            yield from ((f"smolder.{of}", name) for name, of in sorted(ast.literal_eval(node.value).items()))


def package_stub(core):
    """Every public name once: Python's own where it has one, else the module's. Classes of the module are its own."""
    bound = {n.name for n in ast.parse(core).body if isinstance(n, ast.ClassDef)}
    modules = (path for path in sorted(PACKAGE.glob("_[a-z]*.py")) if path.stem != "_typing")
    python = {path.stem: [n for n in exported(path) if n not in bound] for path in modules}
    taken = INTERNAL.union(*python.values())
    imports = [(m, n) for m, n in package_imports() if n[0] != "_" or n == "__version__"]
    imports += [(f"smolder.{m}", n) for m, names in python.items() for n in names]
    lines = [f"from {module} import {name} as {name}" for module, name in dict.fromkeys(imports)]
    names = {n.name for n in ast.parse(core).body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    names |= {n.target.id for n in ast.parse(core).body if isinstance(n, ast.AnnAssign)}
    lines += [f"from smolder._core import {n} as {n}" for n in sorted(names - taken) if not n.startswith("_")]
    return "# Generated by tools/opgen. Do not edit.\n" + "\n".join(lines) + "\n"


def emit(table, writer):
    core = stub(table)
    writer.write("smolder/python/_core.pyi", core)
    writer.write("smolder/python/__init__.pyi", package_stub(core))
