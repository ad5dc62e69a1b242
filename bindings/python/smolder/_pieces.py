"""Tensors that tell tensor_split and its like how many pieces to make, or where they end."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from smolder import _core
from smolder._names import listing as _listing

__all__ = []
__dir__ = _listing(__name__)


def pieces(value: Any) -> Any:
    """The second argument of tensor_split as numbers: how many pieces, or where they end."""
    if not isinstance(value, _core.Tensor):
        return value
    if value.dtype != _core.int64:
        raise RuntimeError(
            f"tensor_split expected tensor_indices_or_sections to have dtype of long, but got {value.dtype}"
        )
    if value.dim() > 1:
        raise RuntimeError(
            "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional tensor, but "
            f"got a tensor with {value.dim()} dims"
        )
    return value.tolist()


def _told_by_tensors(function, parameters):
    """The function, to which a tensor may tell its pieces: C++ takes one of one element for how many, of any shape."""

    @functools.wraps(function)
    def split(*args, **kwargs):
        if any(isinstance(v, _core.Tensor) for v in (*args[1:], *kwargs.values())):
            args = (*args[:1], *map(pieces, args[1:]))
            kwargs = {key: value if key in ("input", "self") else pieces(value) for key, value in kwargs.items()}
        return function(*args, **kwargs)

    del split.__wrapped__  # C++ has no signature that `inspect` reads
    split.__signature__ = inspect.Signature(parameters)
    return split


_kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
for _name in ("tensor_split", "hsplit", "vsplit"):
    for _owner, _first in ((_core, "input"), (_core.Tensor, "self")):
        _parameters = [inspect.Parameter(_first, _kind), inspect.Parameter("sections", _kind)]
        if _name == "tensor_split":
            _parameters.append(inspect.Parameter("dim", _kind, default=0))
        setattr(_owner, _name, _told_by_tensors(getattr(_owner, _name), _parameters))
