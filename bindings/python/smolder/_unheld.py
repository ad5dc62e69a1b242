"""dtypes of torch's that no tensor here has: they are dtypes, to compare with and to look up; a tensor of one raises."""

import warnings

from smolder import _core
from smolder._missing import REASONS

__all__ = [
    "cdouble",
    "cfloat",
    "chalf",
    "complex32",
    "complex64",
    "complex128",
    "float4_e2m1fn_x2",
    "float8_e4m3fn",
    "float8_e4m3fnuz",
    "float8_e5m2",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "int8",
    "int16",
    "qint8",
    "qint32",
    "quint8",
    "short",
    "uint16",
    "uint32",
    "uint64",
]

_PARTS = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}

# What a function in C++ finds in one is nothing, which the binding generator warns of before the error that names it.
warnings.filterwarnings(
    "ignore", r"\s*nanobind: attempted to access an uninitialized instance of type 'smolder\._unheld"
)


class UnheldDtype(_core.dtype):
    """A dtype that no tensor has."""

    def __init__(self, name, itemsize):
        self._name, self._itemsize = name, itemsize

    itemsize = property(lambda self: self._itemsize, doc="Bytes an element takes.")
    is_floating_point = property(lambda self: self._name.startswith("float"), doc="Whether it is a floating-point one.")
    is_complex = property(lambda self: self._name in _PARTS, doc="Whether it is a complex one.")
    is_signed = property(lambda self: "u" not in self._name, doc="Whether elements may be negative.")

    def to_real(self):
        """The dtype of the parts of a complex one; else itself."""
        return getattr(_core, _PARTS[self._name]) if self.is_complex else self

    def __repr__(self):
        return f"smolder.{self._name}"

    def __eq__(self, other):
        return self is other

    def __ne__(self, other):
        return self is not other

    def __hash__(self):
        return hash(self._name)

    def __reduce__(self):
        return named, (self._name,)


complex32 = chalf = UnheldDtype("complex32", 4)
complex64 = cfloat = UnheldDtype("complex64", 8)
complex128 = cdouble = UnheldDtype("complex128", 16)
int8 = UnheldDtype("int8", 1)
int16 = short = UnheldDtype("int16", 2)
uint16 = UnheldDtype("uint16", 2)
uint32 = UnheldDtype("uint32", 4)
uint64 = UnheldDtype("uint64", 8)
float8_e4m3fn = UnheldDtype("float8_e4m3fn", 1)
float8_e4m3fnuz = UnheldDtype("float8_e4m3fnuz", 1)
float8_e5m2 = UnheldDtype("float8_e5m2", 1)
float8_e5m2fnuz = UnheldDtype("float8_e5m2fnuz", 1)
float8_e8m0fnu = UnheldDtype("float8_e8m0fnu", 1)
float4_e2m1fn_x2 = UnheldDtype("float4_e2m1fn_x2", 1)
qint8 = UnheldDtype("qint8", 1)
quint8 = UnheldDtype("quint8", 1)
qint32 = UnheldDtype("qint32", 4)


def named(name):
    """The one of a name; what a pickled one calls."""
    return globals()[name]


def why(dtype):
    """Why no tensor has it, and what does instead."""
    what, reason, instead = REASONS[dtype._name]
    return f"tensors of {dtype} are not supported: {what}: {reason}. Use {instead}"
