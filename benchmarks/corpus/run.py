#!/usr/bin/env python3
"""Runs the corpus: programs of many fields as people write them, none of them tuned for, beside PyTorch.

`python benchmarks/corpus/run.py [PROGRAM...]` prints a line for each: seconds to the end of the first step,
milliseconds of a later one, how many plans were compiled, and whether the first column's values are the last one's.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDER = Path(__file__).resolve().parent


def agrees(ours, theirs, tolerance=2e-3):
    """Whether values differ by a small share of the largest of them."""
    for a, b in zip(ours, theirs, strict=True):
        scale = max((abs(x) for x in b if math.isfinite(x)), default=1.0) + 1e-6
        if len(a) != len(b):
            return False
        for x, y in zip(a, b, strict=True):
            same = x == y or (math.isnan(x) and math.isnan(y))
            if not same and not abs(x - y) <= tolerance * scale:
                return False
    return True


class Column:
    """Runs programs in one way, each in a process of its own, or all in one."""

    def __init__(self, name, arguments):
        self.name, self.arguments = name, arguments
        self.python = sys.executable if name.startswith("smolder") else arguments.python

    def start(self, programs, cache):
        a = self.arguments
        command = [self.python, str(FOLDER / "worker.py"), self.name, a.device, str(a.budget), *programs]
        command += ["--clock", a.clock]
        environment = dict(os.environ) if a.warm else dict(os.environ, SMOLDER_CACHE_DIR=cache)
        if a.threads:
            names = ("SMOLDER_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
            environment |= dict.fromkeys(names, str(a.threads))
        seconds = a.limit if len(programs) < 2 else a.limit * 3
        return subprocess.run(
            command + ["--small"] * a.small, env=environment, capture_output=True, text=True, timeout=seconds
        )

    def run(self, programs):
        """Figures by name."""
        found, left = {}, list(programs)
        while left:
            group = left if self.arguments.shared else left[:1]
            with tempfile.TemporaryDirectory() as cache:
                try:
                    done = self.start(group, cache)
                    said, wrong = done.stdout, (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
                except subprocess.TimeoutExpired as late:
                    said, wrong = (late.stdout or b"").decode(), f"over {self.arguments.limit} s"
            for text in said.splitlines():
                figures = json.loads(text)
                found[figures.pop("name")] = figures
            left = [p for p in left if p not in found]
            if left and left[0] in group:  # the process ended within it
                found[left.pop(0)] = {"error": wrong}
        return found

    def fields(self):
        """The field of each program."""
        done = self.start([], "")
        if done.returncode:
            sys.exit(done.stderr)
        return json.loads(done.stdout)


def describe(name, field, figures):
    """A program's line: of each column the first step and later ones; what failed."""
    text = f"{field:<14} {name:<24}"
    for column, f in figures.items():
        if "error" in f:
            text += f" | {column}: {f['error'][:90]}"
        elif "steady" in f:
            plans = f" {f['plans']:4d} plans" if "plans" in f else ""
            text += f" | {f['first']:7.2f} s {f['steady'] * 1e3:9.3f} ms{plans}"
        else:
            text += f" | {column} ran"
    values = [f.get("values") for f in figures.values()]
    if len(values) > 1 and values[0] and values[-1]:
        text += " | values agree" if agrees(values[0], values[-1]) else " | VALUES DIFFER"
    return text


def summary(table):
    """How many ran, and the geometric mean of the first column's later steps over each other's."""
    columns = list(next(iter(table.values())))
    for column in columns:
        print(f"{column}: {sum('error' not in row[column] for row in table.values())} of {len(table)} ran")
    for column in columns[1:]:
        both = [(row[columns[0]], row[column]) for row in table.values()]
        ratios = [a["steady"] / b["steady"] for a, b in both if "steady" in a and "steady" in b]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            print(f"{columns[0]} / {column}: geometric mean {mean:.2f} of {len(ratios)}, ", end="")
            print(f"slower in {sum(r > 1 for r in ratios)}")


def page(table, fields):
    """The table in Markdown, in the order of how the first column's later steps compare with the last's."""
    columns = list(next(iter(table.values())))

    def ratio(row):
        ours, theirs = (row[c].get("steady") for c in (columns[0], columns[-1]))
        return ours / theirs if ours and theirs else math.inf

    heads = [f"{column}: first step, s | later, ms" for column in columns]
    lines = [
        "| program | field | " + " | ".join(heads) + " | ratio |",
        "| --- | --- |" + " --- |" * (2 * len(columns) + 1),
    ]
    for name, row in sorted(table.items(), key=lambda item: -ratio(item[1])):
        cells = [f"{f['first']:.2f} | {f['steady'] * 1e3:.3g}" if "steady" in f else "- | -" for f in row.values()]
        lines.append(f"| {name} | {fields[name]} | {' | '.join(cells)} | {ratio(row):.2f} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="which; else all")
    parser.add_argument(
        "--columns",
        default="smolder,torch",
        help="of smolder, smolder.compile, torch, torch.compile, reduce-overhead (default: %(default)s)",
    )
    parser.add_argument("--python", default=sys.executable, help="where PyTorch is installed")
    parser.add_argument("--device", default="cpu", help="cpu or cuda (default: %(default)s)")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of later steps of a program (%(default)s)")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a program in a column (%(default)s)")
    parser.add_argument("--small", action="store_true", help="the sizes that tests take, without times")
    parser.add_argument("--warm", action="store_true", help="keep the cache of kernels from run to run")
    parser.add_argument("--shared", action="store_true", help="one process a column: faster; first steps share kernels")
    parser.add_argument("--threads", type=int, help="of each process (default: all processors)")
    parser.add_argument(
        "--clock",
        choices=["wall", "cpu"],
        default="wall",
        help="cpu: seconds that the process ran, of use with one thread on a machine that others use (default: wall)",
    )
    parser.add_argument("--json", help="a file for the figures as data")
    parser.add_argument("--page", help="a file for the table in Markdown")
    arguments = parser.parse_args()
    columns = [Column(name, arguments) for name in arguments.columns.split(",")]
    fields = columns[0].fields()
    if unknown := set(arguments.programs) - set(fields):
        sys.exit(f"no such program: {', '.join(sorted(unknown))}; there are {', '.join(fields)}")
    programs = arguments.programs or list(fields)
    table = {}
    for group in [programs] if arguments.shared else [[p] for p in programs]:
        found = {c.name: c.run(group) for c in columns}
        for name in group:
            table[name] = {column: figures[name] for column, figures in found.items()}
            print(describe(name, fields[name], table[name]), flush=True)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(table))
    if arguments.page:
        Path(arguments.page).write_text(page(table, fields))
    summary(table)


if __name__ == "__main__":
    main()
