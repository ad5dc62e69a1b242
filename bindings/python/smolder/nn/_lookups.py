"""Embeddings beyond a lookup: rows that are kept short, and gradients by how often a row was looked up."""

from __future__ import annotations

from typing import Any

from smolder import _core
from smolder._modes import no_grad
from smolder._typing import Tensor
from smolder.autograd.function import Function


def shorten_rows(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    """Makes rows of weight that input names, and whose norm of order norm_type is above max_norm, as long as that."""
    with no_grad():
        numbers = input.detach().reshape(-1).to(_core.int64)
        rows = weight.index_select(0, numbers)
        norms = _core.norm(rows, norm_type, 1, True)
        weight.index_copy_(0, numbers, _core.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows))


class SharedGradient(Function):
    """Rows whose gradients are divided by how often input names the row of each."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, input: Tensor, count: int) -> Tensor:
        numbers = input.reshape(-1).to(_core.int64)
        ones = _core.ones_like(numbers, dtype=rows.dtype)
        times = ones.new_zeros(count).index_add(0, numbers, ones).index_select(0, numbers)
        ctx.save_for_backward(times.reshape(input.shape).unsqueeze(-1))
        return rows.view_as(rows)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        (times,) = ctx.saved_tensors
        return grad / times, None, None
