"""torch's old classes of sparse tensors: FloatTensor(indices, values, size), and what isinstance asks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._layouts import sparse_coo
from smolder._sparse._make import sparse_coo_tensor
from smolder._tensor import _TYPE_NAMES, Tensor


class _TypeOfSparse(type):
    """COO tensors of one dtype, as a class that makes and recognises them."""

    _is_sparse_type = True

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.layout is sparse_coo and instance.dtype == cls.dtype

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        if not args or isinstance(args[0], int):
            return sparse_coo_tensor(tuple(args) or (0,), dtype=cls.dtype, device=device)
        if len(args) == 1:
            return sparse_coo_tensor(tuple(args[0]), dtype=cls.dtype, device=device)
        indices, values, *size = args
        if isinstance(values, Tensor) and values.dtype != cls.dtype:
            raise TypeError(
                f"{cls.__name__}(): expected values of {cls.dtype}, got {values.dtype}; convert them with to()"
            )
        return sparse_coo_tensor(indices, values, *size, dtype=cls.dtype, device=device)


def _type_of(dtype):
    name = _TYPE_NAMES[dtype].rpartition(".")[2]
    doc = f"Makes COO tensors of {dtype}, and is what isinstance asks whether a tensor is one."
    return _TypeOfSparse(name, (), {"dtype": dtype, "__doc__": doc, "__module__": "smolder.sparse"})


if TYPE_CHECKING:  # classes of tensors, to a checker of types as any others
    from smolder._layouts import BFloat16Tensor as BFloat16Tensor
    from smolder._layouts import ByteTensor as ByteTensor
    from smolder._layouts import CharTensor as CharTensor
    from smolder._layouts import DoubleTensor as DoubleTensor
    from smolder._layouts import FloatTensor as FloatTensor
    from smolder._layouts import HalfTensor as HalfTensor
    from smolder._layouts import IntTensor as IntTensor
    from smolder._layouts import LongTensor as LongTensor
    from smolder._layouts import ShortTensor as ShortTensor
else:
    BFloat16Tensor = _type_of(_core.bfloat16)
    ByteTensor = _type_of(_core.uint8)
    CharTensor = _type_of(_core.int8)
    DoubleTensor = _type_of(_core.float64)
    FloatTensor = _type_of(_core.float32)
    HalfTensor = _type_of(_core.float16)
    IntTensor = _type_of(_core.int32)
    LongTensor = _type_of(_core.int64)
    ShortTensor = _type_of(_core.int16)
