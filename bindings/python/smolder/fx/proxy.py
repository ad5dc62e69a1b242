"""Stand-ins for values: what is done with one becomes a node of the graph that is traced."""

from __future__ import annotations

import copy
import dataclasses
import dis
import enum
import inspect
import operator
import traceback
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.fx import _patches, _recorded
from smolder.fx import traceback as _fx_traceback
from smolder.fx._codegen import magic_methods, reflectable_magic_methods
from smolder.fx._naming import is_op, target_name
from smolder.fx.node import Node, base_types, map_aggregate, map_arg

if TYPE_CHECKING:
    from smolder._typing import Size
    from smolder.fx.graph import Graph
    from smolder.fx.node import Target

__all__ = [
    "Attribute",
    "GraphAppendingTracer",
    "ParameterProxy",
    "Proxy",
    "Scope",
    "ScopeContextManager",
    "TraceError",
    "TracerBase",
]
__dir__ = _listing(__name__)


class TraceError(ValueError):
    """The function does what depends on a value, which a proxy has not got."""


class Scope:
    """The path and the class of the module that is being traced."""

    module_path: str
    module_type: Any

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path, self.module_type = module_path, module_type


class ScopeContextManager:
    """Has a scope be another until it is left."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._before, self._scope = copy.copy(scope), scope
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *exception: object) -> None:
        self._scope.module_path, self._scope.module_type = self._before.module_path, self._before.module_type


class TracerBase:
    """Makes nodes in its `graph`, and proxies of them. `record_stack_traces` keeps where; `trace_asserts` records asserts."""

    graph: Any = None
    record_stack_traces: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    check_mutable_operations: bool = False
    traced_func_name: str = "forward"
    scope: Scope
    module_stack: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """A node of the graph."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if _fx_traceback.has_preserved_node_meta():
            _fx_traceback.fill(node)
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            frames = _frames_of_users()
            if frames:
                node.stack_trace = "".join(traceback.StackSummary.from_list(frames).format()).strip()
        return node

    def proxy(self, node: Node) -> Proxy:
        """The proxy that stands for the value of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """A node of these arguments, in which there may be proxies, and what stands for its value."""
        args, kwargs = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args, kwargs, name, type_expr)
        return self.proxy(node) if proxy_factory_fn is None else proxy_factory_fn(node)

    def create_arg(self, a: Any) -> Any:
        """An argument of a node: proxies become nodes. Raises NotImplementedError for what a graph can't hold."""
        if isinstance(a, Proxy):
            return a.node
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            parts = [self.create_arg(x) for x in a]
            return type(a)(*parts) if hasattr(a, "_fields") else type(a)(parts)
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            return {self._create_key(k): self.create_arg(v) for k, v in a.items()}
        if isinstance(a, slice | range):
            return type(a)(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            parts = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), parts)
        if a is None or a is ... or isinstance(a, (*base_types, enum.Enum, Node)) or is_op(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _create_key(self, key):
        if not isinstance(key, str):
            key = self.create_arg(key)
            map_arg(key, _refuse_node)
        return key

    def to_bool(self, obj: Proxy) -> bool:
        """Whether a value that a proxy stands for is true: not known."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """The parts of a value that a proxy stands for: unknown, but where as many are unpacked as a function says."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors"
        )

    def keys(self, obj: Proxy) -> Any:
        """The keys of a value that a proxy stands for, which `**` asks for."""
        return Attribute(obj, "keys")()


def _refuse_node(key):
    raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}")


def _frames_of_users():
    """The frames from the first forward on that are not Smolder's own."""
    frames = traceback.extract_stack()
    first = next((i for i, f in enumerate(frames) if f.name == "forward"), len(frames))
    return [f for f in frames[first:] if not _patches.is_own_file(f.filename)]


# Attributes that libraries look for in arrays: a proxy is no array.
_NOT_READ = {"__array__", "__array_interface__", "__array_struct__", "__array_priority__", "__array_namespace__"}
_NOT_READ |= {"__dlpack__", "__dlpack_device__", "__cuda_array_interface__", "__deepcopy__", "__copy__", "__index__"}


class GraphAppendingTracer(TracerBase):
    """One that only adds to a graph."""

    scope: Scope
    module_stack: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope, self.module_stack, self.node_name_to_scope = Scope("", None), OrderedDict(), {}
        self._asking = _patches.AsLongAsItLives()  # functions in Python record calls with its proxies


def assert_fn(x: Any) -> None:
    """Raises AssertionError: an assert is traced as a call of this."""
    if not x:
        raise AssertionError("Assertion failed")


