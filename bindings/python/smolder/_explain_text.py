"""An Explanation as text."""

import textwrap

from smolder._terminal import cut, size, table, width

_MOST_GUARDS = 12
_MOST_ROWS = 40
_MOST_REASONS = 10


def time(ms):
    """A time for people, of three digits or so."""
    if ms is None:
        return "-"
    if ms < 1:
        return f"{ms * 1e3:.1f} us" if ms < 0.1 else f"{ms * 1e3:.0f} us"
    return f"{ms:.2f} ms" if ms < 10 else f"{ms:.0f} ms" if ms < 10000 else f"{ms / 1e3:.0f} s"


def share(x):
    """A share of a limit; beyond it what is told is that it was reached: operands were in a cache still."""
    return "-" if x is None else f"{min(x, 1) * 100:.0f}%"


def count(n, one, many=None):
    """'1 graph', '2 graphs'."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def lines_of(ops):
    """The places of ops, each once, without folders."""
    places = dict.fromkeys(short(op.where) for op in ops if op.where)
    return ", ".join(places)


def short(where):
    """'train.py:12' of '/home/me/train.py:12 in step'."""
    return where.rpartition(" in ")[0].rpartition("/")[2] or where.rpartition("/")[2]


def names_of(ops):
    """The names of ops in order, with how often each comes."""
    told = {}
    for op in ops:
        told[op.name] = told.get(op.name, 0) + 1
    return " ".join(name if n == 1 else f"{n} {name}" for name, n in told.items())


def summary(e):
    """The head of a report: (name, value) pairs."""
    kinds = [k.kind for k in e.kernels]
    out = [
        ("graphs", str(e.graph_count)),
        ("breaks", str(e.graph_break_count)),
        ("ops", str(e.op_count)),
        ("kernels", str(len(kinds))),
        ("compiled", time(e.compile_ms) if e.compile_ms else "nothing"),
        ("kernel time", time(e.kernel_ms)),
        ("at the limits", time(e.floor_ms)),
        ("moved", size(e.bytes)),
    ]
    if e.wall_ms is not None:
        out.append(("the call", time(e.wall_ms)))
    return out


def findings(e):
    """Lines about what deserves a look first, the most telling first."""
    out = []
    for r in e.recompiles:
        if r["compiled"] and r["cause"] != "new":
            took = f" in {time(r['milliseconds'])}" if r["milliseconds"] else ""
            out.append(
                f"graph {r['graph']} was compiled again{took}: {r['cause']}: {r['reason']}, at {short(r['where'])}"
            )
        elif r["compiled"]:
            out.append(
                f"graph {r['graph']} was new and compiled in {time(r['milliseconds'])}; run it once more for what repeats"
            )
    for b in e.break_reasons:
        out.append(f"{short(b.where)} ends graph {b.graph}: {b.what}")
    for f in e.fallbacks:
        out.append(f"fallback at {short(f['where'])}: {f['what']}")
    for g in e.graphs:
        if g.how == "one by one":
            out.append(f"graph {g.number} ran op by op{': ' + g.note if g.note else ''}")
    total = e.kernel_ms or 0
    alike = {}  # kernels of the same ops and lines
    for k in e.kernels:
        if k.ms is not None and k.share is not None:
            alike.setdefault((names_of(k.ops) or k.name, lines_of(k.ops)), []).append(k)
    lost = sorted(((sum(k.ms - k.floor_ms for k in ks), names, ks) for names, ks in alike.items()), key=lambda x: -x[0])
    for gap, (names, lines), ks in lost[:3]:
        if total and gap > 0.05 * total and gap > 0.005:
            took, floor = sum(k.ms for k in ks), sum(k.floor_ms for k in ks)
            many = f" ({len(ks)} kernels)" if len(ks) > 1 else ""
            out.append(
                f"{names}{many} at {lines} takes {time(took)} of {time(total)}; {time(floor)} would do at the machine's limits"
            )
    if e.wall_ms and total and not e.break_reasons and e.wall_ms - e.compile_ms > 3 * total + 0.2:
        rest = e.wall_ms - e.compile_ms - total
        out.append(
            f"{time(rest)} of the call are neither kernels nor compiling: Python and recording; smolder.compile removes it"
        )
    return out


def report(e):
    """All of it, as wide as the terminal."""
    out = [f"{e.function}{' at ' + e.where if e.where else ''}"]
    kinds = [k.kind for k in e.kernels]
    calls = [count(kinds.count("library"), "call of a library", "calls of libraries")] if "library" in kinds else []
    calls += [count(kinds.count("fallback"), "fallback")] if "fallback" in kinds else []
    calls += [f"{kinds.count('eager')} in eager mode"] if "eager" in kinds else []
    calls += [f"{kinds.count('interpreted')} interpreted, until compiled"] if "interpreted" in kinds else []
    calls += [f"{kinds.count('quick')} compiled quickly, until compiled well"] if "quick" in kinds else []
    inside = f" ({', '.join(calls)} among them)" if calls else ""
    out.append(
        f"{count(e.graph_count, 'graph')}, {count(e.graph_break_count, 'break')}, {count(e.op_count, 'op')} in"
        f" {count(len(kinds), 'kernel')}{inside}"
    )
    if e.wall_ms is not None:
        out.append(
            f"the call took {time(e.wall_ms)}, {time(e.compile_ms) if e.compile_ms else 'nothing'} of it compiling"
        )
    reached = share(e.floor_ms / e.kernel_ms) if e.kernel_ms else "-"
    out.append(
        f"kernels take {time(e.kernel_ms)} and move {size(e.bytes)}; {time(e.floor_ms)} at the machine's limits ({reached})"
    )
    if not e.timed:
        out.append("not timed: kernels of users are not run again")
    told = findings(e)
    if told:
        out += ["", "first", *(f"  {line}" for line in told)]
    for g in e.graphs:
        out += ["", *_graph(g)]
    out += _collectives(e) + _breaks(e) + _fallbacks(e) + _guards(e)
    return "\n".join(_wrapped(out))


def _wrapped(lines):
    """Lines that are too long go on below, further to the right."""
    for line in lines:
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        yield from textwrap.wrap(line, width(), subsequent_indent=indent, break_on_hyphens=False) or [""]


def _graph(g):
    ended = f", ended by {g.ended_by}{' at ' + g.where if g.where else ''}" if g.ended_by else ""
    out = [f"graph {g.number} on {g.device}: {count(len(g.ops), 'op')} in {count(len(g.kernels), 'kernel')}{ended}"]
    if g.how == "one by one":
        out.append(f"  ran op by op{': ' + g.note if g.note else ''}")
    if g.recompile:
        r = g.recompile
        what = f"compiled in {time(r['milliseconds'])}" if r["compiled"] else "recorded anew, known to the compiler"
        out.append(f"  {what}: {r['cause']}: {r['reason']}")
        out += [f"    {name} {r[key]}" for name, key in (("now at   ", "where"), ("before at", "before")) if r[key]]
    if g.kernels:
        shown = sorted(sorted(g.kernels, key=lambda k: -(k.ms or 0))[:_MOST_ROWS], key=lambda k: k.number)
        rows = [
            [
                str(k.number), k.kind, time(k.ms), share(k.share), time(k.floor_ms), size(k.bytes),
                "cached" if k.compile_ms is None and k.kind == "kernel" else time(k.compile_ms) if k.compile_ms else "",
                lines_of(k.ops), names_of(k.ops) or k.name,
            ]
            for k in shown
        ]  # fmt: skip
        titles = ["", "kind", "time", "limit", "floor", "bytes", "compiled", "lines", "ops"]
        out += [cut("  " + line, width()) for line in table(titles, rows, right=(0, 2, 3, 4, 5, 6))]
        if len(g.kernels) > _MOST_ROWS:
            out.append(f"  and {len(g.kernels) - _MOST_ROWS} that take less")
        if any(k.launch == other.launch for k, other in zip(g.kernels, g.kernels[1:])):
            out.append("  side by side: " + "; ".join(_beside(g)))
    kept = [n for n in g.not_fused if g.kernels[n.kernel].kind == g.kernels[n.reader].kind == "kernel"]
    if kept:
        out.append("  not fused")
        for n in kept[:_MOST_REASONS]:
            meaning = f" ({n.meaning})" if n.meaning else ""
            out.append(
                f"    {n.kernel} {n.op} -> {n.reader} {n.reader_op} at {short(n.reader_where)}, {size(n.bytes)}: {n.why}{meaning}"
            )
        if len(kept) > _MOST_REASONS:
            out.append(f"    and {len(kept) - _MOST_REASONS} more")
    calls = len(g.not_fused) - len(kept)
    if calls:
        out.append(
            f"  {count(calls, 'more value')} in memory because a call writes or reads {'it' if calls == 1 else 'them'}"
        )
    return out


def _beside(g):
    launches = {}
    for k in g.kernels:
        launches.setdefault(k.launch, []).append(k.number)
    for numbers in launches.values():
        if len(numbers) > 1:
            yield f"{numbers[0]} to {numbers[-1]}" if len(numbers) > 2 else f"{numbers[0]} and {numbers[1]}"


def _collectives(e):
    from smolder._explain_collectives import lines

    return lines(e.collectives)


def _breaks(e):
    out = ["", "breaks"] if e.break_reasons else []
    for b in e.break_reasons:
        out.append(f"  {b.reason} at {b.where}: {b.what}")
        out += [f"    {b.line}"] if b.line else []
        out.append(f"    to remove it: {b.advice}")
    return out


def _fallbacks(e):
    out = ["", "fallbacks"] if e.fallbacks else []
    for f in e.fallbacks:
        times = f", {f['count']} times" if f["count"] > 1 else ""
        out.append(f"  {f['what']} at {f['where']}{times}")
    return out


def _guards(e):
    out = ["", f"guards, were it compiled by smolder.compile: {len(e.out_guards)}"] if e.out_guards else []
    out += [f"  {line}" for line in e.out_guards[:_MOST_GUARDS]]
    if len(e.out_guards) > _MOST_GUARDS:
        out.append(f"  and {len(e.out_guards) - _MOST_GUARDS} more: see out_guards")
    return out
