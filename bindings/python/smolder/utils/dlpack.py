"""Tensors shared with other libraries, under their old names."""

from __future__ import annotations

import enum
from typing import Any

from smolder import from_dlpack
from smolder._names import listing as _listing
from smolder._typing import Tensor

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]
__dir__ = _listing(__name__)


class DLDeviceType(enum.IntEnum):
    """The kinds of devices that DLPack numbers, after dlpack.h; `Tensor.__dlpack_device__()[0]` is one."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def to_dlpack(tensor: Tensor) -> Any:
    """A capsule that others take over."""
    return tensor.__dlpack__()
