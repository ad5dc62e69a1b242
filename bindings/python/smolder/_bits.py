"""Tensors of dtypes that kernels do not know: unsigned integers of 16 bits and more, and floats of 8 bits.

Such a tensor is one of integers of the same size that has its bits, and says another dtype. What moves elements moves the
bits; casts are recorded as ops on them; what torch has no kernel for raises its error, and other ops are those of a wider
dtype that holds all values. None has gradients.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from smolder import _core, _unheld
from smolder._other_forms import as_dtype
from smolder._types import name_of
from smolder._typing import DType

Tensor = _core.Tensor
_CARRIERS = {"float8_e4m3fn": _core.uint8, "float8_e5m2": _core.uint8}
_CARRIERS |= {"uint16": _core.int16, "uint32": _core.int32, "uint64": _core.int64}
_KIND_NAMES = {"float8_e4m3fn": "Float8_e4m3fn", "float8_e5m2": "Float8_e5m2"}
_KIND_NAMES |= {"uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64"}

# Functions whose results are elements of their operands: they are called on the bits.
_MOVING = [
    "view",
    "reshape",
    "permute",
    "t",
    "transpose",
    "swapaxes",
    "swapdims",
    "movedim",
    "moveaxis",
    "expand",
    "expand_as",
    "broadcast_to",
    "flip",
    "fliplr",
    "flipud",
    "roll",
    "rot90",
    "repeat",
    "tile",
    "cat",
    "concat",
    "concatenate",
    "stack",
    "hstack",
    "vstack",
    "dstack",
    "chunk",
    "split",
    "tensor_split",
    "split_with_sizes",
    "unbind",
    "select",
    "narrow",
    "slice",
    "squeeze",
    "unsqueeze",
    "flatten",
    "unflatten",
    "ravel",
    "clone",
    "contiguous",
    "detach",
    "index_select",
    "__getitem__",
    "as_strided",
    "unfold",
    "view_as",
    "reshape_as",
    "diagonal",
    "adjoint",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "cpu",
    "cuda",
    "pin_memory",
    "empty_like",
    "zeros_like",
    "new_empty",
    "new_zeros",
    "take",
    "__iter__",
    "__reversed__",
    "repeat_interleave",
    "broadcast_tensors",
    "alias",
    "zero_",
    "squeeze_",
    "unsqueeze_",
    "transpose_",
    "t_",
    "resize_",
]
# Attributes of a tensor.
_ASKED = [
    "is_floating_point",
    "is_complex",
    "is_signed",
    "element_size",
    "size",
    "dim",
    "ndimension",
    "stride",
    "numel",
    "nelement",
    "data_ptr",
    "storage_offset",
    "is_contiguous",
    "get_device",
    "is_pinned",
    "untyped_storage",
    "storage",
    "__len__",
    "is_same_size",
    "is_shared",
    "share_memory_",
    "is_conj",
    "is_neg",
    "is_inference",
    "requires_grad_",
    "is_nonzero",
    "__bool__",
    "retain_grad",
    "is_set_to",
    "record_stream",
    "__hash__",
    "register_hook",
]
_CONVERSIONS = {"float": "float32", "double": "float64", "half": "float16", "bfloat16": "bfloat16", "long": "int64"}
_CONVERSIONS |= {"int": "int32", "short": "int16", "char": "int8", "byte": "uint8", "bool": "bool"}
_CONVERSIONS |= {"cfloat": "complex64", "cdouble": "complex128"}
# Functions that torch has for unsigned integers: results are unsigned again, or as the wider dtype makes them.
_UNSIGNED_AGAIN = [
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "__and__",
    "__or__",
    "__xor__",
    "sort",
    "unique",
    "msort",
    "mul_",
]
_WIDER = [
    "sum",
    "prod",
    "cumsum",
    "cumprod",
    "any",
    "all",
    "div",
    "true_divide",
    "sqrt",
    "exp",
    "log",
    "sin",
    "cos",
    "tan",
    "tanh",
    "sigmoid",
    "isfinite",
    "isnan",
    "isinf",
    "logical_not",
    "logical_and",
    "logical_or",
    "count_nonzero",
    "equal",
    "allclose",
    "isclose",
    "__truediv__",
    "__rtruediv__",
    "reciprocal",
    "rsqrt",
]
_KERNELS = {"add": "add_stub", "sub": "add_stub", "mul": "mul_cpu_reduced_float", "neg": "neg_cpu", "max": "max_all"}
_KERNELS |= {"min": "min_all", "amax": "max_values_cpu", "amin": "min_values_cpu", "floor_divide": "div_floor_cpu"}
_KERNELS |= {"matmul": "addmm_impl_cpu_", "mm": "addmm_impl_cpu_", "sort": "sorting_kernel_method_name", "pow": "pow"}
_KERNELS |= {
    "bitwise_left_shift": "lshift_cpu",
    "bitwise_right_shift": "rshift_cpu",
    "mean": "sum_cpu",
    "unique": "unique",
}
_KERNELS |= {"nonzero": "nonzero_count_cpu", "gather": "scatter_gather_tensor_cpu", "tril": "tril", "triu": "triu"}
_KERNELS |= {"scatter": "scatter_gather_tensor_cpu", "isfinite": "isfinite", "softmax": "softmax_kernel_impl"}
_OPERATORS = {
    "__floordiv__": "floor_divide",
    "__mod__": "remainder",
    "__pow__": "pow",
    "__lshift__": "bitwise_left_shift",
}
_OPERATORS |= {"__rshift__": "bitwise_right_shift", "__invert__": "bitwise_not", "__radd__": "add", "__rsub__": "sub"}
_OPERATORS |= {"__lt__": "lt", "__le__": "le", "__gt__": "gt", "__ge__": "ge"}
_OPERATORS |= {"__and__": "bitwise_and", "__or__": "bitwise_or", "__xor__": "bitwise_xor"}


def is_held(dtype: Any) -> bool:
    """Whether it is a dtype of such tensors."""
    return isinstance(dtype, _unheld.UnheldDtype) and name_of(dtype) in _CARRIERS


# -- casts


@functools.cache
def _values(name: str) -> Any:
    """The values of all 256 bytes, as float32."""
    bits = numpy.arange(256)
    exponent_bits, fraction_bits, bias = (4, 3, 7) if name == "float8_e4m3fn" else (5, 2, 15)
    fraction = bits & ((1 << fraction_bits) - 1)
    exponent = (bits >> fraction_bits) & ((1 << exponent_bits) - 1)
    share = fraction / (1 << fraction_bits)
    out = numpy.where(exponent == 0, share * 2.0 ** (1 - bias), (1 + share) * 2.0 ** (exponent - float(bias)))
    if name == "float8_e5m2":
        out[exponent == 31] = numpy.where(fraction[exponent == 31] == 0, numpy.inf, numpy.nan)
    else:
        out[(bits & 127) == 127] = numpy.nan
    return numpy.where(bits >= 128, -out, out).astype(numpy.float32)


@functools.cache
def _bounds(name: str) -> Any:
    """The largest float32 that each byte but the last is rounded from: midpoints, where halves go to the even byte."""
    positive = _values(name)[:128].astype(numpy.float64)
    last = 126 if name == "float8_e4m3fn" else 123  # the largest number
    positive[last + 1] = 2 * positive[last] - positive[last - 1]  # as if there was one more
    bounds = ((positive[: last + 1] + positive[1 : last + 2]) / 2).astype(numpy.float32)
    odd = numpy.arange(last + 1) % 2 == 1
    return numpy.where(odd, numpy.nextafter(bounds, numpy.float32(0)), bounds)


def _table(array: Any, like: Tensor) -> Tensor:
    from smolder._creation import from_numpy

    return from_numpy(array.copy()).to(like.device)


def _encoded(x: Tensor, name: str) -> Tensor:
    """The bits of a tensor's values."""
    if x.dtype.is_complex:
        x = x.real
    carrier = _CARRIERS[name]
    if name.startswith("float8"):
        x = x.to(_core.float32)
        code = _core.searchsorted(_table(_bounds(name), x), x.abs().reshape(-1)).reshape(tuple(x.shape))
        code = _core.where(x.isnan(), 127, code)
        return (code + _core.signbit(x).to(_core.int64) * 128).to(carrier)
    if x.dtype.is_floating_point:
        large = (x >= 2.0**63) if name == "uint64" else None
        whole = _core.where(large, x - 2.0**63, x).to(_core.int64) if large is not None else x.to(_core.int64)
        x = whole if large is None else _core.where(large, whole ^ -(2**63), whole)
    return x.to(_core.int64).to(carrier)


