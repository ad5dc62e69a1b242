"""Attention and the transformer's encoder layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from smolder import _core
from smolder._device import on_device
from smolder._names import listing as _listing
from smolder._typing import Device, DType, Tensor
from smolder._warn import warn
from smolder.nn import functional as F
from smolder.nn import init
from smolder.nn._attention import check_ranks
from smolder.nn.layers import Dropout, Linear
from smolder.nn.module import Module
from smolder.nn.normalization import LayerNorm
from smolder.nn.parameter import Parameter

__all__ = ["MultiheadAttention", "NonDynamicallyQuantizableLinear", "TransformerEncoderLayer", "activation_called"]
__dir__ = _listing(__name__)


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the name that torch prints for attention's output projection."""


class MultiheadAttention(Module):
    """Attention with several heads. The packed projection holds query's, key's and value's weights."""

    embed_dim: int
    num_heads: int
    dropout: float
    head_dim: int
    batch_first: bool
    kdim: int
    vdim: int
    out_proj: NonDynamicallyQuantizableLinear
    bias_k: Parameter | None
    bias_v: Parameter | None

    @on_device
    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: Device = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and num_heads={num_heads} instead"
            )
        if embed_dim % num_heads:
            raise AssertionError("embed_dim must be divisible by num_heads")
        self.embed_dim, self.num_heads, self.dropout = embed_dim, num_heads, dropout
        self.head_dim, self.batch_first = embed_dim // num_heads, batch_first
        self.kdim, self.vdim = kdim or embed_dim, vdim or embed_dim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.add_zero_attn = add_zero_attn
        self._make(bias, add_bias_kv, dtype or _core._default_dtype())
        self._reset_parameters()

    def _make(self, bias, add_bias_kv, dtype):
        def parameter(*shape):
            return Parameter(_core.empty(shape, dtype=dtype))

        e, same = self.embed_dim, self._qkv_same_embed_dim
        for name, size in (("q", e), ("k", self.kdim), ("v", self.vdim)):
            self.register_parameter(f"{name}_proj_weight", None if same else parameter(e, size))
        self.register_parameter("in_proj_weight", parameter(3 * e, e) if same else None)
        self.register_parameter("in_proj_bias", parameter(3 * e) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(e, e, bias=bias, dtype=dtype)
        self.bias_k, self.bias_v = (parameter(1, 1, e) if add_bias_kv else None for _ in range(2))

    def _reset_parameters(self):
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Any,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> Tensor:
        """The attended values and, when need_weights, the weights (averaged over heads). Masks are True, or -inf
        when of a floating-point dtype, where attention is not allowed."""
        for name, mask in (("key_padding_mask", key_padding_mask), ("attn_mask", attn_mask)):
            if mask is not None and mask.dtype != _core.bool and not mask.dtype.is_floating_point:
                raise AssertionError(f"only bool and floating types of {name} are supported")
        if self.bias_k is not None or self.add_zero_attn or not self._qkv_same_embed_dim:
            given = key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
            return self._attend_otherwise(query, key, value, *given)
        if is_causal and attn_mask is None:
            raise RuntimeError(
                "Need attn_mask if specifying the is_causal hint. You may use the Transformer module method "
                "`generate_square_subsequent_mask` to create this mask."
            )
        single = not check_ranks(query, key, value, key_padding_mask, attn_mask, self.num_heads)
        if key.shape != value.shape:
            raise AssertionError(f"key shape {key.shape} does not match value shape {value.shape}")
        if query.size(-1) != self.embed_dim:
            raise AssertionError(f"was expecting embedding dimension of {self.embed_dim}, but got {query.size(-1)}")
        if single:
            query, key, value = (t.unsqueeze(0) for t in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        q, k, v = self._project(query, key, value)
        causal = is_causal and key_padding_mask is None and not need_weights
        attn_mask = None if causal else attn_mask  # known by the hint
        self._check_masks(attn_mask, key_padding_mask, q, k)
        mask = self._mask(attn_mask, key_padding_mask, q)
        p = self.dropout if self.training else 0.0
        if need_weights:
            context, weights = self._attend_with_weights(q, k, v, mask, p)
            weights = weights.mean(1) if average_attn_weights else weights
        else:
            context, weights = F.scaled_dot_product_attention(q, k, v, mask, p, causal), None
        batch, _, length, _ = context.shape
        out = self.out_proj(context.transpose(1, 2).reshape(batch, length, self.embed_dim))
        if single:
            return out.squeeze(0), None if weights is None else weights.squeeze(0)
        return (out if self.batch_first else out.transpose(0, 1)), weights

    def _attend_otherwise(
        self, query, key, value, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal
    ):
        """Attention with sizes of their own for keys and values, or with more sources than there are keys."""
        transposed = self.batch_first and query.dim() == 3
        if transposed:
            query, key, value = (t.transpose(0, 1) for t in (query, key, value))
        out, weights = F.multi_head_attention_forward(
            query,
            key,
            value,
            self.embed_dim,
            self.num_heads,
            self.in_proj_weight,
            self.in_proj_bias,
            self.bias_k,
            self.bias_v,
            self.add_zero_attn,
            self.dropout,
            self.out_proj.weight,
            self.out_proj.bias,
            self.training,
            key_padding_mask,
            need_weights,
            attn_mask,
            not self._qkv_same_embed_dim,
            self.q_proj_weight,
            self.k_proj_weight,
            self.v_proj_weight,
            average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )
        return (out.transpose(0, 1) if transposed else out), weights

    def _check_masks(self, attn_mask, key_padding_mask, q, k):
        batch, heads, targets, sources = q.size(0), self.num_heads, q.size(2), k.size(2)
        if attn_mask is not None:
            wanted = (targets, sources) if attn_mask.dim() == 2 else (batch * heads, targets, sources)
            if tuple(attn_mask.shape) != wanted:
                raise RuntimeError(
                    f"The shape of the {attn_mask.dim()}D attn_mask is {attn_mask.shape}, but should be {wanted}."
                )
        if key_padding_mask is not None:
            for axis, n in enumerate((batch, sources)):
                if key_padding_mask.size(axis) != n:
                    raise AssertionError(
                        f"Expected key_padded_mask.shape[{axis}] to be {n}, but got {key_padding_mask.size(axis)}"
                    )
            if attn_mask is not None and attn_mask.dtype != key_padding_mask.dtype:
                warn(
                    "Support for mismatched key_padding_mask and attn_mask is deprecated. Use same type for both instead."
                )

    def _project(self, query, key, value):
        """(batch, heads, length, head_dim) of each, by one product when all three are the same tensor."""
        e = self.embed_dim
        if query._is_same(key) and key._is_same(value):
            parts = F.linear(query, self.in_proj_weight, self.in_proj_bias).chunk(3, -1)
        else:
            weights = self.in_proj_weight.chunk(3, 0)
            biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3, 0)
            parts = [F.linear(t, w, b) for t, w, b in zip((query, key, value), weights, biases)]
        return [p.reshape(p.size(0), p.size(1), self.num_heads, e // self.num_heads).transpose(1, 2) for p in parts]

    def _mask(self, attn_mask, key_padding_mask, q):
        """The mask that is added to the scores: 0, or -inf where attention is not allowed."""
        out = None
        for mask, padding in ((attn_mask, False), (key_padding_mask, True)):
            if mask is None:
                continue
            if mask.dtype == _core.bool:
                blocked = mask
                mask = q.new_zeros(mask.shape).masked_fill(blocked, -math.inf)
            if padding:
                mask = mask.unsqueeze(1).unsqueeze(1)
            elif mask.dim() == 3:
                mask = mask.reshape(q.size(0), self.num_heads, mask.size(1), mask.size(2))
            out = mask if out is None else out + mask
        return out

    def _attend_with_weights(self, q, k, v, mask, p):
        scores = (q * (1 / math.sqrt(self.head_dim))) @ k.transpose(-2, -1)
        if mask is not None:
            scores = scores + mask
        weights = F.softmax(scores, -1)
        weights = F.dropout(weights, p) if p else weights
        return weights @ v, weights


def activation_called(activation: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The function of that name, or the one that is given."""
    if not isinstance(activation, str):
        return activation
    if activation not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return getattr(F, activation)


class TransformerEncoderLayer(Module):
    """Self-attention and a two-layer perceptron, each with a residual connection and layer norm."""

    self_attn: MultiheadAttention
    linear1: Linear
    dropout: Dropout
    linear2: Linear
    norm1: LayerNorm
    norm2: LayerNorm
    dropout1: Dropout
    dropout2: Dropout
    activation: Callable[..., Any]

    @on_device
    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Tensor], Tensor] = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Device = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias=bias, batch_first=batch_first, dtype=dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, dtype=dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = activation_called(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        x = src
        if self.norm_first:
            x = x + self._attend(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._feed(self.norm2(x))
        x = self.norm1(x + self._attend(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._feed(x))

    def _attend(self, x, mask, padding, is_causal):
        out, _ = self.self_attn(
            x, x, x, attn_mask=mask, key_padding_mask=padding, need_weights=False, is_causal=is_causal
        )
        return self.dropout1(out)

    def _feed(self, x):
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))
