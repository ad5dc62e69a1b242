"""Memory of CUDA: what is told of it under torch's names, what happens where there is none, and pinned memory."""

import collections
import contextlib
import itertools
import os
import subprocess
import sys
import types

import numpy as np
import pytest
from conftest import assert_same_bits
from test_cuda import on_a_device, without_a_device

import smolder
from smolder import cuda, nn

KINDS = ("current", "peak", "allocated", "freed")
MIB = 1 << 20


def used_up():
    """Nothing recorded, nothing waiting to be freed, no cached memory."""
    smolder.mark_step()
    cuda.synchronize()
    cuda.empty_cache()


@on_a_device
def test_statistics_have_torchs_names():
    stats = cuda.memory_stats()
    groups = ("allocation", "segment", "active", "inactive_split")
    groups += tuple(f"{g}_bytes" for g in ("allocated", "reserved", "active", "inactive_split", "requested"))
    for group, pool, kind in itertools.product(groups, ("all", "large_pool", "small_pool"), KINDS):
        assert isinstance(stats[f"{group}.{pool}.{kind}"], int)
    for one in ("num_alloc_retries", "num_ooms", "num_device_alloc", "num_device_free", "max_split_size"):
        assert isinstance(stats[one], int)
    assert list(stats) == sorted(stats)
    nested = cuda.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == stats["allocated_bytes.all.current"]


@on_a_device
def test_statistics_add_up():
    def held():
        kept = [smolder.ones(n, dtype=smolder.uint8, device="cuda") for n in (100, 5 * MIB, 3 * MIB, 70 * MIB)]
        smolder.mark_step()
        return kept

    held()  # the plan and what it keeps of its own
    smolder.mark_step()
    before = cuda.memory_stats()
    kept = held()

    def grown(name):
        return cuda.memory_stats()[f"{name}.current"] - before[f"{name}.current"]

    assert grown("allocation.all") == 4 and grown("requested_bytes.all") == 100 + 78 * MIB
    assert grown("allocated_bytes.all") == 512 + 78 * MIB == grown("active_bytes.all")
    assert grown("allocation.small_pool") == 1 and grown("allocated_bytes.large_pool") == 78 * MIB
    for name in (
        "allocation",
        "allocated_bytes",
        "requested_bytes",
        "segment",
        "reserved_bytes",
        "inactive_split_bytes",
    ):
        stats = cuda.memory_stats()
        for kind in KINDS:
            parts = sum(stats[f"{name}.{pool}.{kind}"] for pool in ("large_pool", "small_pool"))
            assert parts == stats[f"{name}.all.{kind}"] or kind == "peak"
        assert stats[f"{name}.all.allocated"] - stats[f"{name}.all.freed"] == stats[f"{name}.all.current"]
    stats = cuda.memory_stats()
    used, free = stats["allocated_bytes.all.current"], stats["inactive_split_bytes.all.current"]
    assert used + free <= cuda.memory_reserved() == stats["reserved_bytes.all.current"] <= cuda.max_memory_reserved()
    del kept
    used_up()
    assert grown("allocation.all") <= 0 and grown("requested_bytes.all") <= 0
    assert cuda.memory_stats()["num_device_free"] > before["num_device_free"]
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == cuda.memory_allocated()
    assert cuda.max_memory_reserved() == cuda.memory_reserved()
    cuda.reset_accumulated_memory_stats()
    stats = cuda.memory_stats()
    assert stats["allocation.all.freed"] == stats["num_ooms"] == 0
    with pytest.warns(FutureWarning, match="now calls smolder.cuda.memory_reserved"):
        assert cuda.memory_cached() == cuda.memory_reserved()


@on_a_device
def test_the_summary_is_a_table():
    lines = cuda.memory_summary().splitlines()
    assert len({len(line) for line in lines}) == 1 and len(lines) == 47
    assert lines[0] == "|" + "=" * 75 + "|" and "device ID 0" in lines[1] and "CUDA OOMs:" in lines[3]
    assert "| Allocated memory      |" in cuda.memory_summary(abbreviated=True)
    assert len(cuda.memory_summary(abbreviated=True).splitlines()) == 29


@on_a_device
def test_a_part_of_the_memory_may_be_had():
    total = cuda.mem_get_info()[1]
    used_up()
    fraction = (cuda.memory_reserved() + 100 * MIB) / total
    cuda.set_per_process_memory_fraction(fraction)
    try:
        assert cuda.get_per_process_memory_fraction() == pytest.approx(fraction, rel=1e-3)
        x = smolder.ones(10 * MIB, dtype=smolder.uint8, device="cuda")
        smolder.mark_step()
        with pytest.raises(cuda.OutOfMemoryError, match="this process may have"):
            smolder.ones(200 * MIB, dtype=smolder.uint8, device="cuda").tolist()
        assert x.sum().item() == 10 * MIB
    finally:
        cuda.set_per_process_memory_fraction(1.0)
    assert smolder.ones(200 * MIB, dtype=smolder.uint8, device="cuda")[-1].item() == 1
    with pytest.raises(TypeError, match="must be `float`"):
        cuda.set_per_process_memory_fraction(1)
    with pytest.raises(ValueError, match="Allowed range: 0~1"):
        cuda.set_per_process_memory_fraction(1.5)


