"""Random programs of collectives, checked against NumPy. All ranks draw the same program, and know what each holds."""

import functools
import os

import numpy as np

import smolder
from smolder import distributed as dist

NCCL = "nccl" in os.environ.get("BACKEND", "gloo")


def rng_of(*seeds):
    return np.random.default_rng(list(seeds))


def arrays(seed, size, shape, dtype):
    """The tensors of each rank: every process can work out all of them."""
    out = []
    for r in range(size):
        rng = rng_of(seed, r)
        if dtype == "bool":
            out.append(rng.random(shape) < 0.5)
        elif dtype.startswith("complex"):
            out.append((rng.integers(-8, 8, shape) + 1j * rng.integers(-8, 8, shape)).astype(dtype))
        elif dtype.startswith("float"):
            out.append(rng.integers(-8, 8, shape).astype(dtype))  # sums are exact in any order
        else:
            out.append(rng.integers(0, 6, shape).astype(dtype))
    return out


def same(tensor, array):
    tensor = tensor.detach().cpu()
    got = tensor.to(smolder.float32).cpu().numpy() if tensor.dtype == smolder.bfloat16 else tensor.cpu().numpy()
    np.testing.assert_array_equal(got, array)


REDUCED = {
    dist.ReduceOp.SUM: lambda xs: np.sum(xs, axis=0, dtype=xs[0].dtype),
    dist.ReduceOp.PRODUCT: lambda xs: np.prod(xs, axis=0, dtype=xs[0].dtype),
    dist.ReduceOp.MIN: lambda xs: np.min(xs, axis=0),
    dist.ReduceOp.MAX: lambda xs: np.max(xs, axis=0),
    dist.ReduceOp.BAND: lambda xs: np.bitwise_and.reduce(xs),
    dist.ReduceOp.BOR: lambda xs: np.bitwise_or.reduce(xs),
    dist.ReduceOp.BXOR: lambda xs: np.bitwise_xor.reduce(xs),
}
INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
if NCCL:  # what it does not reduce
    REDUCED = {op: how for op, how in REDUCED.items() if op.name[0] != "B"}
    INTEGERS.remove("int16")
FLOATS = ["float16", "float32", "float64"]
REDUCES = INTEGERS + FLOATS + ([] if NCCL else ["complex64", "complex128"])
MOVES = [*REDUCES, "bool"]


def wait(work):
    if work is not None:
        work.wait()


class Draw:
    """The draws of a group's ranks for one collective."""

    def __init__(self, seeds, group):
        self.rng, self.group = rng_of(*seeds), group
        self.seed = int(self.rng.integers(1 << 30))
        self.size, self.me = group.size(), group.rank()
        self.shape = tuple(int(n) for n in self.rng.integers(0, 5, self.rng.integers(0, 4)))
        self.later = bool(self.rng.integers(2))
        self.root = int(self.rng.integers(self.size))

    def arrays(self, dtypes, shape=None, more=0):
        """One a rank, and this rank's as a tensor."""
        dtype = str(rng_of(self.seed, 1).choice(dtypes))
        xs = arrays(self.seed + more, self.size, self.shape if shape is None else shape, dtype)
        return xs, smolder.tensor(xs[self.me])

    def op(self, x):
        """A reduction of such values, and the same in NumPy."""
        allowed = [o for o in REDUCED if x.dtype.kind in "iu" or (o.name[0] != "B" and x.dtype.kind == "f")]
        op = dist.ReduceOp.SUM if x.dtype.kind == "c" else allowed[self.rng.integers(len(allowed))]

        def total(xs):
            with np.errstate(all="ignore"):
                return REDUCED[op](xs)

        return op, total

    @functools.cached_property
    def options(self):
        return {"group": self.group, "async_op": self.later}


def all_reduce(d):
    xs, mine = d.arrays(REDUCES)
    op, total = d.op(xs[0])
    wait(dist.all_reduce(mine, op, **d.options))
    return lambda: same(mine, total(xs))


def all_reduce_average(d):
    xs, mine = d.arrays(["float32", "float64"])
    wait(dist.all_reduce(mine, dist.ReduceOp.AVG, **d.options))
    want = np.sum(xs, axis=0) / np.asarray(d.size, xs[0].dtype)
    return lambda: np.testing.assert_allclose(mine.cpu().numpy(), want, rtol=1e-6)


