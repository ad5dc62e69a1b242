"""torch.cpu.amp and torch.cuda.amp: deprecated names, for one type of devices each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder._typing import DType
from smolder._warn import warn
from smolder.amp import autocast_mode, grad_scaler

if TYPE_CHECKING:

    class Autocast(autocast_mode.autocast):
        """autocast of one type of devices."""

        def __init__(self, enabled: bool = True, dtype: DType = ..., cache_enabled: bool = True) -> None: ...

    class Scaler(grad_scaler.GradScaler):
        """GradScaler of one type of devices."""

        def __init__(
            self,
            init_scale: float = 2.0**16,
            growth_factor: float = 2.0,
            backoff_factor: float = 0.5,
            growth_interval: int = 2000,
            enabled: bool = True,
        ) -> None: ...


def _warn(device_type, name, call):
    warn(
        f"`smolder.{device_type}.amp.{name}(args...)` is deprecated. Please use `smolder.amp.{call}` instead.",
        FutureWarning,
    )


def autocast_for(device_type: str, default: DType) -> type[Autocast]:
    """The class autocast of a type of devices, whose dtype is `default` where none is given."""

    class autocast(autocast_mode.autocast):
        __doc__ = f"Deprecated: smolder.amp.autocast({device_type!r}, ...)."

        def __init__(self, enabled=True, dtype=default, cache_enabled=True):
            _warn(device_type, "autocast", f"autocast('{device_type}', args...)")
            super().__init__(device_type, enabled=enabled, dtype=dtype, cache_enabled=cache_enabled)

    return autocast


def scaler_for(device_type: str) -> type[Scaler]:
    """The class GradScaler of a type of devices."""

    class GradScaler(grad_scaler.GradScaler):
        __doc__ = f"Deprecated: smolder.amp.GradScaler({device_type!r}, ...)."

        def __init__(
            self, init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True
        ):
            _warn(device_type, "GradScaler", f"GradScaler('{device_type}', args...)")
            super().__init__(device_type, init_scale, growth_factor, backoff_factor, growth_interval, enabled)

    return GradScaler
