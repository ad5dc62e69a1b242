"""The accelerator of this machine under torch's names that name no maker: CUDA, or none."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from smolder import _core, cuda
from smolder._device import device
from smolder._names import listing as _listing
from smolder._typing import Device, DType
from smolder._warn import warn

__all__ = [
    "current_accelerator", "current_device_idx", "current_device_index", "current_stream", "device_count",
    "device_index", "empty_cache", "empty_host_cache", "get_device_capability", "get_memory_info", "is_available",
    "max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved", "memory_stats",
    "reset_accumulated_memory_stats", "reset_peak_memory_stats", "set_device_idx", "set_device_index", "set_stream",
    "synchronize",
]  # fmt: skip
__dir__ = _listing(__name__)


def current_accelerator(check_available: bool = False) -> device | None:
    """The kind of device that this build has kernels for, CUDA; with check_available None where there is no such device."""
    return device("cuda") if not check_available or is_available() else None


def is_available() -> bool:
    """Whether there is a driver and a device."""
    return cuda.is_available()


def device_count() -> int:
    """How many devices there are."""
    return cuda.device_count()


def _number(where):
    """The number of a device, which has to be one of CUDA; None is the current one."""
    if where is None:
        return cuda.current_device()
    if isinstance(where, int):
        return where
    where = device(where)
    if where.type != "cuda":
        raise ValueError(f"{where.type} doesn't match the current accelerator cuda.")
    return cuda.current_device() if where.index is None else where.index


def current_device_index() -> int:
    """The number of the device where tensors are made."""
    return cuda.current_device()


def set_device_index(device: Device, /) -> None:
    """Makes the device of a number the current one of this thread; does nothing for a number below 0."""
    cuda.set_device(_number(device))


def current_device_idx() -> int:
    """Deprecated: current_device_index()."""
    warn("Use `current_device_index` instead.", FutureWarning)
    return current_device_index()


def set_device_idx(device: Device, /) -> None:
    """Deprecated: set_device_index()."""
    warn("Use `set_device_index` instead.", FutureWarning)
    set_device_index(device)


def get_device_capability(device: Device = None, /) -> dict[str, set[DType]]:
    """The abilities of the device: `supported_dtypes`, a set of the dtypes that tensors there may have."""
    cuda.get_device_properties(_number(device))  # raises where there is no such device
    return {"supported_dtypes": {d for d in vars(_core).values() if isinstance(d, _core.dtype)}}


def current_stream(device: Device = None, /) -> Any:
    """The stream that work is queued on."""
    return cuda.current_stream(_number(device))


def set_stream(stream: Any) -> None:
    """Makes a stream the current one, and its device too."""
    cuda.set_stream(stream)


def synchronize(device: Device = None, /) -> None:
    """Runs what is recorded and waits for all that the device was given."""
    cuda.synchronize(_number(device))


class device_index:
    """A scope in which the device of a number is the current one; None changes nothing."""

    def __init__(self, device: Device, /) -> None:
        self.idx = device

    def __enter__(self) -> None:
        if self.idx is not None:
            self._before = cuda.current_device()
            set_device_index(self.idx)

    def __exit__(self, *_: object) -> bool:
        if self.idx is not None:
            cuda.set_device(self._before)
        return False


# -- memory: where there is no device nothing is in use, which torch says too


def empty_cache() -> None:
    """Gives memory that is kept but not in use back to the driver."""
    if is_available():
        cuda.empty_cache()


def empty_host_cache() -> None:
    """As empty_cache(), which gives pinned memory back too."""
    empty_cache()


def get_memory_info(device_index: int | None = None, /) -> tuple[int, int]:
    """Free and total bytes of the device."""
    return cuda.mem_get_info(_number(device_index))


def _bytes(name, what) -> Callable[..., Any]:
    def call(device_index=None, /):
        return getattr(cuda, name)(_number(device_index)) if is_available() else 0

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Bytes {what}."
    return call


memory_allocated: Callable[..., Any] = _bytes("memory_allocated", "in tensors")
max_memory_allocated: Callable[..., Any] = _bytes("max_memory_allocated", "in tensors at most")
memory_reserved: Callable[..., Any] = _bytes("memory_reserved", "kept of the device")
max_memory_reserved: Callable[..., Any] = _bytes("max_memory_reserved", "kept of the device at most")


def memory_stats(device_index: int | None = None, /) -> dict[str, Any]:
    """Counts of memory by name."""
    return cuda.memory_stats(_number(device_index)) if is_available() else OrderedDict()


def reset_accumulated_memory_stats(device_index: int | None = None, /) -> None:
    """Starts the counts of what was allocated and freed anew."""
    if is_available():
        cuda.reset_accumulated_memory_stats(_number(device_index))


def reset_peak_memory_stats(device_index: int | None = None, /) -> None:
    """Makes the most memory that was in use what is in use now."""
    if is_available():
        cuda.reset_peak_memory_stats(_number(device_index))
