"""Meshes, sharded parameters, DTensors, checkpoints and pipelines, of several processes: see sharded_programs.py."""

import os
import random
import re
import subprocess
import sys
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
        ("fsdp,fsdp_more,fsdp_dropped", 2),
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


def test_example(tmp_path):
    """Four processes have the losses of one, and one goes on where they ended."""
    example = str(PROGRAMS.parents[2] / "examples" / "parallel_gpt.py")
    given = [example, "--steps", "20", "--checkpoint"]
    four = [sys.executable, "-m", "smolder.distributed.run", "--nproc-per-node", "4", *given, str(tmp_path / "four")]
    env = {**os.environ, "SMOLDER_NUM_THREADS": "1"}
    said = [
        subprocess.run(c, capture_output=True, text=True, timeout=120, check=True, env=env).stdout
        for c in (
            [*four, "--mesh", "dp=2,tp=2"],
            [sys.executable, *given, str(tmp_path / "one")],
            [sys.executable, *given, str(tmp_path / "four")],
        )
    ]
    losses = [[float(x) for x in re.findall(r"loss ([\d.]+)", text)] for text in said]
    assert len(losses[0]) == 2 and losses[0] == pytest.approx(losses[1], abs=2e-3), said
    assert "step 40" in said[2] and losses[2][1] < losses[0][1], said


@pytest.mark.parametrize(("kind", "signal"), [("fsdp", "SIGKILL"), ("pipeline", "SIGKILL"), ("tensor", "SIGSTOP")])
def test_faults(kind, signal):
    """A rank that is killed or stopped at any moment is named by all others, in time. SMOLDER_TEST_FAULTS: how often."""
    rng = random.Random(f"{kind} {os.environ.get('SEED', 0)}")
    size = 2 if kind == "tensor" else 3
    for _ in range(int(os.environ.get("SMOLDER_TEST_FAULTS", "1"))):
        victim, wait = rng.randrange(size), rng.uniform(0, 0.5)
        given = {"KIND": kind, "SIGNAL": signal, "VICTIM": str(victim), "WAIT": str(wait)}
        given["TIMEOUT"] = "5" if signal == "SIGSTOP" else "60"
        processes = start("faults", size, PROGRAMS, **given)
        others = [p for r, p in enumerate(processes) if r != victim]
        try:
            texts = [p.communicate(timeout=120)[0] for p in others]
        except subprocess.TimeoutExpired:
            pytest.fail(f"{given}: a rank waits for ever")
        finally:
            for p in processes:
                p.kill()
                p.wait()
        for text in texts:
            found = re.search(r"^error (.*) after ([-\d.]+) s$", text, re.M)
            assert found and f"rank {victim}" in found[1] and float(found[2]) < 20, (given, text[-4000:])
