"""The API reference: a page for each public module, from __all__, docstrings and annotations of the sources, and from
the op table for what is bound. Nothing is imported or built."""

import ast
import html
import itertools
import re
import sys
import textwrap
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "bindings/python/smolder"
sys.path.insert(0, str(ROOT / "tools/opgen"))

import describe  # noqa: E402
import model  # noqa: E402

# Modules with a page, in the order of the navigation.
MODULES = [
    "smolder",
    "smolder.Tensor",
    "smolder.nn",
    "smolder.nn.functional",
    "smolder.nn.init",
    "smolder.nn.grad",
    "smolder.nn.attention",
    "smolder.nn.parallel",
    "smolder.nn.utils",
    "smolder.nn.utils.parametrize",
    "smolder.nn.utils.parametrizations",
    "smolder.nn.utils.fusion",
    "smolder.nn.utils.prune",
    "smolder.nn.utils.rnn",
    "smolder.optim",
    "smolder.optim.lr_scheduler",
    "smolder.optim.swa_utils",
    "smolder.autograd",
    "smolder.autograd.function",
    "smolder.autograd.functional",
    "smolder.autograd.graph",
    "smolder.func",
    "smolder.utils.data",
    "smolder.utils.checkpoint",
    "smolder.utils.benchmark",
    "smolder.utils.cpp_extension",
    "smolder.amp",
    "smolder.cuda",
    "smolder.cpu",
    "smolder.accelerator",
    "smolder.backends.cuda",
    "smolder.backends.cudnn",
    "smolder.compiler",
    "smolder.distributions",
    "smolder.distributions.constraints",
    "smolder.distributions.transforms",
    "smolder.linalg",
    "smolder.fft",
    "smolder.sparse",
    "smolder.nested",
    "smolder.special",
    "smolder.signal.windows",
    "smolder.random",
    "smolder.quasirandom",
    "smolder.library",
    "smolder.export",
    "smolder.fx",
    "smolder.fx.subgraph_rewriter",
    "smolder.fx.operator_schemas",
    "smolder.fx.traceback",
    "smolder.fx.passes.shape_prop",
    "smolder.fx.passes.split_module",
    "smolder.storage",
    "smolder.types",
    "smolder.overrides",
    "smolder.onnx",
    "smolder.profiler",
    "smolder.memory",
    "smolder.safetensors",
    "smolder.serialization",
    "smolder.multiprocessing",
    "smolder.futures",
    "smolder.testing",
    "smolder.hub",
    "smolder.jit",
    "smolder.torch",
    "smolder.distributed",
    "smolder.distributed.nn.functional",
    "smolder.distributed.device_mesh",
    "smolder.distributed.fsdp",
    "smolder.distributed.fsdp.wrap",
    "smolder.distributed.tensor",
    "smolder.distributed.tensor.parallel",
    "smolder.distributed.pipelining",
    "smolder.distributed.checkpoint",
    "smolder.distributed.checkpoint.state_dict",
    "smolder.distributed.algorithms.ddp_comm_hooks.default_hooks",
]
# How the pages write some types.
SHORT = {"builtins.": "", "_core.": "", "_int": "int", "_float": "float", "_bool": "bool", "_dtype": "dtype"}
SHORT |= {"_Number": "Number", "_device": "device", "DType": "dtype"}


@dataclass
class Module:
    """A source file: its names by definition, and what it offers."""

    name: str
    tree: ast.Module
    names: dict = field(default_factory=dict)  # name -> ast node, or (module, name) that it is imported from
    stars: list = field(default_factory=list)


