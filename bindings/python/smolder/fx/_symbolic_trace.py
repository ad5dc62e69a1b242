"""From a function to a graph: it is run on proxies."""

from __future__ import annotations

import builtins
import contextlib
import functools
import inspect
import types
from typing import TYPE_CHECKING

from smolder import _core
from smolder._names import listing as _listing
from smolder.fx.graph import Graph
from smolder.fx.graph_module import GraphModule
from smolder.fx.node import map_aggregate
from smolder.fx.proxy import ParameterProxy, Proxy, TracerBase
from smolder.nn.module import Module
from smolder.nn.parameter import Parameter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from types import ModuleType
    from typing import Any

    from smolder._typing import T

__all__ = ["Tracer", "symbolic_trace", "wrap"]
__dir__ = _listing(__name__)

_wrapped = []  # (a dict of globals, a name in it)
_active = []  # tracers that trace, the innermost last


def is_fx_tracing() -> bool:
    """Whether a function is being traced."""
    return bool(_active)


is_fx_symbolic_tracing = is_fx_tracing


def wrap(fn_or_name: T) -> T:
    """Says, at the level of a module, that calls of a function there are nodes, and it is not traced. Decorates."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name.__name__ if callable(fn_or_name) else fn_or_name
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped.append((frame.f_globals, name))
    return fn_or_name


def _proxies_in(*values):
    found = []
    map_aggregate(values, lambda a: found.append(a) if isinstance(a, Proxy) else None)
    return found


def _asking(function):
    """The function, whose calls with proxies are nodes."""

    @functools.wraps(function)
    def ask(*args, **kwargs):
        proxies = _proxies_in(args, kwargs)
        if not proxies:
            return function(*args, **kwargs)
        return proxies[0].tracer.create_proxy("call_function", function, args, kwargs)

    return ask


class Tracer(TracerBase):
    """Traces modules and functions. What to enter is for derived classes to say: `is_leaf_module`, `create_arg`."""

    root: Any
    graph: Any
    param_shapes_constant: bool
    tensor_attrs: dict[int, str]
    submodule_paths: dict[Module, str]
    module_stack: dict[str, Any]

    def __init__(
        self,
        autowrap_modules: Iterable[ModuleType] = (),
        autowrap_functions: Iterable[Callable[..., Any]] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        import math

        self._autowrap_modules = (math, *autowrap_modules)
        self._autowrap_functions = set(autowrap_functions)
        self.param_shapes_constant = param_shapes_constant
        self.root, self.graph, self.tensor_attrs, self.submodule_paths = None, None, {}, {}
        self.module_stack = {}

    # -- what derived classes say otherwise

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of a module is a node: it is for Smolder's own, but for containers of others."""
        from smolder.nn import Sequential

        return type(m).__module__.startswith(("smolder.nn", "torch.nn")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a module in the one that is traced."""
        found = self.submodule_paths.get(mod)
        if found is None:
            raise NameError("module is not installed as a submodule")
        return found

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call of a module gives."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        self.module_stack[path] = (path, type(m))
        try:
            return forward(*args, **kwargs)
        finally:
            self.module_stack.pop(path, None)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """What reading an attribute of a module gives: for a parameter a proxy."""
        if isinstance(attr_val, Parameter) or (self.proxy_buffer_attributes and attr_val in self._buffers()):
            return self._proxy_of(attr_val, parameter_proxy_cache)
        return attr_val

    def _buffers(self):
        return _Identity(b for b in self.root.buffers())

    def _proxy_of(self, value, cache):
        named = [*self.root.named_parameters(remove_duplicate=False), *self.root.named_buffers()]
        for name, held in named:
            if held is value:
                if name not in cache:
                    factory = functools.partial(self._parameter, name, value) if self.param_shapes_constant else None
                    cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=factory)
                return cache[name]
        return value

    def _parameter(self, name, value, node):
        return ParameterProxy(self, node, name, value)

    def create_arg(self, a: Any) -> Any:
        """As TracerBase's; tensors and modules of the root are read from it, other tensors become attributes of it."""
        if isinstance(a, Parameter):
            for name, held in self.root.named_parameters():
                if held is a:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, _core.Tensor) and not isinstance(a, Proxy):
            return self._constant(a)
        if isinstance(a, Module) and a in self.submodule_paths:
            return self.create_node("get_attr", self.submodule_paths[a], (), {})
        return super().create_arg(a)

    def _constant(self, tensor):
        for name, held in self.root.named_buffers():
            if held is tensor:
                return self.create_node("get_attr", name, (), {})
        name = self.tensor_attrs.get(id(tensor))
        if name is None:
            number = 0
            while hasattr(self.root, f"_tensor_constant{number}"):
                number += 1
            name = self.tensor_attrs[id(tensor)] = f"_tensor_constant{number}"
            setattr(self.root, name, tensor)
        return self.create_node("get_attr", name, (), {})

    # -- tracing

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module's forward, or of a function; arguments in concrete_args have these values in it."""
        if isinstance(root, Module):
            self.root, function = root, type(root).forward
            self.submodule_paths = {m: name for name, m in root.named_modules()}
        else:
            self.root, function = Module(), root
            self.submodule_paths = {}
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {id(v): k for k, v in vars(self.root).items() if isinstance(v, _core.Tensor)}
        given, named = self._arguments(function, isinstance(root, Module), concrete_args or {})
        with self._patched():
            _active.append(self)
            try:
                out = function(*given, **named)
            finally:
                _active.pop()
        self.graph.output(self.create_arg(out))
        self.submodule_paths = {}
        return self.graph

    def _arguments(self, function, is_method, concrete):
        """A proxy for each parameter of the function but those that have values."""
        parameters = list(inspect.signature(function, follow_wrapped=True).parameters.values())
        given, named = ([self.root], {}) if is_method else ([], {})
        for p in parameters[1:] if is_method else parameters:
            if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
                raise NotImplementedError(f"fx: {function.__qualname__} takes {p}, which can't be traced")
            value = concrete[p.name] if p.name in concrete else self._placeholder(p)
            if p.kind is p.KEYWORD_ONLY:
                named[p.name] = value
            else:
                given.append(value)
        return given, named

    def _placeholder(self, p):
        default = () if p.default is inspect.Parameter.empty else (p.default,)
        return self.create_proxy("placeholder", p.name, default, {}, name=p.name)

    @contextlib.contextmanager
    def _patched(self):
        """While it traces: calls of modules, attributes of modules and functions in Python are looked at."""
        call, tracer, cache = Module.__call__, self, {}

        def traced_call(module, *args, **kwargs):
            if module in tracer.submodule_paths or _proxies_in(args, kwargs):
                return tracer.call_module(module, lambda *a, **k: call(module, *a, **k), args, kwargs)
            return call(module, *args, **kwargs)

        def traced_read(module, name):
            value = object.__getattribute__(module, name)  # parameters are in the module's dict
            return tracer.getattr(name, value, cache) if isinstance(value, _core.Tensor) else value

        undo = contextlib.ExitStack()
        with undo:
            _replace(undo, Module, "__call__", traced_call)
            _replace(undo, Module, "__getattribute__", traced_read)
            self._patch_functions(undo)
            yield

    def _patch_functions(self, undo):
        import smolder

        for place in (smolder, smolder.nn.functional, smolder.linalg, smolder.special, *self._autowrap_modules):
            for name, function in list(vars(place).items()):
                if _is_plain_function(function) and not name.startswith("_"):
                    _replace(undo, place, name, _asking(function))
        for space, name in _wrapped:
            function = space.get(name, getattr(builtins, name, None))
            if function is not None:
                _replace_in(undo, space, name, _asking(function))


def _is_plain_function(function):
    if isinstance(function, types.BuiltinFunctionType):
        return function.__module__ == "math"
    if not isinstance(function, types.FunctionType):
        return False
    return function.__module__.partition(".")[0] == "smolder"


class _Identity:
    def __init__(self, members):
        self._ids = {id(m) for m in members}

    def __contains__(self, member):
        return id(member) in self._ids


def _replace(undo, place, name, value):
    existed, before = name in vars(place), vars(place).get(name)
    setattr(place, name, value)
    undo.callback(lambda: setattr(place, name, before) if existed else delattr(place, name))


def _replace_in(undo, space, name, value):
    existed, before = name in space, space.get(name)
    space[name] = value
    undo.callback(lambda: space.__setitem__(name, before) if existed else space.pop(name))


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """The GraphModule of a module, or of a function: its forward is run on proxies."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
