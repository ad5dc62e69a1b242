"""Shapes as Python has them."""

from __future__ import annotations

import builtins
import typing

from smolder._names import listing as _listing

__all__ = ["Size"]
__dir__ = _listing(__name__)


class Size(tuple[builtins.int, ...]):
    """A shape: a tuple that prints as one."""

    __slots__ = ()

    def numel(self) -> builtins.int:
        """The product of the extents."""
        out = 1
        for n in self:
            out *= n
        return out

    def __repr__(self) -> str:
        return f"smolder.Size({list(self)})"

    def __add__(self, other: tuple[builtins.int, ...]) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, other))

    def __radd__(self, other: tuple[builtins.int, ...]) -> Size:
        return Size(other + tuple(self)) if isinstance(other, tuple) else NotImplemented

    def __mul__(self, times: typing.SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, times))

    def __rmul__(self, times: typing.SupportsIndex) -> Size:
        return self * times

    @typing.overload
    def __getitem__(self, at: typing.SupportsIndex) -> builtins.int: ...
    @typing.overload
    def __getitem__(self, at: builtins.slice) -> Size: ...
    def __getitem__(self, at: typing.Any) -> typing.Any:
        out = tuple.__getitem__(self, at)
        return Size(out) if isinstance(at, slice) else out
