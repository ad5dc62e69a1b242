"""Types of several results: tuples whose members have names, as `smolder.max(x, dim)` returns them."""

from collections import namedtuple
from typing import TypeVar

from smolder import _core
from smolder._names import listing as _listing

# Results of functions that are written in Python, with the names of their members.
_OF_PYTHON = {
    "frexp": "mantissa exponent",
    "geqrf": "a tau",
    "histogram": "hist bin_edges",
    "mode": "values indices",
    "triangular_solve": "solution cloned_coefficient",
}

T = TypeVar("T", bound=type)

__all__ = sorted({*vars(_core._return_types), *_OF_PYTHON})
__dir__ = _listing(__name__)


def shown(kind: T) -> T:
    """A class of several results in Python, that from now on prints as those of this module do."""
    kind.__repr__, kind.__module__ = _repr, __name__
    globals()[kind.__name__] = kind
    __all__.append(kind.__name__)
    return kind


def _repr(self):
    members = (f"{name}={value!r}" for name, value in zip(type(self).__match_args__, self, strict=True))
    return f"{type(self).__module__}.{type(self).__name__}(\n" + ",\n".join(members) + ")"


_types = dict(vars(_core._return_types)) | {n: namedtuple(n, members) for n, members in _OF_PYTHON.items()}
for _name, _type in _types.items():
    _type.__repr__, _type.__module__ = _repr, __name__
    _type.__doc__ = f"What {_name}() returns."
    globals()[_name] = _type
