"""Code of graphs: a function that does what the nodes say."""

from __future__ import annotations

import dataclasses
import enum
import operator
import os
import re
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

from smolder._names import listing as _listing
from smolder.fx import _naming
from smolder.fx.node import Node, _get_qualified_name, listed, short_dtype, value_of

__all__ = ["CodeGen", "PythonCode"]
__dir__ = _listing(__name__)

reflectable_magic_methods: dict[str, str] = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floordiv": "{} // {}", "truediv": "{} / {}",
    "div": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}", "rshift": "{} >> {}",
    "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}", "getitem": "{}[{}]", "matmul": "{} @ {}",
}  # fmt: skip
magic_methods: dict[str, str] = {
    "eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
    "pos": "+{}", "neg": "-{}", "invert": "~{}", **reflectable_magic_methods,
}  # fmt: skip
inplace_methods: dict[str, str] = {
    "iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= {}",
    "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
    "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}",
}  # fmt: skip
_COLORS = {"blue": "34", "red": "31", "dim": "2", "dim_blue": "2m\033[34", "dim_green": "2m\033[32"}
_COUNTER = re.compile(r"# COUNTER: (\d+)")


@dataclasses.dataclass
class PythonCode:
    """The source of a graph's function, the objects that it names, and by line the number of the node."""

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


class PyTreeInfo(typing.NamedTuple):
    """How arguments and results are nested, where the graph's are flat."""

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


def custom_builtins() -> dict[str, tuple[str, Any]]:
    """Names that any code may use, as repr() of arguments writes them, and their imports."""
    import smolder
    from smolder.fx import _pytree as fx_pytree
    from smolder.utils import _pytree

    top = _naming.smolder_name()
    return {
        "inf": ("from math import inf", _naming.OWN_GLOBALS["inf"]),
        "nan": ("from math import nan", _naming.OWN_GLOBALS["nan"]),
        "NoneType": ("NoneType = type(None)", type(None)),
        top: (f"import {top}", smolder),
        "device": (f"from {top} import device", smolder.device),
        "fx_pytree": (f"import {top}.fx._pytree as fx_pytree", fx_pytree),
        "pytree": (f"import {top}.utils._pytree as pytree", _pytree),
    }


class CodeGen:
    """Writes a graph as a function. Derived classes say otherwise how it begins and what it returns."""

    def __init__(self) -> None:
        self._body_transformer: Callable[[list[str]], list[str]] | None = None
        self._func_name = "forward"

    def process_inputs(self, *args: Any) -> Any:
        """Arguments of the function as the placeholders take them."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Returns the function's result, given the graph's outputs."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the code has besides, with what they are."""
        return []

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """The line that begins the function."""
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        if expanded_def:
            lines = "".join(f"    {v},\n" for v in free_vars)
            return f"def {self._func_name}(\n{lines}){maybe_return_annotation}:"
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, *, descs: Any = None) -> str:
        """The line that returns."""
        return f"return {output_args!r}"

    def _gen_python_code(self, nodes: Iterable[Node], root_module: str, namespace: Any, **options: Any) -> PythonCode:
        return _Writer(self, nodes, root_module, namespace, **options).code()


