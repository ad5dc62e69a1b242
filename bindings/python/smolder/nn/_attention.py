"""Attention with several heads as a function of all that goes into it, of sequences [length, batch, features]."""

from __future__ import annotations

import math
from typing import Any

from smolder import _core
from smolder._typing import Tensor
from smolder._warn import warn


def check_ranks(
    query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Tensor | None, attn_mask: Tensor | None, num_heads: int
) -> bool:
    """Whether there are batches, after ranks that do not fit each other are refused."""
    if query.dim() not in (2, 3):
        raise AssertionError(
            f"query should be unbatched 2D or batched 3D tensor but received {query.dim()}-D query tensor"
        )
    rank = query.dim()
    what = f"For {'batched' if rank == 3 else 'unbatched'} ({rank}-D) `query`, expected"
    if key.dim() != rank or value.dim() != rank:
        raise AssertionError(
            f"{what} `key` and `value` to be {rank}-D but found {key.dim()}-D and {value.dim()}-D tensors respectively"
        )
    if key_padding_mask is not None and key_padding_mask.dim() != rank - 1:
        raise AssertionError(
            f"{what} `key_padding_mask` to be `None` or {rank - 1}-D but found {key_padding_mask.dim()}-D tensor instead"
        )
    if attn_mask is None:
        return rank == 3
    if attn_mask.dim() not in (2, 3):
        raise AssertionError(
            f"{what} `attn_mask` to be `None`, 2-D or 3-D but found {attn_mask.dim()}-D tensor instead"
        )
    wanted = (num_heads, query.shape[0], key.shape[0])
    if rank == 2 and attn_mask.dim() == 3 and tuple(attn_mask.shape) != wanted:
        raise AssertionError(f"Expected `attn_mask` shape to be {wanted} but got {attn_mask.shape}")
    return rank == 3


def _canonical_mask(mask, mask_name, other_type, other_name, target_type, check_other=True):
    """A mask as numbers that are added: -inf where one of bools is True."""
    if mask is None:
        return None
    if mask.dtype != _core.bool and not mask.dtype.is_floating_point:
        raise AssertionError(f"only bool and floating types of {mask_name} are supported")
    if check_other and other_type is not None and mask.dtype != other_type:
        warn(f"Support for mismatched {mask_name} and {other_name} is deprecated. Use same type for both instead.")
    if mask.dtype != _core.bool:
        return mask
    return _core.zeros_like(mask, dtype=target_type).masked_fill(mask, -math.inf)


def _in_projection_packed(q, k, v, w, b=None):
    """Projections of query, key and value by one weight that holds all three."""
    if q._is_same(k) and k._is_same(v):
        return _core.linear(q, w, b).chunk(3, -1)
    biases = (None,) * 3 if b is None else b.chunk(3)
    return [_core.linear(*one) for one in zip((q, k, v), w.chunk(3), biases, strict=True)]


def _in_projection(q, k, v, w_q, w_k, w_v, b_q=None, b_k=None, b_v=None):
    """Projections of query, key and value by a weight each."""
    e = q.size(-1)
    for name, x, w in (("query", q, w_q), ("key", k, w_k), ("value", v, w_v)):
        if tuple(w.shape) != (e, x.size(-1)):
            raise AssertionError(f"expecting {name} weights shape of {(e, x.size(-1))}, but got {w.shape}")
    for name, b in (("query", b_q), ("key", b_k), ("value", b_v)):
        if b is not None and tuple(b.shape) != (e,):
            raise AssertionError(f"expecting {name} bias shape of {(e,)}, but got {b.shape}")
    return _core.linear(q, w_q, b_q), _core.linear(k, w_k, b_k), _core.linear(v, w_v, b_v)


