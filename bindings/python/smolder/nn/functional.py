"""Functions that layers are made of: rows of the op table under torch's names and defaults."""

from __future__ import annotations

import math
from collections.abc import Sequence

from smolder import _core
from smolder._autocast import listed
from smolder._call_errors import as_int
from smolder._core import gelu, linear, scaled_dot_product_attention, sigmoid, softplus, tanh
from smolder._core import layer_norm as _layer_norm
from smolder._core import one_hot as _one_hot
from smolder._core import pad as _pad
from smolder._creation import arange as _arange
from smolder._forms import pdist
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.nn import _activations, _class_losses, _fractional_pools, _losses, _pools_and_noise, _resample, _spatial
from smolder.nn._activations import *  # noqa: F403
from smolder.nn._activations import written as _result
from smolder.nn._attention import (
    _canonical_mask,  # noqa: F401 - programs use these three too
    _in_projection,  # noqa: F401
    _in_projection_packed,  # noqa: F401
    multi_head_attention_forward,
)
from smolder.nn._class_losses import *  # noqa: F403
from smolder.nn._ctc import ctc_loss
from smolder.nn._fractional_pools import *  # noqa: F403
from smolder.nn._lookups import SharedGradient, shorten_rows
from smolder.nn._losses import *  # noqa: F403
from smolder.nn._losses import _first
from smolder.nn._pools_and_noise import *  # noqa: F403
from smolder.nn._resample import *  # noqa: F403
from smolder.nn._spatial import *  # noqa: F403

__all__ = [
    "bilinear", "ctc_loss", "dropout", "embedding", "embedding_bag", "gelu", "layer_norm", "linear",
    "multi_head_attention_forward", "normalize", "one_hot", "pad", "pdist", "scaled_dot_product_attention", "sigmoid",
    "softplus", "tanh",
]  # fmt: skip
__all__ += _activations.__all__ + _class_losses.__all__ + _losses.__all__ + _pools_and_noise.__all__
__all__ += _fractional_pools.__all__ + _resample.__all__ + _spatial.__all__
__dir__ = _listing(__name__)


@listed("bilinear")
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x1 @ weight[k] @ x2 + bias[k] for each k, of the last dimension."""
    if input1.dim() != input2.dim():
        raise RuntimeError(f"bilinear(): input dimensions do not match: got {input1.dim()} and {input2.dim()}")
    for i, (a, b) in enumerate(zip(input1.shape[:-1], input2.shape[:-1], strict=True)):
        if a != b:
            raise RuntimeError(f"bilinear(): input batch dimensions do not match at dim {i}: got {a} and {b}")
    for i, x in enumerate((input1, input2), 1):
        if x.size(-1) != weight.size(i):
            raise RuntimeError(
                f"bilinear(): input{i} size does not match weight size: got {x.size(-1)} but expected {weight.size(i)}"
            )
    out = _core.einsum_of("...i,oij,...j->...o", [input1, weight, input2])
    return out if bias is None else out + bias


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Zeroes elements with probability p and scales the rest by 1 / (1 - p)."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if inplace and (p == 0 or not training):
        return input  # which may be a leaf: nothing is written
    return _result(input, _core.dropout(input, p, training), inplace)


def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """Normalises over the last dimensions to mean 0 and variance 1, then scales and shifts."""
    return _first(_layer_norm(input, tuple(normalized_shape), weight, bias, eps))


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight, by number. Row padding_idx gets no gradient.

    max_norm: rows that are looked up and whose norm of order norm_type is larger are first made that long, in weight.
    scale_grad_by_freq: gradients are divided by how often a row was looked up. sparse: the gradient of a weight that is a
    leaf is a sparse tensor of the rows that were looked up.
    """
    if padding_idx is not None:
        padding_idx = as_int("embedding", "padding_idx", padding_idx)
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    padding_idx = -1 if padding_idx is None else padding_idx
    if max_norm is not None:
        shorten_rows(weight, input, max_norm, norm_type)
    if scale_grad_by_freq and sparse:
        raise NotImplementedError("embedding: scale_grad_by_freq is not supported with sparse gradients")
    if sparse and weight.requires_grad and weight.is_leaf and _core.is_grad_enabled():
        from smolder.nn._sparse_embedding import Embedding

        return Embedding.apply(weight, input, padding_idx)
    rows = _core.embedding(weight, input, padding_idx)
    return SharedGradient.apply(rows, input, weight.size(0)) if scale_grad_by_freq else rows


