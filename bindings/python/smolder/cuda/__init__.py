"""Devices of CUDA, under torch's names. All work of a device is queued in program order; reading a value waits for it.

Tensors live on the first device, "cuda:0". Its streams are names of one queue.
"""

import collections
import functools
import sys
import types

from smolder import _core
from smolder._device import device as _device
from smolder._device import usable_device as _usable
from smolder.cuda import amp
from smolder.cuda.streams import Event, Stream, current_stream, default_stream, set_stream, stream

__all__ = [
    "Event",
    "OutOfMemoryError",
    "Stream",
    "amp",
    "current_device",
    "current_stream",
    "default_stream",
    "device_count",
    "empty_cache",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "init",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_peak_memory_stats",
    "set_device",
    "set_stream",
    "stream",
    "synchronize",
]

OutOfMemoryError = MemoryError  # on every device


def _search_wheels():
    """CUDA's libraries may be in wheels, which are where this package's own dependencies are."""
    for folder in sys.path:
        if folder.endswith(("site-packages", "dist-packages")):
            _core._cuda_add_site_packages(folder)


_search_wheels()


def _index(device):
    """The number of a device given as torch takes it; the first when none is."""
    if device is None:
        return 0
    if isinstance(device, int):
        return device
    where = _device(device)
    if where.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {where}")
    return where.index or 0


def is_available():
    """Whether there is a driver and a device."""
    return _core._cuda_is_available()


def device_count():
    """How many devices there are; 0 without a driver."""
    return _core._cuda_device_count()


def init():
    """Raises RuntimeError, saying why, when CUDA is not available. Nothing else is to be prepared."""
    _usable("cuda")


def is_initialized():
    """As is_available(): what is needed is made ready when it is first used."""
    return is_available()


def current_device():
    """0: tensors live on the first device."""
    init()
    return 0


def set_device(device):
    """Raises NotImplementedError unless it is the first device, where tensors live."""
    _usable(_device("cuda", _index(device)))


def synchronize(device=None):
    """Runs what is recorded and waits for all that the device was given."""
    init()
    _core._cuda_run_recorded("synchronize")
    _core._cuda_synchronize(_index(device))


@functools.cache
def get_device_properties(device=None):
    """Name, compute capability, memory and multiprocessors of a device."""
    init()
    return types.SimpleNamespace(**_core._cuda_properties(_index(device)))


def get_device_name(device=None):
    """ "NVIDIA H200", say."""
    return get_device_properties(_index(device)).name


def get_device_capability(device=None):
    """Compute capability: (9, 0), say."""
    properties = get_device_properties(_index(device))
    return properties.major, properties.minor


def is_bf16_supported(including_emulation=True):
    """Whether bfloat16 may be computed with; without emulation, whether the device has instructions for it."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def memory_stats(device=None):
    """Numbers of the pool that memory comes from, under torch's names: bytes and blocks held by tensors and plans, bytes
    taken from the driver, each with its peak, and allocations that had to be tried again or failed."""
    return collections.OrderedDict(sorted(_core._cuda_memory(_index(device)).items()))


def memory_allocated(device=None):
    """Bytes that tensors and plans hold now."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device=None):
    """The most bytes that they held at a time, since the start or `reset_peak_memory_stats()`."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device=None):
    """Bytes taken from the driver: those that tensors and plans hold, and those kept free for the next."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device=None):
    """The most bytes that were, since the start or `reset_peak_memory_stats()`."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def reset_peak_memory_stats(device=None):
    """Lets peaks start from what is held now."""
    _core._cuda_reset_peak_memory(_index(device))


def empty_cache():
    """Gives memory that is kept free, that of plans too, back to the system."""
    if is_available():
        _core._cuda_empty_cache(0)


def mem_get_info(device=None):
    """Free and total bytes of a device."""
    init()
    return tuple(_core._cuda_memory_info(_index(device)))


def manual_seed(seed):
    """As smolder.manual_seed: one generator serves all devices, so that they draw the same numbers."""
    from smolder import manual_seed as seed_all

    seed_all(seed)


manual_seed_all = manual_seed
