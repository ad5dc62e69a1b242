"""Deprecated names of smolder.amp for the CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder import _core
from smolder._names import listing as _listing
from smolder.amp._by_device import autocast_for, scaler_for

if TYPE_CHECKING:
    from smolder.amp._by_device import Autocast, Scaler

__all__ = ["GradScaler", "autocast"]
__dir__ = _listing(__name__)

autocast: type[Autocast] = autocast_for("cpu", _core.bfloat16)
GradScaler: type[Scaler] = scaler_for("cpu")
