"""Runs a recorded step again, and times it, compares tiers, or finds and shrinks what goes wrong.

FILE comes from SMOLDER_RECORD=FILE or smolder.record_trace(FILE). Without --step the step that ran most is run. Inputs
are those saved, or random ones of the recorded shapes. Exit status: 0 fine; 1 tiers differ; 2 the command was not
understood, or the file is no trace; 3 the step cannot run here.
"""

import argparse
import json
import statistics
import sys
import time

import smolder
from smolder import _core, _trace_file, cuda
from smolder._explain_text import short
from smolder._limits import limits
from smolder._terminal import Failure, counted, cut, size, table, width
from smolder.cli import _reduce, _rerun
from smolder.cli.trace import find_step, graph_lines

DIFFERENT, UNUSABLE, UNRUNNABLE = 1, 2, 3
_STAGES = {"loops": "lower", "code": "emit"}  # other names of stages
_MOST_INTERPRETED = 3e6  # elements and multiplications that the reference interpreter is asked for


def _microseconds(seconds):
    us = seconds * 1e6
    return f"{us:.1f} us" if us < 1000 else f"{us / 1000:.2f} ms" if us < 1e6 else f"{us / 1e6:.2f} s"


# -- what runs


def _load(args):
    trace = _trace_file.read(args.file)
    number = find_step(trace, args.step)
    device = args.device or trace.steps[number].device
    if device not in ("cpu", "cuda"):
        raise Failure(f"step {number} ran on {device}: --device cpu runs it here", UNRUNNABLE)
    if device == "cuda" and not cuda.is_available():
        raise Failure(f"step {number} needs CUDA, and there is no device: --device cpu runs it here", UNRUNNABLE)
    replay, saved = _rerun.prepare(trace, number, device, args.seed)
    return number, replay, saved


def _head(number, replay, saved, args):
    leaves = len(replay.step.leaves)
    source = "" if not leaves else ", inputs saved" if saved == leaves else f", inputs random (seed {args.seed})"
    if 0 < saved < leaves:
        source = f", {saved} of {leaves} inputs saved, the others random (seed {args.seed})"
    if any(n.op.startswith("dist::") for n in replay.step.ops()):
        source += ", collectives alone: what other ranks send is this rank's own"
    return f"step {number} of {args.file}: {counted(len(replay.step.ops()), 'op')} on {replay.device}{source}"


def _facts(number, replay, saved, args):
    return {
        "file": args.file,
        "step": number,
        "ops": len(replay.step.ops()),
        "device": replay.device,
        "leaves": len(replay.step.leaves),
        "saved_leaves": saved,
        "seed": args.seed,
        "disabled": args.disable,
    }


# -- timing


def _rounds(once, asked):
    """How many runs: those asked for, or as many as take a third of a second."""
    return asked if asked else max(5, min(200, int(0.3 / max(once, 1e-6))))


def kernel_rows(plan, replay, rounds):
    """Each step of a plan: what it is, the time it takes, and the least that this machine allows it."""
    report = plan.report()
    times = plan.step_times(replay.inputs, replay.numbers, max(2, min(rounds, 20)))
    machine = limits(replay.device)
    rows = []
    for i, step in enumerate(report["steps"]):
        seconds = statistics.median(times[i]) if i < len(times) and times[i] else None
        floor = machine.floor(step["bytes"], step["product_flops"], step["product_dtype"], step["other_flops"])
        rows.append(
            {
                "step": i,
                "name": step["name"],
                "kind": step["kind"],
                "key": step["key"],
                "seconds": seconds,
                "bytes": step["bytes"],
                "bytes_per_second": step["bytes"] / seconds if seconds else None,
                "floor_seconds": floor,
                "share_of_limit": min(1.0, floor / seconds) if seconds else None,
                "where": step["where"],
                "ops": [{"name": op["name"], "where": op["where"]} for op in step["ops"]],
            }
        )
    return rows


