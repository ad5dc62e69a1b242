"""Measures Smolder. Every row is set beside its limit, measured in the same run: what the machine or the work
itself allows. `share` is limit / value: 1 is at the limit. Values are medians."""

import json
import os
import subprocess
import sys
import time

from smolder import _core
from smolder.cli import bench_rows, bench_traces

_COLUMNS = ("row", "value", "limit", "share", "target", "", "peers")


def add_arguments(parser):
    """Adds the arguments of `smolder bench`."""
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows to measure; all when none is given")
    parser.add_argument("--list", action="store_true", help="name the rows and say what each measures")
    parser.add_argument("--json", metavar="FILE", help="also write the rows to FILE")
    parser.add_argument("--quick", action="store_true", help="small sizes and few rounds: does it run?")
    parser.add_argument("--threads", type=int, metavar="N", help="threads to use, here and in the peers")
    parser.add_argument("--peers-python", metavar="PATH", help="a Python that has torch or jax, measured beside us")
    bench_traces.add_arguments(parser)


def run(args):
    """Runs the rows asked for; the exit status is 1 when one of them failed."""
    if args.traces:
        return bench_traces.run(args, _machine(bench_rows.Context(quick=args.quick, threads=args.threads)))
    if args.baseline or args.save_baseline or args.folder:
        print("smolder bench: --folder and baselines are for --traces", file=sys.stderr)
        return 2
    if args.list:
        for row in bench_rows.ROWS.values():
            print(f"{row.name:<17}{row.about}")
        return 0
    unknown = [name for name in args.rows if name not in bench_rows.ROWS]
    if unknown:
        print(f"smolder bench: no such row: {', '.join(unknown)}; --list names them", file=sys.stderr)
        return 2
    _core._set_compiling(False)  # rows are of plans
    context = bench_rows.Context(quick=args.quick, threads=args.threads)
    results = []
    print(_line(_COLUMNS))
    for name in args.rows or bench_rows.ROWS:
        result = _measure(bench_rows.ROWS[name], context, args)
        results.append(result)
        print(_line(_cells(result)), flush=True)
        if result["error"]:
            print(f"  error: {result['error']}"[:100], flush=True)
    clocks = [r["ghz"] for r in results]
    print(f"clock: {min(clocks):.2f} to {max(clocks):.2f} GHz")
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"machine": _machine(context), "rows": results}, file, indent=1)
            file.write("\n")
    return 1 if any(r["error"] for r in results) else 0


def _measure(row, context, args):
    """One row as JSON has it. A row that fails says why and has no numbers."""
    out = {
        "name": row.name,
        "value": None,
        "unit": row.unit,
        "limit": None,
        "share": None,
        "target": row.target,
        "target_of": row.target_of,
        "met": None,
        "peers": {},
        "peer_errors": {},
        "error": None,
        "ghz": _core._bench_clock(3),  # what the processor really ran at: a shared host's clock drifts
    }
    start = time.perf_counter()
    try:
        value, limit = row.measure(context)
    except Exception as e:
        out["error"] = f"{type(e).__name__}: {e}".strip()
        return out
    out["value"], out["limit"] = value, limit
    if value > 0:
        out["share"] = limit / value
    judged = out["share"] if row.target_of == "share" else value
    if judged is not None and not context.quick:
        out["met"] = judged >= row.target if row.target_of == "share" else judged <= row.target
    out["seconds"] = round(time.perf_counter() - start, 2)
    if args.peers_python and row.has_peers:
        out["peers"], out["peer_errors"] = _peers(row, context, args.peers_python)
    return out


def _peers(row, context, python):
    """The figures of torch and jax for the same row, in the same unit, from a process of their own."""
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bench_peers.py")
    call = [python, script, row.name, str(context.threads), "quick" if context.quick else "full"]
    try:
        done = subprocess.run(call, capture_output=True, text=True, timeout=900, check=False)
    except (OSError, subprocess.TimeoutExpired) as e:
        return {}, {"peers": str(e)}
    if done.returncode:
        return {}, {"peers": (done.stderr.strip().splitlines() or ["failed"])[-1]}
    answer = json.loads(done.stdout.splitlines()[-1])
    return {k: v * bench_rows.UNITS[row.unit] for k, v in answer["seconds"].items()}, answer["errors"]


def _machine(context):
    model = ""
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        pass
    return {
        "cpu": model,
        "backend": _core._bench_backend(),  # the code generator, and what it compiles for
        "threads": context.threads,
        "quick": context.quick,
        "load": os.getloadavg()[0],  # a busy machine's numbers are worth little
    }


def _number(x):
    if x is None:
        return "-"
    if x == 0 or abs(x) >= 1000:
        return f"{x:.0f}"
    return f"{x:.3g}"


def _cells(r):
    if r["error"]:
        return (r["name"], "failed", "-", "-", _target(r), "", "")
    met = {None: "", True: "yes", False: "no"}[r["met"]]
    peers = " ".join(f"{k} {_number(v)}" for k, v in r["peers"].items())
    share = "-" if r["share"] is None else f"{r['share']:.2f}"
    return (r["name"], f"{_number(r['value'])} {r['unit']}", _number(r["limit"]), share, _target(r), met, peers)


def _target(r):
    sign = ">=" if r["target_of"] == "share" else "<="
    return f"{sign} {_number(r['target'])}"


def _line(cells):
    name, value, limit, share, target, met, peers = cells
    return f"{name:<17}{value:>12}{limit:>9}{share:>7}{target:>10} {met:<4} {peers}".rstrip()[:100]
