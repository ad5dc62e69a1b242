"""Reports and traces of steps with collectives: `python seen_programs.py`. test_distributed_faults.py runs it."""

import os

import numpy as np

import smolder
from smolder import distributed as dist
from smolder import nn


def main():
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group("gloo")
    smolder.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4)), bucket_cap_mb=0.0001)
    optimizer = smolder.optim.SGD(model.parameters(), lr=0.1)
    x = smolder.ones(4, 8)

    def step():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        every = [smolder.zeros(2) for _ in range(size)]
        dist.all_gather(every, smolder.full([2], 1.0 + rank))
        part = smolder.zeros(3)
        if rank == 1:
            dist.send(smolder.arange(3.0), 0)
        else:
            dist.recv(part, 1)
        return loss.item(), smolder.stack(every).numpy()

    step()
    e = smolder.explain(step)()
    buckets = [c for c in e.collectives if c.bucket]
    named = [c.bucket for c in buckets]
    assert named == ["bucket 0: 1.bias, 1.weight", "bucket 1: 0.bias, 0.weight"], named
    whats = [c.what for c in e.collectives]
    assert "all_gather of float32[2]" in whats and any("receive" in w for w in whats) == (rank == 0), whats
    for c in e.collectives:
        assert c.ms >= c.hidden_ms >= 0 and c.waited_ms >= 0 and "seen_programs.py" in c.where, c
    # The first bucket was under way while the rest of the backward pass was computed; a plain call has nothing beside it.
    first, plain = buckets[0], next(c for c in e.collectives if c.what.startswith("all_gather"))
    beside = [k for g in e.graphs for k in g.kernels if (g.number, k.number) in first.beside]
    assert any("matmul" in op.name for k in beside for op in k.ops) and plain.beside == [], e.collectives
    assert plain.hidden_ms <= plain.ms and plain.waited_ms >= plain.ms - plain.hidden_ms - 1e-6, plain
    text = str(e)
    assert "collectives: " in text and "% hidden" in text and "bucket 0" in text, text
    assert "Collectives" in e.html() and len(e.to_dict()["collectives"]) == len(e.collectives)
    with smolder.record_trace(os.environ["TRACE"] + f".{rank}", inputs=True):
        _, every = step()
    np.testing.assert_array_equal(every, [[1.0 + r] * 2 for r in range(size)])
    dist.destroy_process_group()
    print("done", flush=True)


if __name__ == "__main__":
    main()
