"""Tensors of any dtype with random values."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from smolder import _core
from smolder._creation import empty
from smolder._random_tensors import randint
from smolder._types import finfo, iinfo
from smolder._typing import Device, DType, Tensor
from smolder._warn import warn

_FLOATS = (_core.float16, _core.bfloat16, _core.float32, _core.float64)


def _interval(dtype, low, high):
    """The numbers that values are from, `high` not included; 18 or so around 0 unless said."""
    if dtype == _core.bool:
        least, beyond, defaults = 0, 2, (0, 2)
    elif dtype in _FLOATS:
        limits = finfo(dtype)
        least, beyond, defaults = limits.min, limits.max, (-9, 9)
    else:
        limits = iinfo(dtype)
        least, beyond, defaults = limits.min, limits.max + (dtype != _core.int64), (-9, 10)
    low, high = defaults[0] if low is None else low, defaults[1] if high is None else high
    if any(isinstance(x, float) and math.isnan(x) for x in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low!r} and high={high!r}")
    if low == high and dtype in _FLOATS:
        warn(
            "Passing `low==high` to `smolder.testing.make_tensor` for floating or complex types is deprecated since 2.1 and "
            "will be removed in 2.3. Use `smolder.full(...)` instead.",
            FutureWarning,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= beyond:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{least}, {beyond})"
        )
    low, high = (min(max(x, least), beyond) for x in (low, high))
    return (low, high) if dtype in _FLOATS else (math.ceil(low), math.ceil(high))


def make_tensor(
    *shape: int | Sequence[int],
    dtype: DType,
    device: Device,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of random values from `low` up to `high`."""
    if len(shape) == 1 and not isinstance(shape[0], int):
        (shape,) = shape
    shape, floats = tuple(shape), dtype in _FLOATS
    if noncontiguous and memory_format is not None:
        raise ValueError(
            "The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous!r} and memory_format={memory_format!r}"
        )
    if requires_grad and not floats:
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype!r}"
        )
    noncontiguous = noncontiguous and math.prod(shape) > 1
    if noncontiguous:
        shape = (*shape[:-1], 2 * shape[-1])
    low, high = _interval(dtype, low, high)
    if not floats:
        out = randint(low, high, shape, device=device, dtype=dtype)
    elif low == high:
        out = empty(shape, device=device, dtype=dtype).fill_(low)
    elif high - low > finfo(dtype).max:  # in halves, as the whole is beyond the dtype
        out = empty(shape, device=device, dtype=dtype).uniform_(low / 2, high / 2).mul_(2)
    else:
        out = empty(shape, device=device, dtype=dtype).uniform_(low, high)
    if noncontiguous:
        out = out[..., 1::2]
    elif memory_format is not None:
        out = out.clone(memory_format=memory_format)
    if exclude_zero:
        out[out == 0] = finfo(dtype).tiny if floats else 1
    return out.requires_grad_(requires_grad) if floats else out
