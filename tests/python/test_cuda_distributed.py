"""Several processes, each with a device of CUDA: collectives by NCCL. What they run is in distributed_programs.py."""

import os
import re

import pytest
import test_distributed as cpu

from smolder import cuda
from smolder import distributed as dist

COUNT = cuda.device_count()
pytestmark = pytest.mark.skipif(
    COUNT < 2 or not dist.is_nccl_available(),
    reason=f"needs NCCL and two devices of CUDA, there are {COUNT} (SMOLDER_CUDA_HOST_DEVICES=3 emulates some)",
)
SIZE = min(COUNT, 3)


def run(program, size, **env):
    return cpu.run(program, size, **{"BACKEND": "nccl", **env})


@pytest.mark.parametrize(
    ("program", "size"),
    [
        ("dtypes,peers,functional", SIZE),
        ("steps,later,objects,barriers,unread", 2),
        ("ddp_more,overlap,in_place,freed,updated,strided", 2),
    ],
)
def test_program(program, size):
    run(program, size)


def test_failed_step():
    """It changes nothing on the rank where it failed, and the others hear of it."""
    run("changes_nothing", 2)


def test_both_backends():
    """Tensors on the CPU go by Gloo, those on a device by NCCL."""
    run("later,objects,both", 2, BACKEND="cpu:gloo,cuda:nccl")


def test_random_programs():
    run("random", SIZE, PROGRAMS=os.environ.get("SMOLDER_TEST_PROGRAMS", "8"))


def test_ddp():
    """Losses are those of one process with the whole batch."""
    assert re.search("bits (.*)", run("ddp", 2)[0])


@pytest.mark.skipif(SIZE < 3, reason="needs three devices")
def test_killed():
    """kill -9 of a rank while the others are in NCCL: they name it, and the collective."""
    errors, out = cpu.errors_of(cpu.start("killed", SIZE, BACKEND="nccl", TIMEOUT="1200"))
    assert set(errors) == {0, 1}, out
    for rank, text in errors.items():
        assert "rank 2 has left: it has ended" in text, text
        assert f"all_reduce(SUM) of float32[1000], number 6 of the default group, on rank {rank}" in text, text


def test_never_connects():
    """A rank that ends before the first collective is not waited for where the others connect."""
    errors, out = cpu.errors_of(cpu.start("first_gone", 2, BACKEND="nccl", TIMEOUT="1200"))
    assert "rank 1 has left" in errors.get(0, ""), out
