"""Torch's module of Intel's GPUs, on which no tensor is: what torch's does in a build without them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from smolder._names import listing as _listing
from smolder._typing import Device, Tensor

__all__ = [
    "current_device", "current_stream", "device", "device_count", "device_of", "empty_cache", "get_arch_list",
    "get_device_capability", "get_device_name", "get_device_properties", "get_gencode_flags", "get_rng_state",
    "get_rng_state_all", "init", "initial_seed", "is_available", "is_bf16_supported", "is_initialized",
    "is_tf32_supported", "manual_seed", "manual_seed_all", "max_memory_allocated", "max_memory_reserved",
    "mem_get_info", "memory_allocated", "memory_reserved", "memory_stats", "seed", "seed_all", "set_device",
    "set_rng_state", "set_rng_state_all", "set_stream", "synchronize",
]  # fmt: skip
__dir__ = _listing(__name__)


def is_available() -> bool:
    """False: tensors are on no GPU of Intel's."""
    return False


def is_initialized() -> bool:
    """False: there is nothing to be prepared."""
    return False


def _is_in_bad_fork():
    return False


def device_count() -> int:
    """0: tensors are on no GPU of Intel's."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False, as there is no device."""
    return False


def is_tf32_supported() -> bool:
    """False, as there is no device."""
    return False


def get_arch_list() -> list[Any]:
    """Architectures that there are kernels for: none."""
    return []


def get_gencode_flags() -> str:
    """Flags that they were compiled with: none."""
    return ""


def empty_cache() -> None:
    """Gives back the memory that is kept for such devices, which is none."""


def manual_seed(seed: int) -> None:
    """Seeds the generator of the device, if there ever is one, as torch's does."""
    int(seed)


def manual_seed_all(seed: int) -> None:
    """Seeds the generators of all devices, if there ever are any, as torch's does."""
    int(seed)


def seed() -> None:
    """Seeds the generator of the device, of which there is none."""


def seed_all() -> None:
    """Seeds the generators of all devices, of which there are none."""


def get_rng_state_all() -> list[Any]:
    """The states of all generators: none."""
    return []


def set_rng_state_all(new_states: Sequence[Tensor]) -> None:
    """Sets the states of all generators, which are none; a state given raises."""
    for state in new_states:
        set_rng_state(state)


def memory_stats(device: Device = None) -> dict[str, Any]:
    """Counts of memory: none."""
    return OrderedDict()


def _nothing(name, what) -> Callable[..., Any]:
    def call(device=None):
        return 0

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Bytes {what}: 0."
    return call


memory_allocated: Callable[..., Any] = _nothing("memory_allocated", "in tensors")
max_memory_allocated: Callable[..., Any] = _nothing("max_memory_allocated", "in tensors at most")
memory_reserved: Callable[..., Any] = _nothing("memory_reserved", "kept")
max_memory_reserved: Callable[..., Any] = _nothing("max_memory_reserved", "kept at most")


def init() -> NoReturn:
    """Raises AssertionError: there is no such device."""
    raise AssertionError("Smolder not compiled with XPU enabled")


def _without(name) -> Callable[..., Any]:
    def call(*_, **__):
        init()

    call.__name__ = call.__qualname__ = name
    call.__doc__ = "Raises AssertionError: there is no such device."
    return call


current_device: Callable[..., Any] = _without("current_device")
current_stream: Callable[..., Any] = _without("current_stream")
get_device_capability: Callable[..., Any] = _without("get_device_capability")
get_device_name: Callable[..., Any] = _without("get_device_name")
get_device_properties: Callable[..., Any] = _without("get_device_properties")
get_rng_state: Callable[..., Any] = _without("get_rng_state")
initial_seed: Callable[..., Any] = _without("initial_seed")
mem_get_info: Callable[..., Any] = _without("mem_get_info")
set_device: Callable[..., Any] = _without("set_device")
set_rng_state: Callable[..., Any] = _without("set_rng_state")
set_stream: Callable[..., Any] = _without("set_stream")
synchronize: Callable[..., Any] = _without("synchronize")


class device:
    """A scope in which a device is the current one: raises when entered, but for None."""

    idx: str | device | int

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None else device

    def __enter__(self) -> None:
        if self.idx != -1:
            init()

    def __exit__(self, *_: object) -> bool:
        return False


class device_of(device):
    """The same for the device of a tensor, which is never one of these: nothing changes."""

    def __init__(self, obj: object) -> None:
        super().__init__(None)
