"""The lookup of an embedding whose gradient is sparse: of the rows that were looked up."""

from __future__ import annotations

from typing import Any

from smolder import _core
from smolder._sparse._parts import made
from smolder._typing import Tensor
from smolder.autograd.function import Function


class Embedding(Function):
    """Rows of weight; its gradient has a value a lookup, zero where padding was looked up."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, input: Tensor, padding_idx: int) -> Tensor:
        ctx.save_for_backward(input)
        ctx.shape, ctx.padding_idx = tuple(weight.shape), padding_idx
        return _core.embedding(weight, input, padding_idx)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (input,) = ctx.saved_tensors
        rows = input.reshape(-1).to(_core.int64)
        values = grad.reshape(rows.shape[0], ctx.shape[1])
        if ctx.padding_idx >= 0:
            values = values * (rows != ctx.padding_idx).unsqueeze(1)
        return made(values, [rows.unsqueeze(0)], ctx.shape), None, None
