"""Torch's old classes of tensors on CUDA: FloatTensor(2, 3), and what isinstance asks."""

from smolder import _layouts

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
]

BFloat16Tensor = _layouts.type_on_cuda(_layouts.BFloat16Tensor)
BoolTensor = _layouts.type_on_cuda(_layouts.BoolTensor)
ByteTensor = _layouts.type_on_cuda(_layouts.ByteTensor)
DoubleTensor = _layouts.type_on_cuda(_layouts.DoubleTensor)
FloatTensor = _layouts.type_on_cuda(_layouts.FloatTensor)
HalfTensor = _layouts.type_on_cuda(_layouts.HalfTensor)
IntTensor = _layouts.type_on_cuda(_layouts.IntTensor)
LongTensor = _layouts.type_on_cuda(_layouts.LongTensor)
