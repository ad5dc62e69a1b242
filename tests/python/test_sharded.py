"""Meshes, sharded parameters, DTensors, checkpoints and pipelines, of several processes: see sharded_programs.py."""

import re
from pathlib import Path

import pytest
from test_distributed import errors_of, run, start

from smolder import distributed as dist

PROGRAMS = Path(__file__).with_name("sharded_programs.py")
pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="built without Gloo")


@pytest.mark.parametrize(
    ("program", "size"),
    [
        ("mesh,hsdp,dp_tp", 4),
        ("fsdp,fsdp_more", 2),
        ("fsdp_more,fsdp_recomputed,dtensor", 3),
        ("dtensor,tensor_parallel", 2),
        ("pipeline", 2),
        ("pipeline", 4),
    ],
)
def test_program(program, size):
    run(program, size, PROGRAMS)


def test_bits():
    bits = [re.search("bits (.*)", run("fsdp_bits", 2, PROGRAMS)[0])[1] for _ in range(2)]
    assert bits[0] == bits[1]


def losses_in(texts):
    return [[float(x) for x in re.search(r"losses \[(.*)\]", t)[1].split(",")] for t in texts]


def test_checkpoint(tmp_path):
    """Another number of processes goes on with the same losses."""
    folder = {"FOLDER": str(tmp_path / "checkpoint")}
    first = losses_in(run("save", 2, PROGRAMS, **folder))
    for size in (1, 3):
        for losses in losses_in(run("load", size, PROGRAMS, **folder)):
            assert losses == pytest.approx(first[0], abs=1e-5)


def test_checkpoint_killed(tmp_path):
    """A save that is cut off leaves the checkpoint before."""
    folder = {"FOLDER": str(tmp_path / "checkpoint")}
    errors, out = errors_of(start("save_killed", 3, PROGRAMS, **folder))
    assert set(errors) == {0, 2} and all("rank 1 has left" in text for text in errors.values()), out
    run("load_killed", 2, PROGRAMS, **folder)
