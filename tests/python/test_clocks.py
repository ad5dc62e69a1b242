"""The wall clock is set while a program runs: forward and back by years, all the time. What waits, ages, measures or
names files by it would hang, throw away what is in use, or report nonsense.

A library that is loaded first adds to the C library's clock what a file says. The clocks that nobody sets stay.
"""

import os
import shutil
import subprocess
import sys

import pytest
from conftest import of_the_cpu

pytestmark = of_the_cpu("clocks are the host's")

SHIM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long offset(void) {
  static volatile long* seconds;
  if (!seconds) {
    int file = open(getenv("TEST_CLOCK"), O_RDONLY);
    seconds = mmap(0, sizeof(long), PROT_READ, MAP_SHARED, file, 0);
    close(file);
  }
  return *seconds;
}
int clock_gettime(clockid_t clock, struct timespec* out) {
  long code = syscall(SYS_clock_gettime, clock, out);
  if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE) out->tv_sec += offset();
  return code;
}
int gettimeofday(struct timeval* out, void* zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t* out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"""

# The clock jumps between these, in seconds; none is twice in a row.
JUMPS = [0, 10 * 31_536_000, -20 * 31_536_000, 3600, -3600, 86_400 * 400]

HEAD = f"""
import os, struct, sys, threading, time
clock = os.open(os.environ["TEST_CLOCK"], os.O_RDWR)
def jump(seconds): os.pwrite(clock, struct.pack("l", seconds), 0)
JUMPS = {JUMPS}
stop = threading.Event()
def jumps():
    n = 0
    while not stop.wait(0.003):
        jump(JUMPS[n := (n + 1) % len(JUMPS)])
before = time.time(); jump(10**9); assert time.time() > before + 10**8; jump(0)  # the clock can be set at all
thread = threading.Thread(target=jumps)
thread.start()
import smolder
"""
TAIL = "\nstop.set(); thread.join(); print('done')\n"


@pytest.fixture(scope="module")
def shim(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if not compiler:
        pytest.skip("there is no C compiler")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "clock.c").write_text(SHIM)
    command = [compiler, "-shared", "-fPIC", "-o", str(folder / "clock.so"), str(folder / "clock.c")]
    subprocess.run(command, check=True)
    return folder / "clock.so"


def run(shim, folder, script, **environment):
    (folder / "clock").write_bytes(bytes(8))
    (folder / "script.py").write_text(HEAD + script + TAIL)
    env = os.environ | {"LD_PRELOAD": str(shim), "TEST_CLOCK": str(folder / "clock")} | environment
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=env, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0 and done.stdout.endswith("done\n"), done.stdout + done.stderr
    return done.stdout


def test_loaders_with_timeouts(shim, tmp_path):
    """A batch takes less than the timeout by far; a worker that hangs is told of, after the timeout and no later."""
    script = """
from smolder.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __init__(self, hangs): self.hangs = hangs
    def __len__(self): return 40
    def __getitem__(self, i):
        time.sleep(10**6 if self.hangs and i == 20 else 0.005)
        return smolder.tensor([float(i)])
seen = [float(x) for batch in DataLoader(Rows(False), 4, num_workers=2, timeout=300) for x in batch]
assert seen == [float(i) for i in range(40)], seen
try:
    list(DataLoader(Rows(True), 4, num_workers=2, timeout=2))
    raise SystemExit("no timeout")
except RuntimeError as e:
    assert "timed out after 2 seconds" in str(e), e
"""
    run(shim, tmp_path, script)


def test_profiles_events_and_timelines(shim, tmp_path):
    """Durations are those of the machine, not of the calendar."""
    script = """
import json
from smolder import profiler
from smolder.utils import benchmark
x = smolder.randn(64, 64)
with profiler.profile(record_shapes=True) as prof:
    for _ in range(20):
        (x @ x).relu().sum().item()
        time.sleep(0.001)
prof.export_chrome_trace("trace.json")
events = [e for e in json.load(open("trace.json"))["traceEvents"] if e.get("ph") == "X"]
begin, end = min(e["ts"] for e in events), max(e["ts"] + e["dur"] for e in events)
assert events and all(0 <= e["dur"] < 300e6 for e in events) and 0 < end - begin < 300e6, (begin, end)
assert all(0 <= row.cpu_time_total < 300e6 for row in prof.key_averages())
a, b = smolder.cpu.Event(), smolder.cpu.Event()
timer = benchmark.Timer("x + 1", globals={"x": x}).timeit(20)
assert 0 < timer.median < 300
"""
    run(shim, tmp_path, script)


def test_recordings_and_the_kernel_cache(shim, tmp_path):
    """The next process finds what was built, though its clock is another, and a recording takes no other's file."""
    script = """
x = smolder.randn(33, 17)
for k in range(5):
    (x * k).tanh().sum(0).tolist()
    smolder.mark_step()
print(smolder.metrics()["counters"].get("kernels.compiled", 0))
"""
    cache = {"SMOLDER_CACHE_DIR": str(tmp_path / "cache"), "SMOLDER_RECORD": str(tmp_path / "run.trace")}
    assert int(run(shim, tmp_path, script, **cache).split()[0]) > 0
    assert int(run(shim, tmp_path, script, **cache).split()[0]) == 0
    assert {p.name for p in tmp_path.glob("*.trace")} == {"run.trace"}
    shown = subprocess.run(
        [sys.executable, "-m", "smolder", "cache", "ls"], env=os.environ | cache, capture_output=True, text=True
    )
    assert shown.returncode == 0 and "tanh" in shown.stdout, shown.stdout + shown.stderr
