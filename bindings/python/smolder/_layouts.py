"""How tensors lie in memory, as torch names it: layouts, and the formats that calls may ask for."""

from __future__ import annotations

import numbers
import operator
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._device import on_device
from smolder._tensor import _TYPE_NAMES, Size, Tensor
from smolder._typing import Device

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor", "channels_last", "channels_last_3d", "clone", "contiguous_format",
    "jagged", "layout", "legacy_contiguous_format", "memory_format", "preserve_format", "sparse_bsc", "sparse_bsr",
    "sparse_coo", "sparse_csc", "sparse_csr", "strided", "typename",
]  # fmt: skip


class _Named:
    """A constant that prints as it is called."""

    name: str

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"smolder.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return self.name


class memory_format(_Named):
    """An order of elements in memory that a call may ask for."""

    __slots__ = ()


class layout(_Named):
    """The way in which a tensor's elements are kept."""

    __slots__ = ()


contiguous_format: memory_format = memory_format("contiguous_format")
preserve_format: memory_format = memory_format("preserve_format")
channels_last: memory_format = memory_format("channels_last")
channels_last_3d: memory_format = memory_format("channels_last_3d")
legacy_contiguous_format: memory_format = contiguous_format
strided: layout = layout("strided")
sparse_coo: layout = layout("sparse_coo")
sparse_csr: layout = layout("sparse_csr")
sparse_csc: layout = layout("sparse_csc")
sparse_bsr: layout = layout("sparse_bsr")
sparse_bsc: layout = layout("sparse_bsc")
jagged: layout = layout("jagged")
CONSTANTS = (contiguous_format, preserve_format, channels_last, channels_last_3d, strided)
CONSTANTS += (sparse_coo, sparse_csr, sparse_csc)


def check_format(name: str, wanted: Any) -> None:
    """Raises unless a call asks for the order that tensors have: row-major, or that of its input."""
    if wanted in (None, contiguous_format, preserve_format):
        return
    if not isinstance(wanted, memory_format):
        raise TypeError(
            f"{name}(): argument 'memory_format' must be smolder.memory_format, not {type(wanted).__name__}"
        )
    raise NotImplementedError(f"{name}(): memory_format {wanted!r} is not supported")


_clone, _contiguous = Tensor.clone, Tensor.contiguous


def _clone_as(self, *, memory_format=None):
    """A copy that lies as self does, unless a format is asked for."""
    if memory_format is None or memory_format is preserve_format:
        return _clone(self)
    from smolder._memory_formats import taken

    return taken("clone", _clone(self), memory_format)


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy."""
    return _clone_as(input, memory_format=memory_format)


def _contiguous_as(self, memory_format=None):
    """self if it is as in row-major memory, or in that of the format asked for; else a copy."""
    if memory_format in (channels_last, channels_last_3d):
        from smolder._memory_formats import copied, is_in

        return self if is_in(self, memory_format) else copied(self, memory_format)
    if memory_format is not None:
        check_format("contiguous", memory_format)
    out = _contiguous(self)
    return self if out._is_same(self) else out


def _asks_contiguous(self, memory_format=contiguous_format):
    """Whether the elements lie row-major without gaps, or in the format asked for."""
    if memory_format in (contiguous_format, preserve_format):
        return _is_contiguous(self)
    from smolder._memory_formats import is_in

    return is_in(self, memory_format)


_is_contiguous = Tensor.is_contiguous
for _name, _method in (("clone", _clone_as), ("contiguous", _contiguous_as), ("is_contiguous", _asks_contiguous)):
    _method.__name__ = _name
    setattr(Tensor, _name, _method)


Tensor.layout = property(lambda self: strided, doc="strided; sparse tensors have others.")


def _resize(self, *sizes, size=None, memory_format=None):
    """self under another shape, in row-major order; what more elements there are is zero."""
    check_format("resize_", memory_format)
    sizes = sizes if size is None else (size,)
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    spread = len(sizes) != 1 or isinstance(sizes[0], numbers.Integral | Tensor)
    shape = Size(map(operator.index, sizes if spread else sizes[0]))
    if shape == self.shape:
        return self
    if shape.numel() >= 2**63:
        raise RuntimeError(f"numel: integer multiplication overflow of {list(shape)}")
    row, missing = self.detach().reshape(-1), shape.numel() - self.numel()
    whole = _core.cat([row, self.new_zeros(missing)]) if missing > 0 else row[: shape.numel()]
    self._set_data(whole.reshape(tuple(shape)))
    return self


def _resize_as(self, the_template, *, memory_format=None):
    """As resize_ to the shape of another tensor."""
    return self.resize_(the_template.shape, memory_format=memory_format)


for _name, _method in (("resize_", _resize), ("resize_as_", _resize_as)):
    _method.__name__ = _name
    setattr(Tensor, _name, _method)


def typename(obj: object) -> str:
    """The name of a tensor's type, or of an object's with its module."""
    if isinstance(obj, Tensor):
        return obj.type()
    kind = obj if isinstance(obj, type) else type(obj)
    return kind.__qualname__ if kind.__module__ in ("builtins", None) else f"{kind.__module__}.{kind.__qualname__}"


# -- torch's old constructors: Tensor(2, 3), LongTensor([1, 2])


@on_device
def _constructed(dtype, name, args, device):
    from smolder._creation import empty, tensor

    if len(args) == 1 and isinstance(args[0], Tensor):
        if dtype is not None and args[0].dtype != dtype:
            raise TypeError(f"{name}(): expected a tensor of {dtype}, got one of {args[0].dtype}; convert it with to()")
        return args[0].detach()
    wanted = dtype or _core._default_dtype()
    if len(args) == 1 and not isinstance(args[0], Size) and not isinstance(args[0], numbers.Integral):
        if isinstance(args[0], str | bytes):
            raise TypeError(f"new(): invalid data type '{type(args[0]).__name__}'")
        if not hasattr(args[0], "__len__"):
            raise TypeError(f"new(): data must be a sequence (got {type(args[0]).__name__})")
        data = args[0] if hasattr(args[0], "__array__") else list(args[0])
        return tensor(data, dtype=None).to(wanted) if len(data) else empty(0, dtype=wanted)
    return empty(*(args or (0,)), dtype=wanted)


def constructed(*args: Any, device: Device = None) -> Any:
    """Makes Tensor(*args): so many elements, or those of a list, in float32."""
    return _constructed(None, "Tensor", args, device)


class _TypeOfTensors(type):
    """Tensors of one dtype, as a class that makes and recognises them."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype

    def __call__(cls, *args: Any, device: Device = None) -> Any:
        return _constructed(cls.dtype, cls.__name__, args, device)


