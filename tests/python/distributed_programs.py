"""Programs that test_distributed.py runs in several processes: `python distributed_programs.py NAME`.

With BACKEND=nccl they run on CUDA's devices, one a process.
"""

import os
import re
import signal
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

import device_programs
import numpy as np
import random_collectives
from device_programs import counters
from random_collectives import FLOATS, INTEGERS, NCCL, REDUCED, arrays, rng_of, same

import smolder
from smolder import distributed as dist
from smolder import nn
from smolder.distributed import _data_parallel

program_random = random_collectives.program_random


def program_dtypes(rank, size):
    for dtype in ["bool", *INTEGERS, *FLOATS]:
        xs = arrays(3, size, (5,), dtype)
        for op in REDUCED:
            x = smolder.tensor(xs[rank])
            if dtype in FLOATS and op.name[0] == "B":
                continue
            dist.all_reduce(x, op)
            if dtype == "bool":
                either = np.logical_xor.reduce(xs) if op.name == "BXOR" else np.any(xs, 0)
                want = either if op.name in ("SUM", "MAX", "BOR", "BXOR") else np.all(xs, 0)
            else:
                with np.errstate(all="ignore"):
                    want = REDUCED[op](xs)
            same(x, want)
    x = smolder.full([3], float(rank), dtype=smolder.bfloat16)
    dist.all_reduce(x, dist.ReduceOp.AVG)
    same(x, np.full(3, (size - 1) / 2, np.float32))
    if NCCL:  # whose largest of a nan and a number is the number
        return
    x = smolder.tensor([float("nan") if rank == 1 else 1.0])
    dist.all_reduce(x, dist.ReduceOp.MAX)
    assert np.isnan(x.item())


def program_steps(rank, size):
    """Collectives end no step, are kept where nobody reads them, and stay in order."""
    w = smolder.ones(8)
    for _ in range(3):
        w = w * 1.5
        dist.all_reduce(w)
        w = w / size
        w.cpu().numpy()
    before = counters()
    for _ in range(4):
        w = w + 1
        dist.all_reduce(w)
        dist.broadcast(w, 0)
        kept = w / size  # what nothing reads is done all the same: the others wait for it
        dist.all_reduce(smolder.full([2], float(rank)))
        w = kept
        w.cpu().numpy()
    after = counters()
    delta = {k: after[k] - before.get(k, 0) for k in after if isinstance(after[k], int)}
    assert delta["syncs"] == 4, delta["syncs"]
    assert delta["distributed.collectives"] == 12, delta
    assert delta.get("fallbacks", 0) == 0 and delta.get("steps.op_by_op", 0) == 0, delta
    # A step that was seen before is followed, and its plan is taken.
    assert delta["predictor.hits"] >= 2, delta

    # Several threads of ops hang on nothing but the order of the program.
    a, b = smolder.full([4], float(rank)), smolder.full([4], 10.0 * rank)
    for i in range(20):
        dist.all_reduce(a if i % 2 else b)
    same(a, np.full(4, sum(range(size)) * size**9, np.float32))
    same(b, np.full(4, 10.0 * sum(range(size)) * size**9, np.float32))


