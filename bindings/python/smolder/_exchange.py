"""Memory of tensors that other libraries see: NumPy's arrays, DLPack, the CUDA array interface. Each of these ends the
step. `_tensor.py` makes methods of them."""

import builtins

import numpy

from smolder import _core
from smolder._types import name_of

_LEGACY_STREAM = 1  # as DLPack numbers it


def as_numpy(self, *, force=False):
    """The elements as a NumPy array in the tensor's memory: a write to either is seen by the other."""
    if self.requires_grad and not force and _core.is_grad_enabled():
        raise RuntimeError("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.")
    if self.dtype == _core.bfloat16:
        raise TypeError("NumPy has no bfloat16. Use tensor.float().numpy() instead.")
    return self._numpy()


as_numpy.__name__ = as_numpy.__qualname__ = "numpy"


def __array__(self, dtype=None, copy=None):
    out = self.numpy()
    if copy is False and dtype is not None and out.dtype != dtype:
        raise ValueError(f"a tensor of {self.dtype} can't be had as an array of {numpy.dtype(dtype)} without a copy")
    return out.astype(dtype or out.dtype, copy=builtins.bool(copy))


def __array_wrap__(self, array, context=None, return_scalar=False):
    """Wraps the result of a function of NumPy's, as numpy.add: a tensor, of bytes where NumPy says bool."""
    from smolder._creation import from_numpy

    array = numpy.asarray(array)
    return from_numpy(array.astype("uint8") if array.dtype == numpy.bool_ else array)


def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
    """The tensor's memory as a DLPack capsule, shared. On CUDA, stream is what the consumer is going to use, which then
    waits for what the tensor's elements need: 1 or None the legacy default stream, 2 the thread's, -1 none."""
    if self.requires_grad:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if stream is not None and type(stream) is not builtins.int:
        raise TypeError("stream must be ``int`` or ``none``")
    here = self.__dlpack_device__()
    if dl_device is not None and tuple(dl_device) != here:
        kind, index = dl_device
        if copy is False or kind not in (1, 2) or (kind == 1 and index != 0) or index >= _core._cuda_device_count() > 0:
            raise BufferError(f"a tensor on DLPack's device {here} can't be had on {tuple(dl_device)}")
        self, stream = self._to_device("cpu" if kind == 1 else f"cuda:{index}"), -1 if kind == 1 else stream
    elif copy:
        self = self.clone()
    if self._on_cpu:
        assert stream in (None, -1), "stream should be None on cpu."
        return self._dlpack(True).__dlpack__(max_version=max_version)
    assert stream != 0, f"unsupported stream on CUDA: {stream}."
    stream = _LEGACY_STREAM if stream is None else stream
    index = self.get_device()
    shared = self._dlpack(stream in (_LEGACY_STREAM, _core._cuda_stream(index)))
    if stream != -1:
        _core._cuda_precede(index, stream)
    return shared.__dlpack__(max_version=max_version)


def __dlpack_device__(self):
    """(1, 0) on the CPU, (2, index) on CUDA, as DLPack numbers devices."""
    return (1, 0) if self._on_cpu else (2, self.get_device())


def __cuda_array_interface__(self):
    """Where the elements are on CUDA, for libraries that share memory by it: their work and the tensor's are in order on
    the legacy default stream. The memory stays shared for as long as the tensor has it."""
    if self._on_cpu:
        raise AttributeError(
            f"Can't get __cuda_array_interface__ on non-CUDA tensor type: {self.type()} If CUDA data is required use "
            "tensor.cuda() to copy tensor to device memory."
        )
    if self.requires_grad:
        raise RuntimeError(
            "Can't get __cuda_array_interface__ on Variable that requires grad. If gradients aren't required, use "
            "var.detach() to get Variable that doesn't require grad."
        )
    address = self._lasting_address() if self.numel() else 0
    size = self.itemsize
    return {
        "version": 3,
        "shape": tuple(self.shape),
        "typestr": "<V2" if self.dtype == _core.bfloat16 else numpy.dtype(name_of(self.dtype)).str,
        "data": (address, False),
        "strides": None if self.is_contiguous() else tuple(s * size for s in self.stride()),
        "stream": _LEGACY_STREAM,
    }
