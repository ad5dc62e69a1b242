"""Functions that make tensors: from data, and from sizes."""

from __future__ import annotations

import builtins
import functools
import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from smolder import _core
from smolder._call_errors import size_message
from smolder._device import moved, placed, placed_like, usable_device
from smolder._other_forms import as_dtype
from smolder._out import takes_out
from smolder._tensor import Tensor, kind_name
from smolder._types import name_of
from smolder._typing import Device, DType, Like, Number

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from smolder._layouts import layout as Layout

__all__ = [
    "arange",
    "as_tensor",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "ones_like",
    "tensor",
    "zeros",
    "zeros_like",
]

# Elements of these NumPy types are taken as they are; others must be converted by the user first.
_NUMPY = {
    "complex128",
    "complex64",
    "float64",
    "float32",
    "float16",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "bool",
}
_UNSIGNED = ("uint16", "uint32", "uint64")  # which kernels do not know: _bits.py


@functools.lru_cache(64)
def _name_of_array(dtype):
    """The name of a NumPy dtype, which NumPy puts together each time that it is asked for."""
    return dtype.name


_UNSUPPORTED = (
    "can't convert np.ndarray of type numpy.{}. The only supported types are: float64, float32, float16, complex64, "
    "complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and bool."
)


def _finish(tensor, requires_grad):
    return tensor.requires_grad_() if requires_grad else tensor


def _size(function, size, by_name=None):
    """The integers of f(2, 3), f((2, 3)) or f(size=(2, 3))."""
    if by_name is not None:
        if size:
            raise TypeError(f"{function}() got multiple values for argument 'size'")
        size = (by_name,)
    items = size[0] if len(size) == 1 and isinstance(size[0], list | tuple) else size
    try:
        if builtins.any(isinstance(n, builtins.bool) for n in items):
            raise TypeError
        return tuple(operator.index(n) for n in items)
    except TypeError:
        raise TypeError(size_message(function, "size", size)) from None


def _plain(data):
    """Nested lists with tensors inside become nested lists of numbers."""
    if isinstance(data, Tensor):  # a number, whatever its shape, as in torch
        if data.numel() != 1 and not (data.is_floating_point() or data.is_complex()):
            raise TypeError("only integer tensors of a single element can be converted to an index")
        if data.numel() != 1:
            raise ValueError("only one element tensors can be converted to Python scalars")
        return data.item()
    if isinstance(data, list | tuple):
        return [_plain(item) for item in data]
    return data


def _check_rectangular(data):
    """The sizes of nested lists; ragged ones raise as torch does."""
    if not isinstance(data, list):
        return
    sizes = [len(item) if isinstance(item, list) else None for item in data]
    for at, size in enumerate(sizes):
        if size != sizes[0]:
            raise ValueError(f"expected sequence of length {sizes[0]} at dim 1 (got {size} at position {at})")
    for item in data:
        _check_rectangular(item)


def _array(data):
    if isinstance(data, numpy.ndarray | numpy.generic):
        return numpy.asarray(data)
    if hasattr(data, "__array__") and not isinstance(data, list | tuple):
        return numpy.asarray(data)
    data = _plain(data)
    _check_rectangular(data)
    array = numpy.array(data)
    if array.dtype == object and all(isinstance(v, builtins.int) for v in array.flat):
        raise ValueError("Overflow when unpacking long long")
    if array.dtype == object:
        odd = next((v for v in array.flat if not isinstance(v, builtins.int | builtins.float | builtins.complex)), data)
        raise RuntimeError(f"Could not infer dtype of {type(odd).__name__}")
    if array.dtype.kind in "US":
        raise ValueError(f"too many dimensions '{'str' if array.dtype.kind == 'U' else 'bytes'}'")
    return array


