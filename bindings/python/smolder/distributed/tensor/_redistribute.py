"""Changes of placement along one dimension of a mesh, differentiated.

The gradient of a replicated tensor is replicated, that of a shard is a shard, and that of a term of a sum is the whole
gradient, on each process. Each function here keeps to that, and says what its backward pass does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from smolder import _core, _creation
from smolder.autograd import Function
from smolder.distributed.tensor.placement_types import DTensorSpec, Partial, Placement, Replicate, Shard

if TYPE_CHECKING:
    from smolder import Tensor

__all__ = [
    "all_reduced",
    "begin_pieces",
    "changed",
    "copied",
    "gather_rows",
    "gathered_sum",
    "on_first",
    "reduce_pieces",
]

_REDUCTIONS = {"sum": 0, "avg": 0, "product": 1, "max": 3, "min": 2}


# -- collectives of plain tensors


def all_reduced(x: Tensor, group: Any, reduce_op: str = "sum") -> Tensor:
    """The reduction of all processes' tensors, as another tensor."""
    if group.size() == 1:
        return x
    out = _core._dist_call("all_reduce", x.detach(), group._number, [_REDUCTIONS[reduce_op]], list(x.shape))
    return out / group.size() if reduce_op == "avg" else out


def gather_rows(x: Tensor, group: Any) -> Tensor:
    """A row for each process: its tensor, flat."""
    if group.size() == 1 or x.numel() == 0:
        return x.detach().reshape([group.size(), x.numel()])
    return _core._dist_call("all_gather", x.detach(), group._number, [], [group.size(), x.numel()])


def begin_pieces(x: Tensor, counts: list[int], group: Any) -> Callable[[], Tensor]:
    """Begins to bring several tensors together, of each of which `x` has this process's part, so many elements, one
    behind the other. What it returns is to be called, once, where the whole tensors are needed, which lie one behind
    the other."""
    shape = [group.size() * x.numel()]
    if group.size() == 1 or x.numel() == 0:
        return partial(x.detach().reshape, shape)
    x = x.detach()
    begun = _core._dist_begin("all_gather", x, group._number, counts, shape)
    return partial(_core._dist_finish, "all_gather", begun, x, group._number, counts, shape)


def reduce_pieces(flat: Tensor, counts: list[int], group: Any) -> Tensor:
    """The other way round: sums over all processes of tensors that lie one behind the other in `flat`; this process's
    parts. On a device it is waited for where it is needed."""
    flat, n, detail = flat.detach(), flat.numel() // group.size(), [0, *counts]
    if group.size() == 1 or n == 0:
        return flat.reshape(n)
    if flat.device.type != "cuda":
        return _core._dist_call("reduce_scatter", flat, group._number, detail, [n])
    begun = _core._dist_begin("reduce_scatter", flat, group._number, detail, [n])
    return _core._dist_finish("reduce_scatter", begun, flat, group._number, detail, [n])


