"""The cache of kernels on a disk that fails: full, taken away, cut, locked, at its bound under several processes. The
user's step gives what it should, and no exception: what cannot be kept is compiled."""

import os
import subprocess
import sys

import pytest
from conftest import of_the_cpu

pytestmark = of_the_cpu("the cache is the same whatever it holds")

SCRIPT = """
import glob, os, resource, shutil, sqlite3, sys, threading
import numpy as np
import smolder
folder = os.environ["SMOLDER_CACHE_DIR"]
def files():  # but that which SQLite has in shared memory, whose loss no process survives
    found = glob.glob(os.path.join(folder, "**"), recursive=True)
    return [p for p in found if os.path.isfile(p) and not p.endswith("-shm")]
def steps(first, count):
    for k in range(first, first + count):
        x = np.random.default_rng(k).normal(size=(5, 7)).astype("float32")
        t = smolder.tensor(x)
        for i in range(k % 5 + 1):
            t = t * (i + 2) + t.amax(i % 2, keepdim=True)
            x = x * (i + 2) + x.max(i % 2, keepdims=True)
        np.testing.assert_allclose((t.sum(0) / 2**k).tolist(), x.sum(0) / 2**k, rtol=1e-4)
        smolder.mark_step()
steps(0, 2)
CONDITION
steps(2, 1)
steps(0, 3)
smolder.wait_for_compiles()
print(smolder.metrics()["counters"].get("kernels.compiled", 0), "done")
"""
CONDITIONS = {
    "a full disk": "resource.setrlimit(resource.RLIMIT_FSIZE, (max(map(os.path.getsize, files()), default=0),) * 2)",
    "a folder that is removed": "shutil.rmtree(folder)",
    "files that are cut": "[os.truncate(p, os.path.getsize(p) // 2) for p in files()]",
    "a database that somebody locks": """
locked = [sqlite3.connect(p, timeout=60) for p in files() if open(p, 'rb').read(6) == b'SQLite']
assert locked
[c.execute('BEGIN EXCLUSIVE') for c in locked]""",
    "a disk of few bytes from the start": "",
}


def start(folder, line, **more):
    env = os.environ | {"SMOLDER_CACHE_DIR": str(folder)} | more
    command = [sys.executable, "-c", SCRIPT.replace("CONDITION", line)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)


def ended(process):
    try:
        out, said = process.communicate(timeout=300)
    finally:
        process.kill()
    assert process.returncode == 0 and out.endswith("done\n"), out + said
    return int(out.split()[0])


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_step_gives_what_it_should(name, tmp_path):
    folder = tmp_path / "cache"
    ended(start(folder, CONDITIONS[name], **({"SMOLDER_CACHE_BYTES": "1"} if "few bytes" in name else {})))
    ended(start(folder, ""))  # what is left is read, or made anew


def test_processes_at_the_bound_of_the_cache(tmp_path):
    """Each throws out what another reads."""
    bound = {"SMOLDER_CACHE_BYTES": "60K"}
    started = [start(tmp_path, "", **bound, SMOLDER_COMPILE=compiles) for compiles in ("wait", "behind")]
    for process in started:
        ended(process)
