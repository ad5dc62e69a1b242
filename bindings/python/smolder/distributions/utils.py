"""Tools of distributions and transforms: parameters broadcast together, values made when asked for."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Generic, Self, TypeVar, overload

from smolder import _core
from smolder._functions import broadcast_tensors
from smolder._modes import enable_grad
from smolder._names import listing as _listing
from smolder._random_tensors import randn
from smolder._types import finfo
from smolder._typing import Device, DType, Number, Tensor

__all__ = [
    "broadcast_all", "clamp_probs", "euler_constant", "lazy_property", "logits_to_probs", "probs_to_logits",
    "tril_matrix_to_vec", "vec_to_tril_matrix",
]  # fmt: skip
__dir__ = _listing(__name__)

euler_constant: float = 0.57721566490153286060

T = TypeVar("T")
R = TypeVar("R")


def broadcast_all(*values: Tensor | Number) -> tuple[Tensor, ...]:
    """Tensors, and numbers as tensors of the first tensor's dtype and device, broadcast to one shape."""
    if not all(isinstance(v, _core.Tensor | bool | int | float) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, smolder.Tensor or objects implementing __torch_function__."
        )
    first = next((v for v in values if isinstance(v, _core.Tensor)), None)
    first = _core.zeros((), dtype=_core._default_dtype()) if first is None else first
    return broadcast_tensors(*(v if isinstance(v, _core.Tensor) else first.new_full((), v) for v in values))


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities moved into (0, 1): by the dtype's epsilon away from 0 and from 1."""
    eps = finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The probabilities of log odds, if is_binary; else of unnormalised log probabilities along the last dimension."""
    return _core.sigmoid(logits) if is_binary else _core.softmax(logits, -1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """The log odds of probabilities, if is_binary; else their logarithms. Those at the ends are clamped first."""
    probs = clamp_probs(probs)
    return probs.log() - (-probs).log1p() if is_binary else probs.log()


def _standard_normal(shape: Sequence[int], dtype: DType | None, device: Device) -> Tensor:
    return randn(tuple(shape), dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over as many last dimensions."""
    return value.sum(tuple(range(-dim, 0))) if dim else value


def times_log(x: Tensor, y: Tensor) -> Tensor:
    """x log(y), 0 where both are 0; its gradient at x = 0 is log(y), which that of xlogy is not."""
    return x * _core.where(_core.logical_and(x == 0, y == 0), 1.0, y).log()


def one_of(probs: object, logits: object) -> bool:
    """Whether it is probs that was given; raises unless one of the two was."""
    if (probs is None) == (logits is None):
        raise ValueError("Either `probs` or `logits` must be specified, but not both.")
    return probs is not None


class lazy_property(Generic[T, R]):
    """A property that is computed when it is first asked for, and then kept in the instance."""

    wrapped: Callable[[T], R]

    def __init__(self, wrapped: Callable[[T], R]) -> None:
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)

    @overload
    def __get__(self, instance: None, obj_type: Any = None) -> Self: ...

    @overload
    def __get__(self, instance: T, obj_type: Any = None) -> R: ...

    def __get__(self, instance: T | None, obj_type: Any = None) -> R | Self:
        if instance is None:
            return self
        with enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.wrapped.__name__] = value
        return value


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Lower triangles, filled row by row from the last dimension of vec; diag is the highest diagonal that is filled."""
    length = vec.shape[-1]
    # The rows up to n have as many elements: n (n + 1 + 2 diag) / 2 less those that would lie left of the matrix.
    n = round((math.sqrt(1 + 8 * length + 4 * abs(diag) * (diag + 1)) - 1 - 2 * diag) / 2)
    filled = sum(1 for i in range(n) for j in range(n) if j <= i + diag)
    if filled != length:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(vec.shape)} cannot be broadcast to indexing result of shape "
            f"{[*vec.shape[:-1], filled]}"
        )
    # Zeros are picked from an element that is put behind the others.
    at, count = [], 0
    for i in range(n):
        for j in range(n):
            inside = j <= i + diag
            at.append(count if inside else length)
            count += inside
    padded = _core.cat([vec, vec.new_zeros((*vec.shape[:-1], 1))], -1)
    picked = padded.index_select(-1, _index(vec, at))
    return picked.reshape((*vec.shape[:-1], n, n))


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """The elements of lower triangles, row by row; diag is the highest diagonal that is taken."""
    n = mat.shape[-1]
    if diag < -n or diag >= n:
        raise ValueError(f"diag ({diag}) provided is outside [{-n}, {n - 1}].")
    at = [i * n + j for i in range(n) for j in range(n) if j <= i + diag]
    return mat.reshape((*mat.shape[:-2], n * n)).index_select(-1, _index(mat, at))


def _index(like: Tensor, at: list[int]) -> Tensor:
    return like.new_tensor(at, dtype=_core.int64)
