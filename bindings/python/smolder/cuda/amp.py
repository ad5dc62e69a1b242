"""Deprecated names of smolder.amp for CUDA."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import DType
from smolder._warn import warn
from smolder.amp import autocast_mode
from smolder.amp._by_device import autocast_for, scaler_for

if TYPE_CHECKING:
    from smolder.amp._by_device import Autocast, Scaler

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]
__dir__ = _listing(__name__)

autocast: type[Autocast] = autocast_for("cuda", _core.float16)
GradScaler: type[Scaler] = scaler_for("cuda")


def _old(name) -> Any:
    warn(
        f"`smolder.cuda.amp.{name}(args...)` is deprecated. Please use `smolder.amp.{name}(args..., device_type='cuda')` "
        "instead.",
        FutureWarning,
    )


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: DType | None = None) -> Any:
    """Deprecated: smolder.amp.custom_fwd(..., device_type='cuda')."""
    _old("custom_fwd")
    return autocast_mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any]) -> Any:
    """Deprecated: smolder.amp.custom_bwd(..., device_type='cuda')."""
    _old("custom_bwd")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
