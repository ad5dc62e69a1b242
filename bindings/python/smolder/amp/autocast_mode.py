"""autocast, and what lets autograd functions of users run in it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from smolder._autocast import (
    autocast,
    autocast_decorator,
    cast,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
)
from smolder._names import listing as _listing
from smolder._typing import DType

__all__ = ["autocast", "autocast_decorator", "custom_bwd", "custom_fwd", "is_autocast_available"]
__dir__ = _listing(__name__)


def _check_type(device_type):
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: DType | None = None) -> Any:
    """Decorates the forward of an autograd.Function, whose backward custom_bwd decorates.

    In a region, with cast_inputs, floating-point tensors are cast to that and forward runs with autocast off. Elsewhere
    cast_inputs does nothing.
    """
    _check_type(device_type)
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(*args, **kwargs):
        ctx, on = args[0], is_autocast_enabled(device_type)
        ctx._dtype = get_autocast_dtype(device_type)
        ctx._fwd_used_autocast = on and cast_inputs is None
        if cast_inputs is None or not on:
            return fwd(*args, **kwargs)
        with autocast(device_type, enabled=False):
            return fwd(*cast(args, device_type, cast_inputs), **cast(kwargs, device_type, cast_inputs))

    return decorate_fwd


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorates the backward of an autograd.Function: it runs in the region that its forward ran in."""
    _check_type(device_type)
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args, **kwargs):
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd
