"""Helpers around training: hooks, checkpoints, data sets and their loaders."""

from __future__ import annotations

import weakref

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.utils import checkpoint, data, hooks

__all__ = ["checkpoint", "data", "hooks", "swap_tensors"]
__dir__ = _listing(__name__)


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Makes each of two tensors what the other was: class, attributes, values and gradient.

    Gradients of what was computed of one before go where its values went.
    """
    for name, t in (("t1", t1), ("t2", t2)):
        if weakref.getweakrefs(t):
            raise RuntimeError(f"Cannot swap {name} because it has weakref associated with it")
    before = _core.Tensor(t1)
    t1.__class__, t2.__class__ = t2.__class__, t1.__class__
    t1.__dict__, t2.__dict__ = t2.__dict__, t1.__dict__
    t1._become(t2)
    t2._become(before)
