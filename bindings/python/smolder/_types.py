"""Data types: their aliases, limits and questions about them."""

from __future__ import annotations

import builtins
from typing import Any

from smolder import _core
from smolder._other_forms import as_dtype
from smolder._typing import DType, Tensor

__all__ = [
    "cdouble", "cfloat", "double", "finfo", "float", "get_default_dtype", "half", "iinfo", "int", "is_floating_point",
    "long", "short",
]  # fmt: skip

dtype = _core.dtype
float: DType = _core.float32
double: DType = _core.float64
half: DType = _core.float16
int: DType = _core.int32
short: DType = _core.int16
long: DType = _core.int64
cfloat: DType = _core.complex64
cdouble: DType = _core.complex128

ALL = (
    _core.complex128,
    _core.complex64,
    _core.float64,
    _core.float32,
    _core.float16,
    _core.bfloat16,
    _core.int64,
    _core.int32,
    _core.int16,
    _core.int8,
    _core.uint8,
    _core.bool,
)

# (bits, exponent's largest power of two, smallest normal's exponent, fraction bits)
_FLOATS = {"float64": (64, 1023, -1022, 52), "float32": (32, 127, -126, 23)}
_FLOATS |= {"float16": (16, 15, -14, 10), "bfloat16": (16, 127, -126, 7)}
_FLOATS |= {"float8_e4m3fn": (8, 8, -6, 3), "float8_e5m2": (8, 15, -14, 2)}
# Those that there are as names alone have limits too: libraries choose among dtypes by them.
_FLOATS |= {"float8_e4m3fnuz": (8, 7, -7, 3), "float8_e5m2fnuz": (8, 15, -15, 2), "float8_e8m0fnu": (8, 127, -127, 0)}
# The largest numbers of dtypes that have a number where others have infinity.
_LARGEST = {"float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0}
_EPSILONS = {"float8_e5m2fnuz": 0.125}  # torch's, which is half of the distance from 1 to the next number
_INTEGERS = {f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (8, 16, 32, 64)}
_INTEGERS |= {f"uint{bits}": (0, 2**bits - 1) for bits in (8, 16, 32, 64)}


_repr = dtype.__repr__  # which smolder.torch replaces


def name_of(dtype: DType) -> str:
    """`float32` for smolder.float32."""
    return getattr(dtype, "_name", None) or _repr(dtype).removeprefix("smolder.")  # _unheld.py's know theirs


def named(name: str) -> Any:
    """smolder.float32 for `float32`; what a pickled dtype calls."""
    return getattr(_core, name)


dtype.__reduce__ = lambda self: (named, (name_of(self),))


def get_default_dtype() -> DType:
    """The dtype of tensors made from Python floats, and of quotients of integers: float32 at first."""
    return _core._default_dtype()


def is_floating_point(input: Tensor) -> bool:
    """Whether a tensor's dtype is a floating-point one."""
    return input.dtype.is_floating_point


class finfo:
    """Limits of a floating-point dtype: bits, eps, max, min, tiny, smallest_normal, resolution, dtype."""

    dtype: str
    bits: builtins.int
    eps: builtins.float
    max: builtins.float
    min: builtins.float
    tiny: builtins.float
    smallest_normal: builtins.float
    resolution: builtins.float

    def __init__(self, dtype: DType | None = None) -> None:
        dtype = (as_dtype(dtype) or _core._default_dtype()).to_real()
        if name_of(dtype) not in _FLOATS:
            raise TypeError(f"finfo() requires a floating point input type, got {dtype!r}. Use iinfo to handle it")
        self.dtype = name_of(dtype)
        self.bits, top, bottom, fraction = _FLOATS[self.dtype]
        self.eps = _EPSILONS.get(self.dtype, 2.0**-fraction)
        self.max = _LARGEST.get(self.dtype, (2.0 - 2.0**-fraction) * 2.0**top)
        self.min = -self.max if self.dtype != "float8_e8m0fnu" else 2.0**bottom  # which has no sign
        self.tiny = self.smallest_normal = 2.0**bottom
        self.resolution = 10.0 ** -builtins.int(fraction * 0.30102999566398120)

    def __repr__(self) -> str:
        values = ", ".join(
            f"{k}={getattr(self, k):g}" for k in ("resolution", "min", "max", "eps", "smallest_normal", "tiny")
        )
        return f"finfo({values}, dtype={self.dtype})"


class iinfo:
    """Limits of an integer dtype: bits, max, min, dtype."""

    dtype: str
    bits: builtins.int
    min: builtins.int
    max: builtins.int

    def __init__(self, dtype: DType) -> None:
        dtype = as_dtype(dtype)
        if name_of(dtype) not in _INTEGERS:
            raise TypeError(f"iinfo() requires an integer input type, got {dtype!r}. Use finfo to handle it")
        self.dtype = name_of(dtype)
        self.bits = dtype.itemsize * 8
        self.min, self.max = _INTEGERS[self.dtype]

    def __repr__(self) -> str:
        return f"iinfo(min={self.min:g}, max={self.max:g}, dtype={self.dtype})"
