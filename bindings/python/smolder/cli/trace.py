"""Looks at files of recorded steps, which SMOLDER_RECORD=FILE and smolder.record_trace(FILE) write.

Exit status: 0 fine, or the same; 1 a difference; 2 the command was not understood, or a file is no trace.
"""

import argparse
import collections
import json
import os
import sys

from smolder import _core, _draw, _trace_file
from smolder._explain_html import table_of
from smolder._explain_text import short
from smolder._terminal import counted, cut, moment, size, table, width

DIFFERENT, UNREADABLE = 1, 2
_MOST_DRAWN = 700  # ops of a step; beyond it a box is a line
_MOST_STEPS = 8  # of a page


def _print_json(value):
    print(json.dumps(value, indent=1))


# -- what there is


def meta_text(result):
    """ "float32[2, 3]"."""
    dtype, shape, _ = result
    return f"{dtype}[{', '.join(map(str, shape))}]"


def call_text(node, first, numbers=None):
    """A node as the text form of graphs has it, `%3 = add(%1, %2) : float32[4]`, with numbers in place of their names."""
    results = ", ".join(f"%{first + i}" for i in range(len(node.results)))
    operands = ["_" if v < 0 else repr(numbers[v]) if numbers and v in numbers else f"%{v}" for v in node.inputs]
    arguments = ", ".join([*operands, *([node.attrs] if node.attrs else [])])
    return f"{results} = {node.op}({arguments}) : {', '.join(map(meta_text, node.results))}"


def step_facts(trace, number):
    """A step as JSON has it in lists."""
    step = trace.steps[number]
    return {
        "step": number,
        "runs": step.runs,
        "ops": len(step.ops()),
        "leaves": len(step.leaves),
        "saved_leaves": sum(leaf.data is not None for leaf in step.leaves),
        "leaf_bytes": sum(leaf.bytes for leaf in step.leaves),
        "numbers": len(step.numbers),
        "outputs": len(step.outputs),
        "device": step.device,
        "reason": step.reason,
        "where": trace.where(step.source),
        "code": trace.code(step.source),
        "error": step.error or step.unreadable,
    }


def find_step(trace, number):
    """The number of a step that was asked for; without a number that which ran most, the larger of equals."""
    if not trace.steps:
        raise _trace_file.TraceError(f"{trace.path} holds no step")
    if number is None:
        readable = [i for i, step in enumerate(trace.steps) if not step.unreadable]
        if not readable:
            raise _trace_file.TraceError(trace.steps[0].unreadable)
        return max(readable, key=lambda i: (trace.steps[i].runs, len(trace.steps[i].nodes)))
    if not 0 <= number < len(trace.steps):
        last = len(trace.steps) - 1
        raise _trace_file.TraceError(f"{trace.path} has no step {number}: its steps are 0 to {last}")
    if trace.steps[number].unreadable:
        raise _trace_file.TraceError(trace.steps[number].unreadable)
    return number


def _file_facts(trace):
    return {
        "path": trace.path,
        "created": trace.created,
        "smolder": trace.smolder,
        "program": trace.program,
        "runs": sum(s.runs for s in trace.steps) + trace.dropped_runs,
        "dropped_runs": trace.dropped_runs,
        "dropped_leaves": trace.dropped_leaves,
        "unordered_runs": trace.unordered_runs,
    }


def _order_text(trace):
    parts = [f"{step}" if times == 1 else f"{step} x{times}" for step, times in trace.order]
    if trace.unordered_runs:
        parts.append(f"and {trace.unordered_runs} more")
    return ", ".join(parts)


def _show(args):
    trace = _trace_file.read(args.file)
    if args.step is not None:
        return _show_step(trace, find_step(trace, args.step), args)
    steps = [step_facts(trace, i) for i in range(len(trace.steps))]
    facts = _file_facts(trace)
    if args.json:
        return _print_json(facts | {"steps": steps, "order": trace.order})
    program = f" by {' '.join(trace.program)}" if trace.program else ""
    line = f"{counted(len(steps), 'step')}, {counted(facts['runs'], 'run')}, recorded {moment(trace.created)}{program}"
    print(cut(line, width()))
    if trace.dropped_runs:
        print(f"there was no room for {counted(trace.dropped_runs, 'run')} of other steps")
    if trace.dropped_leaves:
        print(f"there was no room for the data of {counted(trace.dropped_leaves, 'leaf').replace('leafs', 'leaves')}")
    print()
    cells = [
        [str(s["step"]), str(s["runs"]), str(s["ops"]), str(s["leaves"]), size(s["leaf_bytes"]), _saved(s),
         str(s["outputs"]), s["device"], s["reason"] + _how(trace.steps[s["step"]]), short(s["where"])]
        for s in steps
    ]  # fmt: skip
    titles = ["step", "runs", "ops", "leaves", "reads", "saved", "outputs", "device", "ended by", "where"]
    print("\n".join(table(titles, cells, right=(0, 1, 2, 3, 4, 6), flexible=9)))
    for step in trace.steps:
        if step.unreadable:
            print(cut(step.unreadable, width()))
    if trace.order:
        print()
        print(cut(f"order: {_order_text(trace)}", width()))
    return None