def _bag_of(offsets, count):
    """The bag that each of count indices is in."""
    return _core.searchsorted(offsets, _arange(count, dtype=offsets.dtype, device=offsets.device), right=True) - 1


def _check_bags(input, weight, offsets, mode, per_sample_weights):
    if per_sample_weights is not None and input.size() != per_sample_weights.size():
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({per_sample_weights.shape}) is not None, then it must have the same "
            f"shape as the input ({input.shape})"
        )
    if weight.dim() != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.dim()}")
    if input.dim() not in (1, 2):
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.dim()}")
    if input.dim() == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length sequences. "
            f"However, found offsets of type {type(offsets)}"
        )
    if input.dim() == 1 and (offsets is None or offsets.dim() != 1):
        raise ValueError("offsets has to be a 1D Tensor" + (" but got None" if offsets is None else ""))
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}'). Please open a feature request on GitHub."
        )


def _equal_bags(rows, padding, mode, weights):
    """Reduces the second dimension of rows, of which padding says which count for nothing."""
    if mode == "max":
        if padding is None:
            return rows.max(1).values
        return rows.masked_fill(padding, -math.inf).max(1).values.masked_fill(padding.all(1), 0)
    if weights is not None:
        rows = rows * weights.unsqueeze(2)
    if padding is not None:
        rows = rows.masked_fill(padding, 0)
    if mode == "sum" or padding is None:
        return rows.mean(1) if mode == "mean" else rows.sum(1)
    return rows.sum(1) / padding.logical_not().sum(1).clamp(min=1)


def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sums, means or maxima of rows of weight: of each row of input, or of the pieces of it that begin at offsets.

    Rows padding_idx count for nothing. max_norm, norm_type, scale_grad_by_freq and sparse are as for embedding().
    """
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    _check_bags(input, weight, offsets, mode, per_sample_weights)
    if input.dim() == 2 and input.size(1) > 0:
        rows = embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
        padding = None if padding_idx is None else (input == padding_idx % weight.size(0)).unsqueeze(2)
        return _equal_bags(rows, padding, mode, per_sample_weights)
    if input.dim() == 2:  # bags of nothing
        offsets, input, include_last_offset = input.new_zeros(input.size(0)), input.flatten(), False
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.flatten()
    if include_last_offset:
        offsets = offsets[:-1]
    bags, count = offsets.size(0), input.size(0)
    bag = _bag_of(offsets, count)
    rows = embedding(input, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse)
    counted = weight.new_ones(count)
    if padding_idx is not None:
        counted = (input != padding_idx % weight.size(0)).to(weight.dtype)
    sizes = weight.new_zeros(bags).index_add(0, bag, counted).unsqueeze(1)
    start = weight.new_zeros((bags, weight.size(1)))
    if mode == "max":
        lowest = rows.masked_fill((counted == 0).unsqueeze(1), -math.inf)
        most = start.scatter_reduce(0, bag.unsqueeze(1).expand(rows.shape), lowest, "amax", include_self=False)
        return most.masked_fill(sizes == 0, 0)
    if per_sample_weights is not None:
        counted = counted * per_sample_weights
    sums = start.index_add(0, bag, rows * counted.unsqueeze(1))
    return sums / sizes.clamp(min=1) if mode == "mean" else sums


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Vectors along dim over their p-norms, which count as eps at least."""
    if out is not None:
        raise NotImplementedError("normalize: out is not supported")
    if isinstance(input, _core.Tensor) and input.dtype.is_complex:
        return input / _core.clamp_min(_core.norm(input, p, dim, True), eps)
    return _core.normalize(input, p, dim, eps)


def one_hot(tensor: Tensor, num_classes: int | Tensor = -1) -> Tensor:
    """1 at each index, 0 elsewhere. num_classes may be an integer in a tensor, which is read."""
    if isinstance(num_classes, _core.Tensor) and num_classes.dim() == 0 and not num_classes.is_floating_point():
        num_classes = num_classes.item()
    return _one_hot(tensor, as_int("one_hot", "num_classes", num_classes))


_pad_with_elements = listed("pad_with_elements")(_pad)


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Adds elements around the last dimensions: (left, right, top, bottom, ...); of a number, or of the input."""
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    elements = mode == "replicate" or (mode == "reflect" and len(pad) <= 4)
    return (_pad_with_elements if elements else _pad)(input, tuple(pad), mode, 0.0 if value is None else value)
