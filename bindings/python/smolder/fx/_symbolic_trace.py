"""From a function to a graph: it is run on proxies."""

from __future__ import annotations

import builtins
import contextlib
import copy
import functools
import inspect
import math
import types
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import T
from smolder.fx import _patches
from smolder.fx._compatibility import compatibility as compatibility
from smolder.fx.graph import Graph, _PyTreeCodeGen, _PyTreeInfo
from smolder.fx.graph_module import GraphModule
from smolder.fx.proxy import ParameterProxy, Scope, ScopeContextManager, TracerBase
from smolder.fx.proxy import Proxy as Proxy
from smolder.nn.module import Module
from smolder.nn.parameter import Parameter
from smolder.utils import _pytree

__all__ = ["PH", "PHBase", "PHWithMeta", "ProxyableClassMeta", "Tracer", "symbolic_trace", "wrap"]
__dir__ = _listing(__name__)

_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}  # by (id of globals, name), the globals
FunctionType = types.FunctionType
_find_proxy, _create_wrapped_func = _patches.find_proxy, _patches.wrapped
_active: list[Any] = []  # tracers that trace, the innermost last
_orig_module_call = Module.__call__
_orig_module_getattr = object.__getattribute__  # members are in a module's own dict
_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def is_fx_tracing() -> bool:
    """Whether a function is being traced."""
    return bool(_active)


is_fx_symbolic_tracing = is_fx_tracing


