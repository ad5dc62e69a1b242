"""Tensor's conversions: to another dtype or device, or to a type of torch's names."""

from __future__ import annotations

import builtins

from smolder import _core
from smolder._device import is_on, moved, usable_device
from smolder._tensor import Tensor, _method, _to


@_method
def to(self, *args, dtype=None, device=None, copy=False, non_blocking=False, memory_format=None):
    """The tensor with another dtype: to(dtype), to(device), to(device, dtype), to(other); then non_blocking and copy.

    With non_blocking the host goes on before pinned memory was read; all else is asynchronous anyway.
    """
    flags = [arg for arg in args if isinstance(arg, builtins.bool)]
    if flags:
        non_blocking, copy = flags if len(flags) > 1 else (flags[0], copy)
    for arg in args:
        if isinstance(arg, _core.dtype):
            dtype = arg
        elif isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif arg is not None and not isinstance(arg, builtins.bool):
            device = arg
    if memory_format is not None:
        from smolder._layouts import check_format

        check_format("to", memory_format)
    out = self
    if dtype is not None and dtype != self.dtype:
        out = _to(self, dtype)
    if device is not None:
        where = usable_device(device)
        if where.type == "meta":
            out = moved(out, where)
        elif not is_on(out, where):
            out = out._to_device(str(where), non_blocking)
    return out.clone() if copy and out is self else out


def _converter(name, dtype):
    def convert(self, memory_format=None):
        if memory_format is not None:
            from smolder._layouts import check_format

            check_format(name, memory_format)
        return self if self.dtype == dtype else _to(self, dtype)

    convert.__name__, convert.__qualname__, convert.__doc__ = name, name, f"As to({dtype})."
    setattr(Tensor, name, convert)


_CONVERSIONS = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16"}
_CONVERSIONS |= {"long": "int64", "int": "int32", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool"}
_CONVERSIONS |= {"cfloat": "complex64", "cdouble": "complex128"}
for _name, _dtype in _CONVERSIONS.items():
    _converter(_name, getattr(_core, _dtype))


@_method
def cpu(self):
    """The tensor on the CPU: itself when it is there."""
    return self if self._on_cpu else self._to_device("cpu")


@_method
def cuda(self, device=None, non_blocking=False):
    """The tensor on a device of CUDA, the current one unless said: itself when it is there."""
    return self.to("cuda" if device is None else device, non_blocking=non_blocking)


# torch's names of tensors' types, which type() returns and takes.
_TYPE_NAMES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16"}
_TYPE_NAMES |= {"int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char", "uint8": "Byte", "bool": "Bool"}
_TYPE_NAMES = {getattr(_core, k): f"smolder.{v}Tensor" for k, v in _TYPE_NAMES.items()}


@_method
def type(self, dtype=None, non_blocking=False):
    """The tensor with another dtype, or of a type such as "smolder.DoubleTensor", which may be called torch's; without one,
    the type's name."""
    if dtype is None:
        name = _TYPE_NAMES[self.dtype]
        return name.replace(".", ".cuda.", 1) if self.is_cuda else name
    where = None
    if isinstance(dtype, str):
        named = {name.partition(".")[2]: d for d, name in _TYPE_NAMES.items()}
        where, name = ("cuda" if ".cuda." in dtype else "cpu"), dtype.replace(".cuda.", ".", 1)
        name = name.removeprefix("smolder.").removeprefix("torch.")
        if name not in named:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = named[name]
    elif not isinstance(dtype, _core.dtype) and hasattr(dtype, "dtype"):  # LongTensor, for one
        where, dtype = ("cuda" if dtype.__module__.endswith(".cuda") else "cpu"), dtype.dtype
    if not isinstance(dtype, _core.dtype):
        raise TypeError(f"type() expects a dtype such as smolder.float32, got {dtype!r}")
    return self.to(dtype, device=where, non_blocking=non_blocking)
