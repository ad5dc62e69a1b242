"""Modules without their first weights."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing

if TYPE_CHECKING:
    from smolder._typing import Module

__all__ = ["skip_init"]
__dir__ = _listing(__name__)


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module of the class whose parameters and buffers hold anything: it is made on "meta", and has memory then.

    The constructor has to take `device`.
    """
    from smolder.nn.module import Module

    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    if "device" not in inspect.signature(module_cls).parameters:
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    where = kwargs.pop("device", "cpu")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=where)
