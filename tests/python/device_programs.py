"""Programs of collectives on devices: which memory they take, and what goes on beside them. See distributed_programs.py."""

import numpy as np
from random_collectives import same

import smolder
from smolder import distributed as dist


def counters():
    return smolder.metrics()["counters"]


def program_freed(rank, size):
    """Reductions whose parts are read late, as an optimizer reads them, go on beside what is computed, and their whole
    operands are not all kept until the end."""
    count, n = 20, 1 << 22  # of 16 MiB each
    base = (smolder.arange(n) % 7).float()

    def step():
        parts, x = [], base * (rank + 1.0)
        for _ in range(count):
            x = x + x.mean()  # which no kernel joins with the next
            parts.append(smolder.zeros(n // size))
            dist.reduce_scatter_tensor(parts[-1], x, async_op=True).wait()
        return smolder.stack([part[:7] for part in parts])

    found = step().cpu().numpy()
    expected, shift = (np.arange(rank * (n // size), rank * (n // size) + 7) % 7), 0.0
    for k in range(count):
        shift += 3.0 + shift
        np.testing.assert_allclose(found[k], (expected + shift) * sum(range(1, size + 1)), 1e-4)
    whole, taken = 4 * n, smolder.memory.arenas()[0][1]
    assert taken < count * whole // size + 7 * whole, (taken, whole)
    assert all(c.beside for c in smolder.explain(step)().collectives[:-1])


def program_updated(rank, size):
    """Reductions that are waited for early, as of many gradients, update a tensor in its own memory."""
    count, n = 4, 1 << 23  # of 32 MiB each
    base, weights = (smolder.arange(n) % 7).float(), [smolder.zeros(n // size) for _ in range(4)]

    def step():
        parts, x = [], base * (rank + 1.0)
        for _ in range(count):
            x = x + x.mean()
            parts.append(smolder.zeros(n // size))
            dist.reduce_scatter_tensor(parts[-1], x, async_op=True).wait()
        for w, part in zip(weights, parts, strict=True):
            w -= part
        smolder.mark_step()

    for _ in range(3):
        step()
    before = counters()["memory.donated"]
    step()
    assert counters()["memory.donated"] - before == count
    shift = 0.0
    for w in weights:
        shift += 3.0 + shift
        expected = -4.0 * (np.arange(rank * (n // size), rank * (n // size) + 7) % 7 + shift) * sum(range(1, size + 1))
        np.testing.assert_allclose(w[:7].cpu().numpy(), expected, 1e-4)


def program_overlap(rank, size):
    """A device waits for a collective where the result is needed, and explain says what it did meanwhile."""
    w = smolder.full([32, 32], 0.01)

    def step():
        y = smolder.full([1000], 1.0 + rank)
        work = dist.all_reduce(y, async_op=True)
        work.wait()
        z = w
        for _ in range(3):
            z = z @ w
        return z.sum() + y.sum()

    want = 1000.0 * sum(1.0 + r for r in range(size))
    assert abs(step().item() - want) < 1.0
    explanation = smolder.explain(step)()
    (c,) = explanation.collectives
    known = {(g.number, k.number): k for g in explanation.graphs for k in g.kernels}
    beside = [op.name for at in c.beside for op in known[at].ops]
    assert sum("matmul" in name for name in beside) == 3, (beside, explanation)
    assert c.what == "all_reduce(SUM) of float32[1000]" and c.bytes == 4000 and c.ms > 0 and c.waited_ms >= 0, c
    assert "1 collective:" in str(explanation), explanation


def program_in_place(rank, size):
    """A reduction that is begun has no copy of what only it reads, and one of what others read later."""
    n = 1 << 20
    for read_later in (False, True):
        part, base = smolder.zeros(n // size), (smolder.arange(n) % 7).float()

        def step(part=part, base=base, read_later=read_later):
            x = base * (rank + 1.0)
            work = dist.reduce_scatter_tensor(part, x, async_op=True)
            work.wait()
            return (x.sin() if read_later else part).sum()

        for _ in range(3):
            found = step().item()
        assert step().item() == found
        taken = smolder.memory.arenas()[0][1]  # which no later step takes again
        total = sum(range(1, size + 1))
        mine = np.arange(rank * (n // size), (rank + 1) * (n // size)) % 7 * float(total)
        same(part, mine.astype(np.float32))
        assert read_later or taken < 6 * n, (taken, n)  # the operand, and no copy of it


def program_strided(rank, size):
    """A device reads what a collective was begun with until it is waited for, also where that is a view."""
    n = 256
    base = smolder.arange(n * n).reshape(n, n).float() + rank
    whole = np.stack([(np.arange(n * n).reshape(n, n) + r).T[:, 1:] * 1.0 for r in range(size)])
    for _ in range(3):
        x, found = base.T[:, 1:], smolder.zeros(size, n, n - 1)
        work = dist.all_gather_into_tensor(found, x, async_op=True)
        others = smolder.zeros(n, n)  # of as much memory as a copy
        for _ in range(6):
            others = (others + 1.0) @ base * 1e-8
        work.wait()
        same(found, whole.astype(np.float32))
        others.sum().item()


def program_both(rank, size):
    """One group, two backends: each takes the tensors of its device."""
    for device in ("cpu", f"cuda:{rank}"):
        x = smolder.full([4], 1.0 + rank, device=device)
        dist.all_reduce(x)
        assert x.device == smolder.device(device)
        same(x, np.full(4, sum(1.0 + r for r in range(size)), np.float32))
    assert dist.get_backend_config() == "cpu:gloo,cuda:nccl"


def program_refused(rank, size):
    """Refuses what NCCL lacks, and what a group has no backend for."""
    import pytest

    x = smolder.ones(2, dtype=smolder.int32)
    with pytest.raises(ValueError, match=r"Cannot use ReduceOp\.BAND with NCCL"):
        dist.all_reduce(x, dist.ReduceOp.BAND)
    with pytest.raises(TypeError, match="not supported for NCCL process group: Short"):
        dist.all_reduce(x.short())
    with pytest.raises(RuntimeError, match="No backend type associated with device type cpu"):
        dist.all_reduce(x.cpu())
    with pytest.raises(ValueError, match="src is needed"):
        dist.recv(x)
    with pytest.raises(NotImplementedError, match="NCCL has no tags"):
        dist.send(x, (rank + 1) % size, tag=3)
    x = smolder.tensor([1, 2, 3], dtype=smolder.int16) + rank  # moved, though not reduced
    dist.broadcast(x, 1)
    same(x, np.array([2, 3, 4], np.int16))
    y = smolder.arange(12.0).reshape(3, 4).t()[1:]  # not row-major
    dist.all_reduce(y)
    same(y, size * np.arange(12, dtype=np.float32).reshape(3, 4).T[1:])