def all_reduce_coalesced(d):
    many = [arrays(d.seed + i, d.size, (i + 1, 2), "float32") for i in range(int(d.rng.integers(1, 4)))]
    mine = [smolder.tensor(xs[d.me]) for xs in many]
    wait(dist.all_reduce_coalesced(mine, **d.options))
    return lambda: [same(t, np.sum(xs, axis=0)) for t, xs in zip(mine, many, strict=True)]


def reduce(d):
    xs, mine = d.arrays(REDUCES)
    op, total = d.op(xs[0])
    wait(dist.reduce(mine, op=op, group_dst=d.root, **d.options))
    return lambda: same(mine, total(xs) if d.me == d.root else xs[d.me])


def broadcast(d):
    xs, mine = d.arrays(MOVES)
    wait(dist.broadcast(mine, group_src=d.root, **d.options))
    return lambda: same(mine, xs[d.root])


def all_gather(d):
    xs, mine = d.arrays(MOVES)
    out = [smolder.zeros_like(mine) for _ in range(d.size)]
    wait(dist.all_gather(out, mine, **d.options))
    return lambda: [same(o, x) for o, x in zip(out, xs, strict=True)]


def all_gather_into_tensor(d):
    xs, mine = d.arrays(MOVES)
    out = smolder.zeros([d.size, *d.shape], dtype=mine.dtype)
    wait(dist.all_gather_into_tensor(out, mine, **d.options))
    return lambda: same(out, np.stack(xs))


def all_gather_coalesced(d):
    many = [arrays(d.seed + i, d.size, (i + 1,), "int64") for i in range(int(d.rng.integers(1, 4)))]
    out = [[smolder.zeros(i + 1, dtype=smolder.int64) for i in range(len(many))] for _ in range(d.size)]
    wait(dist.all_gather_coalesced(out, [smolder.tensor(xs[d.me]) for xs in many], **d.options))
    return lambda: [same(out[r][i], xs[r]) for i, xs in enumerate(many) for r in range(d.size)]


def gather(d):
    xs, mine = d.arrays(MOVES)
    here = d.me == d.root
    out = [smolder.zeros_like(mine) for _ in range(d.size)] if here else None
    wait(dist.gather(mine, out, group_dst=d.root, **d.options))
    return lambda: [same(o, x) for o, x in zip(out or [], xs, strict=here)]


def scatter(d):
    xs, mine = d.arrays(MOVES)
    out = smolder.zeros_like(mine)
    parts = [smolder.tensor(x) for x in xs] if d.me == d.root else None
    wait(dist.scatter(out, parts, group_src=d.root, **d.options))
    return lambda: same(out, xs[d.me])


def reduce_scatter(d):
    alls = [arrays(d.seed + 10 * r, d.size, d.shape, str(rng_of(d.seed, 2).choice(REDUCES))) for r in range(d.size)]
    op, total = d.op(alls[0][0])
    out = smolder.zeros_like(smolder.tensor(alls[0][0]))
    if d.rng.integers(2):
        wait(dist.reduce_scatter(out, [smolder.tensor(x) for x in alls[d.me]], op, **d.options))
    else:
        wait(dist.reduce_scatter_tensor(out, smolder.tensor(np.stack(alls[d.me])), op, **d.options))
    return lambda: same(out, total([alls[r][d.me] for r in range(d.size)]))


def uneven(d):
    """How many rows each rank sends each, and what they are."""
    counts = d.rng.integers(0, 4, [d.size, d.size])
    dtype = str(rng_of(d.seed, 3).choice([t for t in MOVES if t != "bool"]))
    return counts, [[np.full((counts[a][b], 2), 10 * a + b, dtype) for b in range(d.size)] for a in range(d.size)]


def all_to_all(d):
    counts, parts = uneven(d)
    mine = [smolder.tensor(p) for p in parts[d.me]]
    out = [smolder.zeros([int(counts[a][d.me]), 2], dtype=mine[0].dtype) for a in range(d.size)]
    wait(dist.all_to_all(out, mine, **d.options))
    return lambda: [same(out[a], parts[a][d.me]) for a in range(d.size)]


def all_to_all_single(d):
    counts, parts = uneven(d)
    mine = smolder.tensor(np.concatenate(parts[d.me]))
    coming = [int(n) for n in counts[:, d.me]]
    out = smolder.zeros([sum(coming), 2], dtype=mine.dtype)
    wait(dist.all_to_all_single(out, mine, coming, [int(n) for n in counts[d.me]], **d.options))
    return lambda: same(out, np.concatenate([parts[a][d.me] for a in range(d.size)]))


