"""Rules of ops of DTensors that are not elementwise; see _dispatch.py."""

from __future__ import annotations

import math
from typing import Any

from smolder import _core, _creation
from smolder.distributed.tensor import _redistribute as moves
from smolder.distributed.tensor._api import DTensor, local_part, plain
from smolder.distributed.tensor._dispatch import check_mixed, mesh_of, moved, placed, rule
from smolder.distributed.tensor.placement_types import DTensorSpec, Partial, Replicate, Shard

__all__: list[str] = []


def _given(args, kwargs, *names):
    """Arguments by name."""
    out = dict(zip(names, args))
    out.update(kwargs)
    return [out.get(n) for n in names]


def _whole_terms(x):
    """Without terms of sums: they are summed."""
    return moved(x, [Replicate() if isinstance(p, Partial) else p for p in x._spec.placements])


def _undivided(x, dims):
    """With all of the given dimensions on each process, and without terms."""
    unwanted = lambda p: isinstance(p, Partial) or (isinstance(p, Shard) and p.dim in dims)  # noqa: E731
    return moved(x, [Replicate() if unwanted(p) else p for p in x._spec.placements])


# -- reductions


def _dims(dim, rank):
    if dim is None or dim == ():
        return list(range(rank))
    return sorted({d % rank for d in ((dim,) if isinstance(dim, int) else dim)}) if rank else []


def _kept_shape(shape, dims, keepdim):
    return [1 if d in dims else n for d, n in enumerate(shape) if keepdim or d not in dims]


def _reduced_placements(x, dims, keepdim, made):
    """Where a reduction lies: terms, where it was along a dimension that is divided."""
    out = []
    for p in x._spec.placements:
        if isinstance(p, Shard):
            out.append(made if p.dim in dims else Shard(p.dim if keepdim else p.dim - sum(d < p.dim for d in dims)))
        else:
            out.append(p)
    return out


@rule("sum", "mean")
def _sum(func, args, kwargs):
    x, dim, keepdim = _given(args, kwargs, "self", "dim", "keepdim")
    dtype = kwargs.get("dtype")
    dims = _dims(dim, x.dim())
    mean = func.__name__ == "mean"
    local = plain(x) if dtype is None else plain(x).to(dtype)
    out = local.sum(dims, bool(keepdim)) if dims else local.sum()
    if mean:
        out = out / max(math.prod(x._spec.shape[d] for d in dims), 1)
    shape = _kept_shape(x._spec.shape, dims, bool(keepdim))
    return placed(out, x._spec.mesh, _reduced_placements(x, dims, bool(keepdim), Partial()), shape)


@rule("amax", "amin")
def _extreme(func, args, kwargs):
    x, dim, keepdim = _given(args, kwargs, "self", "dim", "keepdim")
    x = _undivided(x, _dims(dim, x.dim()))
    dims = _dims(dim, x.dim())
    out = func(plain(x), dims, bool(keepdim))
    shape = _kept_shape(x._spec.shape, dims, bool(keepdim))
    return placed(out, x._spec.mesh, _reduced_placements(x, dims, bool(keepdim), Partial()), shape)


@rule("max", "min", "argmax", "argmin", "var", "std", "prod", "all", "any", "logsumexp", "cumsum", "topk", "sort")
def _on_whole_rows(func, args, kwargs):
    """Along dimensions that are not divided then."""
    x, dim, keepdim = _given(args, kwargs, "self", "dim", "keepdim")
    if isinstance(dim, DTensor) or func.__name__ in ("topk", "sort", "cumsum"):
        x, args = _undivided(x, range(x.dim())), (args[0], *map(plain, args[1:]))
        dims: Any = []
    else:
        dims = _dims(dim if isinstance(dim, int | tuple | list) else None, x.dim())
        x = _undivided(x, dims)
    out = func(plain(x), *args[1:], **kwargs)

    def result(part):
        if not dims:
            return placed(part, x._spec.mesh, x._spec.placements, part.shape)
        shape = _kept_shape(x._spec.shape, dims, bool(keepdim))
        return placed(part, x._spec.mesh, _reduced_placements(x, dims, bool(keepdim), Partial()), shape)

    if isinstance(out, tuple):
        return type(out)(*map(result, out)) if hasattr(out, "_fields") else tuple(map(result, out))
    return result(out)


