"""Nodes of a graph: one operation each, with the nodes that it reads."""

from __future__ import annotations

import builtins
import operator
import sys
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import TypeAlias

    from smolder._typing import F
    from smolder.fx.graph import Graph

__all__ = ["Argument", "Node", "has_side_effect", "map_aggregate", "map_arg"]
__dir__ = _listing(__name__)

Argument: TypeAlias = Any
Target: TypeAlias = "Callable[..., Any] | str"
_OPS = ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root")
_with_effects = {builtins.print} | ({sys.audit} if hasattr(sys, "audit") else set())


def has_side_effect(fn: F) -> F:
    """Says that calls of a function are kept although nobody reads what it returns. Decorates."""
    _with_effects.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[..., Any]) -> Any:
    """The argument with fn of all that is no tuple, list, dict or slice in it."""
    if isinstance(a, tuple):
        parts = [map_aggregate(x, fn) for x in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return [map_aggregate(x, fn) for x in a]
    if isinstance(a, dict):
        return {k: map_aggregate(v, fn) for k, v in a.items()}
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Any, fn: Callable[..., Any]) -> Any:
    """The argument with fn of the nodes in it."""
    if not callable(fn):
        raise AssertionError("map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def name_of_function(func: Callable[..., Any], prefix: str | None = None) -> str | None:
    """How code names a function: `operator.add`, `smolder.relu`; None of one that code reaches by no such name."""
    import smolder

    name = getattr(func, "__name__", None)
    if name is None or not name.isidentifier():
        return None
    if getattr(operator, name, None) is func:
        return f"operator.{name}"
    if getattr(builtins, name, None) is func:
        return name
    prefix = prefix or smolder_name()
    for place in ("", "nn.functional", "linalg", "special", "fft"):
        of = smolder
        for part in place.split(".") if place else ():
            of = getattr(of, part)
        if of.__dict__.get(name) is func:
            return ".".join(filter(None, (prefix, place, name)))
    return None


def smolder_name() -> str:
    """What code calls Smolder: torch, where that is what it goes by."""
    import smolder

    return "torch" if sys.modules.get("torch") is smolder else "smolder"


class Node:
    """An operation: `op` says of which kind, `target` what is called or read, `args` and `kwargs` with what.

    Nodes are in the order in which they run; `users` are those that read this one.
    """

    graph: Graph
    name: str
    op: str
    target: Any
    type: Any
    meta: dict[str, Any]
    users: dict[Node, None]

    def __init__(
        self,
        graph: Graph,
        name: str,
        op: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        return_type: Any = None,
    ) -> None:
        if op not in _OPS:
            raise AssertionError(f"{op} is none of {', '.join(_OPS[:-1])}")
        if op == "call_function" and not callable(target):
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target} has to be callable")
        if op not in ("call_function", "root") and not isinstance(target, str):
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target} has to be a str")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.meta, self.users, self._input_nodes = {}, {}, {}
        self._args, self._kwargs, self._erased = (), {}, False
        self._prev = self._next = self
        self._set(args, kwargs)

    # -- what it reads

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments, with nodes for values."""
        return self._args

    @args.setter
    def args(self, args: Sequence[Any]) -> None:
        self._set(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Named arguments, with nodes for values."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: Mapping[str, Any]) -> None:
        self._set(self._args, kwargs)

    def _set(self, args, kwargs):
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._args, self._kwargs, self._input_nodes = tuple(args), dict(kwargs), {}
        map_arg((self._args, self._kwargs), lambda n: self._input_nodes.setdefault(n))
        for node in self._input_nodes:
            node.users.setdefault(self)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes that it reads, each once."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replaces a positional argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = args

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Adds a positional argument before another."""
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replaces, or adds, a named argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Reads another node where it reads one."""
        self._set(*map_arg((self._args, self._kwargs), lambda n: new_input if n is old_input else n))

    def replace_all_uses_with(
        self,
        replace_with: Node,
        delete_user_cb: Callable[[Node], bool] = lambda user: True,
        *,
        propagate_meta: bool = False,
    ) -> list[Node]:
        """Makes the nodes that read this one read another; returns those. delete_user_cb says of each whether it does."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError("replace_all_uses_with(propagate_meta=True): replace_with has .meta keys already")
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb(user)]
        for user in changed:
            user.replace_input_with(self, replace_with)
        return changed

    # -- where it is

    @property
    def next(self) -> Node:
        """The node after it."""
        return self._next

    @property
    def prev(self) -> Node:
        """The node before it."""
        return self._prev

    def prepend(self, x: Node) -> None:
        """Moves a node to just before this one."""
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x: Node) -> None:
        """Moves a node to just after this one."""
        self._next.prepend(x)

    def _remove_from_list(self):
        self._prev._next, self._next._prev = self._next, self._prev
        self._prev = self._next = self

    # -- what it is

    @property
    def stack_trace(self) -> str | None:
        """The lines that recorded it, if they were kept."""
        return self.meta.get("stack_trace")

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it does something besides making its value."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in _with_effects or getattr(self.target, "__name__", "").startswith("manual_seed")
        if self.op == "call_method":
            return self.target.endswith("_") and not self.target.endswith("__")
        return self.op == "call_module"  # a module may have buffers that it writes

    def format_node(
        self, placeholder_names: list[str] | None = None, maybe_return_typename: list[str] | None = None
    ) -> str | None:
        """The node as the graph's text has it."""
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.name)
            default = f"(default={self._args[0]!r})" if self._args else ""
            return f"%{self.name} : [num_users={len(self.users)}] = placeholder[target={self.target}]{default}"
        if self.op == "output":
            return f"return {self._args[0]!r}"
        target = (
            self.target if isinstance(self.target, str) else name_of_function(self.target) or _qualified(self.target)
        )
        head = f"%{self.name} : [num_users={len(self.users)}] = {self.op}[target={target}]"
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_marked(self._args)}, kwargs = {_marked(self._kwargs)})"

    def __repr__(self) -> str:
        return self.name


def _qualified(target):
    return f"{getattr(target, '__module__', '?')}.{getattr(target, '__name__', target)}"


class _Text:
    def __init__(self, text):
        self.text = text

    def __repr__(self):
        return self.text


def _marked(a):
    """Arguments as text, in which nodes have a percent sign, and keys no quotes."""
    if isinstance(a, dict):
        return "{" + ", ".join(f"{k}: {_marked(v)}" for k, v in a.items()) + "}"
    return repr(map_arg(a, lambda n: _Text(f"%{n.name}")))
