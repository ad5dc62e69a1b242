"""Rules, by the names of ops, for ops of nested tensors that have to know where each tensor ends."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from smolder import _core, overrides
from smolder._layouts import strided
from smolder._nested import (
    RULES,
    NestedTensor,
    Pieces,
    RaggedSize,
    _axis,
    _inner,
    _regular,
    is_nested,
    length_mask,
    like,
    made,
    missing,
    padded,
    plain,
    rule,
    unpadded,
)
from smolder._typing import DType, Tensor

# -- products, and what layers do to the last dimensions


def _ends_regular(name, x, last):
    if x._ragged >= x.ndim - last:
        raise missing(name, "the tensors differ in a dimension that it reads")
    return plain(x)


@rule("linear")
def linear(input: NestedTensor, weight: Tensor, bias: Tensor | None = None) -> NestedTensor:
    """Works on each row of values."""
    return like(input, _core.linear(_ends_regular("linear", input, 1), weight, bias))


@rule("matmul", "bmm", "mm")
def matmul(a: Any, b: Any) -> Any:
    """With a matrix, with one for each tensor, or of two nested tensors along the dimension in which they differ."""
    if is_nested(a) and not is_nested(b):
        if b.dim() <= 2 and a._ragged < a.ndim - 1:
            return like(a, _core.matmul(plain(a), b))
        if b.dim() == a.ndim and a._ragged < a.ndim - 1:
            return unpadded(_core.matmul(padded(a, 0.0), b), a._pieces, a._ragged, a._kind)
    if is_nested(a) and is_nested(b) and a._pieces.fits(b._pieces):
        if a._ragged == a.ndim - 1 and b._ragged == b.ndim - 2:  # the sum is along it
            return _core.matmul(padded(a, 0.0), padded(b, 0.0))
        if a._kind is strided and a._ragged < a.ndim - 1 and b._ragged < b.ndim - 2:
            return unpadded(_core.matmul(padded(a, 0.0), padded(b, 0.0)), a._pieces, a._ragged, a._kind)
    raise missing("matmul", "of these shapes")


@rule("layer_norm")
def layer_norm(
    input: NestedTensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> NestedTensor:
    """Works on each row of values."""
    values = _ends_regular("layer_norm", input, len(normalized_shape))
    return like(input, _core.layer_norm(values, normalized_shape, weight, bias, eps))


@rule("rms_norm")
def rms_norm(
    input: NestedTensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> NestedTensor:
    """Works on each row of values."""
    values = _ends_regular("rms_norm", input, len(normalized_shape))
    return like(input, _core.rms_norm(values, normalized_shape, weight, eps))


@rule("embedding")
def embedding(weight: Tensor, indices: NestedTensor, *args: Any, **kwargs: Any) -> NestedTensor:
    """A row of the table for each value."""
    return like(indices, _core.embedding(weight, plain(indices), *args, **kwargs))


@rule("scaled_dot_product_attention")
def scaled_dot_product_attention(
    query: NestedTensor,
    key: NestedTensor,
    value: NestedTensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> NestedTensor:
    """Attention over (batch, heads, length, size), where lengths differ: each batch element attends to itself."""
    if not all(is_nested(x) and x.ndim == 4 and x._ragged == 2 for x in (query, key, value)):
        raise missing("scaled_dot_product_attention", "it takes three of (batch, heads, length, size)")
    if not key._pieces.fits(value._pieces):
        raise RuntimeError("scaled_dot_product_attention: key and value have other lengths")
    if attn_mask is not None:
        raise missing("scaled_dot_product_attention", "with attn_mask")
    from smolder.nn import functional

    q, k, v = padded(query, 0.0), padded(key, 0.0), padded(value, 0.0)
    mask = length_mask(key._pieces)
    if is_causal:
        rows, columns = (_core.arange(x._pieces.longest).to(mask.device) for x in (query, key))
        mask = mask & (columns.unsqueeze(0) <= rows.unsqueeze(1))
    out = functional.scaled_dot_product_attention(q, k, v, mask, dropout_p, False, scale=scale, enable_gqa=enable_gqa)
    return unpadded(out, query._pieces, 2, query._kind)


def _softmax(name, x, dim, dtype):
    if dim is None:
        raise missing(name, "without dim")
    x = x if dtype is None else x.to(dtype)
    at, function = _inner(name, x, dim), getattr(_core, name)
    if at != x._ragged - 1:
        return like(x, function(plain(x), at))
    return unpadded(function(padded(x, -math.inf), x._ragged), x._pieces, x._ragged, x._kind)


@rule("softmax")
def softmax(input: NestedTensor, dim: int | None = None, dtype: DType | None = None) -> NestedTensor:
    """Along any dimension but the batch's."""
    return _softmax("softmax", input, dim, dtype)


@rule("log_softmax")
def log_softmax(input: NestedTensor, dim: int | None = None, dtype: DType | None = None) -> NestedTensor:
    """Along any dimension but the batch's."""
    return _softmax("log_softmax", input, dim, dtype)


# -- sums


