"""Torch's old classes of tensors on CUDA: FloatTensor(2, 3), and what isinstance asks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder import _core, _layouts

__all__ = [
    "BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor",
    "IntTensor", "LongTensor", "ShortTensor",
]  # fmt: skip

if TYPE_CHECKING:

    class BFloat16Tensor(_core.Tensor):
        """Tensors of one dtype on CUDA."""

    class BoolTensor(_core.Tensor):
        """Tensors of one dtype on CUDA."""

    class ByteTensor(_core.Tensor):
        """Tensors of one dtype on CUDA."""

    class CharTensor(_core.Tensor):
        """Tensors of one dtype on CUDA."""

    class DoubleTensor(_core.Tensor):
        """Tensors of one dtype on CUDA."""

    class FloatTensor(_core.Tensor):
        """Tensors of one dtype on CUDA."""

    class HalfTensor(_core.Tensor):
        """Tensors of one dtype on CUDA."""

    class IntTensor(_core.Tensor):
        """Tensors of one dtype on CUDA."""

    class LongTensor(_core.Tensor):
        """Tensors of one dtype on CUDA."""

    class ShortTensor(_core.Tensor):
        """Tensors of one dtype on CUDA."""

else:
    BFloat16Tensor = _layouts.type_on_cuda(_layouts.BFloat16Tensor)
    BoolTensor = _layouts.type_on_cuda(_layouts.BoolTensor)
    ByteTensor = _layouts.type_on_cuda(_layouts.ByteTensor)
    CharTensor = _layouts.type_on_cuda(_layouts.CharTensor)
    DoubleTensor = _layouts.type_on_cuda(_layouts.DoubleTensor)
    FloatTensor = _layouts.type_on_cuda(_layouts.FloatTensor)
    HalfTensor = _layouts.type_on_cuda(_layouts.HalfTensor)
    IntTensor = _layouts.type_on_cuda(_layouts.IntTensor)
    LongTensor = _layouts.type_on_cuda(_layouts.LongTensor)
    ShortTensor = _layouts.type_on_cuda(_layouts.ShortTensor)
