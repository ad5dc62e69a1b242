"""A module whose forward is a graph's code."""

from __future__ import annotations

import copy
import itertools
import linecache
import pathlib
import sys
import warnings
from typing import Any, Self

from smolder._names import listing as _listing
from smolder._typing import PathLike
from smolder.fx._codegen import PythonCode, _PyTreeCodeGen, custom_builtins
from smolder.fx._naming import is_ours, smolder_name
from smolder.fx.graph import Graph
from smolder.nn.module import Module

__all__ = ["GraphModule", "reduce_graph_module"]
__dir__ = _listing(__name__)

_numbers = itertools.count()


class _Sources:
    """Has the source of code that was made, by the name of its file, for tracebacks."""

    def __init__(self):
        self.of = {}

    def get_source(self, name):
        return self.of.get(name)

    def keep(self, source, fields):
        """The name of a file for a source."""
        name = f"<eval_with_key>.{next(_numbers)}"
        if fields:
            name += f" from {fields['co_filename']}:{fields['co_firstlineno']} in {fields['co_name']}"
        self.of[name] = source
        linecache.lazycache(name, {"__name__": name, "__loader__": self})
        return name


_sources = _Sources()


def _forward_from_src(src, globals, co_fields=None):
    """The function of a source, whose lines errors show."""
    space = dict(globals)
    exec(compile(src, _sources.keep(src, co_fields), "exec"), space)
    return space.pop("forward")


def _import_line(name, value):
    """The line that imports what code names."""
    ours = custom_builtins().get(name)
    if ours is not None:
        return ours[0]
    module, attribute = getattr(value, "__module__", None), getattr(value, "__qualname__", name)
    if is_ours(value):
        return f"import {smolder_name()}"
    if module is None or "." in attribute or getattr(sys.modules.get(module), attribute, None) is not value:
        raise RuntimeError(f"{value} can't be imported by its name, so a GraphModule that uses it can't be saved")
    return f"from {module} import {attribute} as {name}"


def _import_block(names):
    return "\n".join(sorted({_import_line(name, value) for name, value in names.items()}))


class _CodeOnlyModule(Module):
    """Holds the members of a module that is being read or copied."""

    def __init__(self, body):
        super().__init__()
        self.__setstate__(body)


def reduce_graph_module(body: dict[str, Any], import_block: str) -> GraphModule:
    """A module as it was pickled: its code is traced again, with all modules in it as leaves."""
    source = body.get("_code") or body["code"]
    return _traced_again(_forward_from_src(import_block + source, {}), body)


def _traced_again(forward, body):
    from smolder.fx._symbolic_trace import Tracer

    tracer_cls = body.get("_tracer_cls") or Tracer

    class Whole(tracer_cls):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    traces = body.pop("_graphmodule_graph_node_meta_stack_trace", {})
    holder = type("_CodeOnlyModule", (_CodeOnlyModule,), {"forward": forward})(dict(body))
    graph = Whole().trace(holder, **body.get("_tracer_extras", {}))
    for node in graph.nodes:
        if traces.get(node.name) is not None:
            node.stack_trace = traces[node.name]
    graph._tracer_cls = tracer_cls
    out = GraphModule(holder, graph, body.get("_graphmodule_cls_name", "GraphModule"))
    for name, value in body.items():
        if not hasattr(out, name):
            setattr(out, name, value)
    return out


