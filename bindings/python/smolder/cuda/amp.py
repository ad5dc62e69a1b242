"""Deprecated names of smolder.amp for CUDA."""

from smolder import _core
from smolder._warn import warn
from smolder.amp import autocast_mode
from smolder.amp._by_device import autocast_for, scaler_for

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]

autocast = autocast_for("cuda", _core.float16)
GradScaler = scaler_for("cuda")


def _old(name):
    warn(
        f"`smolder.cuda.amp.{name}(args...)` is deprecated. Please use `smolder.amp.{name}(args..., device_type='cuda')` "
        "instead.",
        FutureWarning,
    )


def custom_fwd(fwd=None, *, cast_inputs=None):
    """Deprecated: smolder.amp.custom_fwd(..., device_type='cuda')."""
    _old("custom_fwd")
    return autocast_mode.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd):
    """Deprecated: smolder.amp.custom_bwd(..., device_type='cuda')."""
    _old("custom_bwd")
    return autocast_mode.custom_bwd(bwd, device_type="cuda")