def program_later(rank, size):
    """async_op: the value is there after wait(), and where nobody waits."""
    x = smolder.full([3], 1.0 + rank)
    work = dist.all_reduce(x, async_op=True)
    assert work.wait() and work.is_completed() and work.is_success()
    same(x, np.full(3, sum(1.0 + r for r in range(size)), np.float32))
    assert work.result()[0] is x
    y = smolder.full([3], 1.0)
    dist.all_reduce(y, async_op=True)  # the handle is dropped
    same(y, np.full(3, size, np.float32))
    z = smolder.full([2], 2.0)
    future = dist.all_reduce(z, async_op=True).get_future().then(lambda f: f.value()[0] * 2)
    same(future.wait(), np.full(2, 4.0 * size, np.float32))
    with smolder.inference_mode():
        seen = smolder.full([2], 1.0 + rank)
        dist.all_reduce(seen)
        same(seen, np.full(2, sum(1.0 + r for r in range(size)), np.float32))
    with smolder.eager():
        seen = smolder.full([2], 1.0 + rank)
        dist.all_reduce(seen)
        dist.all_reduce(seen, async_op=True).wait()
        same(seen, np.full(2, size * sum(1.0 + r for r in range(size)), np.float32))
    weight = nn.Parameter(smolder.ones(2))
    dist.all_reduce(weight)  # in place, also of what requires a gradient
    same(weight, np.full(2, float(size), np.float32))
    many = [smolder.full([5], float(i)) for i in range(6)]
    works = [dist.all_reduce(t, async_op=True) for t in many]
    for w in reversed(works):
        w.wait()
    for i, t in enumerate(many):
        same(t, np.full(5, float(i) * size, np.float32))


def program_peers(rank, size):
    """Point to point."""
    right, left = (rank + 1) % size, (rank - 1) % size
    got = smolder.zeros(4)
    dist.send(smolder.full([4], float(rank)), right)  # all send first, and nobody is stuck
    assert dist.recv(got, left) == left
    same(got, np.full(4, float(left), np.float32))
    out = smolder.zeros(2, 3)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, smolder.full([2, 3], 7.0 + rank), left), dist.P2POp(dist.irecv, out, right)]
    )
    for w in works:
        w.wait()
    same(out, np.full((2, 3), 7.0 + right, np.float32))
    if NCCL:  # has no tags, and receives from who is named
        dist.barrier()
        return
    # Tags and order.
    first, second = smolder.zeros(1), smolder.zeros(1)
    dist.isend(smolder.tensor([1.0]), right, tag=5)
    dist.isend(smolder.tensor([2.0]), right, tag=6)
    b, a = dist.irecv(second, left, tag=6), dist.irecv(first, left, tag=5)
    a.wait(), b.wait()
    assert (first.item(), second.item()) == (1.0, 2.0)
    empty = smolder.zeros(0)
    dist.send(empty, right)
    dist.recv(empty, left)
    # From anybody.
    if rank == 0:
        seen = set()
        for _ in range(size - 1):
            x = smolder.zeros(1, dtype=smolder.int64)
            sender = dist.recv(x)
            assert x.item() == sender
            seen.add(sender)
        assert seen == set(range(1, size))
    else:
        dist.send(smolder.tensor([rank]), 0)
    dist.barrier()


def program_objects(rank, size):
    import pickle

    out = [None] * size
    dist.all_gather_object(out, {"rank": rank, "list": [1, "two"], "t": smolder.full([2], float(rank))})
    assert [o["rank"] for o in out] == list(range(size)) and out[1]["list"] == [1, "two"]
    same(out[1]["t"], np.full(2, 1.0, np.float32))
    objects = ["a", {"b": 2}] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects, 0)
    assert objects == ["a", {"b": 2}]
    got = [None]
    dist.scatter_object_list(got, [f"for {r}" for r in range(size)] if rank == 0 else None, 0)
    assert got == [f"for {rank}"]
    all_of = [None] * size if rank == 0 else None
    dist.gather_object(rank * 10, all_of, 0)
    assert rank != 0 or all_of == [10 * r for r in range(size)]
    if rank == 0:
        dist.send_object_list([1, "x"], 1)
    elif rank == 1:
        got = [None, None]
        assert dist.recv_object_list(got, 0) == 0 and got == [1, "x"]
    # Classes come only where they are asked for by name.
    try:
        dist.all_gather_object(out, timedelta(seconds=rank))
    except pickle.UnpicklingError as error:
        assert "allow_pickle" in str(error), error
    else:
        raise AssertionError("a pickle of any class was read")
    dist.allow_pickle()
    dist.all_gather_object(out, timedelta(seconds=rank))
    assert out == [timedelta(seconds=r) for r in range(size)]