def _how(step):
    return " (unreadable)" if step.unreadable else " (op by op)" if step.error else ""


def _saved(facts):
    if not facts["saved_leaves"]:
        return "no"
    return "yes" if facts["saved_leaves"] == facts["leaves"] else "part"


def number_values(step):
    """The numbers of a step by value number."""
    firsts = [first for node, first in zip(step.nodes, step.first_values(), strict=True) if node.is_number]
    return {first: value for first, (_, value) in zip(firsts, step.numbers, strict=True)}


def graph_lines(trace, step):
    """(a node's text, its line, the line's code) for each op of a step."""
    out, numbers = [], number_values(step)
    for node, first in zip(step.nodes, step.first_values(), strict=True):
        if not (node.is_leaf or node.is_number):
            out.append((call_text(node, first, numbers), trace.where(node.source), trace.code(node.source)))
    return out


def _show_step(trace, number, args):
    step = trace.steps[number]
    firsts = step.first_values()
    facts = step_facts(trace, number)
    if args.json:
        nodes = [
            {"value": first, "op": n.op, "operands": n.inputs, "attributes": n.attrs,
             "results": [meta_text(r) for r in n.results], "where": trace.where(n.source), "code": trace.code(n.source)}
            for n, first in zip(step.nodes, firsts, strict=True)
        ]  # fmt: skip
        return _print_json(facts | {"nodes": nodes, "results": step.outputs, "options": step.options})
    end = f"{step.reason} at {facts['where']}" if facts["where"] else step.reason
    head = f"step {number}: {counted(facts['ops'], 'op')}, {counted(facts['runs'], 'run')}, ended by {end}"
    print(cut(head, width()))
    if step.error:
        print(cut(f"it ran op by op: {step.error}", width()))
    print()
    leaves = iter(step.leaves)
    for node, first in zip(step.nodes, firsts, strict=True):
        if node.is_leaf:
            leaf = next(leaves)
            print(f"%{first} = {leaf}{', saved' if leaf.data else ''}")
    print()
    before = None
    for text, where, code in graph_lines(trace, step):
        if (where, code) != before and where:
            print(cut(f"# {where}: {code}", width()))
        before = (where, code)
        print(cut(f"  {text}", width()))
    print()
    print(cut("results: " + (", ".join(f"%{v}" for v in step.outputs) or "none"), width()))
    return None


def _stats(args):
    trace = _trace_file.read(args.file)
    ops, recorded = collections.Counter(), 0
    for step in trace.steps:
        recorded += step.runs * len(step.ops())
        for node in step.ops():
            ops[node.op] += step.runs
    lines = {n.source for step in trace.steps for n in step.ops() if n.source}
    facts = _file_facts(trace) | {
        "steps": len(trace.steps),
        "ops": sum(len(s.ops()) for s in trace.steps),
        "ops_run": recorded,
        "lines": len(lines),
        "leaf_bytes": sum(leaf.bytes for s in trace.steps for leaf in s.leaves),
        "file_bytes": os.path.getsize(args.file),
        "by_op": dict(ops.most_common()),
    }
    if args.json:
        return _print_json(facts)
    print(f"steps   {facts['steps']}, which ran {counted(facts['runs'], 'time')}")
    print(f"ops     {facts['ops']}, from {counted(facts['lines'], 'line')}; {recorded} with every run")
    print(f"leaves  {size(facts['leaf_bytes'])}; the file takes {size(facts['file_bytes'])}")
    print()
    print("\n".join(table(["op", "runs"], [[name, str(n)] for name, n in ops.most_common(args.limit)], right=(1,))))
    return None


# -- differences