@placed
def tensor(
    data: Any,
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor with a copy of data: a number, nested lists, a NumPy array, a tensor.

    Python floats become the default dtype, float32 at first, integers int64, bools bool; arrays keep their dtype.
    """
    made = _core._from_numbers(data, dtype)
    if made is not None:
        return _finish(made, requires_grad)
    if isinstance(data, Tensor):
        out = data.detach().clone()
        return _finish(out if dtype is None else out.to(dtype), requires_grad)
    array = _array(data)
    if dtype is None:
        dtype = _dtype_of_items(data)
    typed = isinstance(data, numpy.ndarray | numpy.generic) or hasattr(data, "__array__")
    if dtype is None and typed and _name_of_array(array.dtype) in _UNSIGNED:
        return from_numpy(array.copy())
    if dtype is None and not typed and array.dtype == numpy.float64:
        dtype = _core._default_dtype()
    if dtype is None and not typed and array.dtype == numpy.complex128:
        dtype = _core._default_dtype().to_complex()
    if not typed and array.dtype == numpy.complex128 and dtype is not None and not dtype.is_complex:
        raise TypeError(
            "must be real number, not complex"
            if dtype.is_floating_point
            else "'complex' object cannot be interpreted as an integer"
        )
    if not isinstance(data, numpy.ndarray) and array.dtype.kind != "c":
        _check_fits(array, dtype or (_core.float32 if array.dtype.kind == "f" else _core.int64))
    return _finish(_from_array(array, dtype), requires_grad)


def _dtype_of_items(data):
    """The dtype of lists that hold tensors, arrays or NumPy's numbers, to which all items promote; else None."""
    found, lists = set(), [data] if isinstance(data, list | tuple) else []
    of_python = of_numbers()
    while lists:
        items = lists.pop()
        kinds = set(map(type, items))
        found |= {of_python[kind] for kind in kinds & of_python.keys()}
        for item in items if kinds - of_python.keys() else ():
            if isinstance(item, list | tuple):
                lists.append(item)
            elif isinstance(item, Tensor):
                found.add(item.dtype)
            elif isinstance(item, numpy.generic | numpy.ndarray) and _name_of_array(item.dtype) in _NUMPY:
                found.add(getattr(_core, _name_of_array(item.dtype)))
    return functools.reduce(_core.promote_types, found) if found - set(of_python.values()) else None


def of_numbers() -> dict[type, DType]:
    """The dtypes of tensors made of Python's numbers, by their types."""
    default = _core._default_dtype()
    floats = {builtins.float: default, builtins.complex: default.to_complex()}
    return {builtins.bool: _core.bool, builtins.int: _core.int64, **floats}


def _check_fits(array, dtype):
    """Python numbers that an integer dtype does not hold raise as in torch; a negative integer may wrap in uint8."""
    if dtype.is_floating_point or dtype.is_complex or dtype == _core.bool:
        return
    if array.dtype == numpy.uint64:
        raise ValueError("Overflow when unpacking long long")
    if array.dtype.kind in "if" and array.size:
        _core._check_fits(array.min().item(), dtype)
        _core._check_fits(array.max().item(), dtype)


def _cast(array, kind):
    with numpy.errstate(over="ignore"):  # a float out of range becomes infinite, as in torch
        if kind == numpy.float16 and array.dtype.itemsize > 4:  # as every cast to it, by way of float32
            array = array.astype(numpy.float32)
        return array.astype(kind)


def _from_array(array, dtype):
    if dtype is not None:
        if dtype == _core.bfloat16:  # NumPy has none: through float32
            wide = numpy.ascontiguousarray(_cast(array, numpy.float32)).reshape(array.shape)
            return _core.from_numpy_copy(wide).to(dtype)
        array = _cast(array, _numpy_type(dtype))
    if _name_of_array(array.dtype) not in _NUMPY:
        raise TypeError(_UNSUPPORTED.format(array.dtype.type.__name__))
    # ascontiguousarray makes one dimension of none
    return _core.from_numpy_copy(numpy.ascontiguousarray(array).reshape(array.shape))


def _numpy_type(dtype):
    return numpy.dtype(name_of(dtype))


def as_tensor(data: Any, dtype: DType | None = None, device: Device = None) -> Tensor:
    """data as a tensor: itself, or in the memory of an array, when the dtype is the one asked for; else a copy."""
    dtype = as_dtype(dtype)
    if device is not None:
        return moved(as_tensor(data, dtype), usable_device(device))
    if isinstance(data, Tensor):
        return data if dtype is None or dtype == data.dtype else data.to(dtype)
    if isinstance(data, numpy.ndarray) and _name_of_array(data.dtype) in _UNSIGNED:
        made = from_numpy(data)
        return made if dtype is None else made.to(dtype)
    if (
        isinstance(data, numpy.ndarray)
        and _name_of_array(data.dtype) in _NUMPY
        and dtype in (None, getattr(_core, _name_of_array(data.dtype)))
    ):
        return from_numpy(data)
    return tensor(data, dtype=dtype)


@placed
def asarray(
    obj: Any,
    *,
    dtype: DType | None = None,
    device: Device = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """obj as a tensor that shares its memory where that can be; copy=True never shares, copy=False raises instead."""
    if isinstance(obj, Tensor | numpy.ndarray) or hasattr(obj, "__dlpack__"):
        source = (
            obj if isinstance(obj, Tensor) else from_numpy(obj) if isinstance(obj, numpy.ndarray) else from_dlpack(obj)
        )
        same = dtype is None or dtype == source.dtype
        if copy is False and not same:
            raise ValueError(f"can't alias tensor with dtype '{source.dtype}' into dtype '{dtype}'.")
        out = source.to(dtype=dtype) if not same else source.clone() if copy else source
        # As torch does: a leaf itself is told, and other tensors keep their history only if it is asked for.
        return out.detach() if not requires_grad and not out.is_leaf else out.requires_grad_(requires_grad)
    if isinstance(obj, bytes | bytearray | memoryview):
        out = frombuffer(obj, dtype=dtype or _core._default_dtype())
        return _finish(out.clone() if copy else out, requires_grad)
    if copy is False:
        raise ValueError("can't alias arbitrary sequence into a tensor.")
    return tensor(obj, dtype=dtype, requires_grad=requires_grad)


def from_numpy(ndarray: NDArray[Any]) -> Tensor:
    """A tensor in the memory of an array: a write to either is seen by the other."""
    if not isinstance(ndarray, numpy.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    if _name_of_array(ndarray.dtype) in _UNSIGNED:
        from smolder._bits import of_array

        return of_array(ndarray)
    if _name_of_array(ndarray.dtype) not in _NUMPY:
        raise TypeError(_UNSUPPORTED.format(ndarray.dtype.type.__name__))
    if not ndarray.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte orders is "
            "currently not supported."
        )
    if any(stride % ndarray.itemsize for stride in ndarray.strides):
        raise ValueError(
            "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the "
            "memory."
        )
    return _core._from_numpy(ndarray) if type(ndarray) is numpy.ndarray else _core._from_array(ndarray)


def from_dlpack(ext_tensor: Any, *, device: Device = None, copy: bool | None = None) -> Tensor:
    """A tensor in the memory of an object that speaks DLPack, or of a capsule: a write to either is seen by the other.

    It is where the object is, unless device says otherwise. On CUDA it is used after what its library had queued before,
    and in order with the legacy default stream; for work on another stream, call this again or synchronize.
    """
    where = getattr(ext_tensor, "__dlpack_device__", lambda: None)()
    if where is not None and where[0] == _DLPACK_CUDA:
        ext_tensor = ext_tensor.__dlpack__(stream=_core._cuda_stream(usable_device(f"cuda:{where[1]}").index))
    source = _core._from_array(ext_tensor)
    out = source if device is None else moved(source, usable_device(device))
    if copy is False and out is not source:
        raise ValueError(f"cannot move DLPack tensor from device {source.device} to {device} without copying.")
    return out.clone() if copy and out is source else out


_DLPACK_CUDA = 2


def frombuffer(buffer: Any, *, dtype: DType, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A tensor of one dimension in the memory of an object with the buffer protocol, from byte `offset` on."""
    raw = numpy.frombuffer(buffer, numpy.uint8)
    size, total = dtype.itemsize, len(raw)
    if not 0 <= offset < max(total, 1) or total == 0:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({total} bytes) minus 1"
            if total
            else "both buffer length (0) and count (-1) must not be 0"
        )
    if count < 0 and (total - offset) % size:
        raise ValueError(
            f"buffer length ({total - offset} bytes) after offset ({offset} bytes) must be a multiple of element size "
            f"({size})"
        )
    if count == 0:
        raise ValueError(f"both buffer length ({total}) and count (0) must not be 0")
    if count > 0 and offset + count * size > total:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({total} bytes)"
        )
    end = total if count < 0 else offset + count * size
    whole = {1: numpy.uint8, 2: numpy.int16, 4: numpy.int32, 8: numpy.int64, 16: numpy.complex128}
    elements = raw[offset:end].view(numpy.complex64 if dtype == _core.complex64 else whole[size])
    return _finish(_core._from_array(elements, dtype), requires_grad)


@takes_out
@placed
def zeros(
    *given: int | Sequence[int],
    size: int | Sequence[int] | None = None,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
) -> Tensor:
    """A tensor of zeros; of the default dtype unless another is given."""
    return _finish(_core.zeros(_size("zeros", given, size), dtype=dtype or _core._default_dtype()), requires_grad)


@takes_out
@placed
def ones(
    *given: int | Sequence[int],
    size: int | Sequence[int] | None = None,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
) -> Tensor:
    """A tensor of ones; of the default dtype unless another is given."""
    return _finish(_core.ones(_size("ones", given, size), dtype=dtype or _core._default_dtype()), requires_grad)


@takes_out
@placed
def empty(
    *given: int | Sequence[int],
    size: int | Sequence[int] | None = None,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
    memory_format: object = None,
) -> Tensor:
    """A tensor to be filled; zeros, so that results repeat."""
    made = _core.empty(_size("empty", given, size), dtype=dtype or _core._default_dtype())
    return _finish(_in_format("empty", made, memory_format), requires_grad)


@takes_out
@placed
def full(
    size: int | Sequence[int],
    fill_value: Number,
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
) -> Tensor:
    """A tensor filled with a number, of its dtype unless one is given."""
    return _finish(_filled(_size("full", (size,)), fill_value, dtype), requires_grad)


def _filled(size, value, dtype):
    if not isinstance(value, builtins.complex):
        if dtype is None and isinstance(value, builtins.float):
            dtype = _core._default_dtype()
        return _core.full(size, value, dtype=dtype)
    dtype = dtype or _core._default_dtype().to_complex()
    if not dtype.is_complex:
        if value.imag:
            raise RuntimeError(f"value cannot be converted to type {name_of(dtype)} without overflow")
        return _core.full(size, value.real, dtype=dtype)
    parts = (_core.full(size, x, dtype=dtype.to_real()) for x in (value.real, value.imag))
    return _core.complex(*parts)


@takes_out
@placed
def arange(
    *bounds: Number,
    start: Number | None = None,
    end: Number | None = None,
    step: Number | None = None,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
) -> Tensor:
    """Numbers from start (0) up to, not including, end by step (1); int64 when all three are integers."""
    if not 0 <= len(bounds) <= 3:
        raise TypeError(f"arange() takes 1 to 3 bounds, got {len(bounds)}")
    if len(bounds) == 1 and end is None:
        end = bounds[0]
    else:
        given = [start, end, step]
        for i, b in enumerate(bounds):
            if given[i] is not None:
                raise TypeError("arange() got a bound both by position and by name")
            given[i] = b
        start, end, step = given
    if end is None:
        raise TypeError('arange() missing 1 required positional argument: "end"')
    first, by = (0 if start is None else start), (1 if step is None else step)
    if any(isinstance(b, builtins.complex) for b in (first, end, by)):
        raise RuntimeError("value cannot be converted to type double without overflow")
    if dtype is not None and dtype.is_complex:
        raise NotImplementedError(f"\"arange_cpu\" not implemented for '{kind_name(dtype)}'")
    if dtype is None and any(map(_is_float, (first, end, by))):
        dtype = _core._default_dtype()
    return _finish(_core.arange(first, end, by, dtype=dtype), requires_grad)


def _is_float(number):
    """Whether a bound, a number of Python's or NumPy's or a tensor of one, is a float."""
    if isinstance(number, Tensor):
        return number.dtype.is_floating_point
    return isinstance(number, builtins.float | numpy.floating)


@takes_out
@placed
def linspace(
    start: Number,
    end: Number,
    steps: int,
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
) -> Tensor:
    """steps numbers evenly spread from start to end, both included."""
    return _finish(_spread(start, end, steps, dtype), requires_grad)


def _spread(start, end, steps, dtype):
    complex_bounds = isinstance(start, builtins.complex) or isinstance(end, builtins.complex)
    dtype = dtype or (_core._default_dtype().to_complex() if complex_bounds else _core._default_dtype())
    if not dtype.is_complex:
        for bound in (start, end):
            _core.full((0,), bound, dtype=dtype)  # raises where the dtype has no such number
        return _core.linspace(start, end, steps, dtype=dtype)
    start, end = (x.item() if isinstance(x, Tensor) else builtins.complex(x) for x in (start, end))
    parts = ((start.real, end.real), (start.imag, end.imag))
    return _core.complex(*(_core.linspace(a, b, steps, dtype=dtype.to_real()) for a, b in parts))


@takes_out
@placed
def logspace(
    start: Number,
    end: Number,
    steps: int,
    base: float = 10.0,
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
) -> Tensor:
    """base to the power of steps numbers evenly spread from start to end."""
    dtype = dtype or _spread(start, end, 0, None).dtype
    exponents = _spread(start, end, steps, _core.complex128 if dtype.is_complex else _core.float64)
    out = _core.pow(base, exponents).to(dtype)
    return _finish(out, requires_grad)


@takes_out
@placed
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
) -> Tensor:
    """A matrix with ones on the diagonal, zeros elsewhere."""
    return _finish(_core.eye(n, m, dtype=dtype or _core._default_dtype()), requires_grad)


def _in_format(name, made, memory_format):
    """A new tensor in the format asked for."""
    if memory_format is None:
        return made
    from smolder._memory_formats import taken  # which needs this module

    return taken(name, made, memory_format)


def _like(make: Callable[..., Tensor]) -> Like:
    @placed_like
    def like(
        input, *, dtype=None, device=None, requires_grad=False, pin_memory=False, layout=None, memory_format=None
    ) -> Tensor:
        made = make(input, dtype=dtype)
        return _finish(_in_format(make.__name__, made, memory_format), requires_grad)

    return _named_like(like, make)


def _named_like(like, make):
    for function in (like, like.__wrapped__):
        function.__name__ = function.__qualname__ = make.__name__
    like.__doc__ = f"As {make.__name__.removesuffix('_like')}, of input's shape, and dtype unless one is given."
    return like


zeros_like: Like = _like(_core.zeros_like)
ones_like: Like = _like(_core.ones_like)
empty_like: Like = _like(_core.empty_like)


@placed_like
def full_like(
    input: Tensor,
    fill_value: Number,
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
    layout: Layout | None = None,
    memory_format: object = None,
) -> Tensor:
    """A tensor of input's shape and dtype filled with a number."""
    if isinstance(fill_value, builtins.complex):
        made = _filled(tuple(input.shape), fill_value, dtype or input.dtype)._lay_out_as(input)
    else:
        made = _core.full_like(input, fill_value, dtype=dtype)
    return _finish(_in_format("full_like", made, memory_format), requires_grad)


# -- methods that make tensors like theirs


@placed_like
def _new_tensor(self, data, *, dtype=None, device=None, requires_grad=False):
    """A tensor with a copy of data, of self's dtype, and where it is, unless they are given."""
    return tensor(data, dtype=dtype or self.dtype, requires_grad=requires_grad)


def _new(make):
    name = f"new_{make.__name__}"

    @placed_like
    def new(self, *given, size=None, dtype=None, device=None, requires_grad=False):
        shape = _size(name, given, size)
        made = make(shape, dtype=dtype or self.dtype, requires_grad=requires_grad)
        return _core._vmap_like(self, made) if _core._vmap_depth() else made

    new.__doc__ = f"As {make.__name__}, of self's dtype, and where it is, unless they are given."
    return new


@placed_like
def _new_full(self, size, fill_value, *, dtype=None, device=None, requires_grad=False):
    """As full, of self's dtype, and where it is, unless they are given."""
    made = full(_size("new_full", (size,)), fill_value, dtype=dtype or self.dtype, requires_grad=requires_grad)
    return _core._vmap_like(self, made) if _core._vmap_depth() else made


_METHODS = {"new_tensor": _new_tensor, "new_full": _new_full}
_METHODS |= {f"new_{make.__name__}": _new(make) for make in (zeros, ones, empty)}
for _name, _method in _METHODS.items():
    for _function in (_method, _method.__wrapped__):
        _function.__name__ = _function.__qualname__ = _name
    setattr(Tensor, _name, _method)