class Sources:
    """The modules of the package, parsed when they are asked for."""

    def __init__(self, table, stub):
        self.known, self.offers = {}, {}
        self.ops = {}
        for row in table.rows:
            if not row.internal:
                for name in row.python_names:
                    self.ops.setdefault(name, []).append(row)
        self.stub = stub
        self.bound = {n.name: n for n in stub.body if isinstance(n, ast.ClassDef | ast.FunctionDef)}

    def module(self, name):
        """The module called so, or None where there is no such file."""
        if name not in self.known:
            path = PACKAGE.joinpath(*name.split(".")[1:])
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            self.known[name] = self._read(name, file) if file.exists() else None
        return self.known[name]

    def _read(self, name, file):
        found = Module(name, ast.parse(file.read_text()))
        typing_only = [n.body for n in found.tree.body if isinstance(n, ast.If)]  # imported when it is asked for
        for node in itertools.chain(*typing_only, found.tree.body):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.names.setdefault(node.name, node)
                if isinstance(node, ast.FunctionDef) and not is_overload(node):
                    found.names[node.name] = node
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if alias.name == "*":
                        found.stars.append(node.module)
                    else:
                        found.names[alias.asname or alias.name] = (node.module, alias.name)
            elif isinstance(node, ast.Assign | ast.AnnAssign):
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                for target in targets:
                    for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                        declared = isinstance(part, ast.Name) and isinstance(found.names.get(part.id), ast.AnnAssign)
                        if isinstance(part, ast.Name) and not declared:
                            found.names[part.id] = node
        return found

    def offered(self, module):
        """The names of a module's __all__, which may be sums of others'."""
        out = []
        for node in module.tree.body:
            if isinstance(node, ast.Assign | ast.AugAssign):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name) and target.id == "__all__":
                    out += self._names(module, node.value)
        return sorted(set(out), key=lambda n: (n.lower(), n))

    def _names(self, module, node):
        if isinstance(node, ast.List):
            return [e.value for e in node.elts if isinstance(e, ast.Constant)]
        if isinstance(node, ast.BinOp):
            return self._names(module, node.left) + self._names(module, node.right)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            where = module.names.get(node.value.id)
            other = self.module(".".join(where)) if isinstance(where, tuple) else None
            return self.offered(other) if other else []
        return []

    def package(self):
        """Names that `smolder` itself offers, by where it is defined: what its star imports bring, and what is bound."""
        root = self.module("smolder")
        out = {}
        for star in root.stars:
            if star == "smolder._core":
                out |= {n: ("smolder._core", n) for n in (*self.ops, *self.bound)}
            elif other := self.module(star):
                out |= {n: (star, n) for n in self.offered(other)}
        out |= {n: w for n, w in root.names.items() if isinstance(w, tuple) and w[0] != "smolder"}
        hidden = {"assign", "backward", "dtype_named", "from_numpy_copy", "grad"}
        # Gradients of ops are called by name, and `dir(smolder)` does not have them.
        shown = {n: w for n, w in sorted(out.items()) if not n.startswith("_") and not n.endswith("_backward")}
        return {n: w for n, w in shown.items() if n not in hidden}

    def told(self, name):
        """The object of a name of the package."""
        if not self.offers:
            self.offers = {n: self.find(*where) for n, where in self.package().items()}
        return self.offers.get(name)

    def find(self, module, name, depth=0):
        """The object of a module's name: its node and the module's name, or ("ops", rows)."""
        if module is None or depth > 8:
            return None
        if module == "smolder._core":
            if name in self.ops and any(r.has_function for r in self.ops[name]):
                return "ops", [r for r in self.ops[name] if r.has_function]
            return ("bound", self.bound[name]) if name in self.bound else None
        source = self.module(module)
        if source is None:
            return None
        at = source.names.get(name)
        if isinstance(at, tuple):
            if self.module(f"{at[0]}.{at[1]}"):
                return "module", f"{at[0]}.{at[1]}"
            return self.find(at[0], at[1], depth + 1)
        if at is not None:
            return module, at
        for star in source.stars:
            if (found := self.find(star, name, depth + 1)) is not None:
                return found
        return None


def is_overload(node):
    return any(ast.unparse(d).endswith("overload") for d in node.decorator_list)


def plain(annotation):
    """A type as people write it."""
    text = ast.unparse(annotation)
    for old, new in SHORT.items():
        text = re.sub(rf"\b{re.escape(old)}" + ("" if old.endswith(".") else r"\b"), new, text)
    return text


def signature(name, node, skip_self=False):
    """`name(a: int, b: float = 1.0) -> Tensor`, over several lines where it is long."""
    a = node.args
    parts, positional = [], a.posonlyargs + a.args
    defaults = [None] * (len(positional) - len(a.defaults)) + list(a.defaults)
    for i, (arg, default) in enumerate(zip(positional, defaults, strict=True)):
        if i == 0 and skip_self and arg.arg in ("self", "cls"):
            continue
        parts.append(spelled(arg, default))
    if a.vararg:
        parts.append("*" + spelled(a.vararg, None))
    elif a.kwonlyargs:
        parts.append("*")
    parts += [spelled(arg, default) for arg, default in zip(a.kwonlyargs, a.kw_defaults, strict=True)]
    if a.kwarg:
        parts.append("**" + spelled(a.kwarg, None))
    parts = [p for p in parts if not p.startswith("_")]
    returns = f" -> {plain(node.returns)}" if node.returns is not None and node.name != "__init__" else ""
    return wrapped(name, parts, returns)


def wrapped(name, parts, returns):
    line = f"{name}({', '.join(parts)}){returns}"
    if len(line) <= 88:
        return line
    return f"{name}(\n" + "".join(f"    {p},\n" for p in parts) + f"){returns}"


