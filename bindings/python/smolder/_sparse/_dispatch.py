"""Which function answers a call that has a sparse tensor among its arguments: a rule by the op's name, or an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolder import _core
from smolder._sparse._parts import is_sparse, missing
from smolder._typing import F, Tensor

RULES: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Callable[[F], F]:
    """Makes a function the rule of ops: of the one of its own name, unless names are given."""

    def add(function: F) -> F:
        for name in names or (function.__name__,):
            RULES[name] = function
        return function

    return add


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """The result of an op that has a rule; raises NotImplementedError for others."""
    found = RULES.get(name)
    if found is None and name.endswith("_") and not name.endswith("__"):
        found = RULES.get(name[:-1])
        if found is not None:
            return in_place(name[:-1], *args, **kwargs)
    if found is None:
        raise missing(name, *_tensors((*args, *kwargs.values())))
    return found(*args, **kwargs)


def _tensors(values):
    for value in values:
        if isinstance(value, list | tuple):
            yield from _tensors(value)
        elif is_sparse(value):
            yield value


def in_place(name: str, self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """self, which gets the result of an op."""
    out = call(name, self, *args, **kwargs)
    write(f"{name}_", self, out)
    return self


def write(name: str, self: Tensor, out: Tensor) -> None:
    """Writes a result into a tensor of the same layout and shape."""
    if not is_sparse(self):
        if is_sparse(out):
            raise RuntimeError(f"{name}: a result of layout {out.layout!r} cannot be written into a strided tensor")
        self.copy_(out)
        return
    if not is_sparse(out) or out.layout is not self.layout:
        raise RuntimeError(f"{name}: a result of layout {out.layout!r} cannot be written into one of {self.layout!r}")
    if _core.is_grad_enabled() and (self.requires_grad or out.requires_grad):
        if self.is_leaf and self.requires_grad:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        raise NotImplementedError(f"{name} of a sparse tensor is not supported where a gradient is wanted")
    if out.shape != self.shape:
        raise RuntimeError(f"output with shape {list(self.shape)} doesn't match the broadcast shape {list(out.shape)}")
    values = _core._sparse_values(out).to(self.dtype)
    mine, (theirs, *rest) = _core._sparse_parts(self), _core._sparse_parts(out)
    if all(a._is_same(b) for a, b in zip(mine[0], theirs, strict=True)):
        _core._sparse_values(self).copy_(values)  # others that see the storage see it
    else:
        _core._sparse_set(self, values, list(theirs), *rest)