def _decoded(x: Bits, dtype: DType | None = None) -> Tensor:
    """The values in a dtype; by default in one that holds all of them, or int64 for uint64."""
    name, bits = name_of(x.dtype), _raw(x)
    if name.startswith("float8"):
        flat = _core.index_select(_table(_values(name), bits), 0, bits.reshape(-1).to(_core.int64))
        out = flat.reshape(tuple(bits.shape))
    elif name == "uint64":
        if dtype is not None and dtype == _core.bool:
            return bits != 0
        out = bits if dtype is None else bits.to(dtype)
        if dtype is not None and (dtype.is_floating_point or dtype.is_complex):
            half = ((bits >> 1) & (2**63 - 1)) | (bits & 1)  # whose last bit says that there was more
            out = _core.where(bits < 0, half.to(dtype) * 2, out)
    else:
        wide = _core.int32 if name == "uint16" else _core.int64
        out = bits.to(wide) & (2 ** (8 * bits.itemsize) - 1)
    return out if dtype is None else out.to(dtype)


def _raw(x: Any) -> Any:
    """The bits of such a tensor; anything else as it is."""
    if isinstance(x, Bits):
        return x.as_subclass(Tensor)
    return type(x)(map(_raw, x)) if type(x) in (list, tuple) else x


def of_bits(bits: Tensor, dtype: DType) -> Bits:
    """A tensor of a dtype on the bits that one of integers has."""
    out = bits.detach().as_subclass(Bits)
    out._held = dtype
    return out