@rule("norm", "vector_norm", "linalg_vector_norm")
def _norm(func, args, kwargs):
    x, p, dim = _given(args, kwargs, "self", "p" if func.__name__ == "norm" else "ord", "dim")
    if dim is not None:
        return _on_whole_rows_norm(func, args, kwargs, x, dim)
    order = 2.0 if p in (None, "fro") else float(p)
    x = _whole_terms(x)
    return _total_norm([x], order)


def _on_whole_rows_norm(func, args, kwargs, x, dim):
    dims = _dims(dim, x.dim())
    x = _undivided(x, dims)
    out = func(plain(x), *args[1:], **kwargs)
    keepdim = bool(kwargs.get("keepdim", False))
    shape = _kept_shape(x._spec.shape, dims, keepdim)
    return placed(out, x._spec.mesh, _reduced_placements(x, dims, keepdim, Partial()), shape)


def _total_norm(xs, order):
    """The norm of all of them as one vector, of DTensors of one mesh: one reduction for all that lie alike."""
    by_place: dict[Any, list[Any]] = {}
    for x in xs:
        by_place.setdefault(tuple(d for d, p in enumerate(x._spec.placements) if isinstance(p, Shard)), []).append(x)
    mesh = xs[0]._spec.mesh
    totals = []
    for dims, same in by_place.items():
        terms = []
        for x in same:
            local = plain(x)
            if math.isinf(order):
                # A part without elements has no largest one.
                empty = _creation.full((), 0.0 if order > 0 else math.inf, dtype=local.dtype, device=local.device)
                terms.append(local.norm(order) if local.numel() else empty)
            else:
                terms.append(local.norm(order) if order == 0 else local.norm(order).pow(order))
        stacked = _core.stack(terms)
        total = stacked.sum() if not math.isinf(order) else (stacked.max() if order > 0 else stacked.min())
        for d in dims:
            group = mesh.get_group(d)
            if math.isinf(order):
                total = moves.all_reduced(total, group, "max" if order > 0 else "min")
            else:
                total = moves.changed(total, Partial(), Replicate(), 0, group)
        totals.append(total)
    out = totals[0]
    for t in totals[1:]:
        out = out + t if not math.isinf(order) else (_core.maximum(out, t) if order > 0 else _core.minimum(out, t))
    if not math.isinf(order) and order != 0:
        out = out.pow(1.0 / order)
    return placed(out, mesh, [Replicate()] * mesh.ndim, ())


def total_norm(tensors: Any, order: float) -> Any:
    """The norm of tensors, taken as one vector, where some are DTensors: it lies on the mesh with most dimensions."""
    by_mesh: dict[Any, list[Any]] = {}
    alone = []
    for t in tensors:
        if isinstance(t, DTensor):
            by_mesh.setdefault(t._spec.mesh, []).append(_whole_terms(t))
        else:
            alone.append(t.norm(order))
    found = [_total_norm(xs, order) for xs in by_mesh.values()]
    parts = [plain(x) for x in found] + alone
    largest = max(found, key=lambda x: x._spec.mesh.ndim)
    out = parts[0] if len(parts) == 1 else _core.stack(parts).norm(order)
    return placed(out, largest._spec.mesh, largest._spec.placements, ())


# -- products of matrices


def _axis_product(x, px, w, pw, last):
    """For one dimension of the mesh, of x [..., k] and w [n, k]: how both lie, how the result lies, and which of them is
    to be copied."""
    if isinstance(pw, Shard) and pw.dim == 0:
        return Replicate(), pw, Shard(last), "x"
    if isinstance(pw, Shard):
        return Shard(last), pw, Partial(), ""
    if isinstance(px, Shard) and px.dim == last:
        return px, Shard(1), Partial(), ""
    if isinstance(px, Shard):
        return px, Replicate(), px, "w"
    if isinstance(px, Partial) and px.reduce_op == "sum":
        return px, Replicate(), px, "w"
    return Replicate(), Replicate(), Replicate(), ""