def program_functional(rank, size):
    """Gradients of collectives."""
    from smolder.distributed.nn import functional as F

    x = smolder.full([3], 1.0 + rank, requires_grad=True)
    (F.all_reduce(x) * (rank + 1)).sum().backward()
    same(x.grad, np.full(3, sum(r + 1 for r in range(size)), np.float32))
    x = smolder.full([2], 1.0 + rank, requires_grad=True)
    sum((i + 1) * t.sum() for i, t in enumerate(F.all_gather(x))).backward()
    same(x.grad, np.full(2, float(size * (rank + 1)), np.float32))
    xs = [smolder.full([2], float(i), requires_grad=True) for i in range(size)]
    out = F.reduce_scatter(smolder.zeros(2), xs)
    same(out, np.full(2, float(size * rank), np.float32))
    (out * (rank + 1)).sum().backward()
    for i, t in enumerate(xs):
        same(t.grad, np.full(2, i + 1.0, np.float32))
    x = smolder.full([2], 3.0, requires_grad=True)
    y = F.broadcast(x, 0)
    (y * (rank + 1)).sum().backward()
    same(x.grad, np.full(2, float(sum(r + 1 for r in range(size))) if rank == 0 else 0.0, np.float32))
    x = smolder.arange(size, dtype=smolder.float32).requires_grad_()
    y = F.all_to_all_single(smolder.zeros(size), x)
    same(y, np.full(size, float(rank), np.float32))
    (y * smolder.tensor([float(10 * rank + r) for r in range(size)])).sum().backward()
    same(x.grad, np.array([10.0 * r + rank for r in range(size)], np.float32))
    x = smolder.full([2], 1.0 + rank, requires_grad=True)
    parts = F.gather(x, 0)
    sum((i + 2) * t.sum() for i, t in enumerate(parts)).backward()
    same(x.grad, np.full(2, rank + 2.0, np.float32))


def program_compiled(rank, size):
    """A function with collectives is not kept, and computes the same; DDP without buffers is kept."""

    @smolder.compile
    def mean(x):
        y = x * 2
        dist.all_reduce(y)
        return y / size

    for i in range(4):
        same(mean(smolder.full([3], float(rank + i))), np.full(3, 2 * (i + (size - 1) / 2), np.float32))
    plain = nn.parallel.DistributedDataParallel(Plain())
    model, optimizer = smolder.compile(plain), smolder.optim.SGD(plain.parameters(), lr=0.1)
    alone = Plain()
    alone.load_state_dict(plain.module.state_dict())
    before = counters()["compile.hits"]
    losses = train(model, size, 5, optimizer, of_part=rank)
    assert counters()["compile.hits"] - before >= 3, counters()["compile.hits"] - before
    alone_too = smolder.optim.SGD(alone.parameters(), lr=0.1)
    np.testing.assert_allclose(losses, train(alone, size, 5, alone_too), rtol=2e-5)


