"""Where tensors are: devices, and functions that make tensors on them."""

from __future__ import annotations

import builtins
import functools
import inspect
import typing
from typing import Any, Self

from smolder import _core
from smolder._call_errors import check_dtype
from smolder._other_forms import as_dtype
from smolder._typing import Tensor
from smolder._unheld import UnheldDtype

# Kinds of devices that torch knows: programs compare with them, and no tensor is on one.
OTHERS = {"mps", "xpu", "hpu", "xla", "mtia", "ipu", "maia", "privateuseone", "vulkan", "mkldnn", "lazy", "hip"}


class device:
    """Where a tensor lives: device("cpu"), device("cuda"), device("cuda:0"), device("cuda", 0).

    In a `with` statement it is where tensors are made that say nothing else.
    """

    index: int | None
    type: str

    __slots__ = ("_before", "index", "type")

    def __init__(self, type: str | device | int = "cpu", index: builtins.int | None = None) -> None:
        if isinstance(type, builtins.int) and not isinstance(type, builtins.bool):
            type, index = "cuda", type
        if not isinstance(type, str | device):
            raise TypeError(
                f"device(): argument 'type' (position 1) must be str or int, not {builtins.type(type).__name__}"
            )
        text = type.type if isinstance(type, device) else str(type)
        if isinstance(type, device) and index is None:
            index = type.index
        name, _, number = text.partition(":")
        if name not in OTHERS or not (number.isdecimal() or name == text):
            _core._check_device(text)
        if number and index is not None:
            raise RuntimeError(f"type (string) must not include an index because index was passed explicitly: {text}")
        self.type, self.index = name, builtins.int(number) if number else index

    def __repr__(self) -> str:
        return f"device(type='{self.type}'" + (")" if self.index is None else f", index={self.index})")

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device) and (self.type, self.index) == (other.type, other.index)

    def __hash__(self) -> int:
        return hash((self.type, self.index))

    def __reduce__(self) -> tuple[Any, ...]:
        return (device, (self.type,) if self.index is None else (self.type, self.index))

    def __enter__(self) -> Self:
        usable_device(self)
        self._before = (_core._creation_mode(), getattr(self, "_before", None))
        _core._set_creation_device(str(self))
        return self

    def __exit__(self, *_: object) -> None:
        before, self._before = self._before
        _core._set_creation_device(before)


CPU = device("cpu")
META = device("meta")  # of tensors that have shapes and dtypes, and no elements


def usable_device(where: str | device | int) -> device:
    """The device that `where` names; raises unless tensors may be there."""
    where = where if isinstance(where, device) else device(where)
    if where.type in OTHERS:
        raise NotImplementedError(f"tensors on the device {where} are not supported: there are cpu, cuda and meta")
    if where.type == "cuda":
        if not _core._cuda_is_available():
            raise RuntimeError(f"CUDA is not available: {_core._cuda_unavailable_reason()}")
        if where.index is not None:
            _core._cuda_check_ordinal(where.index)
    return where


_F = typing.TypeVar("_F")


def placed(make: _F) -> _F:
    """A function that makes tensors where its `device` and `pin_memory` say, and of what `layout`, which it does not read
    itself. `names` may be None."""

    name = make.__name__

    @functools.wraps(make)
    def call(*args, device=None, pin_memory=False, layout=None, names=None, **options):
        if names is not None:
            raise NotImplementedError(f"{name}: dimensions have no names here")
        if layout is not None and getattr(layout, "name", None) != "strided":
            where = {} if device is None else {"device": device}
            return _of_layout(call, layout, args, where | options)
        if "dtype" in options:
            options["dtype"] = as_dtype(options["dtype"])
            check_dtype(name, options["dtype"])
            if isinstance(options["dtype"], UnheldDtype):
                from smolder import _bits

                where = {} if device is None and not pin_memory else {"device": device, "pin_memory": pin_memory}
                return _bits.made(call, options.pop("dtype"), args, options | where)
        if pin_memory:
            return _pinned(make(*args, **options), device)
        mode = _core._creation_mode()
        if mode == "cpu" and (device is None or device is CPU or device == mode):
            out = make(*args, **options)
            return out if device is None or out._on_cpu else moved(out, CPU)
        device = mode if device is None else device
        with usable_device(device) as where:
            out = make(*args, **options)
        return moved(out, where)

    return call


