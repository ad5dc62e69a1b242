"""TorchScript, which there is none of: programs may ask whether they are scripted, and mark functions, as in torch.

A scripted function means what it means in Python, so script returns what it is given; trace compiles it, unless
PYTORCH_JIT=0 is in the environment, which turns torch's off as well. What was traced is saved as the graph that
smolder.capture makes of it for the example; files of TorchScript are neither read nor written.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import os
import types
import typing
from collections.abc import Callable, Iterator
from typing import Any

from smolder._names import listing as _listing
from smolder._typing import F, T
from smolder._warn import warn
from smolder.cuda._refused import refused_class

__all__ = [
    "Attribute",
    "Final",
    "ScriptFunction",
    "ScriptModule",  # noqa: F822 - made below, when it is asked for
    "TracerWarning",
    "annotate",
    "export",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
]
__dir__ = _listing(__name__)

Final = typing.Final


class TracerWarning(Warning):
    """The warning that torch's trace gives."""


class Attribute(typing.NamedTuple):
    """A value and the type that a script should take it for."""

    value: object
    type: object


def is_scripting() -> bool:
    """False: no function is being scripted."""
    return False


def is_tracing() -> bool:
    """False: no function is being traced."""
    return False


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object is of a type, of a container by what it contains too: list[Tensor], dict[str, int], int | None."""
    origin, inner = typing.get_origin(target_type), typing.get_args(target_type)
    if origin in (typing.Union, types.UnionType):
        return any(isinstance(obj, one) for one in inner)
    bare = {list: "List", tuple: "Tuple", dict: "Dict"}
    if target_type in bare or (origin in bare and not inner):
        name = bare[origin or target_type]
        raise RuntimeError(
            f"Attempted to use {name} without a contained type. Please add a contained type, e.g. {name}[int]"
        )
    if origin is None:
        return builtins.isinstance(obj, target_type)
    if not builtins.isinstance(obj, origin):
        return False
    if origin is dict:
        return all(isinstance(k, inner[0]) and isinstance(v, inner[1]) for k, v in obj.items())
    if origin is tuple:
        return len(obj) == len(inner) and all(map(isinstance, obj, inner))
    return all(isinstance(item, inner[0]) for item in obj)


# -- marks, which say what a script would make of a function


def _marked(function, modifier):
    for one in (function.fget, function.fset) if builtins.isinstance(function, property) else (function,):
        if one is not None:
            one._torchscript_modifier = modifier
    return function


def export(fn: F) -> F:
    """Marks a method that a script should have although nothing in it calls it."""
    return _marked(fn, "export (compile this function even if nothing calls it)")


def unused(fn: F) -> F:
    """Marks a function that a script should not have."""
    return _marked(fn, "unused (ignored and replaced with raising of an exception)")


def ignore(drop: bool = False, **kwargs: Any) -> Any:
    """Marks a function that a script should call as Python's, or, with drop, not have."""
    left = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    if callable(drop):
        return _marked(drop, left)
    if not builtins.isinstance(drop, bool):
        raise RuntimeError(f"Argument to @smolder.jit.ignore must be a bool or a function but got {drop}")
    old = kwargs.pop("drop_on_export", None)
    if old or drop:
        warn(
            f"ignore({'drop_on_export=True' if old else 'True'}) has been deprecated. TorchScript will now drop the "
            "function call on compilation. Use smolder.jit.unused now.",
            FutureWarning,
        )
    return unused if old or drop else lambda fn: _marked(fn, left)


def _overload(func):
    """Marks one of the types that a function takes."""
    return func


_overload_method = _overload