class GraphModule(Module):
    """A module of the modules and tensors that a graph names, taken from `root`, a module or a dict; it runs the graph.

    After the graph was changed, `recompile()` makes its code the module's forward.
    """

    training: bool
    meta: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # Each has a class of its own, as its forward is its own: a program's, which compiled steps look at.
        of = next(c for c in cls.__mro__ if "_is_of_one" not in vars(c))
        return super().__new__(type("GraphModuleImpl", (of,), {"__module__": "eval_with_key", "_is_of_one": True}))

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        named = [n for n in graph.nodes if n.op in ("get_attr", "call_module")]
        if isinstance(root, Module):
            self.training = root.training
            if isinstance(root, _CodeOnlyModule):
                for members in (root.named_children(), root.named_buffers(), root.named_parameters()):
                    for name, _ in members:
                        _copy_attr(root, self, name)
            for node in named:
                _copy_attr(root, self, node.target)
        elif isinstance(root, dict):
            for node in named:
                if node.target not in root:
                    raise RuntimeError(
                        f"Node {node} referenced target {node.target} but that target was not provided in ``root``!"
                    )
            for target in sorted({n.target: None for n in named}, key=lambda t: t.count(".")):
                _assign_attr(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        own = graph._tracer_cls
        self._tracer_cls = None if own is None or "<locals>" in own.__qualname__ else own
        self._tracer_extras = graph._tracer_extras or {}
        self.meta = {}

    @property
    def graph(self) -> Graph:
        """The graph that it runs."""
        return self._graph

    @graph.setter
    def graph(self, g: Graph) -> None:
        if not isinstance(g, Graph):
            raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
        self._graph = g
        g.owning_module = self
        self.recompile()

    @property
    def code(self) -> str:
        """The source of its forward."""
        if "_code" not in self.__dict__:
            raise RuntimeError("Code has not been generated!")
        return self._code

    def recompile(self) -> PythonCode:
        """Makes the graph, as it is now, the module's forward; returns the code."""
        codegen = self._graph._codegen
        if isinstance(codegen, _PyTreeCodeGen):
            self._in_spec, self._out_spec = codegen.pytree_info.in_spec, codegen.pytree_info.out_spec
        code = self._graph.python_code(root_module="self")
        self._code, self._lineno_map = code.src, code._lineno_map
        self._prologue_start = code._prologue_start
        type(self).forward = _forward_from_src(code.src, code.globals, self._graph._co_fields)
        for child in self.children():
            if isinstance(child, GraphModule):
                child.recompile()
        return code

    # -- modules in it

    def add_submodule(self, target: str, m: Module) -> bool:
        """Adds a module at a path; returns whether it could."""
        *path, name = target.split(".")
        at: Any = self
        for part in path:
            inside = getattr(at, part, None)
            if inside is None:
                inside = Module()
                setattr(at, part, inside)
            if not isinstance(inside, Module):
                return False
            at = inside
        at.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Removes the module at a path; returns whether there was one."""
        path, _, name = target.rpartition(".")
        try:
            of = self.get_submodule(path)
            found = getattr(of, name)
        except AttributeError:
            return False
        if not isinstance(found, Module):
            return False
        delattr(of, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Removes modules that no node names."""
        used = set()
        for node in self._graph.nodes:
            if node.op in ("call_module", "get_attr"):
                used.update(itertools.accumulate(node.target.split("."), "{}.{}".format))
                if node.op == "call_module":
                    try:
                        inside = self.get_submodule(node.target)
                    except AttributeError:
                        continue
                    used.update(f"{node.target}.{name}" for name, _ in inside.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # -- text

    def print_readable(
        self,
        print_output: bool = True,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        *,
        fast_sympy_print: bool = False,
        expanded_def: bool = False,
        additional_meta: list[str] | None = None,
    ) -> str:
        """The code as text, with that of graphs in it; printed unless print_output is false. Sizes are numbers, so
        fast_sympy_print changes nothing."""
        options = {
            "include_stride": include_stride, "include_device": include_device, "colored": colored,
            "additional_meta": additional_meta,
        }  # fmt: skip
        text = _readable(self, self._get_name(), options, expanded_def)
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        reminder = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__str__(), self._code, reminder])

    def to_folder(self, folder: PathLike, module_name: str = "FxModule") -> None:
        """Writes code and weights to a folder, which can be imported: `from FOLDER import NAME`."""
        from smolder.serialization import save

        folder = pathlib.Path(folder)
        folder.mkdir(exist_ok=True)
        save(self.state_dict(), folder / "state_dict.pt")
        top, tab = smolder_name(), " " * 8
        lines = [line for line, _ in custom_builtins().values()]
        lines += ["", f"from {top}.nn import *", f"class {module_name}({top}.nn.Module):"]
        lines += ["    def __init__(self):", "        super().__init__()"]
        pickled = []
        for name, module in self.named_children():
            if _has_whole_repr(module):
                lines.append(f"{tab}setattr(self, '{name}', {module!r})")
                continue
            path = folder / f"{name}.pt"
            save(module, path)
            pickled.append(name)
            text = repr(module).replace("\r", " ").replace("\n", " ")
            lines.append(f"{tab}setattr(self, '{name}', {top}.load(r'{path}', weights_only=False)) # {text}")
        for name, buffer in self._buffers.items():
            if buffer is not None:
                made = f"{top}.empty({list(buffer.shape)}, dtype={buffer.dtype})"
                lines.append(f"{tab}self.register_buffer('{name}', {made})")
        for name, parameter in self._parameters.items():
            if parameter is not None:
                made = f"{top}.empty({list(parameter.shape)}, dtype={parameter.dtype})"
                lines.append(f"{tab}setattr(self, '{name}', {top}.nn.Parameter({made}))")
        lines.append(f"{tab}self.load_state_dict({top}.load(r'{folder}/state_dict.pt'))")
        (folder / "module.py").write_text("\n".join(lines) + "\n" + _indented(self.code) + "\n")
        (folder / "__init__.py").write_text("from .module import *")
        if pickled:
            warnings.warn(
                "Was not able to save the following children modules as reprs -saved as pickled files instead: "
                f"{pickled}",
                stacklevel=2,
            )

    # -- copies

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        out = type(self).__new__(type(self))
        memo[id(self)] = out
        held = _CodeOnlyModule(copy.deepcopy(self.__dict__, memo))
        GraphModule.__init__(out, held, held.__dict__["_graph"])
        for name in ("_state_dict_hooks", "_load_state_dict_pre_hooks", "_load_state_dict_post_hooks"):
            if name in self.__dict__:
                out.__dict__[name] = copy.deepcopy(self.__dict__[name], memo)
        out.meta = copy.deepcopy(self.meta, memo)
        return out

    def __copy__(self) -> GraphModule:
        out = GraphModule(self, self._graph)
        out.meta = self.meta
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        state = {name: value for name, value in self.__dict__.items() if name != "_graph"}
        state["_graphmodule_cls_name"] = type(self).__name__
        traces = {n.name: n.stack_trace for n in self._graph.nodes if n.stack_trace is not None}
        state["_graphmodule_graph_node_meta_stack_trace"] = traces
        code = self.recompile()
        return reduce_graph_module, (state, _import_block(code.globals))