def spelled(arg, default):
    text = arg.arg + (f": {plain(arg.annotation)}" if arg.annotation is not None else "")
    if default is None:
        return text
    return f"{text} = {ast.unparse(default)}" if arg.annotation is not None else f"{text}={ast.unparse(default)}"


def prose(text):
    """A docstring as Markdown: nothing of it is markup by accident."""
    return re.sub(
        r"(?<![`\w])(<|\*|_)(?=\w)", lambda m: html.escape(m[1]) if m[1] == "<" else "\\" + m[1], text.strip()
    )


def documented(text):
    """A docstring with sections: arguments as a list, an example as a session, other lines as paragraphs."""
    before, _, example = text.partition("\nExample:\n")
    said, _, rest = before.partition("\nArguments:\n")
    arguments, _, facts = rest.partition("\n\n")
    parts = [prose(said)]
    if rest:
        lines = [line.strip() for line in arguments.split("\n")]
        parts.append("\n".join("- " + re.sub(r"^(\w+) \(([^:]*)\)(:?)", r"`\1` (`\2`)\3", line) for line in lines))
        parts.append(prose(facts).replace("\n", "\n\n"))
    elif "\n\n" in said:
        head, _, tail = said.partition("\n\n")
        parts = [prose(head), prose(tail).replace("\n", "\n\n")]
    if example:
        parts.append("```pycon\n" + textwrap.dedent(example).rstrip() + "\n```")
    return "\n\n".join(filter(None, parts)) + "\n"


def code(text):
    return f"```python\n{text}\n```\n"


class Page:
    """A page of Markdown about one module."""

    def __init__(self, sources, title):
        self.sources, self.lines = sources, [f"# {title}\n"]

    def text(self):
        return "\n".join(self.lines) + "\n"

    def say(self, *lines):
        self.lines += lines

    def entry(self, name, found, full):
        """One name, with what it takes, returns and does."""
        if found is None:
            return
        kind, what = found
        if kind == "module":
            return
        self.say(f"## {name} {{ #{name} }}\n")
        if kind == "ops":
            self.op(name, what, function=True)
        elif isinstance(what, ast.FunctionDef):
            self.say(code(signature(full, what)), prose(ast.get_docstring(what) or ""), "")
        elif isinstance(what, ast.ClassDef):
            self.klass(full, what, kind)
        else:
            self.say(code(plain(what).replace("\n", " ")[:200]), "")

    def op(self, name, rows, function):
        """An op of the table: each of its forms, then what the row says."""
        for row in rows:
            parameters = [p for p in split(describe.parameters(row, function)) if p]
            returns = plain(ast.parse(describe.python_return(row), mode="eval").body)
            prefix = "smolder." if function else "Tensor."
            self.say(code(wrapped(prefix + name, [shorten(p) for p in parameters], f" -> {shorten(returns)}")))
            if function or not row.has_function:
                self.say(documented(describe.docstring(row, function)), "")
            else:
                self.say(prose(describe.sentence(row, function)), "")
            if row.inplace and not function:
                self.say(f"In place: `{name}_`.\n")
        if not function and (self.sources.told(name) or ("", 0))[0] == "ops":
            self.say(f"As [`smolder.{name}`]({op_page(rows)}#{name}).\n")

    def klass(self, full, node, module):
        made = constructor(self.sources, node, module)
        self.say(code(signature(full, made, skip_self=True) if made else f"class {full}"))
        self.say(prose(ast.get_docstring(node) or ""), "")
        for member in node.body:
            if isinstance(member, ast.FunctionDef) and shown(member):
                self.member(node.name, member)

    def member(self, owner, node):
        doc = ast.get_docstring(node) or ""
        is_property = any(ast.unparse(d).split(".")[-1] in ("property", "cached_property") for d in node.decorator_list)
        if not doc and node.name != "forward":
            return
        self.say(f"### {owner}.{node.name} {{ #{owner}.{node.name} }}\n")
        if is_property:
            self.say(code(node.name + (f": {plain(node.returns)}" if node.returns is not None else "")))
        else:
            self.say(code(signature(node.name, node, skip_self=True)))
        self.say(prose(doc), "")


def shown(node):
    return not node.name.startswith("_") and not is_overload(node)


def constructor(sources, node, module, depth=0):
    """The __init__ of a class, its own or that of the nearest base."""
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and member.name == "__init__" and not is_overload(member):
            return member
    for base in node.bases if depth < 6 else ():
        name = ast.unparse(base).split("[")[0].split(".")[-1]
        found = sources.find(module, name) if module not in ("ops", "bound") else None
        if found and isinstance(found[1], ast.ClassDef):
            return constructor(sources, found[1], found[0], depth + 1)
    return None


def split(parameters):
    import signature as opgen_signature

    return opgen_signature.split_top(parameters)


