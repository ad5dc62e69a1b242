"""Variables, which have long been tensors."""

from __future__ import annotations

from typing import Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Tensor

__all__ = ["Variable"]
__dir__ = _listing(__name__)


class VariableMeta(type):
    """Makes isinstance(tensor, Variable) true."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _core.Tensor)

    def __call__(cls, data: Tensor, requires_grad: bool = False, volatile: bool = False) -> Tensor:
        if not isinstance(data, _core.Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        if volatile:
            raise RuntimeError("volatile was removed; use `with smolder.no_grad():` instead")
        return data.detach().requires_grad_(requires_grad)


class Variable(metaclass=VariableMeta):
    """Variable(data, requires_grad) is a leaf that shares data's memory; every tensor is a variable."""