class _PyTreeCodeGen(CodeGen):
    """Writes a function whose arguments and results are nested."""

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        """The leaves of the arguments."""
        from smolder.utils._pytree import tree_leaves

        return tree_leaves(inputs)

    def process_outputs(self, out: Any) -> Any:
        """The leaves as the function returned them."""
        from smolder.utils._pytree import tree_unflatten

        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return out
        return tree_unflatten(out if isinstance(out, list | tuple) else [out], self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """The line that begins the function, and one that takes its arguments apart."""
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        names = self.pytree_info.orig_args
        if names and names[0] == "self":
            free_vars.insert(0, "self")
        head = super().gen_fn_def(names[:], maybe_return_annotation, expanded_def=expanded_def)
        if not free_vars:
            return head
        annotated = [v for v in free_vars if ":" in v]
        notes = "\n    " + "".join(f"{v}; " for v in annotated) + "\n" if annotated else ""
        left = ", ".join(v.split(":")[0].split("#")[0] for v in free_vars)
        return f"{head}{notes}\n    {left}, = fx_pytree.tree_flatten_spec({self._given(names)}, self._in_spec)"

    def _given(self, names):
        spec = self.pytree_info.in_spec
        if spec.type is not tuple or [c.type for c in spec.children()] != [tuple, dict]:
            return f"[{', '.join(names)}]"
        count = spec.child(0).num_children  # of positional arguments, which named ones come after
        named = ", ".join(f"'{k}':{v}" for k, v in zip(spec.child(1).context, names[count:], strict=False))
        return f"([{', '.join(names[:count])}], {{{named}}})"

    def generate_output(self, output_args: Any, *, descs: Any = None) -> str:
        """The line that returns."""
        if self.pytree_info and self.pytree_info.out_spec:
            return f"return pytree.tree_unflatten({output_args!r}, self._out_spec)"
        return super().generate_output(output_args, descs=descs)


def format_target(base: str, target: str) -> str:
    """A path as code, with getattr where a part of it is no name."""
    for part in target.split("."):
        base = f"{base}.{part}" if part.isidentifier() else f'getattr({base}, "{part}")'
    return base


def last_uses(nodes: Any) -> dict[Node, list[Node]]:
    """By node, those that it is the last to read."""
    last, seen = {}, set()
    for node in reversed(nodes):
        for read in node._input_nodes:
            if read not in seen:
                seen.add(read)
                last.setdefault(node, []).append(read)
    return last


class _Writer:
    """Writes the code of one graph. Nodes' repr() is their name in the code's own namespace."""

    def __init__(
        self, codegen, nodes, root_module, namespace, *, verbose=False, include_stride=False, include_device=False,
        colored=False, expanded_def=False, additional_meta=None, record_func=False,
    ):  # fmt: skip
        self.codegen, self.nodes, self.root, self.namespace = codegen, nodes, root_module, namespace
        self.verbose, self.expanded, self.colored = verbose, expanded_def, colored
        self.stride = include_stride or os.environ.get("FX_GRAPH_SHOW_STRIDE", "0") == "1"
        self.device = include_device or os.environ.get("FX_GRAPH_SHOW_DEVICE", "0") == "1"
        self.additional_meta = additional_meta or ()
        self.free_vars, self.body, self.globals, self.wrapped = [], [], {}, {}
        self.returns, self.summary = "", None

    def paint(self, color, text):
        return f"\033[{_COLORS[color]}m{text}\033[0m" if self.colored else text

    # -- the whole

    def code(self):
        """The source, and what it names."""
        self.globals = {name: value for name, (_, value) in custom_builtins().items()}
        for name, value in self.globals.items():
            self.namespace.associate_name_with_obj(name, value)
        last = last_uses(self.nodes)
        for number, node in enumerate(self.nodes):
            if self.verbose:
                self.note_source(node)
            self.body.append(f"# COUNTER: {number}\n")  # taken out when lines are known
            self.emit(node)
            self.forget(node, last.get(node, []))
        body = self.body or ["pass\n"]
        wraps = ""
        if self.wrapped:
            from smolder.fx._symbolic_trace import wrap

            name = self.add_global("wrap", wrap)
            wraps = "\n".join(f'{name}("{function}")' for function in self.wrapped)
        if self.codegen._body_transformer:
            body = self.codegen._body_transformer(body)
        for name, value in self.codegen.additional_globals():
            self.add_global(name, value)
        options = {"expanded_def": True} if self.expanded else {}
        prologue = self.codegen.gen_fn_def(self.free_vars, self.returns, **options)
        lines, numbers = _numbered(body, prologue.count("\n") + 1)
        text = "\n".join(f"    {line}" for line in "\n".join(lines).lstrip("\n").split("\n"))
        return PythonCode(f"\n{wraps}\n\n{prologue}\n{text}", self.globals, numbers, wraps.count("\n") + 4)

    def forget(self, node, done):
        """Ends the line of a node with what nobody reads after it."""
        if node.op == "placeholder":
            return
        done = [] if node.op == "output" else done + ([] if node.users else [node])
        text = " = ".join([*map(repr, done), "None"])
        self.body.append(f";  {self.paint('dim', text)}\n" if done else "\n")

    # -- names

    def add_global(self, hint, obj):
        """The text that stands in code for an object that is no node."""
        import smolder

        if _naming.is_ours(obj) and obj is not smolder.device:
            return _get_qualified_name(obj)
        name = self.namespace.create_name(hint, obj)
        if name in self.globals and self.globals[name] is not obj and self.globals[name] != obj:
            raise AssertionError(f"Global name {name} already assigned to different object")
        self.globals[name] = obj
        return name

    def type(self, o):
        """A type in an annotation."""
        if o == ():
            return "()"
        text = _naming.type_repr(o)
        if isinstance(o, types.UnionType) and "|" in text:
            return "|".join(map(self.type, o.__args__))
        origin = getattr(o, "__origin__", None)
        if origin:
            if isinstance(o, typing._GenericAlias):  # of typing, and is written so
                origin = _OF_TYPING.get(origin, origin)
            name = self.add_global(_naming.type_repr(origin), origin)
            return f"{name}[{','.join(map(self.type, o.__args__))}]" if getattr(o, "__args__", ()) else name
        return self.add_global(text, o)

    def of(self, arg):
        """An argument as code."""
        from smolder import Tensor

        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple) and hasattr(arg, "_fields"):
            return f"{self.add_global(_get_qualified_name(type(arg)), type(arg))}{tuple(arg)!r}"
        if _naming.is_op(arg):
            return _get_qualified_name(arg)
        if isinstance(arg, enum.Enum):
            return f"{self.add_global(type(arg).__name__, type(arg))}.{arg.name}"
        if isinstance(arg, Tensor):
            top = _naming.smolder_name()
            return f"{top}.Tensor(size={list(arg.size())}, dtype={str(arg.dtype).split('.')[-1]})"
        if isinstance(arg, tuple):
            return f"({self.of(arg[0])},)" if len(arg) == 1 else f"({', '.join(map(self.of, arg))})"
        if isinstance(arg, list):
            return f"[{', '.join(map(self.of, arg))}]"
        if isinstance(arg, slice):
            return f"slice({self.of(arg.start)}, {self.of(arg.stop)}, {self.of(arg.step)})"
        return self.paint("blue", repr(arg))

    def given(self, args, kwargs):
        return ", ".join([*map(self.of, args), *(f"{k} = {self.of(v)}" for k, v in kwargs.items())])

    # -- nodes

    def emit(self, node):
        """The line of a node, without its end."""
        note = "" if node.type is None else f" : {self.type(node.type)}"
        if self.verbose:
            note = self.value_note(node) or note
        if node.op == "placeholder":
            default = f" = {self.of(node.args[0])}" if node.args else ""
            self.free_vars.append(f"{node.target}{note}{default}")
            name = node.target.replace("*", "")
            if name != repr(node):
                self.body.append(f"{node!r} = {name}\n")
        elif node.op == "output":
            if node.type is not None:
                self.returns = f" -> {self.type(node.type)}"
            self.body.append(self.codegen.generate_output(node.args[0]))
        else:
            self.body.append(self.statement(node, f"{node!r}{note}"))

    def statement(self, node, left):
        """The line of a node that computes."""
        given = self.given(node.args, node.kwargs)
        if node.op == "call_method":
            rest = self.given(node.args[1:], node.kwargs)
            return f"{left} = {format_target(self.of(node.args[0]), node.target)}({rest})"
        if node.op == "call_module":
            return f"{left} = {format_target(self.root, node.target)}({given})"
        if node.op == "get_attr":
            return f"{left} = {format_target(self.root, node.target)}"
        if getattr(node.target, "__module__", "") == operator.add.__module__:
            name = node.target.__name__
            if name in magic_methods:
                return f"{left} = {magic_methods[name].format(*map(self.of, node.args))}"
            if name in inplace_methods:
                done = inplace_methods[name].format(*map(self.of, node.args))
                return f"{done};  {left} = {self.of(node.args[0])}"
        name = self.add_global(_get_qualified_name(node.target), node.target)
        if name == "getattr" and len(node.args) == 2 and isinstance(node.args[1], str) and node.args[1].isidentifier():
            return f"{left} = {format_target(self.of(node.args[0]), node.args[1])}"
        if node.meta.get("is_wrapped", False):
            self.wrapped.setdefault(name)
        return f"{left} = {name}({given})"

    # -- notes, where they are asked for

    def value_note(self, node):
        """Dtype and shape of a node's value, where they are known."""
        from smolder import Tensor

        value = value_of(node.meta)
        text = getattr(value, "dtype", None)
        if text is None or getattr(value, "shape", None) is None:
            return ""
        text = self.paint("red", short_dtype(value.dtype)) + self.paint("blue", listed(value.shape))
        if isinstance(value, Tensor):
            text += self.paint("dim_blue", listed(value.stride())) if self.stride else ""
            text += self.paint("dim_green", str(value.device)) if self.device else ""
        return f': "{text}"'

    def note_source(self, node):
        """A line that says where the next nodes come from."""
        if node.op in ("placeholder", "output"):
            return
        meta = ", ".join(f"{key}: {node.meta[key]}" for key in self.additional_meta if key in node.meta)
        custom = node.meta.get("custom") or {}
        short = {k: f"{str(v)[:40]}..." if len(str(v)) > 40 else v for k, v in custom.items()}
        text = f"# {meta} " if meta else ""
        text += f"#{f' Annotation: {short}' if short else ''} {_source_text(node.stack_trace)}"
        line = f"\n{self.paint('dim', text)}\n"
        if line != self.summary:
            self.summary = line
            self.body.append(line)


_OF_TYPING = {list: typing.List, dict: typing.Dict, set: typing.Set, frozenset: typing.FrozenSet, tuple: typing.Tuple}  # noqa: UP006


def _source_text(trace):
    """The innermost line of a stack trace."""
    lines = (trace or "").strip().split("\n")
    for at in range(len(lines) - 2, -1, -1):
        found = re.match(r"^File \"(.+)\", line (\d+), in (.+)$", lines[at].strip())
        if found:
            return f"File: {found[1]}:{found[2]} in {found[3]}, code: {lines[at + 1].strip()}"
    return "No stacktrace found for following nodes"


def _numbered(body, first):
    """The lines without their counters, and by line the number of the node that it is of."""
    lines, numbers, current = [], {}, None
    for line in "".join(body).split("\n"):
        counter = _COUNTER.search(line)
        if counter is not None:
            current = int(counter[1])
        else:
            numbers[len(lines) + first] = current
            lines.append(line)
    return lines, numbers
