"""Runs a script and says what became of its steps: which took longest, which were compiled again and why.

One step, that which took longest in all unless --step names one, is explained as smolder.explain does.
"""

import argparse
import contextlib
import json
import os
import runpy
import sys
import traceback

from smolder import _core, _explain
from smolder._explain_html import page, table_of
from smolder._explain_text import short, time
from smolder._terminal import table

_MOST = 10


def add_arguments(parser):
    """The arguments of `smolder explain`."""
    _add_options(parser)
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument(
        "rest", nargs=argparse.REMAINDER, metavar="...", help="options; after -- what the script is given"
    )


def _add_options(parser):
    parser.add_argument("--step", type=int, metavar="N", help="explain the step that ran Nth, from 0; -1 is the last")
    parser.add_argument("--html", metavar="FILE", help="write the report to a page")
    parser.add_argument("--json", action="store_true", help="print JSON; what the script prints goes to stderr")


def run(args):
    """Runs it; the exit status is the script's."""
    end = args.rest.index("--") if "--" in args.rest else len(args.rest)
    options = argparse.ArgumentParser(prog="smolder explain SCRIPT")
    _add_options(options)
    options.set_defaults(**{name: getattr(args, name) for name in ("step", "html", "json")})
    options.parse_args(args.rest[:end], args)
    args.arguments = args.rest[end + 1 :]
    status, steps = _run(args)
    if not steps:
        print("no step ran", file=sys.stderr)
        return status or 1
    groups, recompiles = _groups(steps), _recompiles(steps)
    # A program seldom spends its time on a step that came first and never again.
    again = [g for g in groups if g["cause"] != "new" or g["runs"] > 1]
    number = (again or groups)[0]["step"] if args.step is None else args.step
    try:
        chosen = steps[number]
    except IndexError:
        print(f"smolder explain: there is no step {number}: {len(steps)} ran", file=sys.stderr)
        return 2
    first = next(s for s in steps if s.instance == chosen.instance) if chosen.instance else chosen
    number %= len(steps)
    e = _explain._explanation(f"step {number} of {args.script}", "", [first], [], [], None, None)
    if args.json:
        told = {"version": _explain.VERSION, "script": args.script, "steps": len(steps), "slowest": groups}
        print(json.dumps(told | {"recompiles": recompiles, "explained": number, "step": e.to_dict()}))
    else:
        print("\n".join(_text(len(steps), groups, recompiles)), end="\n\n")
        print(e)
    if args.html:
        with open(args.html, "w", encoding="utf-8") as file:
            file.write(page(e, _sections(groups, recompiles)))
    return status


def _run(args):
    """The script's exit status and the steps that it ran."""
    before = sys.argv, list(sys.path)
    sys.argv = [args.script, *args.arguments]
    sys.path.insert(0, os.path.dirname(os.path.abspath(args.script)))
    status = 0
    _core._set_compiling(False)  # what is explained is plans
    log = _core._start_step_log(False)
    try:
        with contextlib.redirect_stdout(sys.stderr) if args.json else contextlib.nullcontext():
            runpy.run_path(args.script, run_name="__main__")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1 if end.code else 0
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except OSError as error:
        if not os.path.exists(args.script):
            print(f"smolder explain: {error}", file=sys.stderr)
        else:
            traceback.print_exc()
        status = 1
    except Exception:
        traceback.print_exc()
        status = 1
    finally:
        sys.argv, sys.path[:] = before
        steps = _core._stop_step_log(log)
    return status, steps


def _groups(steps):
    """Steps that ran as one plan with one set of sizes, those that took longest first."""
    groups = {}
    for i, step in enumerate(steps):
        key = step.instance or ("step", i)
        if key not in groups:
            groups[key] = {"step": i, "runs": 0, "ms": 0.0, "compile_ms": 0.0, "ops": len(step.ops)}
            groups[key] |= {"device": step.device, "how": step.how, "ended_by": step.reason, "where": step.where}
            groups[key]["cause"] = step.recompile["cause"] if step.recompile and step.recompile["compiled"] else ""
        group = groups[key]
        group["runs"] += 1
        group["ms"] += step.ms
        if step.recompile and step.recompile["compiled"]:
            group["compile_ms"] += step.recompile["milliseconds"]
    return sorted(groups.values(), key=lambda g: -g["ms"])


def _recompiles(steps):
    """Why steps were compiled, equal causes and lines together, most often first; the reason is the last one's."""
    told = {}
    for i, step in enumerate(steps):
        r = step.recompile
        if not r or not r["compiled"]:
            continue
        known = told.setdefault(
            (r["cause"], r["where"]), {"cause": r["cause"], "where": r["where"], "times": 0, "ms": 0.0}
        )
        known["times"] += 1
        known["ms"] += r["milliseconds"]
        known |= {"reason": r["reason"], "before": r["before"], "step": i, "kernels": len(r["kernels"])}
        told[r["cause"], r["where"]] = known
    return sorted(told.values(), key=lambda r: -r["times"])


def _text(ran, groups, recompiles):
    compiled = sum(r["times"] for r in recompiles)
    yield f"{ran} steps ran, {compiled} of them compiled first"
    yield ""
    titles = ["step", "runs", "time", "compiling", "cause", "ops", "ended by", "where"]
    rows = [
        [str(g["step"]), str(g["runs"]), time(g["ms"]), time(g["compile_ms"]) if g["compile_ms"] else "", g["cause"],
         str(g["ops"]), g["ended_by"], g["where"]]
        for g in groups[:_MOST]
    ]  # fmt: skip
    yield from table(titles, rows, right=(0, 1, 2, 3, 5), flexible=7)
    if len(groups) > _MOST:
        yield f"and {len(groups) - _MOST} more"
    for r in recompiles[:_MOST]:
        times = "once" if r["times"] == 1 else f"{r['times']} times"
        yield ""
        yield f"compiled {times}, {time(r['ms'])} in all: {r['cause']}: {r['reason']}"
        yield f"  now at     {r['where']}"
        if r["before"]:
            yield f"  before at  {r['before']}"


def _sections(groups, recompiles):
    titles = ["step", "runs", "time", "compiling", "cause", "ops", "ended by", "where"]
    rows = [
        [
            (str(g["step"]), g["step"]), (str(g["runs"]), g["runs"]), (time(g["ms"]), g["ms"]),
            (time(g["compile_ms"]) if g["compile_ms"] else "", g["compile_ms"]), g["cause"], (str(g["ops"]), g["ops"]),
            g["ended_by"], short(g["where"]),
        ]
        for g in groups[: 3 * _MOST]
    ]  # fmt: skip
    yield "Steps of the script", table_of(titles, rows, {0, 1, 2, 3, 5})
    titles = ["times", "in all", "cause", "first difference", "now at", "before at"]
    rows = [
        [str(r["times"]), time(r["ms"]), r["cause"], r["reason"], short(r["where"]), short(r["before"])]
        for r in recompiles[: 3 * _MOST]
    ]
    if rows:
        yield "Why steps of it were compiled", table_of(titles, rows, {0, 1})
