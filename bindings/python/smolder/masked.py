"""Reductions and normalizations of the elements that a mask leaves in: others count as what changes nothing.

`mask` holds True for elements that take part, and is broadcast to the input. There are no tensors that carry masks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._creation import ones, tensor
from smolder._layouts import strided
from smolder._names import listing as _listing
from smolder._types import iinfo
from smolder._typing import DType, Tensor
from smolder.cuda._refused import refused, refused_class

if TYPE_CHECKING:
    Dims = int | Sequence[int] | None

__all__ = [
    "MaskedTensor", "amax", "amin", "argmax", "argmin", "as_masked_tensor", "cumprod", "cumsum", "is_masked_tensor",
    "log_softmax", "logaddexp", "logsumexp", "masked_tensor", "mean", "median", "norm", "normalize", "prod", "softmax",
    "softmin", "std", "sum", "var",
]  # fmt: skip
__dir__ = _listing(__name__)

_NO_TENSORS = "there are no tensors that carry masks; give masks to the functions of smolder.masked"
MaskedTensor: Any = refused_class("masked.MaskedTensor", _NO_TENSORS)
masked_tensor: Callable[..., Any] = refused("masked.masked_tensor", _NO_TENSORS)
as_masked_tensor: Callable[..., Any] = refused("masked.as_masked_tensor", _NO_TENSORS)


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether the object is a MaskedTensor: none is."""
    return isinstance(obj, MaskedTensor)


def _dims(dim, rank):
    """The numbers of dimensions, sorted; all of them for None and ()."""
    if dim is None or dim == ():
        return tuple(range(rank))
    rank = max(rank, 1)
    found = []
    for d in (dim,) if isinstance(dim, int) else dim:
        if d in found:
            raise RuntimeError(f"dim={d} appears multiple times in the list of dims")
        if not -rank <= d < rank:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {d})")
        found.append(d % rank)
    return tuple(sorted(found))


def _lowest(dtype):
    return -math.inf if dtype.is_floating_point else iinfo(dtype).min


def _highest(dtype):
    return math.inf if dtype.is_floating_point else iinfo(dtype).max


def _unordered(name):
    """A limit of dtypes that have an order."""
    limit = _highest if name in ("amin", "argmin") else _lowest

    def value(dtype):
        if dtype.is_complex or dtype == _core.bool:
            raise NotImplementedError(f"identity of {name} on {dtype} input")
        return limit(dtype)

    return value


def _of_logarithms(dtype):
    return -math.inf if dtype.is_complex else _unordered("logsumexp")(dtype)


def _mask(input, mask):
    """The mask as booleans of the input's shape."""
    if mask.dim() > input.dim():
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return _core.broadcast_to(mask, input.shape).to(_core.bool)


def _filled(name, input, mask, value):
    """The input with a value, or what a function says for its dtype, where the mask is False."""
    for x in (input, mask):
        if x is not None and x.layout != strided:
            raise NotImplementedError(f"masked.{name}: tensors have to be strided, got {x.layout}; use to_dense()")
    if mask is None:
        return input
    there = _mask(input, mask)
    value = value(input.dtype) if callable(value) else value
    return _core.where(there, input, tensor(value, dtype=input.dtype, device=input.device))


_SMALL = (_core.uint8, _core.bool, _core.int8, _core.int16, _core.int32)


