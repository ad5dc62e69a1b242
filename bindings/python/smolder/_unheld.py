"""dtypes of torch's that kernels do not know. Tensors of some have their bits (_bits.py); of the others there are none."""

from __future__ import annotations

import warnings
from typing import Any

from smolder import _core
from smolder._missing import REASONS

__all__ = [
    "chalf", "complex32", "float4_e2m1fn_x2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu", "qint8", "qint32", "quint8", "uint16", "uint32", "uint64",
]  # fmt: skip

_PARTS = {"complex32": "float16"}

# A function in C++ finds nothing in one, which the binding generator warns of before the error that names it.
warnings.filterwarnings(
    "ignore", r"\s*nanobind: attempted to access an uninitialized instance of type 'smolder\._unheld"
)


class UnheldDtype(_core.dtype):
    """A dtype that kernels do not know."""

    def __init__(self, name: str, itemsize: int) -> None:
        self._name, self._itemsize = name, itemsize

    @property
    def itemsize(self) -> int:
        """Bytes an element takes."""
        return self._itemsize

    @property
    def is_floating_point(self) -> bool:
        """Whether it is a floating-point one."""
        return self._name.startswith("float")

    @property
    def is_complex(self) -> bool:
        """Whether it is a complex one."""
        return self._name in _PARTS

    @property
    def is_signed(self) -> bool:
        """Whether elements may be negative."""
        return "u" not in self._name

    def to_real(self) -> _core.dtype:
        """The dtype of the parts of a complex one; else itself."""
        return getattr(_core, _PARTS[self._name]) if self.is_complex else self

    def __repr__(self) -> str:
        return f"smolder.{self._name}"

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    def __hash__(self) -> int:
        return hash(self._name)

    def __reduce__(self) -> tuple[Any, ...]:
        return named, (self._name,)


complex32: UnheldDtype = UnheldDtype("complex32", 4)
chalf: UnheldDtype = complex32
uint16: UnheldDtype = UnheldDtype("uint16", 2)
uint32: UnheldDtype = UnheldDtype("uint32", 4)
uint64: UnheldDtype = UnheldDtype("uint64", 8)
float8_e4m3fn: UnheldDtype = UnheldDtype("float8_e4m3fn", 1)
float8_e4m3fnuz: UnheldDtype = UnheldDtype("float8_e4m3fnuz", 1)
float8_e5m2: UnheldDtype = UnheldDtype("float8_e5m2", 1)
float8_e5m2fnuz: UnheldDtype = UnheldDtype("float8_e5m2fnuz", 1)
float8_e8m0fnu: UnheldDtype = UnheldDtype("float8_e8m0fnu", 1)
float4_e2m1fn_x2: UnheldDtype = UnheldDtype("float4_e2m1fn_x2", 1)
qint8: UnheldDtype = UnheldDtype("qint8", 1)
quint8: UnheldDtype = UnheldDtype("quint8", 1)
qint32: UnheldDtype = UnheldDtype("qint32", 4)
quint4x2: UnheldDtype = UnheldDtype("quint4x2", 1)
quint2x4: UnheldDtype = UnheldDtype("quint2x4", 1)
int1: UnheldDtype = UnheldDtype("int1", 1)
int2: UnheldDtype = UnheldDtype("int2", 1)
int3: UnheldDtype = UnheldDtype("int3", 1)
int4: UnheldDtype = UnheldDtype("int4", 1)
int5: UnheldDtype = UnheldDtype("int5", 1)
int6: UnheldDtype = UnheldDtype("int6", 1)
int7: UnheldDtype = UnheldDtype("int7", 1)
uint1: UnheldDtype = UnheldDtype("uint1", 1)
uint2: UnheldDtype = UnheldDtype("uint2", 1)
uint3: UnheldDtype = UnheldDtype("uint3", 1)
uint4: UnheldDtype = UnheldDtype("uint4", 1)
uint5: UnheldDtype = UnheldDtype("uint5", 1)
uint6: UnheldDtype = UnheldDtype("uint6", 1)
uint7: UnheldDtype = UnheldDtype("uint7", 1)


def named(name):
    """The one of a name; what a pickled one calls."""
    return globals()[name]


def why(dtype):
    """Why a function does not take it, and what does instead."""
    if dtype._name not in REASONS:
        return (
            f"not implemented for {dtype}, whose tensors are cast, moved, compared and saved; convert to another dtype"
        )
    what, reason, instead = REASONS[dtype._name]
    return f"tensors of {dtype} are not supported: {what}: {reason}. Use {instead}"