def shorten(text):
    for old, new in SHORT.items():
        text = re.sub(rf"\b{re.escape(old)}" + ("" if old.endswith(".") else r"\b"), new, text)
    return text


def op_page(rows):
    """The page of an op: ops have pages by the file of their rows, as one of all would be too long."""
    return f"smolder.ops.{rows[0].file}.md"


def index(page, names):
    """Names in one paragraph, as links; of the package's ops those to their own pages, where what they are is given."""
    names = names if isinstance(names, dict) else dict.fromkeys(names, (None, None))
    links = (f"[`{n}`]({op_page(what) if kind == 'ops' else ''}#{n})" for n, (kind, what) in names.items())
    page.say(" · ".join(links), "")


def form_of(head, member):
    """A method, a property or an attribute, as it is used."""
    if isinstance(member, ast.AnnAssign):
        return f"{head}: {plain(member.annotation)}"
    if any(ast.unparse(d) == "property" for d in member.decorator_list):
        return f"{head}: {plain(member.returns)}"
    return signature(head, member, skip_self=True)


def tensor_page(sources):
    page = Page(sources, "smolder.Tensor")
    node = sources.bound["Tensor"]
    page.say(prose(ast.get_docstring(node) or ""), "")
    written = {}
    python = [n for name in ("_tensor", "_views_in_place") for n in sources.module(f"smolder.{name}").tree.body]
    docs = {n.name: ast.get_docstring(n) for n in python if isinstance(n, ast.FunctionDef)}
    for member in node.body:
        if isinstance(member, ast.FunctionDef) and not member.name.startswith("_"):
            written.setdefault(member.name, []).append(member)
        elif isinstance(member, ast.AnnAssign) and not member.target.id.startswith("_"):
            written[member.target.id] = [member]
    methods = {n: [r for r in rows if r.has_method] for n, rows in sources.ops.items()}
    methods = {n: rows for n, rows in methods.items() if rows and n not in written and not n.startswith("_")}
    names = sorted({*written, *methods}, key=lambda n: (n.lower(), n))
    index(page, names)
    for name in names:
        page.say(f"## {name} {{ #{name} }}\n")
        if name in methods:
            page.op(name, methods[name], function=False)
            continue
        for member in written[name]:
            page.say(code(form_of(f"Tensor.{name}", member)))
        said = "" if isinstance(member, ast.AnnAssign) else ast.get_docstring(member)
        page.say(prose(said or docs.get(name) or ""), "")
    return page.text()


def module_page(sources, name):
    module = sources.module(name)
    page = Page(sources, name)
    page.say(prose(ast.get_docstring(module.tree) or ""), "")
    if name == "smolder":
        entries = {n: sources.told(n) for n in sources.package() if n != "Tensor"}
        page.say("[`Tensor`](smolder.Tensor.md) has a page of its own.\n")
    else:
        entries = {n: sources.find(name, n) for n in sources.offered(module)}
    told = {n: found for n, found in entries.items() if found is not None and found[0] != "module"}
    index(page, told if name == "smolder" else list(told))
    for entry, found in told.items():
        if name != "smolder" or found[0] != "ops":
            page.entry(entry, found, f"{name}.{entry}")
    return page.text()


def ops_page(sources, stem):
    """The functions of one file of the op table."""
    page = Page(sources, f"smolder: {stem}")
    entries = {n: sources.told(n) for n in sources.package()}
    told = {n: f for n, f in entries.items() if f and f[0] == "ops" and f[1][0].file == stem}
    index(page, list(told))
    for entry, found in told.items():
        page.entry(entry, found, f"smolder.{entry}")
    return page.text()


def titles():
    """(file, title) of every page, in the order of the navigation."""
    root, tensor, *rest = MODULES
    stems = sorted({path.stem for path in (ROOT / "src/ir/ops").glob("*.toml")} - {"primitives"})
    ops = [(f"smolder.ops.{stem}", f"smolder: {stem}") for stem in stems]
    names = [(root, root), (tensor, tensor), *ops, *((name, name) for name in rest)]
    return [(f"api/{name}.md", title) for name, title in names]


def pages():
    """(file, title, Markdown) of every page."""
    table = model.load(ROOT / "src/ir/ops", ROOT / "src/ir/scalar/primitives.def")
    stub = ast.parse((ROOT / "tools/opgen/core.pyi").read_text())
    sources = Sources(table, stub)
    for path, title in titles():
        name = path.removeprefix("api/").removesuffix(".md")
        if name == "smolder.Tensor":
            text = tensor_page(sources)
        elif name.startswith("smolder.ops."):
            text = ops_page(sources, name.rpartition(".")[2])
        else:
            text = module_page(sources, name)
        yield path, title, text