class _TypeOnCuda(_TypeOfTensors):
    """The same on a device of CUDA."""

    def __instancecheck__(cls, instance):
        return isinstance(instance, Tensor) and instance.is_cuda and instance.dtype == cls.dtype

    def __call__(cls, *args, device="cuda"):
        if len(args) == 1 and isinstance(args[0], Tensor) and not args[0].is_cuda:
            raise TypeError(f"cuda.{cls.__name__}(): expected a tensor on cuda, got one on cpu; move it with cuda()")
        return _constructed(cls.dtype, f"cuda.{cls.__name__}", args, device)


def type_on_cuda(kind: str) -> type:
    """The class of tensors on CUDA that have the dtype of a class of those on the CPU."""
    doc = f"Makes tensors of {kind.dtype} on CUDA, and is what isinstance asks whether a tensor is one."
    return _TypeOnCuda(kind.__name__, (), {"dtype": kind.dtype, "__doc__": doc, "__module__": "smolder.cuda"})


def _type_of(dtype):
    name = _TYPE_NAMES[dtype].removeprefix("smolder.")
    doc = f"Makes tensors of {dtype}, and is what isinstance asks whether a tensor is one."
    return _TypeOfTensors(name, (), {"dtype": dtype, "__doc__": doc, "__module__": "smolder"})


if TYPE_CHECKING:

    class BFloat16Tensor(Tensor):
        """Tensors of one dtype."""

    class BoolTensor(Tensor):
        """Tensors of one dtype."""

    class ByteTensor(Tensor):
        """Tensors of one dtype."""

    class CharTensor(Tensor):
        """Tensors of one dtype."""

    class DoubleTensor(Tensor):
        """Tensors of one dtype."""

    class FloatTensor(Tensor):
        """Tensors of one dtype."""

    class HalfTensor(Tensor):
        """Tensors of one dtype."""

    class IntTensor(Tensor):
        """Tensors of one dtype."""

    class LongTensor(Tensor):
        """Tensors of one dtype."""

    class ShortTensor(Tensor):
        """Tensors of one dtype."""

else:
    BFloat16Tensor = _type_of(_core.bfloat16)
    BoolTensor = _type_of(_core.bool)
    ByteTensor = _type_of(_core.uint8)
    CharTensor = _type_of(_core.int8)
    DoubleTensor = _type_of(_core.float64)
    FloatTensor = _type_of(_core.float32)
    HalfTensor = _type_of(_core.float16)
    IntTensor = _type_of(_core.int32)
    LongTensor = _type_of(_core.int64)
    ShortTensor = _type_of(_core.int16)
