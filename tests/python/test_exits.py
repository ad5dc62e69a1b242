"""Processes that end while threads of theirs compute: by what they meant to end, never by a signal, and at once.

SMOLDER_TEST_EXITS is how often some at once end each way (2).
"""

import os
import signal
import subprocess
import sys

import pytest
from conftest import of_the_cpu

pytestmark = of_the_cpu("short processes make no contexts")

BUSY = """
import os, random, signal, sys, threading, time
import smolder

signal.signal(signal.SIGINT, signal.default_int_handler)  # which a process started in the background ignores

def computes():  # a kernel that is new each time
    n = 2
    while True:
        x = smolder.zeros(n, n)
        for _ in range(random.randrange(9)):
            x = x * 2 + smolder.rand(n, 1)
        x.sum().item()
        n += 1

def differentiates():  # through a function of Python
    class Twice(smolder.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2
        @staticmethod
        def backward(ctx, grad):
            return grad * 2
    while True:
        x = smolder.ones(8, requires_grad=True)
        Twice.apply(x).sum().backward()
        x.grad.tolist()

for f in (computes, computes, differentiates):
    threading.Thread(target=f, daemon=True).start()
time.sleep(random.random() * 0.2)
"""
ENDS = {
    "the last line": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "os._exit": ("os._exit(4)", 4),
    "an exception": ("raise ValueError", 1),
    "Ctrl-C": ("os.kill(os.getpid(), signal.SIGINT); time.sleep(600)", -signal.SIGINT),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(600)", -signal.SIGTERM),
}
TURNS = int(os.environ.get("SMOLDER_TEST_EXITS", "2"))
AT_ONCE, SECONDS = 3, 600  # beside each other, and until one that hangs is ended: a busy machine takes a minute


@pytest.mark.parametrize("how", ENDS)
def test_a_process_ends_as_it_means_to(how, tmp_path):
    """Also while kernels compile behind what runs, into a cache that they have in common."""
    line, status = ENDS[how]
    for turn in range(TURNS):
        behind = {"SMOLDER_COMPILE": "behind", "SMOLDER_CACHE_DIR": str(tmp_path)} if turn % 2 else {}
        started = [
            subprocess.Popen(
                [sys.executable, "-c", BUSY + line], stderr=subprocess.PIPE, text=True, env=os.environ | behind
            )
            for _ in range(AT_ONCE)
        ]
        for p in started:
            try:
                said = p.communicate(timeout=SECONDS)[1]
            finally:
                p.kill()
            assert p.returncode == status and "terminate" not in said, said
