"""Memory of the CPU that processes share: where share_memory_ moves a tensor's storage, and how it is sent.

It is a file without a name that is mapped, so that a process that is forked sees it, and one that is sent a tensor of it
maps it as well. Other tensors are copied where they are sent.
"""

from __future__ import annotations

import functools
import mmap
import os
import weakref
from collections.abc import Callable
from typing import Any

import numpy

from smolder import _core
from smolder._typing import Tensor

# By the identity of a storage: the array that it lies in, as long as that is used, and the file.
_known: dict[int, tuple[weakref.ref[Any], int]] = {}
# In a process that was sent tensors: the storages, by file, so that those which share memory do so here.
_received: weakref.WeakValueDictionary[tuple[int, int], Any] = weakref.WeakValueDictionary()


class _Mapped(numpy.ndarray):  # type: ignore[type-arg]
    """The bytes of a mapped file; a class of its own, which weak references know."""


def _mapped(fd: int, size: int) -> Any:
    """The file's bytes as an array, which closes the file when nothing uses it any more."""
    array = numpy.frombuffer(mmap.mmap(fd, max(size, 1)), numpy.uint8, size).view(_Mapped)
    weakref.finalize(array, os.close, fd)
    return array


def _file_of(tensor: Tensor) -> int | None:
    """The file that a tensor's storage lies in, if it is shared."""
    array, fd = _known.get(tensor._storage()[0], (None, -1))
    return fd if array is not None and array() is not None else None


def is_shared(tensor: Tensor) -> bool:
    """Whether a tensor of the CPU lies in memory that processes share."""
    return _file_of(tensor) is not None


def move_there(tensor: Tensor) -> None:
    """Moves the storage of a tensor of the CPU, and with it what it holds, into memory that processes share."""
    if is_shared(tensor):
        return
    tell_pickler()
    owner = tensor._storage()[1]  # of complex numbers they, or the pairs of their parts
    held = _parts_of(owner)
    size = held.numel() * held.itemsize
    fd = os.memfd_create("smolder")
    os.ftruncate(fd, max(size, 1))
    array = _mapped(fd, size)
    moved = _in_array(array, held.dtype, held.shape)
    moved.copy_(held)
    # Both: a view that was made before, as a parameter is of what it was made of, would write to where it was.
    places = [(t, _layout_of(_parts_of(t))) for t in (tensor._owner(), tensor)]
    for there, layout in places:
        parts = moved if layout == _layout_of(moved) else moved.reshape(-1).as_strided(*layout)
        there._set_data(_as(parts, there))
    _known[tensor._storage()[0]] = weakref.ref(array), fd


def _parts_of(tensor: Tensor) -> Tensor:
    """The tensor without its history; a complex one as pairs of real numbers, which is how its storage holds them."""
    return _core.view_as_real(tensor.detach()) if tensor.dtype.is_complex else tensor.detach()


def _layout_of(parts: Tensor) -> tuple[Any, ...]:
    return tuple(parts.shape), parts.stride(), parts.storage_offset()


def _as(parts: Tensor, tensor: Tensor) -> Tensor:
    """The parts as complex numbers where the tensor has complex numbers, else the parts as they are."""
    return _core.view_as_complex(parts) if tensor.dtype.is_complex else parts


def _in_array(array: Any, dtype: Any, shape: Any) -> Tensor:
    """A tensor in the memory of an array of bytes."""
    elements = array.view({1: numpy.uint8, 2: numpy.int16, 4: numpy.int32, 8: numpy.int64}[dtype.itemsize])
    return _core._from_array(elements, dtype).reshape(tuple(shape))


def _sent(tensor: Tensor) -> tuple[Any, ...]:
    """How the pickler of multiprocessing sends a tensor: the file that it lies in, or a copy."""
    fd = _file_of(tensor) if tensor._on_cpu else None
    if fd is None:
        return tensor.__reduce_ex__(2)
    from multiprocessing.reduction import DupFd

    owner, parts = tensor._storage()[1], _parts_of(tensor)
    layout = _layout_of(parts)
    kind = type(tensor), tensor.dtype.is_complex, tensor.requires_grad
    return _received_as, (DupFd(fd), parts.dtype, _parts_of(owner).numel(), layout, *kind)


def _received_as(
    sent: Any, dtype: Any, count: int, layout: Any, kind: Any, is_complex: bool, requires_grad: bool
) -> Tensor:
    fd = sent.detach()
    status = os.fstat(fd)
    key = status.st_dev, status.st_ino
    array = _received.get(key)
    if array is None:
        array = _received[key] = _mapped(fd, count * dtype.itemsize)
    else:
        os.close(fd)
    whole = _in_array(array, dtype, (count,))
    out = whole.as_strided(*layout).detach()
    if is_complex:
        out = _core.view_as_complex(out)
    _known[out._storage()[0]] = weakref.ref(array), fd
    if kind is _core.Tensor:
        return out.requires_grad_() if requires_grad else out
    return kind(out, requires_grad)


@functools.cache
def tell_pickler() -> None:
    """Has multiprocessing send tensors in shared memory by their files."""
    from multiprocessing.reduction import ForkingPickler

    from smolder.nn.parameter import Buffer, Parameter

    register: Callable[..., Any] = ForkingPickler.register
    for kind in (_core.Tensor, Parameter, Buffer):
        register(kind, _sent)