@pytest.fixture
def without_graphs():
    """Which keep memory of their own."""
    smolder._core._cuda_set_graphs(False)
    yield
    smolder._core._cuda_set_graphs(True)


@on_a_device
def test_memory_of_plans_grows_in_its_place(without_graphs):
    def held(*sizes):
        used_up()
        cuda.reset_peak_memory_stats()
        for n in sizes:
            x = smolder.ones(n, device="cuda")
            x.cumsum(0).flip(0).cumsum(0).sum().item()
            del x
        return cuda.memory_allocated(), cuda.max_memory_allocated()

    alone = held(6 * MIB)
    for sizes in ((5 * MIB, 6 * MIB), (6 * MIB, 5 * MIB)):
        now = held(*sizes)
        assert now[0] < alone[0] + MIB and now[1] < alone[1] + MIB, (sizes, now, alone)


@on_a_device
def test_out_of_memory_is_torchs_error():
    total = cuda.mem_get_info()[1]
    assert cuda.OutOfMemoryError is smolder.OutOfMemoryError
    for caught in (cuda.OutOfMemoryError, RuntimeError, MemoryError):
        with pytest.raises(caught, match=r"CUDA out of memory\. Tried to allocate"):
            smolder.empty(total, 2, dtype=smolder.uint8, device="cuda").add_(1).tolist()
    assert smolder.ones(3, device="cuda").tolist() == [1, 1, 1]


def classifier():
    smolder.manual_seed(0)
    model = nn.Sequential(nn.Embedding(10, 4), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 10)).cuda()
    return model, smolder.optim.AdamW(model.parameters(), lr=0.1)


def train(model, optimizer, batch):
    tokens = smolder.tensor(np.arange(batch) * 7 % 10, device="cuda")
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens).sort(-1)[0], tokens)
    loss.backward()
    optimizer.step()
    smolder.mark_step()
    return loss


def state(model, optimizer):
    tensors = [*model.parameters(), *(t for s in optimizer.state.values() for t in s.values())]
    return [t.detach().cpu().numpy().copy() for t in tensors if isinstance(t, smolder.Tensor)]


@on_a_device
@pytest.mark.parametrize("warm", [1, 2, 6])
def test_any_allocation_of_a_step_may_fail(warm):
    """A first step fails, a known one, and one that is a graph: parameters are what they were, and training goes on."""
    model, optimizer = classifier()
    for _ in range(warm):
        train(model, optimizer, 40)
    for n in itertools.count(1):
        if warm == 1:
            smolder.forget_traces()
        before = state(model, optimizer)
        smolder._core._fail_allocation_after(n)
        try:
            train(model, optimizer, 40)
            break  # there was no such allocation
        except smolder.OutOfMemoryError:
            smolder._core._fail_allocation_after(0)
            for old, new in zip(before, state(model, optimizer), strict=True):
                assert_same_bits(old, new, f"allocation {n} failed")
        finally:
            smolder._core._fail_allocation_after(0)
    assert n > 2
    assert np.isfinite(train(model, optimizer, 8).item())


# -- pinned memory


@without_a_device
def test_without_a_device_nothing_is_pinned():
    x = smolder.ones(2)
    assert not x.is_pinned()
    for pin in (x.pin_memory, lambda: smolder.ones(2, pin_memory=True)):
        with pytest.raises(RuntimeError, match="Cannot access accelerator device when none is available"):
            pin()
    with pytest.warns(UserWarning, match="no accelerator is found"):
        assert not next(iter(smolder.utils.data.DataLoader(range(2), pin_memory=True))).is_pinned()


@on_a_device
def test_tensors_are_pinned():
    x = smolder.arange(6.0).reshape(2, 3)
    pinned = x.pin_memory()
    assert pinned.is_pinned() and not x.is_pinned() and pinned.tolist() == x.tolist()
    assert pinned.pin_memory() is pinned and pinned.is_cpu and not pinned.cuda().is_pinned()
    address = pinned.data_ptr()
    pinned += 1
    pinned[0].zero_()
    assert pinned.is_pinned() and pinned.data_ptr() == address and pinned.tolist() == [[0, 0, 0], [4, 5, 6]]
    assert pinned.t().is_pinned() and not (pinned * 1).is_pinned() and not pinned.clone().is_pinned()
    pinned.copy_(x.cuda(), non_blocking=True)
    assert pinned.is_pinned() and pinned.numpy().tolist() == x.tolist()
    with pytest.raises(RuntimeError, match="only dense CPU tensors can be pinned"):
        x.cuda().pin_memory()
    for made in (
        smolder.empty(3, pin_memory=True),
        smolder.tensor([1, 2, 3], pin_memory=True),
        smolder.zeros_like(x, pin_memory=True),
        smolder.randn(3, pin_memory=True, requires_grad=True),
    ):
        assert made.is_pinned() and made.is_leaf
    assert made.requires_grad
    with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
        smolder.empty(3, pin_memory=True, device="cuda")
    leaf = smolder.ones(3, requires_grad=True)
    (leaf.pin_memory().cuda(non_blocking=True) * 3).sum().backward()
    assert leaf.grad.tolist() == [3, 3, 3]


