"""Ops by name: smolder.ops.namespace.name(...)."""

from __future__ import annotations

import contextlib
import enum
import functools
import os
import sys
import threading
from typing import Any, Self

from smolder import _core
from smolder._autocast import autocast, cast, is_autocast_enabled
from smolder._typing import PathLike
from smolder.cuda._refused import refused

__all__ = ["ops"]


class Tag(enum.IntEnum):
    """Notes of torch's about ops, for its compiler. Ops that programs define keep theirs; nothing here asks for them."""

    core = 0
    cudagraph_unsafe = 1
    data_dependent_output = 2
    dynamic_output_shape = 3
    flexible_layout = 4
    generated = 5
    inplace_view = 6
    maybe_aliasing_or_mutating = 7
    needs_contiguous_strides = 8
    needs_exact_strides = 9
    needs_fixed_stride_order = 10
    nondeterministic_bitwise = 11
    nondeterministic_seeded = 12
    out_variant = 13
    pointwise = 14
    pt2_compliant_tag = 15
    reduction = 16
    view_copy = 17


def tags_of(given: Any) -> list[Tag]:
    """Tags as define() and custom_op() are given them."""
    tags = (given,) if isinstance(given, Tag | str) else tuple(given or ())
    for tag in tags:
        if not isinstance(tag, Tag):
            raise TypeError(f"tags: expected members of Tag, but got {tag!r}")
    return list(tags)


class OpOverload:
    """An op that was registered, as a function. Those of smolder.library say what it is made of."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._namespace, self._name = core.name.split("::")
        self._arguments = core.arguments  # (name, type, keyword only, has a default, default, written to)
        self._names = [a[0] for a in self._arguments]
        self._fake = self._kernel = self._composite = self._function = None
        self._autocast = {}  # the dtype that operands are cast to, by type of devices
        self._autograd = {}  # what a call outside of BelowAutograd is, by type of devices
        self._run = core.call  # what a call does, gradients left aside
        self.tags: list[Tag] = []

    @property
    def default(self) -> Self:
        """Itself: there is one overload of each name."""
        return self

    @property
    def _schema(self):
        return self._core.signature

    def name(self) -> str:
        """Namespace and name."""
        return self._core.name

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self._namespace}.{self._name}', overload='default')>"

    def __str__(self) -> str:
        return f"{self._namespace}.{self._name}.default"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        args = self._bind(args, kwargs)
        if self._autocast and _core._autocasting():
            for device_type, dtype in self._autocast.items():
                if is_autocast_enabled(device_type):
                    with autocast(device_type, enabled=False):
                        return self(*cast(args, device_type, dtype))
        if self._autograd and not BelowAutograd.is_on():
            whole = self._autograd.get(_device_type(args))
            if whole is not None:
                return whole(*args)
        if self._function is not None and _core.is_grad_enabled() and any_requires_grad(args):
            return self._function(args)
        return self._run(args)

    def _bind(self, args, kwargs):
        """All arguments in the order of the signature."""
        arguments = self._arguments
        if len(args) == len(arguments) and not kwargs and not arguments[-1][2]:
            return args
        most = sum(not a[2] for a in arguments)
        declared = f"Declaration: {self._schema}"
        if len(args) > most:
            raise RuntimeError(
                f"{self.name()}() expected at most {most} argument(s) but received {len(args)} argument(s). {declared}"
            )
        out = list(args)
        for name, _, _, has_default, default, _ in arguments[len(args) :]:
            if name in kwargs:
                out.append(kwargs.pop(name))
            elif has_default:
                out.append(default)
            else:
                raise RuntimeError(f"{self.name()}() is missing value for argument '{name}'. {declared}")
        for name in kwargs:
            raise RuntimeError(
                f"Unknown keyword argument '{name}' for operator '{self.name()}'. Schema: {self._schema}"
            )
        return tuple(out)


class BelowAutograd(contextlib.AbstractContextManager[None]):
    """Within it, calls of ops go past what was registered for the keys of autograd."""

    _threads = threading.local()

    @classmethod
    def is_on(cls) -> bool:
        """Whether the calling thread is in one."""
        return getattr(cls._threads, "depth", 0) > 0

    def __enter__(self) -> None:
        self._threads.depth = getattr(self._threads, "depth", 0) + 1

    def __exit__(self, *exception: object) -> None:
        self._threads.depth -= 1


def _device_type(args):
    """The type of the device of the first tensor, which says where an op runs."""
    for a in args:
        if isinstance(a, _core.Tensor):
            return a.device.type
        if isinstance(a, list | tuple) and (found := _device_type(a)) is not None:
            return found
    return None


def any_requires_grad(args: tuple[Any, ...]) -> bool:
    """Whether a tensor among them, or in lists of them, requires grad."""
    for a in args:
        if isinstance(a, _core.Tensor):
            if a.requires_grad:
                return True
        elif isinstance(a, list | tuple) and any_requires_grad(a):
            return True
    return False


class _Asked(threading.local):
    """The calls of a thread that modes are being asked about: ops, and what runs the call as it was recorded."""

    def __init__(self):
        self.calls = []


asked = _Asked()


class _AtenOp:
    """A function of Smolder's as torch's op of that name; its overloads, `op.default` and others, are the op itself."""

    def __init__(self, name: str, function: Any, namespace: str = "aten") -> None:
        self.__name__, self._function, self.namespace = name, function, namespace

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for op, run in reversed(asked.calls):
            if op is self:
                return run(*args, **kwargs)
        return self._function(*args, **kwargs)

    def __getattr__(self, name: str) -> _AtenOp:
        if name.startswith("_") and name != "_overloadpacket":
            raise AttributeError(name)
        return self

    def name(self) -> str:
        """Namespace and name."""
        return f"{self.namespace}::{self.__name__}"

    def __repr__(self) -> str:
        return f"<op '{self.namespace}.{self.__name__}'>"

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}.default"


def _to_copy(input: Any, *, layout: Any = None, pin_memory: Any = None, **options: Any) -> Any:
    if layout is not None and layout != input.layout:
        raise NotImplementedError(f"ops.aten._to_copy: layout={layout} is not supported: use to_sparse() or to_dense()")
    out = input.to(copy=True, **options)
    return out.pin_memory() if pin_memory else out


_COPIES = {"_to_copy": _to_copy}  # ops that are no functions


@functools.cache
def aten(name: str) -> _AtenOp:
    """torch's op of that name."""
    import smolder

    function = _COPIES.get(name) or getattr(smolder, name, None) or getattr(smolder.Tensor, name, None)
    function = function or getattr(smolder.nn.functional, name, None)
    if not callable(function):
        from smolder.torch import is_op

        if not is_op(name):
            raise AttributeError(f"'_OpNamespace' 'aten' object has no attribute '{name}'")
        function = refused(f"ops.aten.{name}", "there is no such function")
    return _AtenOp(name, function)