def interface(obj: object) -> Any:
    """Marks a class that says what methods a scripted module has."""
    if not builtins.isinstance(obj, type):
        raise RuntimeError("interface must be applied to a class")
    return obj


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value; a script would take it to be of the type."""
    return the_value


def script_if_tracing(fn: F) -> F:
    """The function, which would be scripted where one that calls it is traced."""

    @functools.wraps(fn)
    def call(*args, **kwargs):
        return fn(*args, **kwargs)

    return call


_script_if_tracing = script_if_tracing


@contextlib.contextmanager
def optimized_execution(should_optimize: bool) -> Iterator[None]:
    """Whether scripts that run within it are optimized; there are none."""
    yield


@contextlib.contextmanager
def fuser(name: str) -> Iterator[None]:
    """How scripts that run within it are fused; there are none."""
    if name not in ("fuser0", "fuser1", "fuser2", "fuser3", "none"):
        raise Exception(f"unrecognized fuser option (name: {name})")
    yield


# -- what makes scripts

_WHY = "there is no TorchScript: use smolder.compile or smolder.export"
_told = set()


def _as_it_is(name, what) -> Callable[..., Any]:
    if name not in _told:
        _told.add(name)
        warn(f"smolder.jit.{name}: {what}")


def script(obj: T, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> T:
    """The function, class or module itself, which does in Python what it would do as a script. Warns once."""
    _as_it_is("script", "there is no TorchScript, and what was given is returned as it is, to run in Python")
    return obj


def script_method(fn: T) -> T:
    """The method itself, as script does."""
    _as_it_is("script_method", "there is no TorchScript, and what was given is returned as it is, to run in Python")
    return fn


def trace(func: T, example_inputs: Any = None, *, example_kwarg_inputs: Any = None, **options: Any) -> T:
    """smolder.compile of the function or module: recorded at a call, and again at calls that are not like it.

    torch's keeps what the example did whatever later calls are given. The options check and store a trace; none is kept.
    """
    from smolder.compiler import compile

    for option in options:
        if option not in _TRACE_OPTIONS:
            raise TypeError(f"trace() got an unexpected keyword argument '{option}'")
    _as_it_is("trace", "there is no TorchScript, and what was given is compiled with smolder.compile")
    out = func if _disabled() else compile(func)
    args = example_inputs if builtins.isinstance(example_inputs, tuple | list) else (example_inputs,)
    if example_inputs is not None or example_kwarg_inputs is not None:
        args = () if example_inputs is None else tuple(args)
        with contextlib.suppress(AttributeError, TypeError):  # a function of C has no attributes
            vars(out)["_traced_with"] = (func, args, example_kwarg_inputs or {})
            vars(out)["save"] = functools.partial(save, out)
    return out


_TRACE_OPTIONS = {"optimize", "check_trace", "check_inputs", "check_tolerance", "strict"}
_TRACE_OPTIONS |= {"_force_outplace", "_module_class", "_compilation_unit", "_store_inputs"}


def trace_module(mod: T, inputs: dict[str, Any], **options: Any) -> T:
    """The same of a module, of whose methods only forward is compiled."""
    if set(inputs) - {"forward"}:
        raise NotImplementedError(f"jit.trace_module: only forward can be traced, got {sorted(inputs)}")
    return trace(mod, inputs.get("forward"), **options)


def _disabled():
    return os.environ.get("PYTORCH_JIT", "1").lower() in ("0", "0v", "false", "no")


def save(m: Any, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
    """Writes what trace returned to a file, as the graph that smolder.capture makes of it for the example it was given."""
    from smolder import _graph

    if _extra_files:
        raise NotImplementedError("jit.save: _extra_files is not supported")
    graph = m.graph if builtins.isinstance(m, _loaded_class()) else m
    if not builtins.isinstance(graph, _graph.Graph):
        traced = getattr(m, "__dict__", {}).get("_traced_with")
        if traced is None:
            raise NotImplementedError(
                "jit.save is not supported but for what jit.trace returned: there is no TorchScript; smolder.export.save "
                "and load keep what smolder.export.export captured"
            )
        function, args, kwargs = traced
        graph = _graph.capture(function, *args, **kwargs)
    with _as_file(f, "wb") as path:
        graph.save(path)


def load(f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None) -> Any:
    """The module of a file that save, or Graph.save, wrote: its parameters are the graph's weights."""
    from smolder import _graph

    if _extra_files:
        raise NotImplementedError("jit.load: _extra_files is not supported")
    with _as_file(f, "rb") as path:
        with open(path, "rb") as file:
            if file.read(2) == b"PK":
                raise NotImplementedError(
                    "jit.load is not supported of files that PyTorch wrote: there is no TorchScript; smolder.export.save and "
                    "load keep what smolder.export.export captured"
                )
        graph = _graph.load_graph(path)
    return _loaded_class()(graph if map_location is None else graph.to(map_location))


@contextlib.contextmanager
def _as_file(f, mode):
    """The path of a file; of a file object that of one whose bytes are read from it, or are written to it in the end."""
    if builtins.isinstance(f, str | os.PathLike):
        yield os.fspath(f)
        return
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "graph")
        if mode == "rb":
            with open(path, "wb") as file:
                file.write(f.read())
        yield path
        if mode == "wb":
            with open(path, "rb") as file:
                f.write(file.read())


@functools.cache
def _loaded_class():
    from smolder.nn import Module

    class LoadedGraph(Module):
        """A graph of a file, as a module."""

        def __init__(self, graph):
            super().__init__()
            self.graph = graph
            for name, weight in graph.state_dict().items():
                *path, last = name.split(".")
                of = self
                for part in path:
                    if part not in of._modules:
                        of.add_module(part, Module())
                    of = of._modules[part]
                of.register_buffer(last, weight)

        def forward(self, *args, **kwargs):
            return self.graph(*args, **kwargs)

        def _apply(self, fn, recurse=True):
            super()._apply(fn, recurse)
            self.graph = self.graph.bind(dict(self.named_buffers()))
            return self

        def save(self, f):
            """Writes the graph to a file."""
            save(self, f)

    return LoadedGraph


ScriptFunction: Any = refused_class("jit.ScriptFunction", _WHY)


def freeze(mod: T, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> T:
    """The module: weights are constants of a step as long as nobody writes them. It has to be in evaluation mode."""
    if mod.training:
        raise RuntimeError("Freezing is currently only implemented for modules in eval mode. Please call .eval() first")
    return mod


def optimize_for_inference(mod: T, other_methods: list[str] | None = None) -> T:
    """The module: what a step computes is optimized when it is compiled."""
    return mod


def __getattr__(name: str) -> Any:
    if name != "ScriptModule":
        from smolder._missing import missing

        raise missing(__name__, name)
    from smolder.nn import Module

    # As torch's where it is turned off: a module, whose methods are left as they are.
    made = globals()[name] = type(name, (Module,), {"__doc__": "A module, whose methods run in Python."})
    return made