def wrap(fn_or_name: T) -> T:
    """Says, at the level of a module, that calls of a function there are nodes, and it is not traced. Decorates."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe().f_back
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped_fns_to_patch[(id(frame.f_globals), name)] = frame.f_globals
    return fn_or_name


_proxyable_classes: dict[type, None] = {}


class ProxyableClassMeta(type):
    """The class of classes whose objects, where they are made of proxies, are made by a node."""

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable_classes.setdefault(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = _patches.find_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class PHBase:
    """Marks in concrete_args an argument that is not concrete: it becomes an input of the graph."""

    def __repr__(self) -> str:
        return "PH"


class PHWithMeta(PHBase):
    """One whose attributes become those of the node."""

    def __init__(self, ph_key: str | None = None) -> None:
        self.ph_key = ph_key


PH: PHBase = PHBase()


def _transfer_attrs(of, to):
    for name in dir(of):
        value = getattr(of, name)
        if not callable(value) and not name.startswith("__") and not hasattr(to, name):
            setattr(to, name, value)


def _assert_is_none(value, msg):
    if value is not None:
        raise AssertionError(msg)


wrap(_assert_is_none)


def _plain_parameters(function, count):
    """The function with *args and **kwargs as parameters like others, which are given as they are."""
    code = function.__code__
    code = code.replace(
        co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0, co_flags=code.co_flags & ~_VARIADIC
    )
    return types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


class _Patcher:
    """Attributes patched while a function is traced. Tracers of libraries use it too, so its names are torch's."""

    def __init__(self) -> None:
        self._undo, self._seen = contextlib.ExitStack(), set()

    def __enter__(self) -> _Patcher:
        self._undo.enter_context(_patches.asking())
        return self

    def __exit__(self, *exception: Any) -> None:
        self._undo.__exit__(*exception)

    def patch(self, frame_dict: dict[str, Any], name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """Replaces a global."""
        if not hasattr(frame_dict.get(name), "_is_asking"):
            self._undo.enter_context(_patches.replaced(frame_dict, name, new_fn))

    def patch_method(self, cls: type, name: str, new_fn: Any, deduplicate: bool = True) -> None:
        """Replaces a method; what a module's __getattr__ is, reads its members."""
        if cls is Module and name == "__getattr__":
            name, new_fn = "__getattribute__", _reading(new_fn)
        self._undo.enter_context(_patches.replaced(cls, name, new_fn))

    def visit_once(self, thing: Any) -> bool:
        """Whether it is called with a thing for the first time."""
        first = id(thing) not in self._seen
        self._seen.add(id(thing))
        return first


def _reading(function):
    """A __getattribute__ of modules that reads members by a function."""

    def read(module, name):
        value = object.__getattribute__(module, name)
        if not isinstance(value, _core.Tensor | Module):
            return value
        own = object.__getattribute__(module, "__dict__")
        is_member = any(name in own.get(group, ()) for group in ("_parameters", "_buffers", "_modules"))
        return function(module, name) if is_member else value

    return read


def _patch_wrapped_functions(patcher):
    """Has functions that `wrap` names record calls with proxies."""
    for (_, name), names in list(_wrapped_fns_to_patch.items()):
        function = names.get(name, getattr(builtins, name, None))
        if function is not None:
            patcher.patch(names, name, _patches.wrapped(function))


def _autowrap_check(patcher, frame_dict, function_ids):
    """Has functions with these ids, among the globals of a module, record calls with proxies."""
    if not patcher.visit_once(frame_dict):
        return
    for name, value in list(frame_dict.items()):
        if not name.startswith("_") and callable(value) and id(value) in function_ids:
            patcher.patch(frame_dict, name, _patches.wrapped(value))


class Tracer(TracerBase):
    """Traces modules and functions. What to enter is for derived classes to say: `is_leaf_module`, `create_arg`."""

    root: Any
    graph: Any
    param_shapes_constant: bool
    tensor_attrs: dict[Any, str]
    submodule_paths: dict[Module, str] | None
    root_module_name: str
    num_calls: dict[str, int]
    scope: Scope
    module_stack: dict[str, Any]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def __init__(
        self,
        autowrap_modules: Iterable[ModuleType] = (math,),
        autowrap_functions: Iterable[Callable[..., Any]] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        self._autowrap_search = list(autowrap_modules)
        members = [item for m in self._autowrap_search for item in vars(m).items()]
        self._autowrap_function_ids = {id(v) for n, v in members if not n.startswith("_") and callable(v)}
        self._autowrap_function_ids |= {id(f) for f in autowrap_functions}
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths, self.root_module_name = None, ""
        self.scope, self.module_stack = Scope("", None), OrderedDict()
        self.num_calls, self.node_name_to_scope = {}, {}

    def get_fresh_qualname(self, prefix: str) -> str:
        """The prefix with the first number after it that makes a name the root does not have."""
        number = 0
        while hasattr(self.root, f"{prefix}{number}"):
            number += 1
        return f"{prefix}{number}"

    # -- what derived classes say otherwise

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of a module is a node: it is for Smolder's own, but for containers of others."""
        from smolder.nn import Sequential

        return type(m).__module__.startswith(("smolder.nn", "torch.nn", "torch.ao.nn")) and not isinstance(
            m, Sequential
        )

    def path_of_module(self, mod: Module) -> str:
        """The path of a module in the one that is traced."""
        if self.submodule_paths:
            found = self.submodule_paths.get(mod)
        else:
            found = next((name for name, m in self.root.named_modules() if m is mod), None)
        if found is None:
            raise NameError("module is not installed as a submodule")
        return found

    def call_module(self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Records a call of a module; returns its result."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            calls = self.num_calls.get(path, 0)
            key = f"{scope.module_path}@{calls}" if calls else scope.module_path
            self.module_stack[key] = (path, scope.module_type)
            self.num_calls[path] = calls + 1
            if self.is_leaf_module(m, path):
                out = self.create_proxy("call_module", path, args, kwargs)
            else:
                out = forward(*args, **kwargs)
            self.module_stack.popitem()
        return out

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Returns a member of a module: for a parameter a proxy."""
        if isinstance(attr_val, Parameter):
            return self._proxy_of(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, _core.Tensor):
            return self._proxy_of(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _proxy_of(self, value, members, cache):
        name = next((name for name, member in members if member is value), None)
        if name is None:
            return value
        if name not in cache:
            options = {}
            if self.param_shapes_constant and "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters:
                options["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, name, value)
            cache[name] = self.create_proxy("get_attr", name, (), {}, **options)
        return cache[name]

    def create_arg(self, a: Any) -> Any:
        """As TracerBase's; tensors and modules of the root are read from it, other tensors become attributes of it."""
        members = ()
        if isinstance(a, Parameter):
            members = self.root.named_parameters()
        elif isinstance(a, _core.Tensor):
            members = self.root.named_buffers()
        elif isinstance(a, Module):
            members = self.root.named_modules()
        for name, member in members:
            if member is a:
                return self.create_node("get_attr", name, (), {})
        if isinstance(a, Parameter):
            raise NameError("parameter is not a member of this module")
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(map(self.create_arg, a)), {})
        if isinstance(a, _core.Tensor | _pytree.TreeSpec):
            return self._constant(a, "_tensor_constant" if isinstance(a, _core.Tensor) else "_tree_spec_constant")
        if type(a) in _proxyable_classes:
            name = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, name, a)
            return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _constant(self, value, prefix):
        """A node that reads a value which is no argument: an attribute of the root, made for it if it is none."""
        name = self.tensor_attrs.get(value)
        if name is None:
            name = self.tensor_attrs[value] = self.get_fresh_qualname(prefix)
            setattr(self.root, name, value)
        return self.create_node("get_attr", name, (), {})

    # -- tracing

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module's forward, or of a function; arguments in concrete_args have these values in it."""
        if isinstance(root, Module):
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError(f"traced_func_name={self.traced_func_name} doesn't exist in {type(root).__name__}")
            self.root, function = root, getattr(type(root), self.traced_func_name)
            self.root_module_name = root._get_name()
            self.submodule_paths = {m: name for name, m in root.named_modules()}
        else:
            self.root, function = Module(), root
        self.graph = Graph(tracer_cls=type(self))
        code = getattr(function, "__code__", None)
        if code is not None:
            names = ("co_name", "co_filename", "co_firstlineno")
            self.graph._co_fields = {name: getattr(code, name) for name in names}
        self.tensor_attrs = {}
        self._collect_tensors(self.root, "")
        if not isinstance(function, types.FunctionType):
            raise AssertionError(f"Expected FunctionType, got {type(function)}")
        _active.append(self)
        try:
            self._run(function, isinstance(root, Module), concrete_args)
        finally:
            _active.pop()
        self.submodule_paths = None
        return self.graph

    def _run(self, function, is_module, concrete_args):
        space = function.__globals__
        call, args = self.create_args_for_root(function, is_module, concrete_args)
        with _Patcher() as patcher:
            self._patch(patcher, space)
            out = self.create_arg(call(*args))
            returned = inspect.get_annotations(inspect.unwrap(call)).get("return")
            self.create_node("output", "output", (out,), {}, type_expr=returned)

    def _collect_tensors(self, module, prefix):
        for name, value in vars(module).items():
            is_member = name in module._parameters or name in module._buffers
            if isinstance(value, _core.Tensor | _pytree.TreeSpec) and not is_member:
                self.tensor_attrs[value] = f"{prefix}{name}"
        for name, child in module.named_children():
            self._collect_tensors(child, f"{prefix}{name}.")

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """A function of leaves alone, and a proxy for each: of the root's parameters, but those that have values."""
        of = inspect.unwrap(root_fn)
        code, count = of.__code__, of.__code__.co_argcount + of.__code__.co_kwonlyargcount
        if is_module and count == 0:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        args = [self.root] if is_module else []
        if isinstance(concrete_args, tuple) and concrete_args and code.co_flags & _VARIADIC and count == 1:
            return root_fn, args + [self._flat_placeholder(i, a) for i, a in enumerate(concrete_args)]
        names = list(code.co_varnames[is_module:count])
        if isinstance(concrete_args, tuple):
            if len(names) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(names, concrete_args, strict=True))
        rest = iter(code.co_varnames[count:])
        names += [f"*{next(rest)}"] if code.co_flags & inspect.CO_VARARGS else []
        names += [f"**{next(rest)}"] if code.co_flags & inspect.CO_VARKEYWORDS else []
        signature = inspect.signature(of)
        args += [self._proxy_placeholder(name, concrete_args, signature, of) for name in names]
        if code.co_kwonlyargcount or code.co_flags & _VARIADIC:
            root_fn = _plain_parameters(root_fn, len(args))
        leaves, spec = _pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children()):
            return root_fn, args
        return self._flattened(root_fn, list(code.co_varnames[:count]), spec), leaves

    def _flattened(self, root_fn, names, spec):
        """The function of the leaves of its arguments, which the graph's code takes apart."""
        codegen = self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(names, spec, None))

        def flatten_fn(*leaves):
            out, of = _pytree.tree_flatten(root_fn(*_pytree.tree_unflatten(list(leaves), spec)))
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=of)
            return out

        return flatten_fn

    def _flat_placeholder(self, number, value):
        out = self.create_proxy("placeholder", f"input_{number}", (), {})
        if isinstance(value, PHBase) and value is not PH:
            _transfer_attrs(value, out.node)
        return out

    def _proxy_placeholder(self, name, concrete_args, sig, fn_for_analysis):
        default = ()
        if name[0] != "*" and sig.parameters[name].default is not inspect.Parameter.empty:
            default = (sig.parameters[name].default,)
        if concrete_args is None or name not in concrete_args:
            annotation = fn_for_analysis.__annotations__.get(name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=annotation)
        count = iter(range(1, 1 << 30))

        def put(value):
            out = self.create_proxy("placeholder", f"{name}_{next(count)}", default, {})
            if isinstance(value, PHBase):
                if value is not PH:
                    _transfer_attrs(value, out.node)
                return out
            self._assert_given(out, value, name)
            return value

        return _pytree.tree_map(put, concrete_args[name])

    def _assert_given(self, proxy, value, name):
        """A node that checks that an argument is what the graph was specialized for."""
        from smolder import _assert, device, dtype

        if value is None:
            text = f"{name} has been specialized to have value None but got another value"
            self.create_proxy("call_function", _assert_is_none, (proxy, text), {})
        elif isinstance(value, bool | int | float | complex | str | dtype | device):
            text = f"{name} has been specialized to have value {value} but got another value"
            self.create_proxy("call_function", _assert, (proxy == value, text), {})
        else:
            warnings.warn(
                f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is up to the "
                "user to make sure that your inputs match the inputs you specialized the function with.",
                stacklevel=2,
            )

    def _patch(self, patcher, space):
        """While it traces: calls of modules, members of modules and functions in Python are looked at."""
        cache: dict[str, Any] = {}

        def read(module, name):
            return self.getattr(name, _orig_module_getattr(module, name), cache)

        @functools.wraps(_orig_module_call)
        def call(module, *args, **kwargs):
            space = getattr(getattr(module, "forward", module), "__globals__", {})
            _autowrap_check(patcher, space, self._autowrap_function_ids)
            return self.call_module(module, lambda *a, **k: _orig_module_call(module, *a, **k), args, kwargs)

        patcher.patch_method(Module, "__getattr__", read, deduplicate=False)
        patcher.patch_method(Module, "__call__", call, deduplicate=False)
        _patch_wrapped_functions(patcher)
        for names in (space, *map(vars, self._autowrap_search)):
            _autowrap_check(patcher, names, self._autowrap_function_ids)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        out = type(self).__new__(type(self))
        for name, value in vars(self).items():
            out.__dict__[name] = copy.copy(value) if name == "_autowrap_search" else copy.deepcopy(value, memo)
        return out


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """The GraphModule of a module, or of a function: its forward is run on proxies.

    Arguments in concrete_args are those values, or, where PH is among them, nested as they are there.
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