@rule("linear")
def _linear(func, args, kwargs):
    x, w, b = _given(args, kwargs, "input", "weight", "bias")
    check_mixed(func, (x, w, b))
    mesh, last = mesh_of((x, w, b)), x.dim() - 1
    rows = [_axis_product(x, x._spec.placements[d], w, w._spec.placements[d], last) for d in range(mesh.ndim)]
    # Parts of x that must come together for this op alone: their gradients are summed on the way back.
    local = _gathered(x, [r[0] for r in rows], [d for d, r in enumerate(rows) if r[3] == "x"])
    weight = plain(moved(w, [r[1] for r in rows]))
    for d, r in enumerate(rows):
        if r[3] == "w":
            weight = moves.copied(weight, mesh.get_group(d))
    placements = [r[2] for r in rows]
    bias = None if b is None else _bias(b, placements, last)
    out = func(local, weight, bias)
    return placed(out, mesh, placements, [*x._spec.shape[:-1], w._spec.shape[0]])


def _gathered(x, goal, summed):
    """The local tensor of x in the placements `goal`, with gradients summed over some dimensions of the mesh."""
    mesh = x._spec.mesh
    one = [d for d in summed if isinstance(x._spec.placements[d], Shard)]
    others = all(a == b for d, (a, b) in enumerate(zip(x._spec.placements, goal, strict=True)) if d not in one)
    if len(one) == 1 and others:
        d, dim = one[0], x._spec.placements[one[0]].dim
        local = moves.gathered_sum(plain(x), dim, x._spec.size_before(d)[dim], mesh.get_group(d))
        summed = [e for e in summed if e != d]
    else:
        local = plain(moved(x, goal))
    for d in summed:
        local = moves.copied(local, mesh.get_group(d))
    return local


def _bias(b, placements, last):
    """A bias beside a product that lies so."""
    mesh = b._spec.mesh
    goal = [Shard(0) if p == Shard(last) else Replicate() for p in placements]
    local = plain(moved(b, goal))
    for d, p in enumerate(placements):
        group = mesh.get_group(d)
        if isinstance(p, Partial):
            local = moves.on_first(local, group)
        elif isinstance(p, Shard) and p.dim != last:
            local = moves.copied(local, group)
    return local


@rule("matmul", "mm", "bmm", "__matmul__", "__rmatmul__")
def _matmul(func, args, kwargs):
    a, b = args if func.__name__ != "__rmatmul__" else args[::-1]
    check_mixed(func, (a, b))
    mesh = mesh_of((a, b))
    if a.dim() < 2 or b.dim() < 2:
        raise NotImplementedError("matmul: of a DTensor with a vector this is not supported")
    rank = max(a.dim(), b.dim())
    shifts = rank - a.dim(), rank - b.dim()
    pas, pbs, outs, copies = [], [], [], []
    for d in range(mesh.ndim):
        pa, pb = (_shifted(t._spec.placements[d], s) for t, s in zip((a, b), shifts, strict=True))
        row, column = isinstance(pa, Shard) and pa.dim == rank - 2, isinstance(pb, Shard) and pb.dim == rank - 1
        inner = (isinstance(pa, Shard) and pa.dim == rank - 1) or (isinstance(pb, Shard) and pb.dim == rank - 2)
        batch = next((p for p in (pa, pb) if isinstance(p, Shard) and p.dim < rank - 2), None)
        if batch is not None:
            has = [
                t.dim() > rank - 1 - batch.dim and t._spec.shape[batch.dim - s] > 1
                for t, s in zip((a, b), shifts, strict=True)
            ]
            pas.append(Shard(batch.dim - shifts[0]) if has[0] else Replicate())
            pbs.append(Shard(batch.dim - shifts[1]) if has[1] else Replicate())
            outs.append(batch)
            copies.append((not has[0], not has[1]))
        elif inner:
            pas.append(Shard(a.dim() - 1))
            pbs.append(Shard(b.dim() - 2))
            outs.append(Partial())
            copies.append((False, False))
        elif column:
            pas.append(Replicate())
            pbs.append(Shard(b.dim() - 1))
            outs.append(Shard(rank - 1))
            copies.append((True, False))
        elif row:
            pas.append(Shard(a.dim() - 2))
            pbs.append(Replicate())
            outs.append(Shard(rank - 2))
            copies.append((False, True))
        else:
            pas.append(Replicate())
            pbs.append(Replicate())
            outs.append(Replicate())
            copies.append((False, False))
    la, lb = plain(moved(a, pas)), plain(moved(b, pbs))
    for d, (ca, cb) in enumerate(copies):
        la = moves.copied(la, mesh.get_group(d)) if ca else la
        lb = moves.copied(lb, mesh.get_group(d)) if cb else lb
    batches = [
        max(m, n)
        for m, n in zip(*([1] * s + list(t._spec.shape[:-2]) for t, s in zip((a, b), shifts, strict=True)), strict=True)
    ]
    return placed(_core.matmul(la, lb), mesh, outs, [*batches, a._spec.shape[-2], b._spec.shape[-1]])


