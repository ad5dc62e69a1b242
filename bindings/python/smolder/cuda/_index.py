"""Which device of CUDA an argument names."""

from __future__ import annotations

from smolder import _core
from smolder._device import device as _device
from smolder._device import usable_device
from smolder._typing import Device


def index_of(device: Device, optional: bool = True) -> int:
    """The number of a device given as torch takes it. If optional, the current one when none is said."""
    if isinstance(device, int):
        return device
    where = _device("cuda" if device is None and optional else device)
    if where.type != "cuda":
        raise ValueError(f"Expected a cuda device, but got: {where}")
    if where.index is None and not optional:
        raise ValueError(
            f"Expected a {__name__.partition('.')[0]}.device with a specified index or an integer, but got:{device}"
        )
    return _core._cuda_current_device() if where.index is None else where.index


def used_index(device: Device) -> int:
    """The same; raises where there is no such device."""
    index = index_of(device)
    usable_device("cuda")
    _core._cuda_check_ordinal(index)
    return index