def cast(x: Tensor, dtype: DType) -> Any:
    """A tensor in such a dtype, without gradients."""
    if not is_held(dtype):
        raise TypeError(_unheld.why(dtype))
    if isinstance(x, Bits):
        if x.dtype == dtype:
            return x
        x = _decoded(x)
    return of_bits(_encoded(x.detach(), name_of(dtype)), dtype)


def of_array(array: Any) -> Bits:
    """A tensor in the memory of an array of unsigned integers."""
    dtype = getattr(_unheld, array.dtype.name)
    return of_bits(_core._from_array(array.view(f"int{8 * array.dtype.itemsize}")), dtype)


def of_contents(data: Any, shape: Sequence[int], dtype: DType) -> Bits:
    """A tensor of bytes."""
    return of_bits(_core._from_contents(data, list(shape), carrier_of(dtype)), dtype)


def carrier_of(dtype: DType) -> DType:
    """The dtype of the integers that have the bits of one; itself where kernels know it."""
    return _CARRIERS[name_of(dtype)] if isinstance(dtype, _unheld.UnheldDtype) else dtype


def made(make: Callable[..., Any], dtype: DType, args: Any, options: Any) -> Any:
    """Calls a function that makes tensors, for a tensor of such a dtype."""
    name, kind = make.__name__, name_of(dtype)
    if name not in _MAKERS or kind not in _CARRIERS:
        if kind not in _CARRIERS:
            raise TypeError(f"{name}(): {_unheld.why(dtype)}")
        raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{_KIND_NAMES[kind]}'")
    if options.pop("requires_grad", False):
        raise NotImplementedError(f"{name}(): gradients of {dtype} are not supported")
    if name in ("tensor", "new_tensor", "asarray") and not kind.startswith("float8"):
        data = args[name == "new_tensor"]
        if not isinstance(data, Tensor):
            array = numpy.array(data, dtype=None if hasattr(data, "__array__") else kind).astype(kind)
            return of_array(array)
    if name in ("full", "full_like", "new_full") and isinstance(args[-1], int) and args[-1] >= 2**63:
        args = (*args[:-1], args[-1] - 2**64)
    return cast(make(*args, dtype=_core.float32 if kind.startswith("float8") else _core.int64, **options), dtype)


_MAKERS = [
    "tensor",
    "new_tensor",
    "asarray",
    "zeros",
    "ones",
    "empty",
    "full",
    "eye",
    "scalar_tensor",
    "zeros_like",
    "ones_like",
    "empty_like",
    "full_like",
    "new_zeros",
    "new_ones",
    "new_empty",
    "new_full",
]


def _again(out: Any, dtype: DType) -> Any:
    """Bits of results as tensors of a dtype."""
    if type(out) is Tensor:
        return of_bits(out, dtype)
    if isinstance(out, tuple | list):
        parts = [_again(part, dtype) for part in out]
        return type(out)(*parts) if hasattr(out, "_fields") else type(out)(parts)
    return out


# -- what functions make of such tensors