def _reduced(name, x, dim, keepdim, function, padding):
    """function(values, dims, keepdim) along dimensions, of which that of the extents reads the padded tensors."""
    if dim is None:
        return function(plain(x), None, False)
    axes = sorted({_axis(x, d) for d in ((dim,) if isinstance(dim, int) else dim)})
    if axes == list(range(x.ndim)):
        return function(plain(x), None, False)
    if 0 in axes:
        raise RuntimeError(f"{name}(): not supported along the batch dimension but not the others for NestedTensor")
    if x._ragged in axes:
        return function(padded(x, padding), axes, keepdim)
    gone = 0 if keepdim else sum(a < x._ragged for a in axes)
    return like(x, function(plain(x), [a - 1 for a in axes], keepdim), x._ragged - gone)


@rule("sum")
def sum_(
    input: NestedTensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None, axis: Any = None
) -> Any:
    """A reduction of all elements, or along dimensions."""

    def function(values, axes, keep):
        return values.sum(dtype=dtype) if axes is None else values.sum(axes, keep, dtype=dtype)

    return _reduced("sum", input, dim if axis is None else axis, keepdim, function, 0)


@rule("mean")
def mean(
    input: NestedTensor, dim: Any = None, keepdim: bool = False, *, dtype: DType | None = None, axis: Any = None
) -> Any:
    """The mean of all elements, or along dimensions: each tensor's sum over its own number of elements."""
    dim = dim if axis is None else axis
    if dim is None:
        return plain(input).mean(dtype=dtype)
    total = sum_(input, dim, keepdim, dtype=dtype)
    axes = {_axis(input, d) for d in ((dim,) if isinstance(dim, int) else dim)}
    inner = math.prod(n for a, n in enumerate(plain(input).shape, 1) if a in axes and a != input._ragged)
    if is_nested(total) or input._ragged not in axes:
        return total / inner
    offsets = input._pieces.offsets
    lengths = ((offsets[1:] - offsets[:-1]) * inner).to(total.dtype)
    return total / lengths.reshape((-1, *[1] * (total.dim() - 1))) if total.dim() else total / (inner * offsets[-1])


def _identity(name, dtype):
    """A number that no element is beyond: padding that amax or amin does not see."""
    is_largest = name == "amax"
    if dtype.is_floating_point:
        return -math.inf if is_largest else math.inf
    if dtype == _core.bool:
        return not is_largest
    from smolder._types import iinfo

    return iinfo(dtype).min if is_largest else iinfo(dtype).max


def _extreme(name):
    def function(input: NestedTensor, dim: Any = None, keepdim: bool = False) -> Any:
        def of(values, axes, keep):
            return getattr(_core, name)(values, axes, keep) if axes is not None else getattr(_core, name)(values)

        return _reduced(name, input, dim, keepdim, of, _identity(name, plain(input).dtype))

    function.__doc__ = "Of all, or along dimensions."
    return rule(name)(function)


amax = _extreme("amax")
amin = _extreme("amin")


