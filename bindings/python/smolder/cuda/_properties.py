"""Properties of CUDA devices."""

from __future__ import annotations

import functools
import types
from typing import Any

from smolder import _core
from smolder._device import usable_device
from smolder._typing import Device
from smolder.cuda._index import index_of

__all__ = [
    "can_device_access_peer", "get_arch_list", "get_device_capability", "get_device_name", "get_device_properties",
    "get_gencode_flags", "is_bf16_supported", "is_tf32_supported",
]  # fmt: skip


class _CudaDeviceProperties(types.SimpleNamespace):
    def __repr__(self):
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // (1 << 20)}MB, multi_processor_count={self.multi_processor_count}, "
            f"L2_cache_size={self.L2_cache_size // (1 << 20)}MB)"
        )


@functools.cache
def _properties(index):
    return _CudaDeviceProperties(**_core._cuda_properties(index))


def _checked(index, what):
    if not 0 <= index < _core._cuda_device_count():
        raise AssertionError(f"Invalid {what} id")
    return index


def get_device_properties(device: Device = None) -> Any:
    """Name, compute capability, memory, multiprocessors and limits of a device."""
    usable_device("cuda")
    return _properties(_checked(index_of(device), "device"))


def get_device_name(device: Device = None) -> str:
    """ "NVIDIA H200", say."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> tuple[int, int]:
    """Compute capability: (9, 0), say."""
    properties = get_device_properties(device)
    return properties.major, properties.minor


def _is_of_2020():
    """Whether there is a device that is not older than Ampere."""
    return _core._cuda_is_available() and get_device_capability()[0] >= 8


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 may be computed with; without emulation, whether the device has instructions for it."""
    return _core._cuda_is_available() and (including_emulation or _is_of_2020())


def is_tf32_supported() -> bool:
    """Whether the device multiplies TensorFloat32."""
    return _is_of_2020()


def get_arch_list() -> list[str]:
    """The architectures that kernels are compiled for: those of the devices that there are."""
    capabilities = {get_device_capability(i) for i in range(_core._cuda_device_count())}
    return [f"sm_{major}{minor}" for major, minor in sorted(capabilities)]


def get_gencode_flags() -> str:
    """The same as flags of NVIDIA's compiler."""
    numbers = [arch.removeprefix("sm_") for arch in get_arch_list()]
    return " ".join(f"-gencode compute=compute_{n},code=sm_{n}" for n in numbers)


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether a device can read another's memory by itself. Copies between those that cannot go through the host."""
    usable_device("cuda")
    first = _checked(index_of(device), "device")
    return _core._cuda_can_access_peer(first, _checked(index_of(peer_device, optional=False), "peer device"))
