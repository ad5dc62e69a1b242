"""Programs that differ from rank to rank: each ends in a named error on all of them. test_distributed_faults.py runs it.

`python mismatch_programs.py CASES`: rank 1 does the second of a case, the others do the first.
"""

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np

import smolder
from smolder import distributed as dist

RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])


def ones(*shape, dtype=smolder.float32):
    return smolder.ones(*shape, dtype=dtype)


def reduce(n, groups=None, op=dist.ReduceOp.SUM, dtype=smolder.float32):
    dist.all_reduce(ones(n, dtype=dtype), op, group=groups)


def order(g, first, second):
    for name in (first, second):
        dist.all_reduce(ones(3), group=g[name]) if name in g else dist.broadcast(ones(3), 0)


def cast(root):
    dist.broadcast(ones(3), root)
    reduce(3)  # a root waits for nobody, and goes on


def receive(_):
    dist.recv(ones(3), 1)


def send(n):
    dist.send(ones(n), 0)


def leave(_):
    reduce(3)
    smolder.mark_step()
    dist.destroy_process_group()


def again(last):
    """The same with plans that were all used before."""
    for n in (3, 4, 3, 4, 3, last):
        reduce(n)
        smolder.mark_step()


def ring(g):
    dist.all_reduce(ones(2), group=g[("a", "b", "c")[RANK]])


SAME = "the ranks do not do the same"
CIRCLE = "the ranks do not do the same, and wait for each other"
# The calls of the others, the call of rank 1, the message, and its subject.
CASES = {
    "order": (lambda g: order(g, "all", "broadcast"), lambda g: order(g, "broadcast", "all"), SAME, "number 1 of"),
    "shape": (lambda g: reduce(3), lambda g: reduce(4), SAME, r"float32[3]"),
    "dtype": (lambda g: reduce(3), lambda g: reduce(3, dtype=smolder.float64), SAME, "float64[3]"),
    "op": (lambda g: reduce(3), lambda g: reduce(3, op=dist.ReduceOp.MAX), SAME, "all_reduce(MAX)"),
    "root": (lambda g: cast(0), lambda g: cast(1), SAME, "from rank"),
    "kind": (lambda g: reduce(3), lambda g: dist.barrier(), SAME, "barrier"),
    "missing": (lambda g: (reduce(3), reduce(4), reduce(5)), lambda g: (reduce(3), reduce(5)), SAME, "number 2 of"),
    "missing_last": (lambda g: (reduce(3), reduce(3)), leave, SAME, "barrier"),
    "known": (lambda g: again(4), lambda g: again(3), SAME, "number 6 of"),
    "group": (lambda g: reduce(3, g["all"]), lambda g: reduce(3, g["also"]), CIRCLE, "number 1 of"),
    "group_order": (lambda g: order(g, "all", "also"), lambda g: order(g, "also", "all"), CIRCLE, "number 1 of"),
    "receive": (lambda g: receive(g) if RANK == 0 else reduce(3), lambda g: reduce(3), CIRCLE, "receive of float32[3]"),
    "received_shape": (
        lambda g: (receive(g) if RANK == 0 else None, reduce(3)),
        lambda g: (send(4), reduce(3)),
        CIRCLE,
        "receive of float32[3]",
    ),
    "ring": (ring, ring, CIRCLE, "number 1 of"),
    "new_group": (lambda g: reduce(3), lambda g: dist.new_group(), CIRCLE, "making"),
}
NEEDS_GROUPS = {"order", "group", "group_order", "ring"}


def groups_of(name):
    if name not in NEEDS_GROUPS:
        return {}
    made = {"all": dist.new_group(), "also": dist.new_group()}
    if SIZE == 3:
        made |= {"a": dist.new_group([0, 1]), "b": dist.new_group([1, 2]), "c": dist.new_group([0, 2])}
    return made


def mismatch(name):
    first, second, text, of = CASES[name]
    groups = groups_of(name)
    began = time.monotonic()
    try:
        (second if RANK == 1 else first)(groups)
        smolder.mark_step()
    except dist.DistBackendError as error:
        message = str(error)
    else:
        raise AssertionError(f"{name}: no error")
    took = time.monotonic() - began
    here = Path(__file__).name
    for part in (text, of, "rank 1", here):
        assert part in message, (name, part, message)
    assert took < 6, (name, took, message)
    if not dist.is_initialized():
        return
    try:  # it is of no use any more, and says so
        reduce(3)
        smolder.mark_step()
    except dist.DistBackendError as error:
        assert text in str(error), (name, error)
    else:
        raise AssertionError(f"{name}: no second error")


def late(_):
    """Ranks that wait for one that is late, each elsewhere, are no circle."""
    groups = groups_of("ring")
    if RANK == 0:
        time.sleep(1.2)
        dist.send(ones(2), 1)
    elif RANK == 1:
        x = smolder.zeros(2)
        dist.recv(x, 0)
        dist.all_reduce(x, group=groups["b"])
        dist.send(x, 0)
    else:
        dist.all_reduce(ones(2), group=groups["b"])
    if RANK == 0:
        x = smolder.zeros(2)
        dist.recv(x, 1)
        np.testing.assert_array_equal(x.numpy(), np.full(2, 2.0))
        time.sleep(0.7)
    x = ones(3)
    dist.broadcast(x, 0)
    dist.all_reduce(x)
    np.testing.assert_array_equal(x.numpy(), np.full(3, float(SIZE)))


def main():
    folder = os.environ["FOLDER"]
    for name in sys.argv[1].split(","):
        dist.init_process_group(
            "gloo", init_method=f"file://{folder}/{name}", rank=RANK, world_size=SIZE, timeout=timedelta(seconds=60)
        )
        late(name) if name == "late" else mismatch(name)
        if dist.is_initialized():
            dist.destroy_process_group()
    print("done", flush=True)


if __name__ == "__main__":
    main()
