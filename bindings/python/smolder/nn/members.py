"""The parameters, buffers and children of a module."""

from __future__ import annotations

import weakref
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Self

from smolder._names import listing as _listing
from smolder._typing import Tensor

if TYPE_CHECKING:
    from smolder._typing import Module

__all__ = ["Members"]
__dir__ = _listing(__name__)


class Members(dict[str, Any]):
    """Members of one kind, by name.

    Each also stands in the module's __dict__, where reading it costs as little as any attribute does. Looking it up
    in __getattr__, as torch does, takes three times as long as recording the op that reads it.
    """

    __slots__ = ("_module",)

    def __init__(self, module: Module, members: Any = ()) -> None:
        self._module = weakref.ref(module)  # a cycle would keep dead models' memory until Python looks for cycles
        self.update(members)

    def __setitem__(self, name: str, member: Any) -> None:
        super().__setitem__(name, member)
        self._module().__dict__[name] = member

    def __delitem__(self, name: str) -> None:
        super().__delitem__(name)
        self._module().__dict__.pop(name, None)

    # The rest in terms of the two above; dict's own would pass them by.

    def pop(self, name: str, *default: Any) -> Any:
        if name not in self:
            return super().pop(name, *default)
        member = self[name]
        del self[name]
        return member

    def popitem(self) -> tuple[Any, ...]:
        name = next(reversed(self), None)
        return super().popitem() if name is None else (name, self.pop(name))

    if not TYPE_CHECKING:
        clear = MutableMapping.clear
        setdefault = MutableMapping.setdefault
        update = MutableMapping.update

    def __ior__(self, other: Tensor) -> Self:
        self.update(other)
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)  # a module that is copied or unpickled makes its own