def _chunk(n, group):
    return -(-n // group.size())


def _padded(x, rows):
    """With zeros below, to so many rows."""
    if x.shape[0] == rows:
        return x
    return _core.cat([x, _creation.zeros([rows - x.shape[0], *x.shape[1:]], dtype=x.dtype, device=x.device)])


def _gather(x, dim, n, group):
    """All parts along a dimension, which is `n` long as a whole."""
    if group.size() == 1:
        return x
    front = x.detach().movedim(dim, 0)
    rows = gather_rows(_padded(front, _chunk(n, group)).contiguous(), group)
    whole = rows.reshape([_chunk(n, group) * group.size(), *front.shape[1:]])
    return whole[:n].movedim(0, dim)


def _split(x, dim, group):
    size, begin = Shard.local_shard_size_and_offset(x.shape[dim], group.size(), group.rank())
    return x.narrow(dim, begin, size)


def _reduce_scatter(x, dim, group):
    if group.size() == 1:
        return x
    front = x.detach().movedim(dim, 0)
    n = front.shape[0]
    part = reduce_pieces(_padded(front, _chunk(n, group) * group.size()).reshape(-1), [], group)
    size, _ = Shard.local_shard_size_and_offset(n, group.size(), group.rank())
    return part.reshape([_chunk(n, group), *front.shape[1:]])[:size].movedim(0, dim)


def _exchange(x, from_dim, n, to_dim, group):
    """Parts along one dimension, `n` long as a whole, become parts along another."""
    if group.size() == 1:
        return x
    w, me = group.size(), group.rank()
    mine = [Shard.local_shard_size_and_offset(x.shape[to_dim], w, r) for r in range(w)]
    theirs = [Shard.local_shard_size_and_offset(n, w, r)[0] for r in range(w)]
    parts = [x.detach().narrow(to_dim, begin, size) for size, begin in mine]
    shapes = []
    for size in theirs:
        shape = list(x.shape)
        shape[to_dim], shape[from_dim] = mine[me][0], size
        shapes.append(shape)
    counts = [math.prod(s) for s in shapes]
    flat = _core.cat([p.reshape(-1) for p in parts])
    detail = [*(p.numel() for p in parts), *counts]
    got = _core._dist_call("all_to_all", flat, group._number, detail, [sum(counts)])
    return _core.cat([p.reshape(s) for p, s in zip(got.split(counts), shapes, strict=True)], from_dim)


# -- the same with gradients


class _Apply(Function):
    """A linear function of plain tensors, and the one that its gradient goes through."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, forward: Any, backward: Any) -> Tensor:
        """forward(x)."""
        ctx.maps = forward, backward
        out = forward(x)
        return x.view_as(x) if out is x else out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None, None]:  # type: ignore[override]
        """backward(grad), which forward is the gradient of."""
        forward, backward = ctx.maps
        return _Apply.apply(grad, backward, forward), None, None


def _same(x):
    return x


def _mapped(x, forward, backward):
    if _core.is_grad_enabled() and x.requires_grad:
        return _Apply.apply(x, forward, backward)
    return forward(x)


def copied(x: Tensor, group: Any) -> Tensor:
    """The same, whose gradients, of which each process has a term, are summed."""
    return x if group.size() == 1 else _mapped(x, _same, lambda g: all_reduced(g, group))


def gathered_sum(x: Tensor, dim: int, n: int, group: Any) -> Tensor:
    """All parts along a dimension; of their gradients each process has a term."""
    return _mapped(x, lambda t: _gather(t, dim, n, group), lambda g: _reduce_scatter(g, dim, group))


def on_first(x: Tensor, group: Any) -> Tensor:
    """Terms of a sum that is x: itself on the first process, zeros elsewhere. The gradient is the whole one's."""
    first = group.rank() == 0
    return _mapped(x, lambda t: t if first else _creation.zeros(t.shape, dtype=t.dtype, device=t.device), _same)


def changed(x: Tensor, before: Placement, after: Placement, n: int, group: Any) -> Tensor:
    """A local tensor in another placement. `n` is the length, as a whole, of what `before` shards."""
    if before == after:
        return x
    if isinstance(before, Replicate):
        if isinstance(after, Shard):
            dim, size = after.dim, x.shape[after.dim]
            return _mapped(x, lambda t: _split(t, dim, group), lambda g: _gather(g, dim, size, group))
        if isinstance(after, Partial) and after.reduce_op == "sum":
            return on_first(x, group)
    elif isinstance(before, Shard):
        dim = before.dim
        if isinstance(after, Replicate):
            return _mapped(x, lambda t: _gather(t, dim, n, group), lambda g: _split(g, dim, group))
        if isinstance(after, Shard):
            to, size = after.dim, x.shape[after.dim]
            return _mapped(x, lambda t: _exchange(t, dim, n, to, group), lambda g: _exchange(g, to, size, dim, group))
    elif isinstance(before, Partial):
        op = before.reduce_op
        if op not in ("sum", "avg"):
            whole = all_reduced(x, group, op)
            return changed(whole, Replicate(), after, 0, group)
        scale = 1.0 / group.size() if op == "avg" else 1.0
        x = x if scale == 1.0 else x * scale
        if isinstance(after, Replicate):
            return _mapped(x, lambda t: all_reduced(t, group), _same)
        if isinstance(after, Shard):
            dim, size = after.dim, x.shape[after.dim]
            return _mapped(x, lambda t: _reduce_scatter(t, dim, group), lambda g: _gather(g, dim, size, group))
    raise NotImplementedError(f"a DTensor is not redistributed from {before!r} to {after!r}")


def redistributed(x: Tensor, spec: DTensorSpec, placements: tuple[Placement, ...]) -> Tensor:
    """A local tensor of a spec in other placements: dimensions of the mesh that change the same dimension of the tensor
    are undone from the last to the first that divided it, and divide it again in their order."""
    after = DTensorSpec(spec.mesh, placements, spec.shape)
    touched = {d for d, (a, b) in enumerate(zip(spec.placements, placements, strict=True)) if a != b}
    # A later division must be undone before an earlier one.
    order = spec.order()
    for i, d in enumerate(order):
        later = {e for e in order[i + 1 :] if _dim_of(spec.placements[e]) == _dim_of(spec.placements[d]) is not None}
        if d in touched:
            touched |= later
    also = {
        d
        for d in range(len(placements))
        if _dim_of(placements[d]) in {_dim_of(placements[e]) for e in touched} - {None}
    }
    several = len(touched | also) > 1
    if not several:
        for d in touched:
            n = spec.size_before(d)[spec.placements[d].dim] if isinstance(spec.placements[d], Shard) else 0
            x = changed(x, spec.placements[d], placements[d], n, spec.mesh.get_group(d))
        return x
    touched |= also
    for d in reversed(order):
        if d in touched and not isinstance(spec.placements[d], Replicate):
            if isinstance(spec.placements[d], Partial) and isinstance(placements[d], Partial):
                continue
            n = spec.size_before(d)[spec.placements[d].dim] if isinstance(spec.placements[d], Shard) else 0
            x = changed(x, spec.placements[d], Replicate(), n, spec.mesh.get_group(d))
    for d in after.order():
        if d in touched and not isinstance(placements[d], Replicate):
            if isinstance(spec.placements[d], Partial) and isinstance(placements[d], Partial):
                continue
            x = changed(x, Replicate(), placements[d], 0, spec.mesh.get_group(d))
    return x


def _dim_of(placement):
    return placement.dim if isinstance(placement, Shard) else None
