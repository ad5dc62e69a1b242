"""Failures between processes; test_distributed.py has the rest."""

import os
import random
import subprocess
import sys
from pathlib import Path

import fault_campaign
import pytest
import test_distributed

from smolder import distributed as dist

HERE = Path(__file__).parent
MISMATCH = HERE / "mismatch_programs.py"
pytestmark = pytest.mark.skipif(not dist.is_gloo_available(), reason="built without Gloo")


@pytest.mark.parametrize(
    ("cases", "size"),
    [
        ("order,shape,dtype,op,root,kind,missing,missing_last,known,group,group_order,ring,new_group,late", 3),
        ("receive,received_shape", 2),
        ("missing,group_order", 4),
    ],
)
def test_mismatch(cases, size, tmp_path):
    """All ranks raise; the error names the rank, the collective, its number, shapes and the user's line."""
    test_distributed.run(cases, size, MISMATCH, FOLDER=str(tmp_path))


@pytest.mark.parametrize("compiling", ["wait", "behind"])
def test_failed_step_changes_nothing(compiling):
    test_distributed.run("changes_nothing", 2, SMOLDER_COMPILE=compiling)


def test_campaign():
    """A rank is killed, and one runs out of memory: the others say so, and what goes on from the checkpoint ends alike."""
    took, done = fault_campaign.campaign("ddp", ["kill", "memory"], random.Random(0), size=2)
    assert done == 2 and took["kill"][0] and took["memory"][0]


def test_explain_and_replay(tmp_path):
    """Reports say what collectives took and hid; a trace with collectives is replayed by one process alone."""
    test_distributed.run("", 2, HERE / "seen_programs.py", TRACE=str(tmp_path / "trace"))
    for rank in range(2):
        command = [sys.executable, "-m", "smolder", "replay", str(tmp_path / f"trace.{rank}"), "--check"]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=600, check=False, env={**os.environ, "COLUMNS": "200"}
        )
        assert done.returncode == 0 and "the same bits" in done.stdout, done.stdout + done.stderr
        assert "collectives alone" in done.stdout, done.stdout


def test_ray():
    """The example over Ray's actors, where Ray is: one is killed, and the rest go on from the checkpoint."""
    pytest.importorskip("ray", reason="Ray (pip install ray) is not here: examples/ray_elastic.py is not run")
    example = HERE.parents[1] / "examples" / "ray_elastic.py"
    runs = [[], ["--kill-at", "12"]]
    said = [
        subprocess.run(
            [sys.executable, str(example), "--workers", "2", *more],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        ).stdout
        for more in runs
    ]
    assert "going on with 1" in said[1] and "1 workers, from step 10" in said[1], said
    losses = [float(text.rpartition("loss ")[2]) for text in said]
    assert losses[0] == pytest.approx(losses[1], rel=1e-4), said