def _shifted(p, by):
    return Shard(p.dim + by) if isinstance(p, Shard) else p


# -- tables


@rule("embedding")
def _embedding(func, args, kwargs):
    weight, ids, padding = _given(args, kwargs, "weight", "input", "padding_idx")
    check_mixed(func, (weight, ids))
    mesh = mesh_of((weight, ids))
    ids = _whole_terms(ids)
    goal_w, goal_i, out, copied = [], [], [], []
    for d in range(mesh.ndim):
        pw, pi = weight._spec.placements[d], ids._spec.placements[d]
        if isinstance(pw, Shard):
            goal_w.append(pw)
            goal_i.append(Replicate())
            out.append(Partial() if pw.dim == 0 else Shard(ids.dim()))
        else:
            goal_w.append(Replicate())
            goal_i.append(pi)
            out.append(pi)
            if isinstance(pi, Shard):
                copied.append(d)
    w, i = plain(moved(weight, goal_w)), plain(moved(ids, goal_i))
    for d in copied:
        w = moves.copied(w, mesh.get_group(d))
    padding = -1 if padding is None else padding
    rows = [d for d, p in enumerate(goal_w) if isinstance(p, Shard) and p.dim == 0]
    if rows:
        begin, size = weight._spec.parts(weight._spec.coordinate())[0]
        inside = (i >= begin) & (i < begin + size)
        if size == 0:
            local = _creation.zeros([*i.shape, w.shape[1]], dtype=w.dtype, device=w.device) + w.sum()
        else:
            at = padding - begin if begin <= padding < begin + size else -1
            local = func(w, (i - begin).clamp(0, size - 1), at)
            local = local.masked_fill(~inside.unsqueeze(-1), 0.0)
    else:
        local = func(w, i, padding)
    return placed(local, mesh, out, [*ids._spec.shape, weight._spec.shape[1]])


# -- along dimensions that each process has all of


@rule("softmax", "log_softmax")
def _softmax(func, args, kwargs):
    x, dim = _given(args, kwargs, "self", "dim")
    x = _undivided(x, [dim % x.dim()])
    return placed(func(plain(x), *args[1:], **kwargs), x._spec.mesh, x._spec.placements, x._spec.shape)


@rule("layer_norm", "rms_norm")
def _layer_norm(func, args, kwargs):
    x, shape = args[0], args[1]
    rest = [*args[2:], *kwargs.values()]
    check_mixed(func, [x, *rest])
    rank = x.dim() - len(tuple(shape))
    x = _undivided(x, range(rank, x.dim()))
    mesh = mesh_of([x, *rest])

    def local(v):
        if not isinstance(v, DTensor):
            return v
        out = plain(moved(v, [Replicate()] * mesh.ndim))
        for d, p in enumerate(x._spec.placements):
            if isinstance(p, Shard):
                out = moves.copied(out, mesh.get_group(d))
        return out

    out = func(plain(x), shape, *map(local, args[2:]), **{k: local(v) for k, v in kwargs.items()})
    first = out[0] if isinstance(out, tuple) else out
    return placed(first, mesh, x._spec.placements, x._spec.shape)


@rule("scaled_dot_product_attention")
def _attention(func, args, kwargs):
    """Batches and heads may be divided."""
    q, k, v = args[:3]
    rest = [*args[3:], *kwargs.values()]
    check_mixed(func, [q, k, v, *rest])
    if any(isinstance(r, DTensor) for r in rest):
        raise NotImplementedError("scaled_dot_product_attention: a mask that is a DTensor is not supported")
    mesh = mesh_of((q, k, v))
    goal = [p if isinstance(p, Shard) and p.dim < q.dim() - 2 else Replicate() for p in q._spec.placements]
    q, k, v = (moved(t, goal) for t in (q, k, v))
    out = func(plain(q), plain(k), plain(v), *args[3:], **kwargs)
    return placed(out, mesh, goal, [*q._spec.shape[:-1], v._spec.shape[-1]])


# -- shapes


