"""Ops and kernels of your own, as torch.library has them. See docs/custom_ops.md."""

from __future__ import annotations

import atexit
import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NoReturn, ParamSpec, TypeVar, overload

from smolder import _core, _ops
from smolder._names import listing as _listing
from smolder._op_calls import has_results, run
from smolder._op_gradients import differentiable, late_gradient
from smolder._schema import infer_schema
from smolder._typing import DType, F, PathLike

if TYPE_CHECKING:
    from smolder._typing import OpOverload

__all__ = [
    "CustomOpDef", "Library", "custom_op", "define", "impl", "infer_schema", "load_library", "opcheck",
    "register_autocast", "register_autograd", "register_fake", "register_kernel", "triton_op",
]  # fmt: skip
__dir__ = _listing(__name__)

# The meaning of a dispatch key here; backends that were added are found by name.
_KERNEL_KEYS = {"CPU": "CPU", "CUDA": "CUDA", "CompositeExplicitAutograd": "CPU"}
_UNSUPPORTED_KEYS = {
    "AutocastCPU": "use register_autocast",
    "AutocastCUDA": "use register_autocast",
    "ADInplaceOrView": "use mutates_args",
    "BackendSelect": "ops run where their tensors are",
    "FuncTorchBatched": "there is no vmap",
    "Python": "modes see ops, and classes of tensors do not",
}
_AUTOGRAD_KEYS = {"Autograd": ("cpu", "cuda"), "AutogradCPU": ("cpu",), "AutogradCUDA": ("cuda",)}
_DEVICE_KEYS = {"cpu": "CPU", "cuda": "CUDA"}
_ABSENT_KEYS = {"HPU", "IPU", "MPS", "MTIA", "XLA", "XPU"}  # of devices that there are none of: their kernels never run

_defining = set()  # namespaces with a Library of kind DEF
_libraries = weakref.WeakSet()


def load_library(path: PathLike) -> None:
    """Opens a shared library, whose SMOLDER_LIBRARY blocks register ops: smolder.ops.namespace.name is each of them.

    smolder.utils.cpp_extension.load compiles sources to one and opens it.
    """
    _ops.ops.load_library(path)