def _tune(plan, replay):
    """Tries what the step may be made by, to the end: how long that took, and how many products it was about."""
    names = {"tried": "products", "changed": "changed", "known": "loaded", "trials": "trials"}
    before = smolder.metrics()["counters"]
    _core._use_tuning()
    start = time.perf_counter()
    plan.tune(replay.inputs, replay.numbers)
    found, after = {"seconds": time.perf_counter() - start}, smolder.metrics()["counters"]
    for name, counter in names.items():
        found[name] = after.get(f"tuning.{counter}", 0) - before.get(f"tuning.{counter}", 0)
    return found


def measure(replay, args, disable=()):
    """Seconds of runs in the tier asked for, and of each kernel."""
    if args.tier == "eager":

        def once():
            start = time.perf_counter()
            replay.run_eager()
            return time.perf_counter() - start

        for _ in range(max(args.warmup, 1)):
            first = once()
        return {"tier": "eager", "seconds": [once() for _ in range(_rounds(first, args.iters))], "kernels": []}
    plan = replay.compile(disable)
    first = plan.time(replay.inputs, replay.numbers, max(args.warmup, 1))[-1]
    rounds = _rounds(first, args.iters)
    seconds = plan.time(replay.inputs, replay.numbers, rounds)
    tuning = {}
    if args.tier == "tuned":
        tuning = {"jit": statistics.median(seconds), "tuning": _tune(plan, replay)}
        plan.time(replay.inputs, replay.numbers, max(args.warmup, 1))
        seconds = plan.time(replay.inputs, replay.numbers, rounds)
    return tuning | {
        "tier": args.tier,
        "compile_ms": plan.milliseconds,
        "kernels_built": plan.built,
        "arena_bytes": plan.arena_bytes,
        "seconds": seconds,
        "kernels": kernel_rows(plan, replay, rounds),
    }


def _print_kernels(rows):
    total, room = sum(r["seconds"] or 0 for r in rows), max(12, min(32, width() - 70))
    cells = []
    for r in sorted(rows, key=lambda r: -(r["seconds"] or 0)):
        first, moved, last = [str(r["step"]), cut(r["name"], room)], size(r["bytes"]), short(r["where"])
        if r["seconds"] is None:
            cells.append([*first, "-", "", moved, "", "", "", last])
            continue
        share = f"{100 * r['seconds'] / total:.0f}%"
        rates = [f"{r['bytes_per_second'] / 1e9:.1f}", f"{r['floor_seconds'] * 1e6:.1f}"]
        cells.append(
            [*first, f"{r['seconds'] * 1e6:.1f}", share, moved, *rates, f"{100 * r['share_of_limit']:.0f}%", last]
        )
    titles = ["", "kernel", "us", "share", "bytes", "GB/s", "limit us", "of limit", "where"]
    print("\n".join(table(titles, cells, right=(0, 2, 3, 4, 5, 6, 7), flexible=8)))


def _print_tuning(replay, found):
    what = found["tuning"]
    products = (
        f"{counted(what['tried'], 'product')} tried, {what['changed']} changed, {what['known']} known from before"
    )
    if replay.device == "cpu":
        products = "the CPU has nothing to try"
    print(f"tuned in {_microseconds(what['seconds'])}: {products}")
    print(f"jit: {_microseconds(found['jit'])} a run")


def _time(number, replay, saved, args):
    found = measure(replay, args, args.disable)
    seconds = found.pop("seconds")
    found |= {"median": statistics.median(seconds), "least": min(seconds), "most": max(seconds), "runs": len(seconds)}
    if args.json:
        print(json.dumps(_facts(number, replay, saved, args) | found, indent=1))
        return 0
    print(cut(_head(number, replay, saved, args), width()))
    if found["tier"] != "eager":
        built = (
            f", {counted(found['kernels_built'], 'kernel')} built" if found["kernels_built"] else ", all kernels known"
        )
        print(f"compiled in {found['compile_ms']:.1f} ms{built}; {size(found['arena_bytes'])} of intermediates")
    if found["tier"] == "tuned":
        _print_tuning(replay, found)
    spread = f"{_microseconds(found['least'])} to {_microseconds(found['most'])}"
    print(f"{found['tier']}: {_microseconds(found['median'])} a run, the median of {found['runs']}; {spread}")
    if found["kernels"]:
        print()
        _print_kernels(found["kernels"])
    return 0