_EMPTY = {"zeros", "empty", "zeros_like", "empty_like", "new_zeros", "new_empty"}


def _of_layout(make, layout, args, options):
    """The result of a function that makes tensors of zeros, in a layout that stores no zeros."""
    from smolder._layouts import layout as kind
    from smolder._sparse import _make

    name = make.__wrapped__.__name__
    if not isinstance(layout, kind):
        raise TypeError(f"{name}(): argument 'layout' must be torch.layout, not {type(layout).__name__}")
    if name not in _EMPTY:
        raise NotImplementedError(
            f"{name}: a tensor of the layout {layout!r} is not supported; zeros() and empty() are"
        )
    requires_grad = options.pop("requires_grad", False)
    of = make(*args, **options)  # of the shape, the dtype and the device: nothing computes its elements
    return _make.empty_like(tuple(of.shape), of.dtype, of.device, layout).requires_grad_(requires_grad)


def _pinned(tensor, where):
    if (device(where).type if where is not None else _core._creation_mode().partition(":")[0]) != "cpu":
        raise RuntimeError("Only dense CPU tensors can be pinned")
    return tensor.detach().pin_memory().requires_grad_(tensor.requires_grad)


def on_device(make: _F) -> _F:
    """A function or constructor whose `device` says where all that it makes lies, which it need not read itself."""
    at = list(inspect.signature(make).parameters).index("device")

    @functools.wraps(make)
    def call(*args, **options):
        where = args[at] if len(args) > at else options.get("device")
        if where is None:
            return make(*args, **options)
        with usable_device(where):
            return make(*args, **options)

    return call


def placed_like(make: _F) -> _F:
    """The same for a function whose first argument says where, unless `device` does."""

    place = placed(make)

    @functools.wraps(make)
    def call(input, *args, device=None, **options):
        if type(input) is not _core.Tensor:
            from smolder.overrides import handle_torch_function, has_torch_function_unary

            if has_torch_function_unary(input):  # by the function's public name
                options = options if device is None else {"device": device, **options}
                return handle_torch_function(call, (input,), input, *args, **options)
            from smolder import _wrappers

            if _wrappers.has_class(input) and call.__name__ != "new_tensor":  # which is a plain one, as in torch
                return _wrappers.like(call.__name__, input, args, {**options, "device": device})
            if not isinstance(input, _core.Tensor):
                name, kind = call.__name__, type(input).__name__
                raise TypeError(f"{name}(): argument 'input' (position 1) must be Tensor, not {kind}")
        if device is None and input._on_cpu and _core._creation_mode() == "cpu":
            return place(input, *args, **options)
        where = input.device if device is None else device
        if input.is_meta and device is not None:
            with usable_device(device):  # of the shape and dtype, which are all that is asked for
                input = _core.zeros((), dtype=input.dtype).expand(tuple(input.shape))
        return place(input, *args, device=where, **options)

    return call


def is_on(tensor: _core.Tensor, where: device) -> bool:
    """Whether the tensor is on a device; one of CUDA without an index is the current one."""
    here = tensor.device
    if here.type != where.type or here.type != "cuda":
        return here.type == where.type
    return here.index == (_core._cuda_current_device() if where.index is None else where.index)


def _without_elements(tensor: _core.Tensor) -> Tensor:
    with META:
        out = _core.empty(tuple(tensor.shape), dtype=tensor.dtype)
    return out.requires_grad_(tensor.requires_grad)


def moved(tensor: _core.Tensor, where: device) -> Tensor:
    """The tensor on a device; itself when it is there."""
    if is_on(tensor, where):
        return tensor
    if where.type == "meta":
        return _without_elements(tensor)
    if not tensor.requires_grad or not tensor.is_leaf:
        return tensor._to_device(str(where))
    return tensor.detach()._to_device(str(where)).requires_grad_()  # a leaf was asked for