class Bits(Tensor):
    """A tensor that has the bits of a dtype that kernels do not know."""

    _held: Any

    @property
    def dtype(self) -> Any:
        """The dtype whose elements the bits are."""
        return self._held

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Sequence[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        from smolder.overrides import DisableTorchFunctionSubclass

        with DisableTorchFunctionSubclass():
            return _answered(func, args, kwargs or {})

    def to(self, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, **options: Any) -> Any:
        """As Tensor.to."""
        for arg in map(as_dtype, args):
            if isinstance(arg, _core.dtype):
                dtype = arg
            elif isinstance(arg, Tensor):
                dtype, device = arg.dtype, arg.device
            elif arg is not None and not isinstance(arg, bool):
                device = arg
        out = self
        if dtype is not None and dtype != self.dtype:
            out = cast(self, dtype) if isinstance(dtype, _unheld.UnheldDtype) else _decoded(self, dtype)
        if device is not None:
            moved = _raw(out).to(device=device)
            out = of_bits(moved, out.dtype) if isinstance(out, Bits) else moved
        return out.clone() if copy and out is self else out

    def view(self, *shape: Any) -> Any:
        """As Tensor.view."""
        if len(shape) == 1 and isinstance(shape[0], _core.dtype):
            return view_bits(self, shape[0])
        return of_bits(_raw(self).view(*shape), self.dtype)

    def type(self, dtype: Any = None, **options: Any) -> Any:
        """As Tensor.type."""
        package = repr(_core.uint8).partition(".")[0]
        return f"{package}.{_KIND_NAMES[name_of(self.dtype)]}Tensor" if dtype is None else self.to(dtype)

    def _array(self) -> Any:
        """The values as an array; of floats of 8 bits as float32."""
        if self.dtype.is_floating_point:
            return _decoded(self).cpu().numpy()
        return _raw(self).cpu().numpy().view(name_of(self.dtype))

    def numpy(self, *, force: bool = False) -> Any:
        """An array in the tensor's memory; NumPy has no floats of 8 bits."""
        if self.dtype.is_floating_point:
            raise TypeError(f"Got unsupported ScalarType {_KIND_NAMES[name_of(self.dtype)]}")
        return _raw(self).numpy(force=force).view(name_of(self.dtype))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)

    def tolist(self) -> Any:
        """The elements as nested lists of Python's numbers."""
        return self._array().tolist()

    def item(self) -> Any:
        """The only element as a number of Python's."""
        if self.numel() != 1:
            raise RuntimeError(f"a Tensor with {self.numel()} elements cannot be converted to Scalar")
        return self._array().reshape(-1)[0].item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.is_floating_point:
            raise TypeError("only integer tensors of a single element can be converted to an index")
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(_decoded(self))

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if self.dim() == 0 else object.__format__(self, spec)

    def __repr__(self) -> str:
        from smolder._tensor_str import to_string

        if name_of(self.dtype) == "uint64" and bool((_raw(self) < 0).any()):
            text = numpy.array2string(self._array(), separator=", ", prefix="tensor(")
            return f"tensor({text}, dtype={self.dtype})"
        usual = _core._default_dtype() if self.dtype.is_floating_point else _core.int64
        text = to_string(_decoded(self, usual))
        return f"{text[:-1]}, dtype={self.dtype})"

    def __copy__(self) -> Any:
        return of_bits(_raw(self), self.dtype)

    def __deepcopy__(self, memo: Any) -> Any:
        return memo.setdefault(id(self), of_bits(_raw(self).clone(), self.dtype))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return of_bits, (_raw(self), self.dtype)


def view_bits(x: Any, dtype: DType) -> Any:
    """view(dtype) of or to such a dtype: the same bits."""
    held = is_held(dtype)
    bits = _raw(x).view(_CARRIERS[name_of(dtype)] if held else dtype)
    return of_bits(bits, dtype) if held else bits