# -- comparing


def _work(step):
    """Roughly what the interpreter has to do."""
    elements = 0
    results = [r for n in step.nodes for r in n.results]
    for node in step.ops():
        count = 1
        for n in node.results[0][1]:
            count *= n
        if node.op in ("matmul", "linear", "mm", "bmm", "addmm", "baddbmm"):
            count *= results[node.inputs[0]][1][-1] if results[node.inputs[0]][1] else 1
        elements += count
    return elements


def _comparison(replay, tier, results, wanted, exact):
    differences = []
    for i, what in replay.differences(results, wanted, exact=exact):
        node = replay.output_node(i)
        differences.append({"output": i, "op": node.op, "where": replay.trace.where(node.source)} | what)
    return {"tiers": tier, "bits": exact, "outputs": len(wanted), "differences": differences}


def _check(number, replay, saved, args):
    comparisons, notes = [], []
    eager = replay.eager()
    plan = replay.compile(args.disable)
    results, bad = plan.run(replay.inputs, replay.numbers)
    notes += [f"index out of range in {text}" for text in bad]
    comparisons.append(_comparison(replay, "jit and eager", results, eager, replay.exact))
    if _work(replay.step) <= _MOST_INTERPRETED:
        try:
            comparisons.append(_comparison(replay, "eager and interpreter", eager, replay.interpreted(), False))
        except (NotImplementedError, ValueError) as e:
            notes.append(f"the interpreter cannot run it: {e}")
    else:
        notes.append("the interpreter was left out: it would take long")
    differs = any(c["differences"] for c in comparisons)
    if args.json:
        print(
            json.dumps(
                _facts(number, replay, saved, args) | {"same": not differs, "comparisons": comparisons, "notes": notes},
                indent=1,
            )
        )
        return DIFFERENT if differs else 0
    print(cut(_head(number, replay, saved, args), width()))
    for c in comparisons:
        how = "the same bits" if c["bits"] else "the same within rounding"
        if not c["differences"]:
            print(f"{c['tiers']}: {how} in {counted(c['outputs'], 'output')}")
            continue
        print(f"{c['tiers']}: {len(c['differences'])} of {counted(c['outputs'], 'output')} differ")
        for d in c["differences"][:8]:
            _print_difference(f"output {d['output']} of {d['op']}", d)
    for note in notes:
        print(cut(note, width()))
    return DIFFERENT if differs else 0


def _print_difference(what, d):
    where = f" at {d['where']}" if d.get("where") else ""
    print(cut(f"  {what}{where}", width()))
    print(
        f"    {d['elements']} of {d['of']} elements, by at most {d['most']:.3g}; {d['index']} is {d['got']!r}, not {d['wanted']!r}"
    )


# -- finding


def _switches(replay):
    """Parts of the compiler without which the plan is right."""
    cure = [
        name
        for name in _core._compiler_switches()
        if not name.startswith("rule.") and replay.failure(disable=[name]) is None
    ]
    if "rules" in cure:
        rules = [n for n in _core._compiler_switches() if n.startswith("rule.")]
        cure += [name for name in rules if replay.failure(disable=[name]) is None]
    return cure


def _guilty_steps(replay, plan):
    """Steps of the plan whose results are not what their primitives make of what they read."""
    found, report = [], plan.report()["steps"]
    differences, skipped = plan.compare(replay.inputs, replay.numbers)
    for number, got, wanted in differences:
        what = _rerun.compare(got, wanted, exact=replay.exact)
        if what:
            step = report[number]
            ops = [{"name": op["name"], "where": op["where"]} for op in step["ops"]]
            found.append(
                {"step": number, "name": step["name"], "key": step["key"], "where": step["where"], "ops": ops} | what
            )
    return found, skipped


