"""Regions in which ops get their operands in the dtypes that src/ir/autocast.toml lists, under torch's names."""

from __future__ import annotations

import collections.abc
import functools
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np

from smolder import _core
from smolder._device import OTHERS
from smolder._tensor import Tensor
from smolder._typing import DType, F, T
from smolder._warn import warn

__all__ = [
    "autocast", "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "is_autocast_cpu_enabled",
    "is_autocast_enabled", "set_autocast_cpu_dtype", "set_autocast_cpu_enabled", "set_autocast_dtype",
    "set_autocast_enabled", "set_autocast_gpu_dtype",
]  # fmt: skip

DTYPES = (_core.bfloat16, _core.float16)


def is_autocast_available(device_type: str) -> bool:
    """Whether a type of devices knows autocast."""
    return device_type not in OTHERS and _core._is_autocast_available(device_type)


def _expect(function, name, position, value, kind):
    if not isinstance(value, kind):
        wanted = "smolder.dtype" if kind is _core.dtype else kind.__name__
        raise TypeError(
            f"{function}(): argument '{name}' (position {position}) must be {wanted}, not {type(value).__name__}"
        )


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Whether the calling thread is in a region of this type of devices."""
    _expect("is_autocast_enabled", "device_type", 1, device_type, str)
    return device_type not in OTHERS and _core._is_autocast_enabled(device_type)


def set_autocast_enabled(device_type: str, enabled: bool | None = None) -> None:
    """Turns autocast on or off for a type of devices in the calling thread; given the switch alone, for "cuda"."""
    if enabled is None and isinstance(device_type, bool):
        device_type, enabled = "cuda", device_type
    _expect("set_autocast_enabled", "device_type", 1, device_type, str)
    _expect("set_autocast_enabled", "enabled", 2, enabled, bool)
    _core._set_autocast_enabled(device_type, enabled)


def get_autocast_dtype(device_type: str) -> DType:
    """The dtype of regions of this type of devices in the calling thread."""
    _expect("get_autocast_dtype", "device_type", 1, device_type, str)
    return _core._get_autocast_dtype(device_type)


def set_autocast_dtype(device_type: str, dtype: DType) -> None:
    """Sets the dtype of regions of this type of devices in the calling thread."""
    _expect("set_autocast_dtype", "device_type", 1, device_type, str)
    _expect("set_autocast_dtype", "dtype", 2, dtype, _core.dtype)
    _core._set_autocast_dtype(device_type, dtype)


def _old(name, function, device_type, argument="") -> Callable[..., Any]:
    """A deprecated name of a function for one type of devices."""
    instead = f"{function.__name__}({', '.join(filter(None, [repr(device_type), argument]))})"

    def deprecated(*args):
        text = f"smolder.{name}({argument}) is deprecated. Please use smolder.{instead} instead."
        warn(text, DeprecationWarning)
        return function(device_type, *args)

    deprecated.__name__, deprecated.__doc__ = name, f"Deprecated: {instead}."
    return deprecated


is_autocast_cpu_enabled: Callable[..., Any] = _old("is_autocast_cpu_enabled", is_autocast_enabled, "cpu")
set_autocast_cpu_enabled: Callable[..., Any] = _old("set_autocast_cpu_enabled", set_autocast_enabled, "cpu", "enabled")
get_autocast_cpu_dtype: Callable[..., Any] = _old("get_autocast_cpu_dtype", get_autocast_dtype, "cpu")
set_autocast_cpu_dtype: Callable[..., Any] = _old("set_autocast_cpu_dtype", set_autocast_dtype, "cpu", "dtype")
get_autocast_gpu_dtype: Callable[..., Any] = _old("get_autocast_gpu_dtype", get_autocast_dtype, "cuda")
set_autocast_gpu_dtype: Callable[..., Any] = _old("set_autocast_gpu_dtype", set_autocast_dtype, "cuda", "dtype")


class autocast:
    """Within it, ops of this type of devices run in the dtypes that suit them, as torch's lists say.

    Products and convolutions run in dtype: bfloat16 on the CPU, float16 on CUDA, where it is not given. Casts of weights
    are kept until the outermost region ends, unless cache_enabled is False; gradients come back in the dtype of the
    weights. Decorates functions too.
    """

    fast_dtype: DType

    def __init__(
        self, device_type: str, dtype: DType | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not _core._is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device = device_type
        self.fast_dtype = _core._get_autocast_dtype(device_type) if dtype is None else dtype
        self._cache_enabled = _core.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled
        self._enabled = bool(enabled) and self._supported()
        self._before = []  # what was, in each region that was entered

    def _supported(self):
        if self.device == "cuda":
            if not _core._cuda_is_available():
                warn("CUDA is not available. Disabling autocast.")
                return False
            return True
        if self.fast_dtype in DTYPES:
            return True
        name = self.device.upper()
        warn(
            f"In {name} autocast, but the target dtype is not supported. Disabling autocast.\n"
            f"{name} Autocast only supports dtypes of {', '.join(map(str, DTYPES))} currently."
        )
        return False

    def __enter__(self) -> Self:
        self._before.append(_core._enter_autocast(self.device, self._enabled, self.fast_dtype, self._cache_enabled))
        return self

    def __exit__(self, *exception: object) -> Literal[False]:
        _core._exit_autocast(self.device, *self._before.pop())
        return False

    def __call__(self, func: F) -> F:
        if not callable(func):
            raise TypeError(
                f"autocast()(func) requires a callable, but got {type(func).__name__}. "
                f"Did you mean to use autocast as a context manager? For example:\n"
                f"    with smolder.autocast(device_type=...):\n"
                f"        output = model(input)"
            )
        return autocast_decorator(self, func)


def autocast_decorator(autocast_instance: autocast, func: Callable[..., Any]) -> Callable[[F], F]:
    """func, run in the region of an autocast."""

    @functools.wraps(func)
    def decorate_autocast(*args, **kwargs):
        with autocast_instance:
            return func(*args, **kwargs)

    return decorate_autocast


def cast(value: Any, device_type: str, dtype: DType) -> Any:
    """Floating-point tensors of a type of devices in dtype, in containers too; float64 stays."""
    if isinstance(value, Tensor):
        fits = value.dtype.is_floating_point and value.device.type == device_type and value.dtype != _core.float64
        return value.to(dtype) if fits else value
    if isinstance(value, (str, bytes, np.ndarray)):
        return value
    if isinstance(value, collections.abc.Mapping):
        return {cast(k, device_type, dtype): cast(v, device_type, dtype) for k, v in value.items()}
    if isinstance(value, collections.abc.Iterable):
        each = (cast(v, device_type, dtype) for v in value)
        return type(value)(each) if isinstance(value, (list, tuple)) else each
    return value


class State:
    """Returns the regions that the thread is in, for what runs later as if it ran now."""

    def __init__(self) -> None:
        cache = _core.is_autocast_cache_enabled()
        self.regions = [(t, is_autocast_enabled(t), get_autocast_dtype(t), cache) for t in ("cpu", "cuda")]
        self.before = []

    def __enter__(self) -> None:
        for region in self.regions:
            self.before.append((region[0], *_core._enter_autocast(*region)))

    def __exit__(self, *exception: object) -> None:
        for _ in self.regions:
            _core._exit_autocast(*self.before.pop())


def listed(name: str) -> Callable[[T], T]:
    """Decorates a function of Python that src/ir/autocast.toml lists under this name."""

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            if not _core._autocasting():
                return function(*args, **kwargs)
            tensors = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]

            def again(tensors):
                given = iter(tensors)
                first = [next(given) if isinstance(a, Tensor) else a for a in args]
                named = {k: next(given) if isinstance(a, Tensor) else a for k, a in kwargs.items()}
                return function(*first, **named)

            return _core._call_autocast(name, tensors, again)

        return call

    return decorate