def sum(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The sum of elements along dim, or of all."""
    dtype = dtype or (_core.int64 if input.dtype in _SMALL else input.dtype)
    dims = _dims(dim, input.dim())
    return _core.sum(_filled("sum", input, mask, 0), dims, bool(keepdim), dtype=dtype)


def prod(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The product of elements along dim, or of all."""
    dtype = dtype or (_core.int64 if input.dtype in _SMALL else input.dtype)
    out = _filled("prod", input, mask, 1).to(dtype)
    for d in reversed(_dims(dim, input.dim())):
        out = out.prod(d, bool(keepdim))
    return out


def cumsum(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The sum of elements up to each along dim."""
    dtype = dtype or input.dtype
    return _core.cumsum(_filled("cumsum", input, mask, 0), _dims(dim, input.dim())[0], dtype=dtype)


def cumprod(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The product of elements up to each along dim."""
    dtype = dtype or input.dtype
    return _core.cumprod(_filled("cumprod", input, mask, 1), _dims(dim, input.dim())[0], dtype=dtype)


def amax(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The largest of elements along dim, or of all."""
    filled = _filled("amax", input, mask, _unordered("amax"))
    return _core.amax(filled, _dims(dim, input.dim()), bool(keepdim)).to(dtype or input.dtype)


def amin(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The smallest of elements along dim, or of all."""
    filled = _filled("amin", input, mask, _unordered("amin"))
    return _core.amin(filled, _dims(dim, input.dim()), bool(keepdim)).to(dtype or input.dtype)


def argmax(
    input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the largest of elements along dim, or of all, is; as the input's dtype by default."""
    filled = _filled("argmax", input, mask, _unordered("argmax"))
    return _core.argmax(filled, dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(
    input: Tensor, dim: int | None = None, *, keepdim: bool | None = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Where the smallest of elements along dim, or of all, is; as the input's dtype by default."""
    filled = _filled("argmin", input, mask, _unordered("argmin"))
    return _core.argmin(filled, dim, bool(keepdim)).to(dtype or input.dtype)


def _count(input, dim, keepdim, mask):
    """How many elements take part."""
    there = ones(input.shape, dtype=_core.bool, device=input.device) if mask is None else _mask(input, mask)
    return _core.sum(there, _dims(dim, input.dim()), bool(keepdim))


def mean(
    input: Tensor, dim: Dims = None, *, keepdim: bool | None = False, dtype: DType | None = None,
    mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The mean of elements along dim, or of all; nan where none takes part."""
    of = dtype or input.dtype
    if not (of.is_floating_point or of.is_complex):
        source = "Input" if dtype is None else "Optional"
        raise ValueError(
            f"mean(): Could not infer output dtype. {source} dtype must be either a floating point or complex dtype. "
            f"Got: {of}"
        )
    return sum(input, dim, keepdim=keepdim, dtype=of, mask=mask) / _count(input, dim, keepdim, mask)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The median of elements along dim, the smaller of two; nan where none takes part, an error for whole numbers."""
    of_floats = input.dtype.is_floating_point
    x = input if of_floats else input.to(_core.float32)
    out = _core.nanmedian(_filled("median", x, mask, math.nan), _dims(dim, input.dim())[0], keepdim).values
    if of_floats:
        return out
    if out.isnan().any():
        raise ValueError("masked median expects no fully masked out rows if dtype is not floating point")
    return out.to(dtype or input.dtype)


def logsumexp(
    input: Tensor, dim: Dims = None, *, keepdim: bool = False, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """The logarithm of the sum of exponentials of elements along dim, or of all."""
    filled = _filled("logsumexp", input, mask, _of_logarithms)
    return _core.logsumexp(filled, _dims(dim, input.dim()), keepdim).to(dtype or input.dtype)


def logaddexp(
    input: Tensor, other: Tensor, *, dtype: DType | None = None, input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """log(exp(input) + exp(other)), where an element that its mask leaves out adds nothing."""
    value = _unordered("logaddexp")
    filled = (_filled("logaddexp", x, mask, value) for x, mask in ((input, input_mask), (other, other_mask)))
    return _core.logaddexp(*filled).to(dtype or input.dtype)


def norm(
    input: Tensor, ord: float | None = 2.0, dim: Dims = None, *, keepdim: bool | None = False,
    dtype: DType | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The norm of order ord of elements along dim, or of all."""
    from smolder.linalg import vector_norm

    if ord == -math.inf and not input.dtype.is_floating_point:
        raise AssertionError(f"input must be floating point, got {input.dtype}")
    filled = _filled("norm", input, mask, math.inf if ord == -math.inf else 0)
    return vector_norm(filled, ord, _dims(dim, input.dim()), bool(keepdim), dtype=dtype or input.dtype)


def var(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool | None = False, dtype: DType | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The variance of elements along dim, or of all, divided by their number less `correction`, 1 by default."""
    if unbiased is not None and correction is not None:
        raise AssertionError("Only one of unbiased and correction may be given")
    if correction is None:
        correction = 1.0 if unbiased is None or unbiased else 0.0
    within = dtype or input.dtype
    if not (within.is_floating_point or within.is_complex):
        within = _core.float32
    total = sum(input, dim, keepdim=True, dtype=dtype or within, mask=mask)
    away = input - total / _count(input, dim, True, mask)
    squares = sum(away * away.conj(), dim, keepdim=keepdim, dtype=within, mask=mask)
    count = _count(input, dim, keepdim, mask)
    if correction:
        count = (count.to(within.to_real()) - float(correction)).clamp(min=0)
    return (squares / count).to(dtype or within)


def std(
    input: Tensor, dim: Dims = None, unbiased: bool | None = None, *, correction: int | None = None,
    keepdim: bool | None = False, dtype: DType | None = None, mask: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """The standard deviation: the square root of var()."""
    found = var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask)
    return _core.sqrt(found)


def softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The softmax along dim; elements that are left out are 0, and nan where no element takes part."""
    filled = _filled("softmax", input, mask, _unordered("amax"))
    return _core.softmax(filled, _dims(dim, input.dim())[0], dtype=dtype or input.dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The logarithm of softmax()."""
    filled = _filled("log_softmax", input, mask, _unordered("amax"))
    return _core.log_softmax(filled, _dims(dim, input.dim())[0], dtype=dtype or input.dtype)


def softmin(input: Tensor, dim: int, *, dtype: DType | None = None, mask: Tensor | None = None) -> Tensor:
    """The softmax of the negative elements."""
    filled = _filled("softmin", input, mask, _unordered("amin"))
    return _core.softmax(-filled, _dims(dim, input.dim())[0], dtype=dtype or input.dtype)


def normalize(
    input: Tensor, ord: float, dim: int, *, eps: float = 1e-12, dtype: DType | None = None, mask: Tensor | None = None
) -> Tensor:
    """Elements over their norm of order ord along dim, which counts as eps where it is less."""
    filled = _filled("normalize", input, mask, 0)
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return filled / length.clamp(min=eps)
