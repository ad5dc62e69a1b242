"""Replays recorded traces, and compares what they take with a saved baseline: `smolder bench --traces`."""

import json
import statistics
import sys
from pathlib import Path

from smolder import _trace_file, cuda
from smolder._limits import limits
from smolder._terminal import table
from smolder.cli import _rerun

_BATCHES, _BATCH_SECONDS = 5, 0.15
_NOTABLE = 0.05  # changes below this are not told, however sure they are
VERSION = 1


def default_folder():
    """benchmarks/traces of the checkout that this is part of, or that the working folder is in."""
    for start in (Path(__file__).resolve(), Path.cwd() / "x"):
        for parent in start.parents:
            if (parent / "benchmarks" / "traces").is_dir():
                return parent / "benchmarks" / "traces"
    return None


def add_arguments(parser):
    """Adds the arguments of `smolder bench` that are for traces."""
    parser.add_argument("--traces", action="store_true", help="replay recorded traces; ROW names some of them")
    parser.add_argument("--folder", metavar="FOLDER", help="where traces are; else benchmarks/traces of the checkout")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu", help="where traces are replayed")
    parser.add_argument(
        "--baseline", metavar="FILE", help="compare with what --save-baseline wrote; 1 if one is slower"
    )
    parser.add_argument("--save-baseline", metavar="FILE", help="write what the traces take")


class Measured:
    """The step of a trace that ran most, as a plan, and the medians of batches of its runs."""

    def __init__(self, path, device, *, quick=False):
        trace = _trace_file.read(path)
        number = max(range(len(trace.steps)), key=lambda i: trace.steps[i].runs)
        self.name, self.batches = Path(path).stem, []
        self.replay, _ = _rerun.prepare(trace, number, device)
        self.plan = self.replay.compile()
        once = min(self.plan.time(self.replay.inputs, self.replay.numbers, 3))
        self.runs = 1 if quick else max(1, min(1000, int(_BATCH_SECONDS / max(once, 1e-6))))

    def batch(self):
        """Runs one more batch."""
        self.batches.append(statistics.median(self.plan.time(self.replay.inputs, self.replay.numbers, self.runs)))

    def row(self):
        """As JSON has it, with what this machine allows the step."""
        machine, steps = limits(self.replay.device), self.plan.report()["steps"]
        floors = (machine.floor(s["bytes"], s["product_flops"], s["product_dtype"], s["other_flops"]) for s in steps)
        return {
            "name": self.name,
            "seconds": statistics.median(self.batches),
            "batches": self.batches,
            "floor_seconds": sum(floors),
            "ops": len(self.replay.step.ops()),
            "kernels": len(steps),
            "compile_ms": self.plan.milliseconds,
            "error": None,
        }


def measure(files, device, *, quick=False):
    """A row for each trace. Batches take turns, so that what disturbs the machine for a while meets one of each."""
    measured, rows = {}, {}
    for name, path in files.items():
        try:
            measured[name] = Measured(path, device, quick=quick)
        except (_trace_file.TraceError, RuntimeError, NotImplementedError, ValueError) as e:
            rows[name] = {"name": name, "error": f"{type(e).__name__}: {e}"}
    for i in range(2 if quick else _BATCHES):
        for name, one in measured.items():
            if sys.stderr.isatty():
                print(f"round {i + 1}: {name:<24}", end="\r", file=sys.stderr, flush=True)
            one.batch()
    return [rows[name] if name in rows else measured[name].row() for name in files]


def verdict(now, before):
    """ "slower" or "faster" where every batch is beyond those of the baseline, and by more than a little; else ""."""
    if before is None or now["error"]:
        return ""
    least, most = min(now["batches"]), max(now["batches"])
    if least > max(before["batches"]) and least > min(before["batches"]) * (1 + _NOTABLE):
        return "slower"
    if most < min(before["batches"]) and least < min(before["batches"]) * (1 - _NOTABLE):
        return "faster"
    return ""


def _read_baseline(path, device):
    try:
        with open(path) as file:
            value = json.load(file)
        rows = {row["name"]: row for row in value["traces"]}
        if value["version"] != VERSION or not all(
            row["seconds"] > 0 and len(row["batches"]) and min(row["batches"]) > 0 for row in rows.values()
        ):
            raise ValueError("it is of another version, or damaged")
        if value["device"] != device:
            raise ValueError(f"it was measured on {value['device']}")
    except (ValueError, KeyError, TypeError) as e:
        raise _Failure(f"{path} is no baseline: {e}") from None
    return rows


class _Failure(Exception):
    pass


def _cells(row, before, word):
    if row["error"]:
        return [row["name"], "failed", "", "", "", "", row["error"]]
    us, floor = row["seconds"] * 1e6, row["floor_seconds"] * 1e6
    cells = [row["name"], f"{us:.1f}", f"{floor:.1f}", f"{100 * min(1, floor / us):.0f}%"]
    if before is None:
        return [*cells, "", "", ""]
    change = 100 * (row["seconds"] / before["seconds"] - 1)
    return [*cells, f"{before['seconds'] * 1e6:.1f}", f"{change:+.1f}%", word]


def run(args, machine):
    """Replays the traces asked for. `machine` says what they run on, for files."""
    try:
        return _run(args, machine)
    except (_Failure, OSError) as e:
        print(f"smolder bench: {e}", file=sys.stderr)
        return 2


def _run(args, machine):
    folder = Path(args.folder) if args.folder else default_folder()
    if folder is None or not folder.is_dir():
        raise _Failure(f"there is no folder {folder}" if folder else "no traces are here: --folder says where they are")
    if args.device == "cuda" and not cuda.is_available():
        raise _Failure("--device cuda: there is no device")
    files = {p.stem: p for p in sorted(folder.glob("*.trace"))}
    unknown = [name for name in args.rows if name not in files]
    if unknown or not files:
        raise _Failure(f"{folder} has no trace {', '.join(unknown) or 'at all'}; it has {', '.join(files) or 'none'}")
    chosen = {name: files[name] for name in args.rows or files}
    if args.list:
        print("\n".join(f"{name:<20}{path}" for name, path in chosen.items()))
        return 0
    before = _read_baseline(args.baseline, args.device) if args.baseline else {}
    rows = measure(chosen, args.device, quick=args.quick)
    for row in rows:
        row["verdict"] = verdict(row, before.get(row["name"]))
    titles = ["trace", "us", "limit us", "of limit", "before", "change", ""]
    cells = [_cells(row, before.get(row["name"]), row["verdict"]) for row in rows]
    print("\n".join(table(titles, cells, right=(1, 2, 3, 4, 5), flexible=6)))
    missing = [name for name in before if name not in files]
    if missing:
        print(f"in the baseline, and no longer there: {', '.join(missing)}")
    out = {"version": VERSION, "device": args.device, "machine": machine, "traces": rows}
    for path in filter(None, [args.json, args.save_baseline]):
        with open(path, "w") as file:
            json.dump(out, file, indent=1)
            file.write("\n")
    return 1 if any(row["error"] or row["verdict"] == "slower" for row in rows) else 0
