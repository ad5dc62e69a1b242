"""Nodes of a graph: one operation each, with the nodes that it reads."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from smolder import _core
from smolder._device import device
from smolder._layouts import layout, memory_format
from smolder._names import listing as _listing
from smolder._typing import F
from smolder.fx._compatibility import compatibility as compatibility
from smolder.fx._naming import pretty_target, qualified_name, type_repr, words
from smolder.fx.immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from smolder._typing import Module
    from smolder.fx.graph import Graph
    from smolder.fx.operator_schemas import ArgsKwargsPair

__all__ = ["Argument", "Node", "has_side_effect", "map_aggregate", "map_arg"]
__dir__ = _listing(__name__)

Argument: TypeAlias = Any
Target: TypeAlias = "Callable[..., Any] | str"
base_types: tuple[type, ...] = (str, int, float, bool, complex, _core.dtype, _core.Tensor)
base_types += (device, memory_format, layout)
_OPS = dict.fromkeys(["placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"])
_get_qualified_name, _type_repr = qualified_name, type_repr
_side_effectful_functions: set[Any] = {operator.setitem}
_RANDOM = words(
    """poisson rand_like rand randint_like normal randperm bernoulli randn multinomial randint randn_like"""
)
_SHORT_DTYPES = {
    "bfloat16": "bf16", "float64": "f64", "float32": "f32", "float16": "f16", "float8_e4m3fn": "f8e4m3fn",
    "float8_e5m2": "f8e5m2", "complex64": "c64", "complex128": "c128", "int8": "i8", "int16": "i16", "int32": "i32",
    "int64": "i64", "bool": "b8", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip


def has_side_effect(fn: F) -> F:
    """Says that calls of a function are kept although nobody reads what it returns. Decorates."""
    _side_effectful_functions.add(fn)
    return fn


def map_aggregate(a: Any, fn: Callable[..., Any]) -> Any:
    """The argument with fn of all that is no tuple, list, dict or slice in it; lists and dicts can't be changed."""
    if isinstance(a, tuple):
        parts = [map_aggregate(x, fn) for x in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list([map_aggregate(x, fn) for x in a])
    if isinstance(a, dict):
        return immutable_dict({k: map_aggregate(v, fn) for k, v in a.items()})
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def map_arg(a: Any, fn: Callable[..., Any]) -> Any:
    """The argument with fn of the nodes in it."""
    if not callable(fn):
        raise AssertionError("torch.fx.map_arg(a, fn): fn must be a callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def typename(value: Any) -> str:
    """The type of a value as errors name it."""
    import smolder

    return smolder.typename(value)


def _is_impure_function(target):
    import smolder

    if target in _side_effectful_functions or target is smolder._assert:
        return True
    name = getattr(target, "__name__", "")
    return name in _RANDOM and getattr(smolder, name, None) is target  # which moves the generator on


class Node:
    """An operation: `op` says of which kind, `target` what is called or read, `args` and `kwargs` with what.

    Nodes are in the order in which they run, in which they compare; `users` are those that read this one.
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
            raise AssertionError(f"op '{op}' is not in _legal_ops")
        wanted = "Callable" if op == "call_function" else "str"
        if not (callable(target) if op == "call_function" else isinstance(target, str)):
            raise ValueError(
                f"Node [graph = {graph}, name = '{name}'] target {target} has type {typename(target)} but a {wanted} is "
                "expected"
            )
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.meta, self.users, self._input_nodes = {}, {}, {}
        self._args, self._kwargs, self._erased = (), immutable_dict(), False
        self._prev = self._next = self
        self._repr_fn, self._sort_key = None, ()
        self._update_args_kwargs(args, kwargs)

    # -- what it reads

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments, with nodes for values."""
        return self._args

    @args.setter
    def args(self, args: Sequence[Any]) -> None:
        self._update_args_kwargs(args, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """Named arguments, with nodes for values."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, kwargs: Mapping[str, Any]) -> None:
        self._update_args_kwargs(self._args, kwargs)

    def _update_args_kwargs(self, args, kwargs):
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def read(node):
            self._input_nodes.setdefault(node)
            return node

        self._args, self._kwargs = map_arg(tuple(args), read), map_arg(dict(kwargs), read)
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
        if not 0 <= idx <= len(self._args):
            raise AssertionError(f"insert_args index must be between 0 and len(self.args), got {idx}")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replaces, or adds, a named argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Reads another node where it reads one."""
        self._update_args_kwargs(*map_arg((self._args, self._kwargs), lambda n: new_input if n is old_input else n))

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Makes the nodes that read this one read another; returns those. delete_user_cb says of each whether it does."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "Called node.replace_all_uses_with(replace_with, propagate_meta=True), but replace_with already has "
                    ".meta keys"
                )
            replace_with.meta.update(self.meta)
        changed = [user for user in list(self.users) if delete_user_cb is None or delete_user_cb(user)]
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
        if self.graph is not x.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if x is self:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x
        self.graph._moved()

    def append(self, x: Node) -> None:
        """Moves a node to just after this one."""
        self._next.prepend(x)

    def _remove_from_list(self):
        self._prev._next, self._next._prev = self._next, self._prev  # its own stay: an iteration that is at it goes on

    def _place(self):
        self.graph._number_nodes()
        return self._sort_key

    def __lt__(self, other: Node) -> bool:
        return self._place() < other._place()

    def __le__(self, other: Node) -> bool:
        return self._place() <= other._place()

    def __gt__(self, other: Node) -> bool:
        return self._place() > other._place()

    def __ge__(self, other: Node) -> bool:
        return self._place() >= other._place()

    # -- what it is

    @property
    def stack_trace(self) -> str | None:
        """The lines that recorded it, if they were kept."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Whether it does something besides making its value; of methods, none is taken to."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return _is_impure_function(self.target)
        if self.op != "call_module":
            return False
        if self.graph.owning_module is None:
            raise AssertionError("self.graph.owning_module not set for purity check")
        return getattr(self.graph.owning_module.get_submodule(self.target), "_is_impure", False)

    def normalized_arguments(
        self,
        root: Module,
        arg_types: tuple[Any, ...] | None = None,
        kwarg_types: dict[str, Any] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> ArgsKwargsPair | None:
        """The arguments by the signature of what is called, with its defaults; None where there is no one signature."""
        from smolder.fx.operator_schemas import normalize_function, normalize_module

        only = normalize_to_only_use_kwargs
        if self.op == "call_function":
            return normalize_function(self.target, self._args, self._kwargs, arg_types, kwarg_types, only)
        if self.op == "call_module":
            return normalize_module(root, self.target, self._args, self._kwargs, only)
        return None

    @staticmethod
    def _pretty_print_target(target):
        return pretty_target(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """The node as the graph's text has it."""
        of_type = f"{type_repr(self.type)} " if self.type is not None else ""
        if include_tensor_metadata and self.op not in ("placeholder", "get_attr"):
            of_type = _tensor_text(self.meta) or of_type
        head = f"%{self.name} : {of_type}[num_users={len(self.users)}] = {self.op}[target={pretty_target(self.target)}]"
        if self.op == "placeholder":
            return head + (f"(default={self._args[0]})" if self._args else "")
        if self.op == "output":
            if self.type and maybe_return_typename:
                maybe_return_typename[0] = f" -> {type_repr(self.type)}"
            return f"return {self._args[0]}"
        if self.op == "get_attr":
            return head
        return f"{head}(args = {_format_arg(self._args)}, kwargs = {_format_arg(self._kwargs)})"

    def _rename(self, candidate):
        if candidate != self.name:
            self.name = self.graph._graph_namespace.create_name(candidate)

    def __repr__(self) -> str:
        return self.name if self._repr_fn is None else self._repr_fn(self)


def short_dtype(dtype: Any) -> str:
    """A dtype as annotations of values write it: f32."""
    name = str(dtype).rpartition(".")[2]
    return _SHORT_DTYPES.get(name, name)


def listed(sizes: Iterable[Any]) -> str:
    """Sizes as annotations of values write them."""
    return f"[{', '.join(map(str, sizes))}]"


def value_of(meta: dict[str, Any]) -> Any:
    """The known facts about a node's value: a tensor, or the metadata that ShapeProp kept of one."""
    return meta.get("val", meta.get("tensor_meta", meta.get("example_value")))


def _tensor_text(meta):
    from smolder import Tensor

    value = value_of(meta)
    if not isinstance(value, Tensor):
        return ""
    return f'Tensor "{short_dtype(value.dtype)}{listed(value.shape)}{listed(value.stride())}{value.device}"'


def _format_arg(arg: Any, max_list_len: float = float("inf")) -> str:
    """An argument as text, in which nodes have a percent sign, and strings and keys no quotes."""
    if hasattr(arg, "_custom_fx_repr_fn"):
        return arg._custom_fx_repr_fn()
    if isinstance(arg, list | tuple):
        items = ", ".join(_format_arg(a) for i, a in enumerate(arg) if i < max_list_len)
        more = "" if len(arg) < max_list_len + 1 else f", ...[total_len={len(arg)}]"
        if isinstance(arg, list):
            return f"[{items}{more}]"
        return f"({items}{',' if len(arg) == 1 else ''}{more})"
    if isinstance(arg, dict):
        return "{" + ", ".join(f"{k}: {_format_arg(v)}" for k, v in arg.items()) + "}"
    return f"%{arg}" if isinstance(arg, Node) else str(arg)
