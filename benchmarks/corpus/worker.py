"""Runs programs of the corpus in this process, and prints a line of JSON for each: what run.py starts for a column."""

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
RUNS = 3  # steps whose values are compared
COMPARED = 64  # elements of a value that are compared
MODES = {"smolder.compile": None, "torch.compile": None, "reduce-overhead": "reduce-overhead"}


def is_ours(column):
    return column.startswith("smolder")


def names():
    """All programs, with their fields, in the order of the files."""
    import corpus.programs as package
    from corpus.common import PROGRAMS

    for file in sorted(Path(package.__file__).parent.glob("*.py")):
        if file.stem != "__init__":
            __import__(f"corpus.programs.{file.stem}")
    return {name: field for name, (field, _) in PROGRAMS.items()}


def use_smolder_as_torch():
    """Makes `import torch` mean Smolder."""
    import smolder.torch

    smolder.torch.install()


def make_run(name, column, device, small):
    """A function that runs a step of a program to its end and returns its value."""
    import torch

    from corpus.common import PROGRAMS

    step = PROGRAMS[name][1](device, small)
    if column in MODES:
        step = torch.compile(step, mode=MODES[column])

    def run():
        value = step()
        if is_ours(column):
            torch.mark_step()
        if device == "cuda":
            torch.cuda.synchronize()
        return value

    return run


def first_values(name, device, small, column="smolder"):
    """The first elements of what the first steps of a program give."""
    run = make_run(name, column, device, small)
    return [run().detach().float().cpu().flatten()[:COMPARED].tolist() for _ in range(RUNS)]


def times(run, column, device, budget, clock):
    """Seconds of the first step, of the median of later ones, and the peak of memory, in bytes."""
    import torch

    now, began, start = CLOCKS[clock], time.perf_counter(), CLOCKS[clock]()
    run()
    first = now() - start
    while time.perf_counter() - began < budget / 2:
        run()
    for _ in range(3 if is_ours(column) else 0):
        run()  # a step that came once may not be compiled yet, and the second one is often of other ops
        torch.wait_for_compiles()  # or what is timed runs op by op, before its plan takes over
    later, began = [], time.perf_counter()
    while len(later) < 5 or (time.perf_counter() - began < budget / 2 and len(later) < 200):
        start = now()
        run()
        later.append(now() - start)
    if device == "cuda":
        peak = torch.cuda.max_memory_allocated()
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"first": first, "steady": sorted(later)[len(later) // 2], "memory": peak}


def figures(name, column, device, small, budget, clock):
    """A program's times and values; what it raised, where it did."""
    try:
        known = {}
        if is_ours(column):
            import torch

            torch.reset_metrics()
        if not small:
            known = times(make_run(name, column, device, small), column, device, budget, clock)
        if is_ours(column):
            known["plans"] = torch.metrics()["counters"]["plans.compiled"]
        return known | {"values": first_values(name, device, small, column)}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("column")
    parser.add_argument("device")
    parser.add_argument("budget", type=float)
    parser.add_argument("programs", nargs="*", help="none: their names are printed, with their fields")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--clock", choices=CLOCKS, default="wall")
    arguments = parser.parse_args()
    if is_ours(arguments.column):
        use_smolder_as_torch()
    known = names()
    if not arguments.programs:
        print(json.dumps(known))
    if not is_ours(arguments.column):
        import torch

        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", len(os.sched_getaffinity(0)))))
    a = arguments
    for name in a.programs:
        print(json.dumps({"name": name} | figures(name, a.column, a.device, a.small, a.budget, a.clock)), flush=True)


if __name__ == "__main__":
    sys.path[:1] = [str(Path(__file__).resolve().parents[1])]
    main()
