"""Devices of CUDA, under torch's names. All work of a device is queued in program order; reading a value waits for it.

"cuda" is the thread's current device, the first at first. A device's streams are names of its one queue.
"""

from __future__ import annotations

import atexit
import sys
import types
from typing import Any

from smolder import _core
from smolder._device import usable_device as _usable
from smolder._names import listing as _listing
from smolder._typing import Device
from smolder.cuda import _monitor, _properties, _types, amp, graphs, memory, nvtx, profiler, random, streams
from smolder.cuda._index import index_of as _index
from smolder.cuda._index import used_index as _used_index
from smolder.cuda._monitor import *  # noqa: F403
from smolder.cuda._properties import *  # noqa: F403
from smolder.cuda._types import *  # noqa: F403
from smolder.cuda.graphs import *  # noqa: F403
from smolder.cuda.memory import *  # noqa: F403
from smolder.cuda.random import *  # noqa: F403
from smolder.cuda.streams import *  # noqa: F403

atexit.register(_core._cuda_finish_preload)  # before libraries that it opens are taken down
_core._cuda_promise_to_finish_preload()
OutOfMemoryError = _core.OutOfMemoryError
has_half = True
has_magma = False  # linear algebra goes through the host

__all__ = [
    "OutOfMemoryError", "amp", "cudart", "current_device", "device", "device_count", "device_of", "get_sync_debug_mode",
    "graphs", "has_half", "has_magma", "init", "ipc_collect", "is_available", "is_initialized", "memory", "nvtx",
    "profiler", "random", "set_device", "set_sync_debug_mode", "streams", "synchronize",
]  # fmt: skip
__dir__ = _listing(__name__)
__all__ += _monitor.__all__ + _properties.__all__ + _types.__all__ + graphs.__all__ + memory.__all__
__all__ += random.__all__ + streams.__all__


def _search_wheels():
    """CUDA's libraries may be in wheels, which are where this package's own dependencies are."""
    for folder in sys.path:
        if folder.endswith(("site-packages", "dist-packages")):
            _core._cuda_add_site_packages(folder)


_search_wheels()


def is_available() -> bool:
    """Whether there is a driver and a device."""
    return _core._cuda_is_available()


def device_count() -> int:
    """How many devices there are; 0 without a driver."""
    return _core._cuda_device_count()


def init() -> None:
    """Raises RuntimeError, saying why, when CUDA is not available. Nothing else is to be prepared."""
    _usable("cuda")


def is_initialized() -> bool:
    """As is_available(): what is needed is made ready when it is first used."""
    return is_available()


def _is_in_bad_fork():
    return _core._cuda_is_forked()


def __getattr__(name):
    if name == "_initialized":  # a value of torch's, which programs ask before they save states of generators
        return is_initialized()
    from smolder._missing import missing

    raise missing(__name__, name)


_lazy_init = init


def current_device() -> int:
    """The number of the device that "cuda" means in this thread."""
    init()
    return _core._cuda_current_device()


def set_device(device: Device) -> None:
    """Makes a device the current one of this thread; does nothing for a number below 0."""
    index = _index(device, optional=False)
    if index >= 0:
        _core._cuda_set_current_device(index)


class device:
    """A scope in which a device is the current one; a number below 0 and None change nothing."""

    idx: int
    prev_idx: int

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None else _index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        if self.idx >= 0:
            self.prev_idx = _core._cuda_current_device()
            set_device(self.idx)

    def __exit__(self, *_: object) -> bool:
        set_device(self.prev_idx)
        return False


class device_of(device):
    """The same for the device that a tensor is on; one on the CPU changes nothing."""

    def __init__(self, obj: object) -> None:
        super().__init__(obj.get_device() if obj.is_cuda else -1)


def synchronize(device: Device = None) -> None:
    """Runs what is recorded and waits for all that the device was given."""
    index = _used_index(device)
    _core._cuda_run_recorded("synchronize", index)
    _core._cuda_synchronize(index)


def ipc_collect() -> None:
    """Raises where CUDA is not available; memory is shared with no other process, so none waits to be given back."""
    init()


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """Takes 0 or "default" alone: smolder.metrics_report() tells what waited, and why."""
    if debug_mode not in (0, "default"):
        raise NotImplementedError(
            f"set_sync_debug_mode({debug_mode!r}) is not supported: metrics_report() names the lines that wait"
        )


def get_sync_debug_mode() -> int:
    """0: waits are told by smolder.metrics_report()."""
    return 0


def cudart() -> Any:
    """The functions of CUDA's runtime that torch's users call: cudaProfilerStart, cudaProfilerStop, cudaMemGetInfo."""
    init()
    return types.SimpleNamespace(
        cudaProfilerStart=profiler.start, cudaProfilerStop=profiler.stop, cudaMemGetInfo=memory.mem_get_info
    )