def ring(d):
    """Each sends to the one after it."""
    if d.size == 1:
        return lambda: None
    xs, mine = d.arrays(MOVES)
    to, of = (d.me + 1) % d.size, (d.me - 1) % d.size
    out = smolder.zeros_like(mine)
    tag = 0 if NCCL else int(d.rng.integers(3))
    if d.later:
        work = dist.irecv(out, group=d.group, group_src=of, tag=tag)
        wait(dist.isend(mine, group=d.group, group_dst=to, tag=tag))
        wait(work)
    else:
        dist.send(mine, group=d.group, group_dst=to, tag=tag)
        dist.recv(out, group=d.group, group_src=of, tag=tag)
    return lambda: same(out, xs[of])


def exchange(d):
    """Some pairs, at once."""
    pairs = [(a, b) for a in range(d.size) for b in range(d.size) if a != b and d.rng.integers(2)]
    xs, mine = d.arrays(MOVES)
    out = {a: smolder.zeros_like(mine) for a, b in pairs if b == d.me}
    ops = [dist.P2POp(dist.isend, mine, group=d.group, group_peer=b) for a, b in pairs if a == d.me]
    ops += [dist.P2POp(dist.irecv, t, group=d.group, group_peer=a) for a, t in out.items()]
    for work in dist.batch_isend_irecv(ops) if ops else []:
        work.wait()
    return lambda: [same(t, xs[a]) for a, t in out.items()]


def objects(d):
    """The tensors of all ranks, of uneven sizes."""
    return [{"rank": r, "list": list(range(int(d.rng.integers(5)))), "text": "x" * (3 * r)} for r in range(d.size)]


def all_gather_object(d):
    held, out = objects(d), [None] * d.size
    dist.all_gather_object(out, held[d.me], d.group)
    assert out == held
    return lambda: None


def gather_object(d):
    held, here = objects(d), d.me == d.root
    out = [None] * d.size if here else None
    dist.gather_object(held[d.me], out, group=d.group, group_dst=d.root)
    assert out == (held if here else None)
    return lambda: None


def broadcast_object_list(d):
    held = objects(d)
    out = list(held) if d.me == d.root else [None] * d.size
    dist.broadcast_object_list(out, group=d.group, group_src=d.root)
    assert out == held
    return lambda: None


def scatter_object_list(d):
    held, out = objects(d), [None]
    dist.scatter_object_list(out, held if d.me == d.root else None, group=d.group, group_src=d.root)
    assert out == [held[d.me]]
    return lambda: None


def barrier(d):
    wait(dist.barrier(**d.options))
    return lambda: None


KINDS = [
    all_reduce,
    all_reduce_average,
    all_reduce_coalesced,
    reduce,
    broadcast,
    all_gather,
    all_gather_into_tensor,
    all_gather_coalesced,
    gather,
    scatter,
    reduce_scatter,
    all_to_all,
    all_to_all_single,
    ring,
    exchange,
    all_gather_object,
    gather_object,
    broadcast_object_list,
    scatter_object_list,
    barrier,
]
# Those of objects and the barrier end the step: a tenth of what is drawn.
WEIGHTS = np.array([0.9 / 15] * 15 + [0.1 / 5] * 5)


def program_random(rank, size):
    """Programs of collectives over random groups, reads and steps between them."""
    programs, seed = int(os.environ["PROGRAMS"]), int(os.environ.get("SEED", "0"))
    shared = rng_of(seed, 12345)
    groups = [dist.group.WORLD]
    for _ in range(4):
        ranks = sorted(int(r) for r in shared.choice(size, shared.integers(1, size + 1), replace=False))
        groups.append(dist.new_group(ranks))
    drawn = dict.fromkeys((k.__name__ for k in KINDS), 0)
    for p in range(programs):
        rng, own = rng_of(seed, p), rng_of(seed, p, rank)
        checks = []
        for i in range(int(rng.integers(1, 8))):
            group, kind = groups[rng.integers(len(groups))], KINDS[rng.choice(len(KINDS), p=WEIGHTS)]
            if isinstance(group, dist.ProcessGroup):
                drawn[kind.__name__] += 1
                checks.append(kind(Draw((seed, p, i, 7), group)))
            if own.random() < 0.3 and checks:  # each rank ends its steps where it likes
                checks[own.integers(len(checks))]()
        for check in checks:
            check()
    print(f"{programs} programs,", ", ".join(f"{n} {name}" for name, n in drawn.items()), flush=True)
