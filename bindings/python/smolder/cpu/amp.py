"""Deprecated names of smolder.amp for the CPU."""

from smolder import _core
from smolder._names import listing as _listing
from smolder.amp._by_device import autocast_for, scaler_for

__all__ = ["GradScaler", "autocast"]
__dir__ = _listing(__name__)

autocast = autocast_for("cpu", _core.bfloat16)
GradScaler = scaler_for("cpu")
