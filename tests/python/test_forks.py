"""Processes that fork while other threads compute: neither side waits for ever, and both go on as before."""

import os
import subprocess
import sys
import textwrap

import pytest
from conftest import of_the_cpu

pytestmark = of_the_cpu("a child of a fork has no devices")

SECONDS = 900  # until a process that hangs is ended: nothing here takes ten on a machine that has nothing else to do

BUSY = """
import os, sys, threading
import smolder

stop = threading.Event()

def trains():
    x, w = smolder.rand(64, 64), smolder.rand(64, 64, requires_grad=True)
    while not stop.is_set():
        loss = (x @ w).tanh().mean()
        loss.backward()
        with smolder.no_grad():
            w -= 0.1 * w.grad
            w.grad = None
        loss.item()

def compiles():  # another kernel each time
    n = 2
    while not stop.is_set():
        x = smolder.zeros(n, n)
        for _ in range(n % 13):
            x = x * 2 + smolder.rand(n, 1)
        x.sum().item()
        n += 1

def watches():
    while not stop.is_set():
        smolder.metrics(), smolder.rand(1000).tolist(), smolder.manual_seed(1), smolder.tensor([1.0, 2.0]) + 1

threads = [threading.Thread(target=f, daemon=True) for f in (trains, compiles, watches, trains)]
for t in threads:
    t.start()
smolder.set_printoptions()

def ended():
    stop.set()
    for t in threads:
        t.join()
    print("ended", flush=True)
    os._exit(0)  # the threads have left what they held
"""


def run(script, **environment):
    """Runs it beside busy threads; it is killed where it does not end."""
    env = {**os.environ, **environment}
    got = subprocess.run(
        [sys.executable, "-c", BUSY + textwrap.dedent(script) + "\nended()"],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=env,
        start_new_session=True,
    )
    assert got.returncode == 0 and got.stdout.endswith("ended\n"), got.stderr + got.stdout


@pytest.mark.parametrize(("threads", "compile"), [("1", "wait"), ("3", "wait"), ("3", "behind")])
def test_many_forks(threads, compile, tmp_path):
    run(
        """
        import signal, time
        for i in range(120):
            kept = smolder.ones(3) * i  # pending in both
            child = os.fork()
            if child == 0:
                signal.alarm(600)
                right = kept.tolist() == [i] * 3 and (smolder.rand(8, 8) @ smolder.rand(8, 8)).sum().item() > 0
                right = right and smolder.zeros(3 + i % 5).add(i).exp().shape[0] == 3 + i % 5
                smolder.metrics()
                os._exit(0 if right else 1)
            pid, status = os.waitpid(child, 0)
            assert status == 0, (i, status)
            assert kept.tolist() == [i] * 3
        """,
        SMOLDER_NUM_THREADS=threads,
        SMOLDER_COMPILE=compile,
        SMOLDER_CACHE_DIR=str(tmp_path),
    )


def test_workers_of_a_data_loader():
    run(
        """
        from smolder.utils.data import DataLoader, TensorDataset
        data = TensorDataset(smolder.arange(48).float())
        for _ in range(4):
            got = [n for (b,) in DataLoader(data, batch_size=8, num_workers=2) for n in b.tolist()]
            assert got == list(range(48)), got
        """
    )


@pytest.mark.parametrize("how", ["fork", "spawn", "forkserver"])
def test_other_ways_to_start_processes(how, tmp_path):
    (tmp_path / "square.py").write_text(
        "def square(n):\n    import smolder\n    return (smolder.arange(n) ** 2).tolist()\n"
    )
    run(
        f"""
        sys.path.insert(0, {str(tmp_path)!r})
        import multiprocessing, square
        with multiprocessing.get_context({how!r}).Pool(2) as pool:
            assert pool.map(square.square, range(6)) == [[i * i for i in range(n)] for n in range(6)]
        import subprocess
        assert subprocess.run(["true"], preexec_fn=int).returncode == 0
        """
    )


def test_a_process_that_forks_twice():
    run(
        """
        import signal
        child = os.fork()
        if child == 0:
            signal.alarm(600)
            for t in (threading.Thread(target=trains, daemon=True) for _ in range(2)):
                t.start()
            for _ in range(20):
                inner = os.fork()
                if inner == 0:
                    os._exit(int((smolder.ones(4) + 1).sum().item() != 8))
                assert os.waitpid(inner, 0)[1] == 0
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        """
    )
