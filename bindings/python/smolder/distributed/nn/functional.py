"""Collectives that are differentiated: each returns what the in-place one writes, and its gradient is a collective too.

All processes of the group run the backward pass, as they ran the forward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smolder import _core, _creation
from smolder._names import listing as _listing
from smolder.autograd import Function
from smolder.distributed import _collectives as c
from smolder.distributed._groups import resolve

if TYPE_CHECKING:
    from smolder import Tensor

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]
__dir__ = _listing(__name__)

ReduceOp = c.ReduceOp


def _sum_only(op, name):
    if op is not ReduceOp.SUM:
        raise NotImplementedError(f"the gradient of {name} with {op} is not supported: use ReduceOp.SUM")


def _in(group):
    pg = resolve(group)
    if pg is None:
        raise ValueError("Invalid process group specified: this process is not in it")
    return pg


class _AllReduce(Function):
    @staticmethod
    def forward(ctx, tensor, op, group):
        ctx.group, ctx.op = group, op
        out = tensor.clone()
        c.all_reduce(out, op, group)
        return out

    @staticmethod
    def backward(ctx, grad):
        _sum_only(ctx.op, "all_reduce")
        return _AllReduce.apply(grad, ctx.op, ctx.group), None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx, tensor, src, group):
        ctx.src, ctx.group = src, group
        out = tensor.clone()
        c.broadcast(out, group=group, group_src=src)
        return out

    @staticmethod
    def backward(ctx, grad):
        return _Reduce.apply(grad, ctx.src, ctx.group), None, None


class _Reduce(Function):
    """Zeros on the other ranks: gradients there are none of theirs."""

    @staticmethod
    def forward(ctx, tensor, dst, group):
        ctx.dst, ctx.group = dst, group
        out = tensor.clone()
        c.reduce(out, group=group, group_dst=dst)
        return out if group.rank() == dst else _creation.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device)

    @staticmethod
    def backward(ctx, grad):
        return _Broadcast.apply(grad, ctx.dst, ctx.group), None, None


class _AllGather(Function):
    @staticmethod
    def forward(ctx, tensor, group):
        ctx.group = group
        out = _creation.empty([group.size(), *tensor.shape], dtype=tensor.dtype, device=tensor.device)
        c.all_gather_into_tensor(out, tensor, group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return _ReduceScatter.apply(grad, ctx.group), None


class _ReduceScatter(Function):
    """Adds up the tensors of all ranks, which have one row a rank, and gives each rank its row."""

    @staticmethod
    def forward(ctx, stacked, group):
        ctx.group = group
        out = _creation.empty(stacked.shape[1:], dtype=stacked.dtype, device=stacked.device)
        c.reduce_scatter_tensor(out, stacked, group=group)
        return out

    @staticmethod
    def backward(ctx, grad):
        return _AllGather.apply(grad, ctx.group), None


class _Exchange(Function):
    @staticmethod
    def forward(ctx, flat, to_each, of_each, group):
        ctx.sizes, ctx.group = (to_each, of_each), group
        out = _creation.empty(sum(of_each), dtype=flat.dtype, device=flat.device)
        c._exchange(flat, to_each, of_each, group, False, out.copy_, [out])
        return out

    @staticmethod
    def backward(ctx, grad):
        to_each, of_each = ctx.sizes
        return _Exchange.apply(grad.reshape(-1), of_each, to_each, ctx.group), None, None, None


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of all processes' tensors, on each."""
    return _AllReduce.apply(c._check(tensor, "tensor"), op, _in(group))


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """The tensor of `src`, on each."""
    pg = _in(group)
    return _Broadcast.apply(c._check(tensor, "tensor"), c._peer(pg, src, None, "src"), pg)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of all processes' tensors on `dst`, zeros on the others."""
    _sum_only(op, "reduce")
    pg = _in(group)
    return _Reduce.apply(c._check(tensor, "tensor"), c._peer(pg, dst, None, "dst"), pg)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes, in the order of ranks."""
    return _AllGather.apply(c._check(tensor, "tensor"), _in(group)).unbind(0)


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum of all processes' tensors for this one. `output` says what it is like."""
    _sum_only(op, "reduce_scatter")
    pg = _in(group)
    c._check_parts("reduce_scatter", input_list, c._check(output, "output"), pg)
    return _ReduceScatter.apply(_core.stack(list(input_list)), pg)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """The tensors of all processes on `dst`; zeros on the others."""
    pg = _in(group)
    root = c._peer(pg, dst, None, "dst")
    n = tensor.numel()
    here = pg.rank() == root
    flat = c._check(tensor, "tensor").reshape(-1)
    out = _Exchange.apply(flat, [n if r == root else 0 for r in range(pg.size())], [n if here else 0] * pg.size(), pg)
    if not here:
        # The others' results hang on nothing, but their backward pass goes through the exchange.
        empty = out.sum()
        return tuple(
            _creation.zeros(tensor.shape, dtype=tensor.dtype, device=tensor.device) + empty for _ in range(pg.size())
        )
    return out.reshape([pg.size(), *tensor.shape]).unbind(0)


def scatter(tensors: list[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """This process's tensor of the list of `src`. The lists of others say what it is like."""
    pg = _in(group)
    root = c._peer(pg, src, None, "src")
    like = tensors[pg.rank()]
    c._check_parts("scatter", tensors, like, pg)
    n = like.numel()
    here = pg.rank() == root
    flat = _core.cat([t.reshape(-1) for t in tensors])
    if not here:
        flat = flat[:0]
    out = _Exchange.apply(flat, [n if here else 0] * pg.size(), [n if r == root else 0 for r in range(pg.size())], pg)
    return out.reshape(like.shape)


def all_to_all(
    output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """Each process's tensor for this one. output_tensor_list says what they are like."""
    pg = _in(group)
    of_each = [t.numel() for t in output_tensor_list]
    flat = _core.cat([t.reshape(-1) for t in input_tensor_list])
    out = _Exchange.apply(flat, [t.numel() for t in input_tensor_list], of_each, pg)
    return tuple(part.reshape(t.shape) for part, t in zip(out.split(of_each), output_tensor_list, strict=True))


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: list[int] | None = None,
    input_split_sizes: list[int] | None = None,
    group: Any = None,
) -> Tensor:
    """The same, where the parts are one after the other along the first axis."""
    pg = _in(group)
    to_each = c._splits(input, input_split_sizes, pg, "input")
    of_each = c._splits(output, output_split_sizes, pg, "output")
    return _Exchange.apply(input.reshape(-1), to_each, of_each, pg).reshape(output.shape)
