"""Torch's module of Apple's devices, on which no tensor is: it says so, and the rest raises, as in a build without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolder._names import listing as _listing

__all__ = [
    "current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache", "get_rng_state",
    "is_available", "manual_seed", "recommended_max_memory", "seed", "set_per_process_memory_fraction", "set_rng_state",
    "synchronize",
]  # fmt: skip
__dir__ = _listing(__name__)


def is_available() -> bool:
    """False: tensors are on no device of Apple's."""
    return False


def device_count() -> int:
    """0: tensors are on no device of Apple's."""
    return 0


def manual_seed(seed: int) -> None:
    """Seeds the generators of such devices, of which there are none."""


def _without(name, what) -> Callable[..., Any]:
    def call(*_, **__):
        raise RuntimeError(f"Cannot execute {what}() without MPS backend.")

    call.__name__ = call.__qualname__ = name
    call.__doc__ = "Raises RuntimeError: there is no such device."
    return call


current_allocated_memory: Callable[..., Any] = _without("current_allocated_memory", "getCurrentAllocatedMemory")
driver_allocated_memory: Callable[..., Any] = _without("driver_allocated_memory", "getDriverAllocatedMemory")
empty_cache: Callable[..., Any] = _without("empty_cache", "emptyCache")
get_rng_state: Callable[..., Any] = _without("get_rng_state", "getDefaultGenerator")
recommended_max_memory: Callable[..., Any] = _without("recommended_max_memory", "getRecommendedMaxMemory")
seed: Callable[..., Any] = _without("seed", "getDefaultGenerator")
set_per_process_memory_fraction: Callable[..., Any] = _without("set_per_process_memory_fraction", "setMemoryFraction")
set_rng_state: Callable[..., Any] = _without("set_rng_state", "getDefaultGenerator")
synchronize: Callable[..., Any] = _without("synchronize", "deviceSynchronize")