def keep_busy(products):
    """Queues work that a device takes a while for."""
    x = smolder.ones(*([100 if cuda.get_device_name() == "CUDA on the host" else 2000] * 2), device="cuda")
    for _ in range(products):
        x = (x @ x).tanh()
    smolder.mark_step()


@on_a_device
def test_pinned_memory_is_not_used_again_before_it_was_read():
    got, count = [], 20
    for i in range(count):
        keep_busy(3)
        got.append(smolder.full((MIB,), float(i)).pin_memory().to("cuda", non_blocking=True))
        smolder.mark_step()
    assert [t.sum().item() for t in got] == [float(i) * MIB for i in range(count)]
    stats = cuda.host_memory_stats()
    assert stats["active_bytes.current"] <= stats["allocated_bytes.current"] and stats["num_host_alloc"] >= 1
    held = smolder.ones(MIB).pin_memory()
    assert cuda.host_memory_stats()["active_bytes.current"] >= 4 * MIB
    del held
    used_up()
    assert cuda.host_memory_stats()["allocated_bytes.current"] == 0


@on_a_device
def test_without_non_blocking_pinned_memory_may_be_written_at_once():
    pinned = smolder.zeros(MIB, pin_memory=True)
    keep_busy(20)
    there = pinned.cuda()
    pinned.fill_(7)
    assert there.sum().item() == 0


Point = collections.namedtuple("Point", "x y")


class Batch:
    def __init__(self, x):
        self.x = x

    def pin_memory(self):
        self.x = self.x.pin_memory()
        return self


@on_a_device
@pytest.mark.parametrize("workers", [0, 2])
def test_a_loader_pins_what_it_gives(workers):
    data = [{"x": np.ones(3, np.float32), "y": (i, Point(i, [1.0])), "name": "n"} for i in range(4)]
    with smolder.device("cpu"):
        loader = smolder.utils.data.DataLoader(data, batch_size=2, pin_memory=True, num_workers=workers)
        batches = list(loader)
    assert len(batches) == 2
    for batch in batches:
        assert batch["x"].is_pinned() and batch["y"][0].is_pinned() and batch["name"] == ["n", "n"]
        assert isinstance(batch["y"][1], Point) and batch["y"][1].x.is_pinned() and batch["y"][1].y[0].is_pinned()
        assert batch["x"].cuda(non_blocking=True).tolist() == [[1, 1, 1]] * 2
    one = smolder.utils.data.DataLoader(
        [1.0, 2.0], batch_size=2, pin_memory=True, collate_fn=lambda b: Batch(smolder.tensor(b))
    )
    assert next(iter(one)).x.is_pinned()
    kept = types.SimpleNamespace(a=1)
    assert smolder.utils.data.pin_memory.pin_memory(kept) is kept


@on_a_device
@pytest.mark.parametrize("pin", [False, True])
def test_what_backward_needs_may_wait_on_the_host(pin):
    def gradient(scope):
        smolder.manual_seed(0)
        x = smolder.randn(50, 50, device="cuda", requires_grad=True)
        with scope:
            y = (x.exp() @ x.sigmoid()).tanh().sum()
        y.backward()
        return x.grad.cpu().numpy()

    kept = gradient(contextlib.nullcontext())
    assert_same_bits(gradient(smolder.autograd.graph.save_on_cpu(pin_memory=pin)), kept)


GROWING = """
import smolder
from smolder import cuda

def work(x):
    for _ in range(3):
        x = smolder.softmax((x @ x).relu() + x.sum(0), 1)
    return x.sum()

def graphs():
    counters = smolder.metrics()["counters"]
    return counters["graphs.captured"], counters["graphs.replayed"]

small, large = (smolder.ones(n, n, device="cuda") for n in (64, 1024))
held = []
for _ in range(5):
    value = work(small).item()
captured, replayed = graphs()
before = cuda.memory_allocated()
work(large).item()
assert cuda.memory_allocated() >= before + (4 << 20), "the plan kept nothing from one kernel to another"
assert work(small).item() == value
print(captured, graphs()[0] - captured, graphs()[1] - replayed)
cuda.empty_cache()
assert cuda.memory_allocated() < before + (4 << 20) and work(small).item() == value
"""


@on_a_device
@pytest.mark.parametrize("maps", [True, False], ids=["", "where memory cannot be mapped"])
def test_graphs_stay_right_while_memory_of_plans_grows(maps):
    environment = {**os.environ, "SMOLDER_CUDA_HOST_MAPS": str(int(maps))}
    ran = subprocess.run([sys.executable, "-c", GROWING], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    captured, more, replayed = map(int, ran.stdout.split())
    assert captured == 1
    if maps:
        assert (more, replayed) == (0, 1)