def program_groups(rank, size):
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (rank, size, "gloo")
    assert dist.is_initialized() and dist.get_process_group_ranks(dist.group.WORLD) == list(range(size))
    odd = dist.new_group(list(range(1, size, 2)))
    if rank % 2:
        assert dist.get_rank(odd) == rank // 2 and dist.get_global_rank(odd, rank // 2) == rank
        x = smolder.tensor([float(rank)])
        dist.all_reduce(x, group=odd)
        assert x.item() == sum(range(1, size, 2))
        dist.destroy_process_group(odd)
        try:
            dist.all_reduce(x, group=odd)
        except ValueError as error:
            assert "destroyed" in str(error)
    else:
        assert odd == dist.GroupMember.NON_GROUP_MEMBER and dist.get_rank(odd) == -1
        assert dist.all_reduce(smolder.ones(1), group=odd) is None
    own, every = dist.new_subgroups(2)
    assert len(every) == size // 2 and own.size() == 2
    x = smolder.tensor([float(rank)])
    dist.all_reduce(x, group=own)
    assert x.item() == (rank // 2) * 4 + 1
    dist.barrier()
    dist.monitored_barrier(timeout=timedelta(seconds=20))
    if rank == 0:
        try:
            dist.monitored_barrier(timeout=timedelta(seconds=0.5), wait_all_ranks=True)
        except RuntimeError as error:
            assert "1, 2, 3 failed to pass" in str(error), error
        else:
            raise AssertionError("nobody was missed")
    # Again, by the other ways to meet.
    dist.destroy_process_group()
    assert not dist.is_initialized()
    dist.init_process_group("gloo", init_method=os.environ["FILE_URL"], rank=rank, world_size=size)
    x = smolder.ones(2)
    dist.all_reduce(x)
    same(x, np.full(2, float(size), np.float32))
    dist.destroy_process_group()
    port = int(os.environ["MASTER_PORT"])
    dist.init_process_group("cpu:gloo", init_method=f"tcp://localhost:{port}", rank=rank, world_size=size)
    dist.all_reduce(x)
    same(x, np.full(2, float(size**2), np.float32))
    dist.destroy_process_group()
    store = dist.TCPStore("127.0.0.1", port, size, rank == 0)
    dist.init_process_group("gloo", store=dist.PrefixStore("mine", store), rank=rank, world_size=size)
    dist.all_reduce(x)
    same(x, np.full(2, float(size**3), np.float32))


# -- DistributedDataParallel


class Net(nn.Module):
    def __init__(self, unused=False):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)
        if unused:
            self.spare = nn.Linear(2, 2)

    def forward(self, x, spare=False):
        y = self.last(self.norm(self.first(x)).relu())
        return y + self.spare(x[:, :2]).sum() if spare else y


def data(step, rows):
    rng = rng_of(99, step)
    return rng.standard_normal((rows, 6)).astype(np.float32), rng.integers(0, 3, rows)