def _check_mask_shape(mask, heads, targets, sources):
    wanted = (targets, sources) if mask.dim() == 2 else (heads, targets, sources)
    if tuple(mask.shape) != wanted:
        raise RuntimeError(f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be {wanted}.")
    return mask.unsqueeze(0) if mask.dim() == 2 else mask


def _longer(mask):
    """A mask with room for one more source, which may be attended to."""
    return None if mask is None else _core.cat([mask, mask.new_zeros((*mask.shape[:-1], 1))], -1)


def _static(given, x, name, heads, size):
    """[heads, length, size] of a projection, or what is given in its place."""
    if given is None:
        return x.reshape((x.size(0), heads, size)).transpose(0, 1)
    for at, wanted in ((0, heads), (2, size)):
        if given.size(at) != wanted:
            raise AssertionError(f"expecting {name}.size({at}) of {wanted}, but got {given.size(at)}")
    return given


def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Any,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor,
    in_proj_bias: Tensor,
    bias_k: Tensor,
    bias_v: Tensor,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The attended values and, when need_weights, the weights, averaged over heads unless told not to.

    Masks are True, or -inf when of a floating-point dtype, where attention is not allowed.
    """
    batched = check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    if not batched:
        same = query._is_same(key), key._is_same(value)
        query = query.unsqueeze(1)
        key = query if same[0] else key.unsqueeze(1)
        value = key if same[1] else value.unsqueeze(1)
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    (targets, batch, e), sources = query.shape, key.size(0)
    other = None if attn_mask is None else attn_mask.dtype
    key_padding_mask = _canonical_mask(key_padding_mask, "key_padding_mask", other, "attn_mask", query.dtype)
    if is_causal and attn_mask is None:
        raise RuntimeError(
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
            "`generate_square_subsequent_mask` to create this mask."
        )
    causal = is_causal and key_padding_mask is None and not need_weights  # the mask is known then, and not read
    attn_mask = None if causal else _canonical_mask(attn_mask, "attn_mask", None, "", query.dtype, False)
    if e != embed_dim_to_check:
        raise AssertionError(f"was expecting embedding dimension of {embed_dim_to_check}, but got {e}")
    size, heads = e // num_heads, batch * num_heads
    if size * num_heads != e:
        raise AssertionError(f"embed_dim {e} not divisible by num_heads {num_heads}")
    separate = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else None
    q, k, v = _projected(query, key, value, in_proj_weight, in_proj_bias, separate)
    if attn_mask is not None:
        attn_mask = _check_mask_shape(attn_mask, heads, targets, sources)
    if (bias_k is None) != (bias_v is None):
        given, missing = ("bias_k", "bias_v") if bias_v is None else ("bias_v", "bias_k")
        raise AssertionError(f"{given} is set but {missing} is None")
    if bias_k is not None:
        for name, static in (("key", static_k), ("value", static_v)):
            if static is not None:
                raise AssertionError(f"bias cannot be added to static {name}.")
        k, v = _core.cat([k, bias_k.expand(1, batch, e)]), _core.cat([v, bias_v.expand(1, batch, e)])
        attn_mask, key_padding_mask = _longer(attn_mask), _longer(key_padding_mask)
    q = _static(None, q, "", heads, size)
    k, v = _static(static_k, k, "static_k", heads, size), _static(static_v, v, "static_v", heads, size)
    if add_zero_attn:
        k, v = (_core.cat([x, x.new_zeros((heads, 1, size))], 1) for x in (k, v))
        attn_mask, key_padding_mask = _longer(attn_mask), _longer(key_padding_mask)
    sources = k.size(1)
    mask = attn_mask
    if key_padding_mask is not None:
        for at, n in enumerate((batch, sources)):
            if key_padding_mask.size(at) != n:
                raise AssertionError(
                    f"Expected key_padded_mask.shape[{at}] to be {n}, but got {key_padding_mask.size(at)}"
                )
        padding = key_padding_mask.reshape((batch, 1, 1, sources)).expand(batch, num_heads, 1, sources)
        padding = padding.reshape((heads, 1, sources))
        mask = padding if mask is None else mask + padding
    p = dropout_p if training else 0.0
    context, weights = (_with_weights if need_weights else _without)(q, k, v, mask, p, causal, num_heads)
    out = _core.linear(context.transpose(0, 1).reshape((targets, batch, e)), out_proj_weight, out_proj_bias)
    if weights is not None:
        weights = weights.reshape((batch, num_heads, targets, sources))
        weights = weights.mean(1) if average_attn_weights else weights
    if not batched:
        out, weights = out.squeeze(1), None if weights is None else weights.squeeze(0)
    return out, weights


def _projected(query, key, value, weight, bias, separate):
    if separate is None:
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        if weight is None:
            raise AssertionError("use_separate_proj_weight is False but in_proj_weight is None")
        return _in_projection_packed(query, key, value, weight, bias)
    if key.shape[:2] != value.shape[:2]:
        raise AssertionError(f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}")
    for name, w in zip("qkv", separate, strict=True):
        if w is None:
            raise AssertionError(f"use_separate_proj_weight is True but {name}_proj_weight is None")
    biases = (None,) * 3 if bias is None else bias.chunk(3)
    return _in_projection(query, key, value, *separate, *biases)


def _with_weights(q, k, v, mask, p, causal, num_heads):  # with weights there is always a mask: causal is False
    scores = _core.bmm(q * math.sqrt(1.0 / q.size(2)), k.transpose(1, 2))
    weights = _core.softmax(scores if mask is None else scores + mask, -1)
    weights = _core.dropout(weights, p, True) if p > 0.0 else weights
    return _core.bmm(weights, v), weights


def _without(q, k, v, mask, p, causal, num_heads):
    def apart(x):
        return x.reshape((x.size(0) // num_heads, num_heads, *x.shape[1:]))

    if mask is not None:
        mask = mask.unsqueeze(0) if mask.size(0) == 1 else apart(mask)
    out = _core.scaled_dot_product_attention(apart(q), apart(k), apart(v), mask, p, causal)
    return out.reshape(q.shape), None