class Library:
    """Registers ops (`define`) and kernels (`impl`) of a namespace, and takes them back with `_destroy`."""

    ns: str
    dispatch_key: str

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise ValueError("Unsupported kind: ", kind)
        if kind == "DEF":
            if ns in _defining or ns == "aten":
                raise RuntimeError(
                    f"Only a single TORCH_LIBRARY can be used to register the namespace {ns}; please put all of your "
                    "definitions in a single TORCH_LIBRARY block. If you were trying to specify implementations, "
                    "consider using TORCH_LIBRARY_IMPL (which can be duplicated)."
                )
            _defining.add(ns)
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._undo = []
        _libraries.add(self)

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})>"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Registers an op without kernels; returns its name."""
        if alias_analysis not in ("", "CONSERVATIVE", "FROM_SCHEMA"):
            raise RuntimeError(f"Invalid alias_analysis type {alias_analysis}")
        tags = _ops.tags_of(tags)
        if self.kind == "IMPL":
            raise RuntimeError(f"{self}: a library of kind IMPL cannot define '{schema}'")
        name = schema.split("(")[0].strip()
        qualified = name if "::" in name else f"{self.ns}::{name}"
        if qualified.split("::")[0] != self.ns:
            raise RuntimeError(f"{self}: cannot define {qualified}, which is of another namespace")
        op = _ops.OpOverload(_core._define_op(schema if "::" in name else f"{self.ns}::{schema}"))
        op._run, op.tags = functools.partial(run, op), tags
        _ops.known[qualified] = op
        if qualified in _early_fakes:
            _set_fake(op, _early_fakes.pop(qualified))
        self._undo.append(lambda: (_ops.known.pop(qualified, None), op._core.remove(), _forget(op)))
        for library, key, fn in _early_kernels.pop(qualified, ()):
            library._undo.append(_implement(op, key, fn))
        return name

    def impl(
        self,
        op_name: Any,
        fn: Callable[..., Any] | None,
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> Any:
        """Makes `fn` run the op where `dispatch_key` says; it may be a built-in one of the namespace "aten"."""
        if not callable(fn):
            raise TypeError(f"Input function is required to be a callable but found type {type(fn)}")
        if with_keyset:
            raise NotImplementedError("with_keyset is not supported: there are no keysets")
        key = dispatch_key or self.dispatch_key or "CompositeImplicitAutograd"
        name = op_name if isinstance(op_name, str) else op_name.name()
        qualified = name if "::" in name else f"{self.ns}::{name}"
        if not _exists(qualified) and not qualified.startswith("aten::"):
            _early_kernels.setdefault(qualified, []).append((self, key, fn))
            return
        self._undo.append(_implement(_find(qualified), key, fn))

    def _register_fake(self, op_name, fn, _stacklevel=1, *, allow_override=False):
        op = _find(op_name if "::" in op_name else f"{self.ns}::{op_name}")
        _set_fake(op, fn)

    def _destroy(self):
        """Takes back what was registered. Calls recorded before go on to work."""
        while self._undo:
            self._undo.pop()()
        if self.kind == "DEF":
            _defining.discard(self.ns)
            self.kind = "IMPL"


@atexit.register
def _destroy_all():
    # The runtime keeps kernels for as long as the process lives: it must not call into an interpreter that is gone.
    for op in list(_custom.values()):
        op._destroy()
    for library in list(_libraries):
        library._destroy()


def _find(name):
    """The op called so, as smolder.ops has it; a built-in one is an OpOverload of nothing but its core."""
    found = _ops.known.get(name)
    if found is not None:
        return found
    core = _core._find_op(name)
    return _Builtin(core) if not core.is_user_op else _ops.OpOverload(core)


class _Builtin:
    """An op of the op table, whose kernels may be overridden."""

    def __init__(self, core):
        self._core = core
        self._kernel = self._composite = self._function = None

    def name(self):
        return f"aten::{self._core.name}"


def _with_autograd(known, key, fn):
    """Implementations by type of device; one for a type goes before one for all."""
    made = dict.fromkeys(_AUTOGRAD_KEYS[key], fn)
    return {**made, **known} if key == "Autograd" else {**known, **made}


def _implement(op, key, fn):
    """Registers a function for a key; returns what undoes it."""
    builtin = isinstance(op, _Builtin)
    if key in _UNSUPPORTED_KEYS:
        raise NotImplementedError(f"{op.name()}: the dispatch key {key} is not supported: {_UNSUPPORTED_KEYS[key]}")
    if key in _ABSENT_KEYS:
        return lambda: None
    if key == "Meta":
        _set_fake(op, fn)
        return lambda: None
    if key in _AUTOGRAD_KEYS:
        if builtin:
            raise NotImplementedError(f"{op.name()}: the gradient of a built-in op can't be replaced")
        before, op._autograd = op._autograd, _with_autograd(op._autograd, key, fn)
        return lambda: setattr(op, "_autograd", before)
    if key == "CompositeImplicitAutograd":
        if builtin:
            raise NotImplementedError(f"{op.name()}: a decomposition of a built-in op can't be replaced; override its "
                                      "kernel for a device")  # fmt: skip
        before, op._composite = op._composite, fn
        return lambda: setattr(op, "_composite", before)
    backend = _KERNEL_KEYS.get(key)
    if backend is None:
        try:
            _core._find_backend(key)
        except ValueError:
            raise RuntimeError(f"could not parse dispatch key: {key}") from None
        backend = key
    if not builtin and not op._core.has_kernel(backend):
        op._core.set_kernel(backend, fn)
        if backend == "CPU":
            op._kernel = fn

        def clear():
            op._core.clear_kernel(backend)
            op._kernel = None if backend == "CPU" else op._kernel

        return clear
    before, op._kernel = op._kernel, fn if backend == "CPU" else op._kernel
    override = op._core.override(backend, fn)

    def undo():
        override.remove()
        op._kernel = before

    return undo


def _set_fake(op, fn, lasts=True):
    if isinstance(op, _Builtin) or not hasattr(op._core, "set_fake"):
        raise RuntimeError(f"register_fake: {op.name()} has a shape rule already")
    if op._fake is not None and op._fake_lasts:
        raise RuntimeError(f"register_fake(...): the operator {op.name()} already has a fake impl registered")
    op._core.set_fake(fn)
    op._fake, op._fake_lasts = fn, lasts


def _forget(op):
    op._fake = op._kernel = op._composite = op._function = None
    op._core.clear_gradient()


# -- gradients


def register_autograd(
    op: str | OpOverload | CustomOpDef[..., Any],
    backward: Callable[..., Any],
    /,
    *,
    setup_context: Callable[..., Any] | None = None,
    lib: Library | None = None,
) -> None:
    """Registers how an op is differentiated: backward(ctx, *grads) returns one gradient an argument."""
    found = _resolve(op)
    if isinstance(found, _Builtin):
        raise RuntimeError(f"register_autograd: the gradient of {found.name()} is built in and can't be replaced")
    if any(a[5] for a in found._arguments) or not has_results(found):
        raise RuntimeError(
            f"Cannot register autograd formula for non-functional operator {found} with schema {found._schema}. "
            "Please create a functional operator and register an autograd formula for that."
        )
    with contextlib.suppress(NotImplementedError):  # where C++ knows no gradients of such a signature
        found._core.set_gradient(late_gradient(found, backward, setup_context))
    found._function = differentiable(found, backward, setup_context)


def register_autocast(
    op: str | OpOverload | CustomOpDef[..., Any], device_type: str, cast_inputs: DType, /, *, lib: Library | None = None
) -> None:
    """In regions of autocast, an op's floating-point operands are cast to cast_inputs; it runs with autocast off."""
    found = _resolve(op)
    if isinstance(found, _Builtin):
        raise NotImplementedError(f"register_autocast: what autocast does with {found.name()} is built in")
    if device_type not in _DEVICE_KEYS:
        raise ValueError(f"Unknown device type: {device_type}")
    found._autocast[device_type] = cast_inputs


# -- functions over names


def _resolve(op):
    if isinstance(op, CustomOpDef):
        return op._opoverload
    if isinstance(op, _ops.OpOverload):
        return op
    if not isinstance(op, str):
        raise ValueError(f"expected an op or its name, got {op!r}")
    if "::" not in op:
        raise ValueError(f"expected 'namespace::name', got '{op}'")
    return _find(op)


def _exists(name):
    try:
        return _find(name) is not None
    except RuntimeError:
        return False


_early_fakes = {}  # shape rules of ops that are not defined yet, by qualified name
_early_kernels: dict[
    str, list[Any]
] = {}  # by qualified name of ops that are not defined yet: libraries, keys and functions
_kept = {}  # libraries behind functions that take no library, by namespace


def _library_of(qualified):
    ns = qualified.split("::")[0]
    if ns not in _kept:
        _kept[ns] = Library(ns, "FRAGMENT")
    return _kept[ns]


def _old_form(library, name, dispatch_key):
    """Decorates a function that a library runs an op by."""

    def register(fn):
        library.impl(name, fn, dispatch_key)
        return fn

    return register


def define(qualname: str | Library, schema: str | None = None, *, lib: Library | None = None, tags: Any = ()) -> Any:
    """Registers an op: define("ns::name", "(Tensor x) -> Tensor").

    define(library, "name(Tensor x) -> Tensor") is a decorator, of the function that it runs.
    """
    if isinstance(qualname, Library):
        return _old_form(qualname, qualname.define(schema), "")
    if "::" not in qualname:
        raise ValueError(f"torch.library.define: expected name to be of the form 'namespace::name', got '{qualname}'")
    if schema is None:
        raise ValueError(f"define({qualname!r}): the schema is missing")
    (lib or _library_of(qualname)).define(qualname + schema, tags=tags)


def _keys_of(device_types):
    if device_types is None or device_types == "default":
        return ["CompositeExplicitAutograd"]
    names = [device_types] if isinstance(device_types, str) else list(device_types)
    keys = []
    for name in names:
        if name.upper() in _ABSENT_KEYS:
            keys.append(name.upper())
            continue
        if name not in _DEVICE_KEYS:
            known = ", ".join(_DEVICE_KEYS)
            raise RuntimeError(f"Expected one of {known} device type at start of device string: {name}")
        keys.append(_DEVICE_KEYS[name])
    return keys


def register_kernel(
    op: str | OpOverload | CustomOpDef[..., Any],
    device_types: str | Sequence[str] | None,
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
) -> Any:
    """Makes a function run an op on devices ("cpu"; None for all)."""
    keys = _keys_of(device_types)
    found = _resolve(op)

    def register(fn):
        for key in keys:
            (lib or _library_of(found.name())).impl(found.name(), fn, key)
        return fn

    return register if func is None else register(func)


def _is_key(types):
    """Whether it is a dispatch key, and no devices."""
    return isinstance(types, str) and (
        types in _KERNEL_KEYS or types in _UNSUPPORTED_KEYS or types in _AUTOGRAD_KEYS
        or types in _ABSENT_KEYS or types in ("Meta", "CompositeImplicitAutograd")
    )  # fmt: skip


def impl(
    qualname: str | Library,
    types: str | Sequence[str],
    func: Callable[..., Any] | str | None = None,
    *,
    lib: Library | None = None,
) -> Any:
    """The same, by name; a dispatch key may be given for the devices.

    impl(library, "name", dispatch_key) is a decorator too. The op may be defined later.
    """
    if isinstance(qualname, Library):
        return _old_form(qualname, types, func or "")
    early = isinstance(qualname, str) and "::" in qualname and not _exists(qualname)
    name = qualname if early else _resolve(qualname).name()
    given = types if isinstance(types, list | tuple | set) else [types]
    keys = [key for t in given for key in ([t] if _is_key(t) else _keys_of(t))]

    def register(fn):
        for key in keys:
            (lib or _library_of(name)).impl(name, fn, key)
        return fn

    return register if func is None else register(func)


def register_fake(
    op: str | OpOverload | CustomOpDef[..., Any],
    func: Callable[..., Any] | None = None,
    /,
    *,
    lib: Library | None = None,
    _stacklevel: int = 1,
    allow_override: bool = False,
) -> Any:
    """Registers an op's shape rule: given tensors without values, it returns such tensors.

    The op has to exist, unless a library of ops was met that is PyTorch's own: it may be one of that, or defined later.
    """
    early = isinstance(op, str) and "::" in op and bool(_ops.ops._not_loaded) and not _exists(op)
    found = None if early else _resolve(op)

    def register(fn):
        if early:
            _early_fakes[op] = fn
        else:
            _set_fake(found, fn)
        return fn

    return register if func is None else register(func)


P = ParamSpec("P")
R = TypeVar("R")


class CustomOpDef(Generic[P, R]):
    """An op made by `custom_op`."""

    def __init__(
        self,
        namespace: str,
        name: str,
        schema: str,
        fn: Callable[..., Any] | None,
        device_types: str | Sequence[str] | None,
    ) -> None:
        self._namespace, self._name, self._init_fn = namespace, name, fn
        self._qualname = f"{namespace}::{name}"
        before = _custom.pop(self._qualname, None)
        if before is not None:  # defined again, as in a notebook
            before._destroy()
        self._lib = Library(namespace, "FRAGMENT")
        self._lib.define(name + schema)
        self._opoverload = _ops.known[self._qualname]
        _custom[self._qualname] = self
        self._kernels = {}
        functools.update_wrapper(self, fn)
        self.register_kernel(device_types, fn)

    def _destroy(self):
        for undo in self._kernels.values():
            undo()
        self._kernels.clear()
        self._lib._destroy()

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._opoverload(*args, **kwargs)

    def register_kernel(self, device_types: str | Sequence[str] | None, fn: Callable[..., Any] | None = None, /) -> Any:
        """Makes a function run the op on devices; the one that was decorated runs it on all others."""

        def register(fn):
            for key in _keys_of(device_types):
                backend = _KERNEL_KEYS[key]
                before = self._kernels.get(backend)
                if before is not None:
                    before()
                self._kernels[backend] = _implement(self._opoverload, key, fn)
            return fn

        return register if fn is None else register(fn)

    def register_fake(self, fn: F, /) -> F:
        """Registers the op's shape rule."""
        _set_fake(self._opoverload, fn)
        return fn

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """Registers how the op is differentiated."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None, /) -> NoReturn:
        """vmap is not supported."""
        raise NotImplementedError(f"{self._qualname}: register_vmap is not supported")

    def register_torch_dispatch(self, torch_dispatch_class: Any, fn: Callable[..., Any] | None = None, /) -> NoReturn:
        """__torch_dispatch__ is not supported."""
        raise NotImplementedError(f"{self._qualname}: register_torch_dispatch is not supported")

    def register_autocast(self, device_type: str, cast_inputs: DType, /) -> None:
        """In regions of autocast, floating-point operands are cast to cast_inputs and the op runs with autocast off."""
        register_autocast(self, device_type, cast_inputs)


_custom = {}  # by qualified name


@overload
def custom_op(
    name: str,
    fn: None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Callable[[Callable[P, R]], CustomOpDef[P, R]]: ...
@overload
def custom_op(
    name: str,
    fn: Callable[P, R],
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> CustomOpDef[P, R]: ...
def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Makes a function an op: custom_op("ns::name", mutates_args=()), a decorator.

    Without `schema` the function's annotations say what it takes and returns.
    """
    tags = _ops.tags_of(tags)

    def make(fn):
        if name.count("::") != 1:
            raise ValueError(f"custom_op: expected the name to be of the form 'namespace::name', got '{name}'")
        namespace, own = name.split("::")
        text = infer_schema(fn, mutates_args=mutates_args) if schema is None else schema
        made = CustomOpDef(namespace, own, text, fn, device_types)
        made._opoverload.tags = tags
        if schema is not None:
            _check_mutates(made, mutates_args, schema)
        return made

    return make if fn is None else make(fn)


def triton_op(
    name: str, fn: Callable[..., Any] | None = None, /, *, mutates_args: str | Iterable[str], schema: str | None = None
) -> Any:
    """As custom_op, of a function that is its own fake. Kernels of Triton within it raise: wrap_triton is not supported."""

    def make(fn):
        made = custom_op(name, fn, mutates_args=mutates_args, schema=schema)
        _set_fake(made._opoverload, fn, lasts=False)
        return made

    return make if fn is None else make(fn)


def _check_mutates(made, mutates_args, schema):
    written = {a[0] for a in made._opoverload._arguments if a[5]}
    if mutates_args == "unknown" or set(mutates_args) != written:
        made._destroy()
        _custom.pop(made._qualname, None)
        raise ValueError(
            f"Attempted to create a custom op with `mutates_args={mutates_args}` and `schema={schema}. The schema "
            f"suggests that the op mutates {written or 'set()'} which is different from what was provided to us in "
            "`mutates_args`. Please make these consistent."
        )


# -- checks


class OpCheckError(Exception):
    """An op does not do what it says."""


def opcheck(
    op: OpOverload | CustomOpDef[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] | None = None,
    raise_exception: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
) -> dict[str, str]:
    """Tests an op with sample arguments; returns what each test found.

    test_schema: it writes to nothing but what its schema says. test_autograd_registration: it has a gradient, if an
    argument requires one. test_faketensor: its shape rule says what its kernel does. test_aot_dispatch_dynamic: a
    compiled step computes what eager execution does, gradients too.
    """
    from smolder import _opcheck

    return _opcheck.run(_resolve(op), args, kwargs or {}, test_utils, raise_exception, rtol, atol, OpCheckError)
