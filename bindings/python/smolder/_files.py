"""Tensors in the bytes of a file."""

from __future__ import annotations

import os

import numpy

from smolder import _core
from smolder._creation import from_numpy
from smolder._device import placed
from smolder._layouts import strided
from smolder._types import name_of
from smolder._typing import Device, DType, Tensor

__all__ = ["from_file"]


@placed
def from_file(
    filename: str,
    shared: bool | None = None,
    size: int | None = 0,
    *,
    dtype: DType | None = None,
    layout: object = None,
    device: Device = None,
    pin_memory: bool | None = None,
) -> Tensor:
    """A vector of `size` elements that are the bytes of a file, mapped into memory.

    With shared a write to the tensor is one to the file, when its step runs, and a file that is missing or too short is
    made; without it a write changes the tensor alone. bfloat16 is refused, which NumPy does not know.
    """
    if layout not in (None, strided):
        raise NotImplementedError(f"from_file: layout {layout} is not supported: a file's elements are strided")
    dtype = dtype or _core._default_dtype()
    if dtype == _core.bfloat16:
        raise NotImplementedError("from_file: bfloat16 is not supported: NumPy, which maps the file, does not have it")
    of = numpy.dtype(name_of(dtype))
    size = size or 0
    count = size * of.itemsize
    name = os.fspath(filename)
    if shared:
        with open(name, "ab") as file:
            if file.tell() < count:
                file.truncate(count)
    elif not os.path.exists(name):
        raise RuntimeError(f"unable to open file <{name}> in read-only mode: No such file or directory (2)")
    elif os.path.getsize(name) < count:
        raise RuntimeError(
            f"file <{name}> size <{os.path.getsize(name)}> is smaller than the required mapping size <{count}>"
        )
    if not size:
        return from_numpy(numpy.empty(0, of))
    return from_numpy(numpy.memmap(name, of, "r+" if shared else "c", shape=(size,)))
