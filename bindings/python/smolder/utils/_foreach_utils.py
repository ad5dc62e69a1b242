"""Groups of tensors that an optimizer may step at once."""

from __future__ import annotations

from collections.abc import Sequence

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Device, DType, Tensor

__all__: list[str] = []
__dir__ = _listing(__name__)


def _get_foreach_kernels_supported_devices() -> list[str]:
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    return ["cuda", "cpu"]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Device, DType], tuple[list[list[Tensor | None]], list[int]]]:
    """Lists of as many tensors, or nothing, divided by where the tensors of the first list are, and their dtypes."""
    groups = {}
    for i, first in enumerate(tensorlistlist[0]):
        if first is None:
            raise RuntimeError("_group_tensors_by_device_and_dtype: the tensors of the first list must not be None")
        empty = [[] for _ in tensorlistlist], []
        lists, indices = groups.setdefault((first.device, first.dtype), empty)
        for of, tensors in zip(lists, tensorlistlist, strict=True):
            if tensors:
                of.append(tensors[i])
        if with_indices:
            indices.append(i)
    return groups


def _device_has_foreach_support(device: Device) -> bool:
    return device.type in ("cuda", "cpu")


def _has_foreach_support(tensors: Sequence[Tensor | None], device: Device) -> bool:
    return _device_has_foreach_support(device) and all(x is None or type(x) is _core.Tensor for x in tensors)