def _bisect(number, replay, saved, args):
    plan = failure = None
    if replay.device != "cpu":
        replay.compare_with_host()
    try:
        plan = replay.compile(args.disable)
    except (RuntimeError, ValueError, NotImplementedError) as e:
        failure = (f"raises {type(e).__name__}", str(e))
    failure = failure or replay.failure(plan)
    found = {"failure": failure and failure[0], "cures": [], "kernels": [], "not_compared": []}
    if failure:
        found["cures"] = _switches(replay)
        if plan and failure[0] == "differs":
            found["kernels"], found["not_compared"] = _guilty_steps(replay, plan)
    if args.json:
        print(json.dumps(_facts(number, replay, saved, args) | found, indent=1))
        return DIFFERENT if failure else 0
    print(cut(_head(number, replay, saved, args), width()))
    other = "eager" if replay.device == "cpu" else "the host"
    if not failure:
        print(f"jit and {other} agree: there is nothing to look for")
        return 0
    if failure[0] == "differs":
        print(f"jit and {other} differ in {counted(len(failure[1]), 'output')}")
        i, d = failure[1][0]
        node = replay.output_node(i)
        _print_difference(f"output {i} of {node.op}", d | {"where": replay.trace.where(node.source)})
    else:
        print(cut(f"the plan {failure[0]}: {failure[1]}", width() * 3))
    if found["cures"]:
        print(f"without {' or without '.join(found['cures'])} it is right")
    else:
        print("no part of the compiler that can be left out is to blame")
    if found["kernels"]:
        first = found["kernels"][0]
        print(
            f"the first kernel that computes something else than its primitives: {first['name']}, step {first['step']}"
        )
        _print_difference("its result", first)
        by_line = {}
        for op in first["ops"]:
            by_line.setdefault(op["where"], []).append(op["name"])
        for where, names in list(by_line.items())[:8]:
            print(cut(f"    {', '.join(dict.fromkeys(names))}  {where}", width()))
    elif plan and failure[0] == "differs":
        print("every kernel computes what its primitives say: the graph of primitives is wrong")
    if found["not_compared"]:
        print(f"not compared: {counted(len(found['not_compared']), 'step')} of the plan")
    return DIFFERENT


def _reduce_to(number, replay, saved, args):
    def told(text):
        if not args.json and sys.stderr.isatty():
            print(f"\r{text}  ", end="", file=sys.stderr, flush=True)

    inputs = [t.cpu() for t in replay.inputs]
    with _rerun.disabled(args.disable):
        reducer = _reduce.Reducer(_reduce.Case(replay.trace, replay.step, inputs, replay.device), told)
        case = reducer.run()
    if not args.json and sys.stderr.isatty():
        print(file=sys.stderr)
    if case is None:
        if args.json:
            print(json.dumps(_facts(number, replay, saved, args) | {"failure": None}))
        else:
            print("jit and eager agree: there is nothing to reduce")
        return 0
    _reduce.write(args.reduce, case)
    small = _trace_file.read(args.reduce)
    lines = [text for text, _, _ in graph_lines(small, small.steps[0])]
    if args.json:
        facts = {
            "failure": reducer.kind,
            "reduced": args.reduce,
            "reduced_ops": len(lines),
            "tries": reducer.tries,
            "graph": lines,
        }
        print(json.dumps(_facts(number, replay, saved, args) | facts, indent=1))
        return DIFFERENT
    print(f"{counted(len(replay.step.ops()), 'op')} became {counted(len(lines), 'op')} in {counted(reducer.tries, 'try').replace('trys', 'tries')}; "
          f"still {'the plan ' if reducer.kind != 'differs' else 'jit and eager '}{reducer.kind.replace('differs', 'differ')}")  # fmt: skip
    for line in lines[:20]:
        print(cut(f"  {line}", width()))
    print(f"written to {args.reduce}, with its inputs")
    return DIFFERENT


