"""A module whose forward is a graph's code."""

from __future__ import annotations

import copy
import itertools
import linecache
import types
from typing import TYPE_CHECKING

from smolder._names import listing as _listing
from smolder.fx.graph import Graph, PythonCode
from smolder.nn.module import Module

if TYPE_CHECKING:
    from typing import Any, Self

__all__ = ["GraphModule"]
__dir__ = _listing(__name__)

_numbers = itertools.count()


def _compiled(code):
    """The function of code, whose lines errors show."""
    name = f"<eval_with_key>.{next(_numbers)}"
    linecache.cache[name] = (len(code.src), None, code.src.splitlines(True), name)
    space = dict(code.globals)
    exec(compile(code.src, name, "exec"), space)
    return space["forward"]


class GraphModule(Module):
    """A module of the modules and tensors that a graph names, taken from `root`, a module or a dict; it runs the graph.

    After the graph was changed, `recompile()` makes its code the module's forward.
    """

    training: bool
    meta: dict[str, Any]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # Each has a class of its own, as its forward is its own.
        return super().__new__(type(cls.__name__, (cls,), {"__module__": cls.__module__, "_is_of_one": True}))

    def __init__(self, root: Module | dict[str, Any], graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, Module):
            self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copy_attr(root, self, node.target)
        elif isinstance(root, dict):
            named = [n.target for n in graph.nodes if n.op in ("get_attr", "call_module")]
            for target in sorted(named, key=lambda t: t.count(".")):
                if target not in root:
                    raise RuntimeError(f"Node referenced target {target} but that target was not provided in ``root``!")
                _assign(root[target], self, target)
        else:
            raise RuntimeError(f"Unsupported type {root} passed for root!")
        self.graph = graph
        self.meta = dict(getattr(root, "meta", None) or {})

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
        return self._code

    def recompile(self) -> PythonCode:
        """Makes the graph, as it is now, the module's forward; returns the code."""
        code = self._graph.python_code()
        self._code = code.src
        type(self).forward = _compiled(code)
        return code

    def add_submodule(self, target: str, m: Module) -> bool:
        """Adds a module at a path; returns whether it could."""
        try:
            _assign(m, self, target)
        except AttributeError:
            return False
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
                parts = node.target.split(".")
                used.update(".".join(parts[: i + 1]) for i in range(len(parts)))
                if node.op == "call_module":
                    inside = self.get_submodule(node.target)
                    used.update(f"{node.target}.{name}" for name, _ in inside.named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    def print_readable(self, print_output: bool = True, **options: Any) -> str:
        """The code as text, which is printed unless print_output is false."""
        text = f"class {self._get_name()}(Module):" + self._code.strip("\n").replace("\n", "\n    ").join(
            ("\n    ", "")
        )
        if print_output:
            print(text)
        return text

    def __str__(self) -> str:
        return "\n".join(
            [super().__str__(), self._code, "# To see more debug info, use `graph_module.print_readable()`"]
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> GraphModule:
        out = type(self).__mro__[1].__new__(type(self).__mro__[1])
        memo[id(self)] = out
        Module.__init__(out)
        type(out).__name__ = type(self).__name__
        skipped = {"_graph", "_code"}
        vars(out).update(copy.deepcopy({k: v for k, v in vars(self).items() if k not in skipped}, memo))
        out.graph = copy.deepcopy(self._graph)
        return out

    def __copy__(self) -> GraphModule:
        return GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {k: v for k, v in vars(self).items() if k not in ("_graph", "_code")}
        code = self._graph.python_code()
        named = {k: v for k, v in code.globals.items() if not isinstance(v, types.ModuleType)}
        return _traced_again, (state, code.src, named, type(self).__name__)


def _traced_again(state, source, named, name):
    """A module as pickled: its code is traced again, with all modules in it as leaves."""
    from smolder.fx._symbolic_trace import Tracer

    class Whole(Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return True

    code = PythonCode(source, {**Graph().python_code().globals, **named})
    holder = type(name, (Module,), {"forward": _compiled(code)})()
    vars(holder).update(state)
    return GraphModule(holder, Whole().trace(holder), name)


def _copy_attr(from_module, to_module, target):
    *path, name = target.split(".")
    for part in path:
        source = getattr(from_module, part)
        if getattr(to_module, part, None) is source:
            return  # the whole module is there
        if not hasattr(to_module, part):
            setattr(to_module, part, Module())
        from_module, to_module = source, getattr(to_module, part)
    value = getattr(from_module, name)
    _set(to_module, name, value, name in getattr(from_module, "_non_persistent_buffers_set", ()))


def _assign(value, to_module, target):
    *path, name = target.split(".")
    for part in path:
        if not hasattr(to_module, part):
            setattr(to_module, part, Module())
        to_module = getattr(to_module, part)
        if not isinstance(to_module, Module):
            raise AttributeError(target)
    _set(to_module, name, value)


def _set(module, name, value, passing=False):
    from smolder import Tensor
    from smolder.nn import Parameter

    if isinstance(value, Tensor) and not isinstance(value, Parameter):
        module.register_buffer(name, value, persistent=not passing)
    else:
        setattr(module, name, value)