def replay_graph(trace, step):
    """A step's graph as the compiler takes it, with lines that errors and reports name."""
    tokens = {n.source: _core._source_named(trace.where(n.source)) for n in step.nodes if trace.where(n.source)}
    return _core._ReplayGraph([n.plain(tokens.get(n.source, 0)) for n in step.nodes], step.outputs)


def step_difference(now, i, before, k):
    """The first difference of two steps, as smolder.recompiles() has it, with the code of both lines; None for none."""
    x, y = now.steps[i], before.steps[k]
    found = _core._first_difference(replay_graph(now, x), x.modes, replay_graph(before, y), y.modes)
    if found is None:
        for cause, what, a, b in (
            ("mode", "the device", x.device, y.device),
            ("mode", "the options", x.options, y.options),
        ):
            if a != b:
                found = {"cause": cause, "reason": f"{what} is {a}, was {b}", "where": "", "before": ""}
                break
    if found is None:
        for at, (a, b) in enumerate(zip(x.numbers, y.numbers, strict=True)):
            if repr(a) != repr(b):
                node = [n for n in x.nodes if n.is_number][at]
                value = x.first_values()[x.nodes.index(node)]
                reader = next(n for n in x.nodes if value in n.inputs)
                other = y.nodes[x.nodes.index(reader)]
                found = {
                    "cause": "number",
                    "reason": f"`{reader.op}` takes {a[1]!r}, took {b[1]!r}, for which nothing is compiled again",
                    "where": now.where(reader.source),
                    "before": before.where(other.source),
                }
                break
    if found is None:
        return None
    codes = [dict(trace.sources).get(found[side], "") for trace, side in ((now, "where"), (before, "before"))]
    return {"step": i, "before_step": k} | found | {"code": codes[0], "before_code": codes[1]}


def _print_difference(difference):
    print(f"step {difference['step']} differs from step {difference['before_step']}: {difference['cause']}")
    print(f"  {difference['reason']}")
    for label, where, code in (("now at", "where", "code"), ("before at", "before", "before_code")):
        if difference[where]:
            print(cut(f"  {label:<9}  {difference[where]}", width()))
            if difference[code]:
                print(cut(f"             {difference[code]}", width()))


def _diff(args):
    before = _trace_file.read(args.file)
    now = _trace_file.read(args.other) if args.other else before
    if args.steps:
        pairs = [tuple(args.steps)]
    elif args.other is None:
        if len(before.steps) < 2:
            raise _trace_file.TraceError(
                f"{args.file} has {counted(len(before.steps), 'step')}: there is nothing to compare"
            )
        pairs = [(len(before.steps) - 2, len(before.steps) - 1)]
    else:
        pairs = [(i, i) for i in range(min(len(before.steps), len(now.steps)))]
    pairs = [(find_step(before, k), find_step(now, i)) for k, i in pairs]
    difference = next((d for k, i in pairs if (d := step_difference(now, i, before, k))), None)
    counts = (len(before.steps), len(now.steps))
    if difference is None and not args.steps and counts[0] != counts[1]:
        difference = {
            "cause": "steps",
            "reason": f"{args.other} has {counted(counts[1], 'step')}, {args.file} {counts[0]}",
        }
    if args.json:
        _print_json({"same": difference is None, "compared": [list(p) for p in pairs], "difference": difference})
    elif difference is None:
        print(f"no difference: {counted(len(pairs), 'step')} compared")
    elif difference["cause"] == "steps":
        print(difference["reason"])
    else:
        _print_difference(difference)
    return DIFFERENT if difference else 0


# -- drawings