class Proxy:
    """Stands for the value of a node while a function is traced."""

    tracer: TracerBase
    node: Any

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, name: str) -> Attribute:
        if name.startswith("__") and (name in _NOT_READ or not hasattr(_core.Tensor, name)):
            raise AttributeError(name)
        return Attribute(self, name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        instruction = _instruction_of(inspect.currentframe().f_back)[0]
        if instruction is not None and instruction.opname == "UNPACK_SEQUENCE":
            return (self[i] for i in range(instruction.argval))
        return self.tracer.iter(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_asserted(inspect.currentframe().f_back):
            self.tracer.create_proxy("call_function", assert_fn, (self,), {})
            return True
        return self.tracer.to_bool(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    def keys(self) -> Any:
        """The keys of a proxy that is passed as `**`."""
        return self.tracer.keys(self)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    @classmethod
    def __torch_function__(
        cls,
        orig_method: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        found: dict[Any, None] = {}
        map_aggregate((args, kwargs), lambda a: found.setdefault(a.tracer) if isinstance(a, Proxy) else None)
        if not found:
            return NotImplemented
        if len(found) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(found)} while trying to trace operations {orig_method}"
            )
        tracer = next(iter(found))
        if _patches.is_method(orig_method) and not _is_function_too(orig_method, args):
            name = _recorded.METHODS.get(orig_method.__name__, orig_method.__name__)
            return tracer.create_proxy("call_method", name, args, kwargs)
        args, kwargs = _recorded.as_torch(orig_method, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=target_name(orig_method))


def _is_function_too(method, args):
    """Whether a method of tensors was called as a function, which it is too: on a proxy, whose own methods are others."""
    import smolder

    return bool(args) and isinstance(args[0], Proxy) and getattr(smolder, method.__name__, None) is method


def _instruction_of(frame):
    """The instruction that a frame is at, and the one after."""
    code = dis.get_instructions(frame.f_code)
    for instruction in code:
        if instruction.offset == frame.f_lasti:
            return instruction, next(code, None)
    return None, None


def _is_asserted(frame):
    """Whether a frame asks for the truth of what it asserts."""
    instruction, following = _instruction_of(frame)
    jumps = instruction is not None and instruction.opname.endswith("IF_TRUE")
    return jumps and following is not None and following.opname == "LOAD_ASSERTION_ERROR"


class Attribute(Proxy):
    """An attribute of a value: a method where it is called, and else a node that reads it, made when it is needed."""

    root: Proxy
    attr: str
    tracer: TracerBase

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer, self._node = root, attr, root.tracer, None

    @property
    def node(self) -> Node:
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """Stands for a parameter, whose shape and dtype are known."""

    param: Tensor
    name: str

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        from smolder.nn import Parameter

        if not isinstance(param, Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Size:
        """The parameter's."""
        return self.param.shape

    def size(self) -> Size:
        """The parameter's."""
        return self.param.size()

    def dim(self) -> int:
        """The parameter's."""
        return self.param.dim()

    @property
    def ndim(self) -> int:
        """The parameter's."""
        return self.param.ndim

    def numel(self) -> int:
        """The parameter's."""
        return self.param.numel()

    def nelement(self) -> int:
        """The parameter's."""
        return self.param.numel()


# -- operators


_MIRRORED = {"lt": ">", "gt": "<", "le": ">=", "ge": "<="}


def _is_mirrored(name, frame):
    """Whether a comparison is one that was written the other way round: Python asks the right operand second."""
    instruction = _instruction_of(frame)[0]
    return instruction is not None and instruction.opname == "COMPARE_OP" and instruction.argval == _MIRRORED[name]


def _operator(name):
    function = getattr(operator, name)

    def call(self, *others):
        if (
            name in _MIRRORED
            and isinstance(others[0], _core.Tensor)
            and _is_mirrored(name, inspect.currentframe().f_back)
        ):
            return self.tracer.create_proxy("call_method", _recorded.COMPARED[name], (others[0], self), {})
        return self.tracer.create_proxy("call_function", function, (self, *others), {})

    call.__name__ = f"__{name.strip('_')}__"
    setattr(Proxy, call.__name__, call)


def _reflected(name):
    function = getattr(operator, name)

    def call(self, left):
        if isinstance(left, _core.Tensor):  # whose method it is, as torch records it
            return self.tracer.create_proxy("call_method", _recorded.OPERATORS[name], (left, self), {})
        return self.tracer.create_proxy("call_function", function, (left, self), {})

    call.__name__ = f"__r{name.strip('_')}__"
    setattr(Proxy, call.__name__, call)


for _name in magic_methods:
    if hasattr(operator, _name):
        _operator(_name)
for _name in reflectable_magic_methods:
    if hasattr(operator, _name) and _name != "getitem":
        _reflected(_name)
Proxy.__hash__ = object.__hash__