def _answered(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    name = _OPERATORS.get(func.__name__, func.__name__)
    first = next(x for x in _flat((args, tuple(kwargs.values()))) if isinstance(x, Bits))
    dtype, floats = first.dtype, first.dtype.is_floating_point
    if name in _ASKED:
        return func(*args, **kwargs)
    if name in ("", "__get__"):  # of a property
        return func(*map(_raw, args))
    if name in _CONVERSIONS:
        return first.to(getattr(_core, _CONVERSIONS[name]))
    if name in _MOVING:
        if isinstance(kwargs.get("dtype"), _core.dtype):
            return func(_decoded(first), *args[1:], **kwargs)
        return _again(func(*map(_raw, args), **{k: _raw(v) for k, v in kwargs.items()}), dtype)
    if name in ("ones_like", "full_like", "new_ones", "new_full", "new_tensor"):
        out = func(_decoded(first), *args[1:], **kwargs)
        return out if isinstance(kwargs.get("dtype"), _core.dtype) else cast(out, dtype)
    if name in _WRITES:
        return _WRITES[name](func, args, kwargs)
    if name in ("eq", "ne", "__eq__", "__ne__", "equal") or (not floats and name in _WIDER):
        return func(*map(_wide, args), **kwargs)
    if name in ("where", "masked_select", "index", "masked_fill") and all(
        getattr(x, "dtype", dtype) in (dtype, _core.bool) for x in args if isinstance(x, Tensor)
    ):
        given = [_number_bits(x, dtype) if isinstance(x, int | float) and i else _raw(x) for i, x in enumerate(args)]
        return _again(func(*given, **kwargs), dtype)
    if name in ("mul", "abs", "matmul", "mm") and (name == "mul") != floats:
        return _computed(name, func, args, kwargs, dtype)
    if not floats and name in _UNSIGNED_AGAIN:
        out = func(*map(_wide, args), **kwargs)
        parts = out if isinstance(out, tuple) else (out,)
        made = [cast(parts[0], dtype), *parts[1:]]
        if name == "mul_":
            _raw(first).copy_(_raw(made[0]))
            return first
        return type(out)(*made) if hasattr(out, "_fields") else tuple(made) if isinstance(out, tuple) else made[0]
    _refuse(name, args, dtype)


def _flat(x: Any) -> Any:
    for y in x:
        if type(y) in (list, tuple):
            yield from _flat(y)
        else:
            yield y


def _wide(x: Any) -> Any:
    if isinstance(x, Bits):
        return _decoded(x)
    return type(x)(map(_wide, x)) if type(x) in (list, tuple) else x


def _computed(name: str, func: Callable[..., Any], args: Any, kwargs: Any, dtype: DType) -> Any:
    out = func(*map(_wide, args), **kwargs)
    alone = all(isinstance(x, Bits) or not isinstance(x, Tensor) for x in args)
    again = alone and out.dtype.is_floating_point == dtype.is_floating_point
    return cast(out, dtype) if again else out


def _number_bits(number: Any, dtype: DType) -> Any:
    """A number as a tensor of no dimensions of such bits."""
    return _raw(cast(_core.full((), number), dtype))


def _refuse(name: str, args: Any, dtype: DType) -> Any:
    kind = _KIND_NAMES[name_of(dtype)]
    other = next((x for x in _flat(args) if type(x) is Tensor), None)
    if dtype.is_floating_point and other is not None and name in ("add", "sub", "mul", "div"):
        from smolder._tensor import kind_name

        mixed = [kind, kind_name(other.dtype)]
        pair = mixed if isinstance(args[0], Bits) else mixed[::-1]
        raise RuntimeError(f"Promotion for Float8 Types is not supported, attempted to promote {pair[0]} and {pair[1]}")
    plain = name.removesuffix("_")
    raise NotImplementedError(f"\"{_KERNELS.get(plain, f'{plain}_cpu')}\" not implemented for '{kind}'")


# -- writes


def _copy(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    to, src = args[0], args[1] if len(args) > 1 else kwargs["src"]
    if not isinstance(to, Bits):
        to.copy_(_decoded(src, to.dtype))
    elif isinstance(src, Tensor):
        _raw(to).copy_(_raw(cast(src, to.dtype)))
    else:
        _raw(to).copy_(_number_bits(src, to.dtype))
    return to


def _fill(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    to, value = args[0], args[1] if len(args) > 1 else kwargs["value"]
    _raw(to).copy_(_number_bits(value.item() if isinstance(value, Tensor) else value, to.dtype))
    return to


def _set_item(func: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    to, index, value = args
    if not isinstance(to, Bits):
        return func(to, index, _decoded(value, to.dtype) if isinstance(value, Bits) else value)
    bits = _raw(cast(value, to.dtype)) if isinstance(value, Tensor) else _number_bits(value, to.dtype)
    return func(_raw(to), index, bits)


_WRITES = {"copy_": _copy, "fill_": _fill, "__setitem__": _set_item}


def _prepare() -> None:
    from smolder import overrides

    overrides._of_new_class(Bits)


_prepare()