@rule("transpose", "t", "permute", "movedim", "swapaxes", "swapdims")
def _permuted(func, args, kwargs):
    x = args[0]
    rank = x.dim()
    name = func.__name__
    if name == "t":
        order = list(range(rank))[::-1]
    elif name == "permute":
        given = args[1] if isinstance(args[1], tuple | list) else args[1:]
        order = [d % rank for d in given]
    elif name == "movedim":
        raise NotImplementedError("movedim: of a DTensor this is not supported: use permute")
    else:
        a, b = (d % rank for d in _given(args, kwargs, "self", "dim0", "dim1")[1:])
        order = list(range(rank))
        order[a], order[b] = b, a
    placements = [Shard(order.index(p.dim)) if isinstance(p, Shard) else p for p in x._spec.placements]
    return placed(plain(x).permute(order), x._spec.mesh, placements, [x._spec.shape[d] for d in order])


@rule("view_as_complex", "view_as_real")
def _pairs(func, args, kwargs):
    """The pairs of a last dimension as complex numbers, and back: they are not divided."""
    (x,) = _given(args, kwargs, "input")
    if func.__name__ == "view_as_real":
        return placed(func(plain(x)), x._spec.mesh, x._spec.placements, (*x._spec.shape, 2))
    whole = _undivided(x, [x.dim() - 1])
    local = plain(x) if whole is x else plain(whole).contiguous()
    return placed(func(local), x._spec.mesh, whole._spec.placements, x._spec.shape[:-1])


@rule("view", "reshape", "flatten", "unflatten", "unsqueeze", "squeeze")
def _reshaped(func, args, kwargs):
    x = args[0]
    shape = _goal_shape(func.__name__, x, args[1:], kwargs)
    mesh, sizes, placements = x._spec.mesh, list(x._spec.shape), []
    for p in x._spec.placements:
        if not isinstance(p, Shard):
            placements.append(p)
            continue
        along = [d for d, q in enumerate(x._spec.placements) if isinstance(q, Shard) and q.dim == p.dim]
        at = _dim_after(sizes, shape, p.dim, math.prod(mesh.size(d) for d in along))
        if at is None:
            raise NotImplementedError(
                f"{func.__name__}: of a DTensor of shape {tuple(sizes)} with {p!r} to {tuple(shape)} this is not supported: "
                "redistribute it first"
            )
        placements.append(p.at(at))
    local = DTensorSpec(mesh, tuple(placements), tuple(shape)).local_shape()
    return placed(plain(x).reshape(local), mesh, placements, shape)


def _goal_shape(name, x, args, kwargs):
    sizes, rank = list(x._spec.shape), x.dim()
    if name == "unsqueeze":
        dim = _given(args, kwargs, "dim")[0]
        return [*sizes[: dim % (rank + 1)], 1, *sizes[dim % (rank + 1) :]]
    if name == "squeeze":
        dim = _given(args, kwargs, "dim")[0]
        gone = [d for d in _dims(dim, rank) if sizes[d] == 1]
        return [n for d, n in enumerate(sizes) if d not in gone]
    if name == "flatten":
        begin, end = (
            v if v is not None else e
            for v, e in zip(_given(args, kwargs, "start_dim", "end_dim"), (0, -1), strict=True)
        )
        return [*sizes[: begin % rank], math.prod(sizes[begin % rank : end % rank + 1]), *sizes[end % rank + 1 :]]
    if name == "unflatten":
        dim, parts = _given(args, kwargs, "dim", "sizes")
        given = [*sizes[: dim % rank], *parts, *sizes[dim % rank + 1 :]]
    else:
        first = args[0] if args else kwargs.get("shape", kwargs.get("size"))
        if not isinstance(first, int | tuple | list):
            raise NotImplementedError(f"{name}: of a DTensor as another dtype this is not supported")
        given = list(args) if isinstance(first, int) else list(first)
    if -1 in given:
        known = -math.prod(given)
        given[given.index(-1)] = math.prod(sizes) // known if known else 0
    return given


def _dim_after(sizes, shape, dim, parts):
    """The dimension that has the parts of `dim`: as many elements come before it. None where there is none. Parts that
    are not equally long stay those of a dimension of the same length."""
    before, after = math.prod(sizes[:dim]), math.prod(sizes[dim + 1 :])
    for at, n in enumerate(shape):
        if math.prod(shape[:at]) != before:
            continue
        same = n == sizes[dim] and math.prod(shape[at + 1 :]) == after
        if same or (n % parts == 0 and sizes[dim] % parts == 0):
            return at
    return None