def _indented(text, by=4):
    first, *rest = text.split("\n")
    return "\n".join([first, *(" " * by + line if line.strip() else "" for line in rest)])


def _readable(module, name, options, expanded):
    """The code of a module, and of those in it."""
    code = module.graph.python_code(root_module="self", verbose=True, expanded_def=expanded, **options)
    text = _indented(f"class {name}({smolder_name()}.nn.Module):\n" + code.src.lstrip("\n"))
    inside = [_readable(m, n, options, False) for n, m in module.named_children() if isinstance(m, GraphModule)]
    return text + _indented("\n".join(["", *inside]))


def _has_whole_repr(module):
    """Whether a module's text makes one like it."""
    from smolder import nn

    kinds = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
    return type(module) in kinds


def _copy_attr(from_module, to_module, target):
    *path, name = target.split(".")
    for part in path:
        source, there = getattr(from_module, part), getattr(to_module, part, None)
        if source is there:
            return  # the whole module is there
        if there is None:
            there = Module()
            setattr(to_module, part, there)
        from_module, to_module = source, there
    _set(to_module, name, getattr(from_module, name), name in getattr(from_module, "_non_persistent_buffers_set", ()))


def _assign_attr(from_obj, to_module, target):
    *path, name = target.split(".")
    for part in path:
        if getattr(to_module, part, None) is None:
            setattr(to_module, part, Module())
        to_module = getattr(to_module, part)
    _set(to_module, name, from_obj)


def _set(module, name, value, passing=False):
    from smolder import Tensor
    from smolder.nn import Parameter

    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        module.register_buffer(name, value, persistent=not passing)
    else:
        setattr(module, name, value)


def _get_attr(model, attr_name):
    """The object at a path in a module."""
    for part in attr_name.split("."):
        model = getattr(model, part)
    return model