def _whole_or_regular(name):
    """A reduction of all elements, or along a dimension in which the tensors do not differ."""

    def function(input: NestedTensor, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            return getattr(plain(input), name)()
        at = _regular(name, input, dim)
        ragged = input._ragged - (not keepdim and at < input._ragged - 1)
        out = getattr(plain(input), name)(at, keepdim)
        return like(input, out, ragged) if isinstance(out, _core.Tensor) else tuple(like(input, t, ragged) for t in out)

    function.__doc__ = "Of all, or along a dimension in which the tensors do not differ."
    return rule(name)(function)


for _name in ("any", "all", "argmax", "argmin", "max", "min", "prod"):
    _whole_or_regular(_name)

# -- shapes


@rule("transpose", "swapaxes", "swapdims")
def transpose(input: NestedTensor, dim0: int, dim1: int) -> NestedTensor:
    """Exchanges two dimensions, neither of them the batch's."""
    a, b = (_inner("transpose", input, d) for d in (dim0, dim1))
    at = input._ragged - 1
    return like(input, plain(input).transpose(a, b), {a: b, b: a}.get(at, at) + 1)


@rule("permute")
def permute(input: NestedTensor, *dims: Any) -> NestedTensor:
    """With the batch first."""
    axes = [_axis(input, d) for d in (dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims)]
    if axes[0] != 0:
        raise missing("permute", "the batch stays first")
    return like(input, plain(input).permute([a - 1 for a in axes[1:]]), axes.index(input._ragged))


@rule("unsqueeze")
def unsqueeze(input: NestedTensor, dim: int) -> NestedTensor:
    """A dimension of 1 behind the batch's."""
    at = dim if dim >= 0 else dim + input.ndim + 1
    if not 0 < at <= input.ndim:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return like(input, plain(input).unsqueeze(at - 1), input._ragged + (at <= input._ragged))


@rule("squeeze")
def squeeze(input: NestedTensor, dim: int) -> NestedTensor:
    """Without a dimension of 1."""
    at = _regular("squeeze", input, dim)
    values = plain(input)
    if values.shape[at] != 1:
        return input
    return like(input, values.squeeze(at), input._ragged - (at < input._ragged - 1))


@rule("view", "reshape")
def reshape(input: NestedTensor, *shape: Any) -> NestedTensor:
    """Other extents, where that in which the tensors differ stays, as its symbol or as -1."""
    shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    wanted = list(shape[1:])
    at = next((i for i, n in enumerate(wanted) if isinstance(n, RaggedSize)), None)
    at = wanted.index(-1) if at is None and -1 in wanted else at
    values, old = plain(input), input._ragged - 1
    if (
        at is None
        or shape[0] not in (-1, input._pieces.count)
        or math.prod(wanted[:at]) != math.prod(values.shape[:old])
    ):
        raise missing("view", f"{list(shape)} of {tuple(input.shape)}")
    wanted[at] = values.shape[old]
    return like(input, values.reshape(wanted), at + 1)


@rule("unflatten")
def unflatten(input: NestedTensor, dim: int, sizes: Sequence[int]) -> NestedTensor:
    """One dimension as several."""
    at = _regular("unflatten", input, dim)
    return like(input, plain(input).unflatten(at, sizes), input._ragged + (at < input._ragged - 1) * (len(sizes) - 1))


@rule("flatten")
def flatten(input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> NestedTensor:
    """Several dimensions, none that in which the tensors differ, as one."""
    first, last = (_inner("flatten", input, d) for d in (start_dim, end_dim))
    if first <= input._ragged - 1 <= last:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    return like(input, plain(input).flatten(first, last), input._ragged - (last < input._ragged - 1) * (last - first))


def _cut(name):
    def function(input: NestedTensor, how: Any, dim: int = 0) -> Any:
        return like(input, getattr(plain(input), name)(how, _regular(name, input, dim)))

    function.__doc__ = "Pieces along a dimension in which the tensors do not differ."
    return rule(name)(function)


chunk = _cut("chunk")
split = _cut("split")


@rule("narrow")
def narrow(input: NestedTensor, dim: int, start: int, length: int) -> NestedTensor:
    """A part of a dimension in which the tensors do not differ."""
    return like(input, plain(input).narrow(_regular("narrow", input, dim), start, length))


@rule("select")
def select(input: NestedTensor, dim: int, index: int) -> Any:
    """One of the batch, or of a dimension in which the tensors do not differ."""
    if _axis(input, dim) == 0:
        return input.unbind()[index]
    at = _regular("select", input, dim)
    return like(input, plain(input).select(at, index), input._ragged - (at < input._ragged - 1))


@rule("cat", "concat", "concatenate")
def cat(tensors: Sequence[NestedTensor], dim: int = 0) -> NestedTensor:
    """One batch after another, or side by side in a dimension in which the tensors do not differ."""
    if not all(map(is_nested, tensors)) or len({x._ragged for x in tensors}) != 1:
        raise missing("cat", "with others")
    first, at = tensors[0], _axis(tensors[0], dim)
    if at == 0:
        begins = [0, *itertools.accumulate(n for x in tensors for n in x._pieces.lengths)]
        offsets = _core.cat([first._pieces.offsets[:1], *_later(tensors)])
        values = _core.cat([plain(x) for x in tensors], first._ragged - 1)
        return made(values, Pieces(offsets, begins), first._ragged, first._kind)
    if not all(x._pieces.fits(first._pieces) for x in tensors):
        raise RuntimeError("cat(): the tensors differ otherwise in one than in another")
    return like(first, _core.cat([plain(x) for x in tensors], _regular("cat", first, dim)))


def _later(tensors):
    """The offsets of each but the first, behind those of the ones before."""
    before = 0
    for x in tensors:
        yield x._pieces.offsets[1:] + before
        before += x._pieces.begins[-1]


@rule("to")
def to(input: NestedTensor, *args: Any, **kwargs: Any) -> NestedTensor:
    """Another dtype or device."""
    values = plain(input).to(*args, **kwargs)
    pieces = input._pieces
    if values.device != pieces.offsets.device:
        pieces = Pieces(pieces.offsets.to(values.device), pieces.begins)
    return made(values, pieces, input._ragged, input._kind)


@rule("cpu")
def cpu(input: NestedTensor) -> NestedTensor:
    """On the host."""
    return to(input, "cpu")


@rule("cuda")
def cuda(input: NestedTensor, device: Any = None, non_blocking: bool = False) -> NestedTensor:
    """On a CUDA device, the current one without `device`."""
    return to(input, "cuda" if device is None else device, non_blocking=non_blocking)


@rule("is_same_size")
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both are nested alike."""
    if not (is_nested(input) and is_nested(other)):
        return False
    a, b = list(plain(input).shape), list(plain(other).shape)
    return input._ragged == other._ragged and input._pieces.fits(other._pieces) and a == b


def _method(found):
    return lambda self, *args, **kwargs: found(self, *args, **kwargs)


for _name, _found in RULES.items():
    if hasattr(_core.Tensor, _name) and _name not in vars(NestedTensor):  # before Python's own, which read shapes
        setattr(NestedTensor, _name, _method(_found))
overrides._of_new_class(NestedTensor)