@rule(
    "chunk",
    "split",
    "narrow",
    "select",
    "__getitem__",
    "unbind",
    "index_select",
    "gather",
    "expand",
    "repeat",
    "tril",
    "triu",
    "flip",
    "roll",
    "unfold",
)
def _slices(func, args, kwargs):
    """Works on dimensions that are not divided: where that is not known, each is made whole first."""
    x = args[0]
    name = func.__name__
    dims = range(x.dim())
    if name in ("chunk", "split"):
        dims = [(_given(args, kwargs, "self", "n", "dim")[2] or 0) % x.dim()]
    elif name in ("narrow", "select", "unbind"):
        dims = [(_given(args, kwargs, "self", "dim")[1] or 0) % x.dim()]
    x = _undivided(x, dims)
    args = [plain(moved(a, [Replicate()] * a._spec.mesh.ndim)) if isinstance(a, DTensor) else a for a in args[1:]]
    out = func(plain(x), *args, **kwargs)

    def result(part):
        gone = name in ("select", "unbind")
        placements = [
            Shard(p.dim - sum(d < p.dim for d in dims)) if gone and isinstance(p, Shard) else p
            for p in x._spec.placements
        ]
        shape = list(part.shape)
        for d, p in enumerate(placements):
            if isinstance(p, Shard):
                before = x._spec.placements[d].dim
                shape[p.dim] = x._spec.shape[before]
        return placed(part, x._spec.mesh, placements, shape)

    return type(out)(map(result, out)) if isinstance(out, tuple | list) else result(out)


@rule("cat", "concat", "concatenate", "stack")
def _joined(func, args, kwargs):
    xs, dim = args[0], _given(args, kwargs, "tensors", "dim")[1] or 0
    check_mixed(func, xs)
    mesh = mesh_of(xs)
    stacks = func.__name__ == "stack"
    dim %= xs[0].dim() + stacks
    first = xs[0]._spec.placements
    plain_goal = [Replicate() if isinstance(p, Partial) or (not stacks and p == Shard(dim)) else p for p in first]
    xs = [moved(x, plain_goal) for x in xs]
    out = func([plain(x) for x in xs], dim)
    if stacks:
        shape = [*xs[0]._spec.shape[:dim], len(xs), *xs[0]._spec.shape[dim:]]
        goal = [Shard(p.dim + (p.dim >= dim)) if isinstance(p, Shard) else p for p in plain_goal]
        return placed(out, mesh, goal, shape)
    shape = list(xs[0]._spec.shape)
    shape[dim] = sum(x._spec.shape[dim] for x in xs)
    return placed(out, mesh, plain_goal, shape)


# -- losses


@rule("nll_loss", "mse_loss", "l1_loss", "binary_cross_entropy_with_logits")
def _loss(func, args, kwargs):
    """Computed of the whole: the loss of a part of a batch is a mean of fewer numbers."""
    mesh = mesh_of(args)
    whole = [plain(moved(a, [Replicate()] * mesh.ndim)) if isinstance(a, DTensor) else a for a in args]
    out = func(*whole, **kwargs)
    first = out[0] if isinstance(out, tuple) else out
    return placed(first, mesh, [Replicate()] * mesh.ndim, first.shape)


@rule("cross_entropy")
def _cross_entropy(func, args, kwargs):
    from smolder.distributed.tensor.parallel import loss

    return loss.cross_entropy(func, args, kwargs)


# -- random numbers: all processes draw the whole, so that with one seed it is that of one process


@rule(
    "normal_", "uniform_", "bernoulli_", "exponential_", "random_", "trunc_normal_", "log_normal_", "cauchy_", "geometric_",
    "rand_like", "randn_like",
)  # fmt: skip
def _drawn(func, args, kwargs):
    x = args[0]
    whole = _creation.empty(list(x._spec.shape), dtype=plain(x).dtype, device=plain(x).device)
    drawn = func(whole, *args[1:], **kwargs)
    part = local_part(drawn, x._spec)
    if not func.__name__.endswith("_"):
        return placed(part, x._spec.mesh, x._spec.placements, x._spec.shape)
    plain(x).copy_(part)
    return x


@rule("equal", "allclose")
def _compared(func, args, kwargs):
    whole = [plain(moved(a, [Replicate()] * a._spec.mesh.ndim)) if isinstance(a, DTensor) else a for a in args]
    return func(*whole, **kwargs)