class Plain(nn.Module):
    """Without batch norm, whose statistics are of a part of the batch."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(self.a(x).tanh())


def train(model, parts, steps, optimizer=None, of_part=None, parts_a_step=1):
    """Losses of the whole batch: of this process alone, or the mean over processes."""
    optimizer = optimizer or smolder.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for step in range(steps):
        x, y = data(step, 4 * parts)
        if of_part is not None:
            x, y = x[4 * of_part : 4 * of_part + 4], y[4 * of_part : 4 * of_part + 4]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(smolder.tensor(x)), smolder.tensor(y))
        loss.backward()
        optimizer.step()
        total = loss.detach().clone()
        if of_part is not None:
            dist.all_reduce(total, dist.ReduceOp.AVG)
        losses.append(total)
    return [t.item() for t in losses]


def program_ddp(rank, size):
    smolder.manual_seed(rank)  # the copies differ at first
    model = nn.parallel.DistributedDataParallel(Plain(), bucket_cap_mb=0.0001)
    buckets = _data_parallel._reducers[model].buckets
    assert len(buckets) > 1 and sorted(i for b in buckets for i in b) == [0, 1, 2, 3]
    assert next(iter(model.state_dict())) == "module.a.weight"
    smolder.manual_seed(0)
    alone = Plain()
    for a, b in zip(model.parameters(), alone.parameters(), strict=True):
        same(a.detach(), b.detach().cpu().numpy())
    np.testing.assert_allclose(train(model, size, 12, of_part=rank), train(alone, size, 12), rtol=2e-5)
    # The copies are equal, bit for bit.
    for p in model.parameters():
        out = [smolder.zeros_like(p) for _ in range(size)]
        dist.all_gather(out, p.detach())
        for o in out:
            same(o, out[0].cpu().numpy())
    if rank == 0:
        print(
            "bits",
            smolder.cat([p.detach().reshape(-1) for p in model.parameters()]).cpu().numpy().tobytes().hex()[:4000],
        )
    # A step of DDP is one step: its collectives end none.
    optimizer = smolder.optim.SGD(model.parameters(), lr=0.1)
    train(model, size, 3, optimizer, of_part=rank)
    before = counters()["syncs"]
    train(model, size, 4, optimizer, of_part=rank)
    assert counters()["syncs"] - before <= 8, counters()["syncs"] - before


def program_ddp_more(rank, size):
    # Buffers are those of rank 0.
    smolder.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Net())
    model(smolder.full([4, 6], float(rank)))
    model(smolder.full([4, 6], float(rank)))
    means = [smolder.zeros(8) for _ in range(size)]
    dist.all_gather(means, model.module.norm.running_mean)
    counts = [smolder.zeros((), dtype=smolder.int64) for _ in range(size)]
    dist.all_gather(counts, model.module.norm.num_batches_tracked)
    assert [c.item() for c in counts] == [2] * size
    # no_sync adds up, and the next pass averages what came together.
    model = nn.parallel.DistributedDataParallel(Plain())
    x = smolder.full([2, 6], 1.0 + rank)
    with model.no_sync():
        model(x).sum().backward()
    own = model.module.b.bias.grad.clone()
    same(own, np.full(3, 2.0, np.float32))
    (model(x).sum() * (rank + 1)).backward()
    mean = np.mean([2.0 + 2.0 * (r + 1) for r in range(size)])
    same(model.module.b.bias.grad, np.full(3, mean, np.float32))
    # Unused parameters: an error that names them, or zeros of who does not use them.
    model = nn.parallel.DistributedDataParallel(Net(unused=True))
    try:
        model(smolder.ones(4, 6)).sum().backward()
    except RuntimeError as error:
        assert "spare.weight" in str(error), error
    else:
        raise AssertionError("the unused were not missed")
    model = nn.parallel.DistributedDataParallel(Net(unused=True), find_unused_parameters=True)
    model(smolder.ones(4, 6)).sum().backward()
    assert model.module.spare.weight.grad is None and model.module.last.bias.grad is not None
    model.zero_grad()
    model(smolder.ones(4, 6), spare=rank == 0).sum().backward()
    same(model.module.spare.bias.grad, np.full(2, 48.0 / size, np.float32))
    # Gradients in bfloat16.
    from smolder.distributed.algorithms.ddp_comm_hooks import default_hooks

    model = nn.parallel.DistributedDataParallel(Plain())
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)
    (model(smolder.ones(2, 6)).sum() * 1.001).backward()
    assert model.module.b.bias.grad.dtype == smolder.float32
    same(model.module.b.bias.grad, np.full(3, 2.0, np.float32))
    # Parameters that differ.
    try:
        nn.parallel.DistributedDataParallel(nn.Linear(2 + rank, 2))
    except RuntimeError as error:
        assert "the parameters of rank 1 are not those of rank 0" in str(error), error
    else:
        raise AssertionError("shapes differ")
    # Each process reads its own part.
    sampler = smolder.utils.data.DistributedSampler(range(10), shuffle=False)
    assert list(sampler) == [*range(10)][rank::size]


# -- what goes wrong


def expect(text, call):
    began = time.monotonic()
    try:
        call()
    except dist.DistBackendError as error:
        message = str(error)
    else:
        raise AssertionError(f"no error: {text}")
    assert text in message, message
    return time.monotonic() - began, message


def program_mismatch(rank, size):
    """Each pair of programs that differ ends in the named error, long before the timeout."""
    x = smolder.ones(3)
    smolder.mark_step()  # what a failed step made has no value
    cases = [
        (lambda g: dist.all_reduce(x, group=g), lambda g: dist.broadcast(x, group=g, group_src=0)),
        (lambda g: dist.all_reduce(x, group=g), lambda g: dist.all_reduce(smolder.ones(4), group=g)),
        (lambda g: dist.all_reduce(x, group=g), lambda g: dist.all_reduce(x.to(smolder.float64), group=g)),
        (lambda g: dist.all_reduce(x, group=g), lambda g: dist.all_reduce(x, dist.ReduceOp.MAX, group=g)),
        (lambda g: dist.broadcast(x, group=g, group_src=0), lambda g: dist.broadcast(x, group=g, group_src=1)),
    ]
    groups = [dist.new_group() for _ in cases]
    for (first, second), group in zip(cases, groups, strict=True):

        def run(first=first, second=second, group=group):
            (second if rank == 1 else first)(group)
            smolder.mark_step()

        took, message = expect("the ranks do not do the same", run)
        assert "number 1 of" in message and took < 8, (took, message)
        # It is of no use any more, and says so at once.
        assert expect("the ranks do not do the same", run)[0] < 0.5
    # Sizes of all_to_all that do not agree.
    group = dist.new_group()

    def sizes():
        n = 2 if rank == 0 else 1
        dist.all_to_all_single(
            smolder.zeros(size), smolder.zeros(size - 1 + n), [1] * size, [n] + [1] * (size - 1), group
        )
        smolder.mark_step()

    if size == 2:
        sizes = None
    if sizes:
        expect("the sizes differ", sizes)


def program_killed(rank, size):
    """One rank is killed within a step; the others say which, and where."""
    x = smolder.ones(1000)
    for i in range(200):
        if rank == 2 and i == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            dist.all_reduce(x)
            y = x / size
            y.cpu().numpy()
        except dist.DistBackendError as error:
            print("error", str(error).replace("\n", " "), flush=True)
            os._exit(7)
        x = y.detach()


def program_first_gone(rank, size):
    """A rank ends before the first collective."""
    if rank == 1:
        os._exit(5)
    try:
        dist.all_reduce(x := smolder.ones(10))
        x.cpu().numpy()
    except dist.DistBackendError as error:
        print("error", str(error).replace("\n", " "), flush=True)
        os._exit(7)


def program_stopped(rank, size):
    x = smolder.ones(10)
    dist.all_reduce(x)
    x.cpu().numpy()
    if rank == 1:
        print("stopped", flush=True)
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        dist.all_reduce(x)
        x.cpu().numpy()
    except dist.DistBackendError as error:
        print("error", str(error).replace("\n", " "), flush=True)
        os._exit(7)


def program_raises(rank, size):
    x = smolder.ones(10)
    dist.all_reduce(x)
    x.cpu().numpy()
    if rank == 1:
        raise LookupError("the data set is empty")
    try:
        dist.all_reduce(x)
        x.cpu().numpy()
    except dist.DistBackendError as error:
        print("error", str(error).replace("\n", " "), flush=True)
        os._exit(7)


def program_interrupted(rank, size):
    """Ctrl-C ends the wait for others; they are told."""
    import threading

    signal.signal(signal.SIGINT, signal.default_int_handler)  # which who runs tests in the background ignores
    x = smolder.ones(3)
    dist.all_reduce(x)
    x.cpu().numpy()
    told = Path(tempfile.gettempdir(), f"smolder_interrupted_{os.environ['MASTER_PORT']}")
    if rank == 1:
        while not told.exists():
            time.sleep(0.1)
        told.unlink()
    caught = threading.Event()

    def interrupt():  # again where Python dropped one, as it does with what is raised within a destructor
        while not caught.wait(2.0):
            os.kill(os.getpid(), signal.SIGINT)

    dist.all_reduce(x)
    try:
        if rank == 0:
            threading.Thread(target=interrupt, daemon=True).start()
        x.cpu().numpy()
    except KeyboardInterrupt:
        caught.set()
        print("error interrupted", flush=True)
        told.touch()
        try:
            x.cpu().numpy()
        except dist.DistBackendError as error:
            assert "it was interrupted within all_reduce" in str(error), error
        raise
    except dist.DistBackendError as error:
        print("error", str(error).replace("\n", " "), flush=True)
        os._exit(7)


def program_failed_step(rank, size):
    """A step with collectives that fails is rolled back whole, and never run again; the others hear of it."""
    x = smolder.ones(4)
    for turn in range(3):
        index = smolder.tensor([9 if rank == 1 and turn == 2 else 1])
        y = x * 1
        try:
            dist.all_reduce(y)
            y = y + smolder.arange(4, dtype=smolder.float32)[index]
            dist.all_reduce(y)
            y.cpu().numpy()
        except IndexError as error:
            assert rank == 1 and turn == 2 and "rolled back" in str(error), error
            same(x, np.ones(4, np.float32))
            print("error", str(error).replace("\n", " "), flush=True)
            os._exit(7)
        except dist.DistBackendError as error:
            print("error", str(error).replace("\n", " "), flush=True)
            os._exit(7)
    dist.all_reduce(x)
    try:
        x.cpu().numpy()
    except dist.DistBackendError as error:
        print("error", str(error).replace("\n", " "), flush=True)
        os._exit(7)


def program_changes_nothing(rank, size):
    """A step with collectives that fails leaves all as it was, on the ranks that hear of it too."""
    smolder.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4)), bucket_cap_mb=0.0001)
    optimizer = smolder.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    table, x = smolder.arange(12.0).reshape(3, 4), smolder.ones(2, 4)

    def step(place):
        optimizer.zero_grad()
        loss = model(x + table[smolder.tensor([place])]).square().mean()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach())
        return loss.item()

    def held():
        state = [s["momentum_buffer"] for s in optimizer.state.values()]
        return [t.detach().cpu().numpy().copy() for t in [*model.parameters(), *state]]

    step(0)
    step(1)
    before = held()
    try:
        step(7 if rank == 1 else 2)
        step(0)  # of a device the others may hear of it later
    except (IndexError, dist.DistBackendError) as error:
        text = str(error)
    else:
        raise AssertionError("no error")
    assert re.search("index (7 is )?out of (range|bounds)", text) and (rank == 1 or "rank 1 failed" in text), text
    dist._groups._forget()  # where the program waits for a device it is told again
    if rank == 1 or not NCCL:  # a device may have done the step when its program hears of it
        for a, b in zip(held(), before, strict=True):
            np.testing.assert_array_equal(a, b)
    print("done", flush=True)
    os._exit(0)


def program_restarted(rank, size):
    """Fails the first time."""
    x = smolder.ones(1)
    dist.all_reduce(x)
    assert x.item() == size
    if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and rank == 1:
        sys.exit(3)
    dist.barrier()
    print(f"rank {rank} of {size}, local {os.environ['LOCAL_RANK']}, args {sys.argv[2:]}", flush=True)


def program_barriers(rank, size):
    """A barrier between steps does not change where they end."""
    model = nn.Linear(8, 8)
    optimizer = smolder.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        dist.barrier()
        before = counters()["syncs"]
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(smolder.ones(2, 8)).square().mean()
            loss.backward()
            optimizer.step()
        assert counters()["syncs"] - before == 4
        loss.item()


def program_unread(rank, size):
    """A collective that is recorded and never read runs at the end, as the others wait for it."""
    x = smolder.ones(2)
    dist.all_reduce(x)
    if rank == 0:
        same(x, np.full(2, float(size), np.float32))


def main():
    name = sys.argv[1]
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if NCCL:
        smolder.cuda.set_device(rank)
        smolder.set_default_device(f"cuda:{rank}")
    dist.init_process_group(
        os.environ.get("BACKEND", "gloo"), timeout=timedelta(seconds=float(os.environ.get("TIMEOUT", "60")))
    )
    programs = vars(device_programs) | globals()
    for part in name.split(","):
        programs[f"program_{part}"](rank, size)
    if name != "unread":
        dist.destroy_process_group()
    print("done", flush=True)


if __name__ == "__main__":
    main()