def drawing(trace, step, *, most=_MOST_DRAWN):
    """The graph of a step: ops in boxes of the lines that recorded them, and the leaves that they read. Of a step of
    more than `most` ops one box a line."""
    d = _draw.Drawing()
    by_line = len(step.ops()) > most
    home = {}  # of each value the box that makes it
    leaves, lines = iter(step.leaves), {}
    for node, first in zip(step.nodes, step.first_values(), strict=True):
        if node.is_number:
            continue
        where, code = trace.where(node.source), trace.code(node.source)
        if node.is_leaf:
            leaf = next(leaves)
            key = f"%{first}"
            d.add_node(
                key, f"{key} {leaf}", kind="data", details=[("read by", "the step"), ("bytes", size(leaf.bytes))]
            )
        else:
            group = f"line {node.source}"
            if by_line:
                lines.setdefault(group, (where, []))[1].append(node.op)
                key = group
            else:
                key = f"%{first}"
                if group not in d.groups:
                    d.add_group(group, code or where or "an unknown line", kind="plain", details=[("line", where)])
                facts = [("call", call_text(node, first)), ("line", where), ("code", code)]
                d.add_node(key, f"{node.op} {meta_text(node.results[0])}", kind="kernel", group=group, details=facts)
        home |= {first + i: key for i in range(len(node.results))}
    for group, (where, ops) in lines.items():
        names = [f"{name} x{n}" if n > 1 else name for name, n in collections.Counter(ops).items()]
        d.add_node(group, where or "an unknown line", kind="kernel", details=[("ops", ", ".join(names))])
    ends = set()
    for node, first in zip(step.nodes, step.first_values(), strict=True):
        ends |= {(home[v], home[first]) for v in node.inputs if v in home and home[v] != home[first]}
    for start, end in sorted(ends):
        d.add_edge(start, end)
    return d


def _write(path, text):
    if path == "-":
        print(text, end="")
        return
    with open(path, "w") as file:
        file.write(text)


def _dot(args):
    trace = _trace_file.read(args.file)
    number = find_step(trace, args.step)
    text = drawing(trace, trace.steps[number], most=100_000).dot(f"step {number}")
    if args.json:
        return _print_json({"step": number, "dot": text})
    _write(args.out or "-", text)
    return None


def _html(args):
    trace = _trace_file.read(args.file)
    numbers = [find_step(trace, args.step)] if args.step is not None else range(min(len(trace.steps), _MOST_STEPS))
    titles = ["step", "runs", "ops", "leaves", "reads", "results", "ended by", "where"]
    rows = [
        [str(f["step"]), str(f["runs"]), str(f["ops"]), str(f["leaves"]), size(f["leaf_bytes"]), str(f["outputs"]),
         f["reason"], short(f["where"])]
        for f in (step_facts(trace, i) for i in range(len(trace.steps)))
    ]  # fmt: skip
    sections = [("Steps", table_of(titles, rows, {0, 1, 2, 3, 4, 5}))]
    for i in numbers:
        step = trace.steps[i]
        head = f"Step {i}: {counted(len(step.ops()), 'op')}, {counted(step.runs, 'run')}"
        sections.append((head, drawing(trace, step)))
    out = args.out or os.path.splitext(args.file)[0] + ".html"
    _write(out, _draw.page(f"trace: {os.path.basename(args.file)}", sections))
    if args.json:
        _print_json({"written": out, "steps": list(numbers)})
    elif out != "-":
        left = len(trace.steps) - len(numbers)
        print(f"written to {out}" + (f", without {counted(left, 'step')}" if left and args.step is None else ""))
    return None


# -- the command line


def add_arguments(parser):
    """`show`, `stats` and the others, each with --json."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    commands = parser.add_subparsers(dest="trace_command", metavar="COMMAND", required=True)

    def command(name, run, text):
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("file", metavar="FILE")
        sub.add_argument("--json", action="store_true", help="print JSON")
        sub.set_defaults(run_trace=run)
        return sub

    show = command("show", _show, "the steps of a file, or one step's graph with its lines")
    show.add_argument("--step", type=int, metavar="N", help="print the graph of this step")
    stats = command("stats", _stats, "totals, and how often each op ran")
    stats.add_argument("--limit", type=int, default=20, help="at most so many ops (20)")
    diff = command("diff", _diff, "the first difference of two files' steps, or of two steps of one")
    diff.add_argument("other", metavar="FILE", nargs="?", help="the file after it; without it steps of FILE")
    diff.add_argument(
        "--steps",
        type=int,
        nargs=2,
        metavar=("A", "B"),
        help="compare step A with B, of the second file if there is one",
    )
    for name, function, text in (
        ("dot", _dot, "a step's graph in the language of Graphviz"),
        ("html", _html, "a page with the steps, their graphs drawn"),
    ):
        sub = command(name, function, text)
        sub.add_argument("--step", type=int, metavar="N", help="this step")
        sub.add_argument("-o", "--out", metavar="OUT", help="where to write it; - is the terminal")


def run(args):
    """Runs the subcommand; returns the exit status."""
    try:
        return args.run_trace(args)
    except BrokenPipeError:  # the reader has seen enough
        raise
    except (_trace_file.TraceError, OSError) as e:
        print(f"smolder trace: {e}", file=sys.stderr)
        return UNREADABLE