# -- stages


def _stop_after(replay, args):
    stage = _STAGES.get(args.stop_after, args.stop_after)
    if stage == "graph":
        text = replay.graph.text
    elif stage == "emit":
        text = _code(replay, args)
    else:
        with _rerun.disabled(args.disable):
            options = replay.step.options
            text = replay.graph.after_stage(replay.device, options["fuse"], options["simplify"], stage)
    print(json.dumps({"stage": stage, "text": text}) if args.json else text.rstrip("\n"))
    return 0


def _code(replay, args):
    """The machine code of each kernel of the plan, as the kernel cache has it."""
    from smolder.cli import cache

    plan = replay.compile(args.disable)
    _core._leave_kernels_on_disk()
    try:
        file, texts, seen = cache._open(), [], set()
        for step in plan.report()["steps"]:
            if step["key"] is None or step["key"] in seen:
                continue
            seen.add(step["key"])
            row = cache._find(file, step["key"])
            texts.append(f"# {step['name']}, {step['key'][:12]}\n{cache._disassemble(row['payload'])}")
    except cache.Failure as e:
        raise Failure(str(e), UNRUNNABLE) from None
    return "\n".join(texts)


# -- the command line


def add_arguments(parser):
    """Adds the arguments of `smolder replay`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--step", type=int, metavar="N", help="which step; else that which ran most")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="where to run it; else where it ran")
    parser.add_argument(
        "--tier", choices=["eager", "jit", "tuned"], default="jit", help="op by op, as a plan, or as one that was tuned"
    )
    parser.add_argument("--iters", type=int, metavar="N", help="how many runs are timed")
    parser.add_argument("--warmup", type=int, default=3, metavar="N", help="runs before those (3)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of random inputs (0)")
    parser.add_argument("--disable", metavar="PASS,...", help="leave out parts of the compiler; 'list' names them")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--check", action="store_true", help="compare the tiers' results")
    what.add_argument("--bisect", action="store_true", help="find the pass or the kernel that makes them differ")
    what.add_argument("--reduce", metavar="OUT", help="write a smaller trace that differs still")
    stages = ["graph", *_core._compiler_stages(), *_STAGES]
    what.add_argument(
        "--stop-after", choices=stages, metavar="STAGE", help=f"print what a stage leaves: {', '.join(stages)}"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _check_arguments(args):
    if args.iters is not None and args.iters < 1:
        raise Failure("--iters takes a number from 1 on", UNUSABLE)
    args.disable = args.disable.split(",") if args.disable else []
    unknown = [name for name in args.disable if name not in _core._compiler_switches()]
    if unknown:
        names = ", ".join(n for n in _core._compiler_switches() if not n.startswith("rule."))
        raise Failure(
            f"--disable: no part is named '{unknown[0]}'; there are {names}, and rule.NAME for a rule", UNUSABLE
        )


def run(args):
    """Runs the command; returns the exit status."""
    try:
        if args.disable == "list":
            print("\n".join(_core._compiler_switches()))
            return 0
        _check_arguments(args)
        number, replay, saved = _load(args)
        if args.stop_after:
            return _stop_after(replay, args)
        if args.reduce:
            return _reduce_to(number, replay, saved, args)
        action = _check if args.check else _bisect if args.bisect else _time
        return action(number, replay, saved, args)
    except Failure as e:
        print(f"smolder replay: {e}", file=sys.stderr)
        return e.status
    except BrokenPipeError:  # the reader has seen enough
        raise
    except (_trace_file.TraceError, OSError) as e:
        print(f"smolder replay: {e}", file=sys.stderr)
        return UNUSABLE
    except (NotImplementedError, RuntimeError, ValueError, TypeError, IndexError, MemoryError, SystemError) as e:
        print(f"smolder replay: {e}", file=sys.stderr)
        return UNRUNNABLE