class CoreCall:
    """A built-in op as the runtime records it, as a function of the arguments of its signature."""

    def __init__(self, core: Any) -> None:
        self._call, self._names = core.call, [a[0] for a in core.arguments]
        self._defaults = {a[0]: a[4] for a in core.arguments if a[3]}

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        given = {**self._defaults, **dict(zip(self._names, args, strict=False)), **kwargs}
        return self._call(tuple(given[name] for name in self._names))


@functools.cache
def own(name: str) -> _AtenOp:
    """An op of Smolder's that torch has none of, as its modes see it."""
    return _AtenOp(name, CoreCall(_core._find_op(name)), "smolder")


# Collectives of torch's own, which libraries name beside the ops that they run: calling one raises.
_COLLECTIVES = {
    "_c10d_functional": [
        "_wrap_tensor_autograd", "all_gather_into_tensor", "all_gather_into_tensor_coalesced",
        "all_gather_into_tensor_out", "all_reduce", "all_reduce_", "all_reduce_coalesced", "all_reduce_coalesced_",
        "all_to_all_single", "broadcast", "broadcast_", "reduce_scatter_tensor", "reduce_scatter_tensor_coalesced",
        "reduce_scatter_tensor_out", "wait_tensor"
    ],
    "c10d": [
        "_allgather_base_", "_reduce_scatter_base_", "allgather_", "allgather_coalesced_",
        "allgather_into_tensor_coalesced_", "allreduce_", "allreduce_coalesced_", "alltoall_", "alltoall_base_",
        "barrier", "broadcast_", "gather_", "monitored_barrier_", "recv_", "recv_any_source_", "reduce_",
        "reduce_scatter_", "reduce_scatter_tensor_coalesced_", "scatter_", "send"
    ],
}  # fmt: skip
_COLLECTIVES["c10d_functional"] = _COLLECTIVES["_c10d_functional"]  # as they were called before


@functools.cache
def _collective(namespace, name):
    return _AtenOp(name, refused(f"ops.{namespace}.{name}", "smolder.distributed has the collectives"), namespace)


class _OpNamespace:
    """The ops of one namespace."""

    _of: str

    def __init__(self, name: str) -> None:
        self._of = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._of == "aten":
            return aten(name)
        if name in _COLLECTIVES.get(self._of, ()):
            return _collective(self._of, name)
        found = known.get(f"{self._of}::{name}")
        if found is None:
            try:
                if self._of == "smolder":
                    return own(name)
                core = _core._find_op(f"{self._of}::{name}")  # one that C++ registered
            except RuntimeError:
                raise AttributeError(f"'_OpNamespace' '{self._of}' object has no attribute '{name}'") from None
            found = OpOverload(core)
        return found

    def __repr__(self) -> str:
        return f"<module 'smolder.ops.{self._of}'>"


class _Ops:
    """Namespaces of ops."""

    def __init__(self) -> None:
        self.loaded_libraries: set[str] = set()
        self._not_loaded: set[str] = set()  # built for PyTorch: programs go on without their ops

    def load_library(self, path: PathLike) -> None:
        """Opens a shared library, which registers ops: docs/cpp.md. Its code runs."""
        path = os.path.realpath(path)
        try:
            _core._load_library(path)
        except RuntimeError as e:
            # A library that was built for PyTorch is none here, as one that is absent: libraries go on without it.
            there = os.path.exists(path)
            known = sys.modules.get("smolder.torch")
            if there and known is not None and known._registers_for(path):
                self.loaded_libraries.add(path)
                return
            if not there or "cannot open shared object" in str(e) or "undefined symbol" in str(e):
                self._not_loaded |= {path} if there else set()
                raise OSError(str(e)) from None
            raise
        self.loaded_libraries.add(path)

    def __getattr__(self, name: str) -> _OpNamespace:
        if name.startswith("__"):
            raise AttributeError(name)
        return _OpNamespace(name)

    def __repr__(self) -> str:
        return "<module 'smolder.ops'>"


known = {}  # by qualified name: those that Python registered
ops: _Ops = _Ops()
