"""An Explanation as a page of HTML."""

from html import escape

from smolder import _advice, _draw, _lines
from smolder._explain_collectives import RIGHT, TITLES
from smolder._explain_collectives import rows as rows_of
from smolder._explain_text import count, findings, lines_of, names_of, share, short, summary, time
from smolder._terminal import size

_MOST_OPS = 700  # of a drawn graph; beyond it a box is a kernel
_MOST_DRAWN = 16  # graphs


def page(e, more=()):
    """The page: what stands out, each graph drawn and as a table, breaks, recompiles, neighbours, guards.

    `more` are sections, as _draw.page takes them, for its beginning.
    """
    cards = "".join(
        f'<div class="card"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for name, value in summary(e)
    )
    sections = [("", f'<p class="soft">{escape(e.where)}</p><div class="cards">{cards}</div>')]
    sections += more
    if told := findings(e):
        sections.append(
            ("What to look at first", "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in told) + "</ul>")
        )
    if e.break_reasons:
        sections.append(("Breaks", _breaks(e)))
    if e.recompiles:
        sections.append(("Compiled", _recompiles(e)))
    drawn = 0
    for g in e.graphs:
        if g.kernels and g.how == "plan" and drawn < _MOST_DRAWN:
            picture = drawing(g)
            sections.append((_title(g), picture))
            sections.append(("", _kernels(g, picture, drawn)))
            drawn += 1
        else:
            sections.append((_title(g), _note(g) + _kernels(g)))
        if g.not_fused:
            sections.append(("", _not_fused(g)))
    if e.collectives:
        sections.append(("Collectives", table_of(TITLES, rows_of(e.collectives), set(RIGHT))))
    if e.fallbacks:
        rows = [[f["what"], f["where"], str(f["count"])] for f in e.fallbacks]
        sections.append(("Fallbacks", table_of(["what", "where", "times"], rows, {2})))
    if e.out_guards:
        items = "".join(f"<li><code>{escape(line)}</code></li>" for line in e.out_guards)
        told = "What must be as it was for a recorded step to be the one that runs, were this compiled."
        sections.append(
            ("Guards", f"<details><summary>{len(e.out_guards)}. {told}</summary><ul>{items}</ul></details>")
        )
    sections.append(("The limits of this machine", _limits(e)))
    return _draw.page(f"explain: {e.function}", sections)


def drawing(g):
    """The graph of a step that ran as a plan: ops in the boxes of their kernels."""
    d = _draw.Drawing()
    total = g.ms or 0
    whole = sum(len(k.ops) for k in g.kernels) > _MOST_OPS
    shown = {k.number: [] if whole else list(enumerate(k.ops)) for k in g.kernels}
    wrote = {}  # by buffer: the boxes that wrote it last
    for k in g.kernels:
        title = f"{k.kind} {k.number}{': ' + k.name if whole else ''}{', ' + time(k.ms) if k.ms is not None else ''}"
        part = k.ms / total if total and k.ms is not None else None
        if shown[k.number]:
            d.add_group(k.number, title, kind=k.kind, details=_details(g, k), share=part)
        else:
            d.add_node((k.number, 0), title, kind=k.kind, details=_details(g, k), share=part)
        for i, op in shown[k.number]:
            d.add_node((k.number, i), op.name, group=k.number, details=_op_details(g, op))
            for j in op.inputs:
                d.add_edge((k.number, j), (k.number, i))
        boxes = shown[k.number] or [(0, None)]
        for i, op in boxes:
            for b in op.reads if op else [b for b, _ in k.reads]:
                for start in wrote.get(b, ()):
                    if start != (k.number, i):
                        d.add_edge(start, (k.number, i), details=[("", _buffer(g, b))])
        for b, _ in k.writes:
            writers = [(k.number, i) for i, op in boxes if op is None or b in op.writes]
            wrote[b] = writers or [(k.number, boxes[-1][0])]
    # Edges may lead to boxes that come later among a kernel's ops only; all boxes are there by now.
    return d


def _details(g, k):
    out = [
        ("kind", k.kind),
        ("time", f"{time(k.ms)}, {share(k.share)} of the limit ({time(k.floor_ms)})"),
        ("moves", size(k.bytes)),
        ("arithmetic", f"{k.flops:.3g} operations"),
        ("reads", "\n".join(f"{_buffer(g, b)}, {size(n)}" for b, n in k.reads)),
        ("writes", "\n".join(f"{_buffer(g, b)}, {size(n)}" for b, n in k.writes)),
        ("ops", names_of(k.ops)),
        ("lines", "\n".join(dict.fromkeys(op.where for op in k.ops if op.where))),
    ]
    if k.kind == "kernel":
        out.append(("compiled", "from the cache" if k.compile_ms is None else time(k.compile_ms)))
        out.append(("key", k.key[:12]))
    beside = [str(o.number) for o in g.kernels if o.launch == k.launch and o is not k]
    if beside:
        out.append(("side by side with", ", ".join(beside)))
    out += [
        (f"not fused with {n.reader}", f"{n.op} → {n.reader_op}: {n.why}" + (f"\n{n.meaning}" if n.meaning else ""))
        for n in g.not_fused
        if n.kernel == k.number
    ]
    return [(name, value) for name, value in out if value]


def _op_details(g, op):
    reads = "\n".join(_buffer(g, b) for b in op.reads)
    writes = "\n".join(_buffer(g, b) for b in op.writes)
    line = _lines.source_line(op.where)
    told = {}
    for name in op.primitives:
        told[name] = told.get(name, 0) + 1
    out = [("line", op.where), ("", line), ("reads", reads), ("writes", writes)]
    out.append(("computes", " ".join(name if n == 1 else f"{n} {name}" for name, n in told.items())))
    return [(name, value) for name, value in out if value]


def _buffer(g, b):
    info = g.buffers[b]
    number = f" {info['number']}" if info["number"] >= 0 else ""
    return f"{info['kind']}{number} {info['dtype']}[{', '.join(map(str, info['shape']))}]"


def _title(g):
    ended = f", ended by {g.ended_by}" if g.ended_by else ""
    return f"Graph {g.number} on {g.device}: {count(len(g.ops), 'op')} in {count(len(g.kernels), 'kernel')}{ended}"


def _note(g):
    if g.how == "eager":
        return "<p>Ops of eager mode, each by itself.</p>"
    return f"<p>Ran op by op: {escape(g.note)}</p>" if g.how == "one by one" else ""


def table_of(titles, rows, numbers=(), code=(), boxes=None):
    """A table of text. A cell may be (HTML, number to sort by); `boxes` says, by row, what it is in a drawing."""

    def cell(tag, c, text):
        kinds = ["number"] * (c in numbers) + ["code"] * (c in code)
        inside, sorts = text if isinstance(text, tuple) else (escape(text), None)
        if tag == "th" and rows and isinstance(rows[0][c], tuple):
            kinds.append("sorts")
        value = "" if sorts is None else f' data-value="{sorts:.9g}"'
        return f"<{tag}{value}" + (f' class="{" ".join(kinds)}">' if kinds else ">") + f"{inside}</{tag}>"

    def row(r, texts):
        box = f' data-drawing="{boxes[r][0]}" data-box="{boxes[r][1]}"' if boxes else ""
        return f"<tr{box}>" + "".join(cell("td", c, t) for c, t in enumerate(texts)) + "</tr>\n"

    head = "".join(cell("th", c, t) for c, t in enumerate(titles))
    body = "".join(row(r, texts) for r, texts in enumerate(rows))
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>\n{body}</tbody></table></div>'


def _meter(x):
    if x is None:
        return "-", 0
    return f'{share(x)} <span class="meter"><i style="width:{min(max(x, 0), 1) * 100:.0f}%"></i></span>', x


def _kernels(g, picture=None, number=0):
    rows = [
        [
            (str(k.number), k.number), k.kind, names_of(k.ops) or k.name, lines_of(k.ops), (time(k.ms), k.ms or 0),
            _meter(k.ms / g.ms if g.ms and k.ms is not None else None), (time(k.floor_ms), k.floor_ms), _meter(k.share),
            (size(k.bytes), k.bytes),
            ("" if k.kind != "kernel" else "cached") if k.compile_ms is None else time(k.compile_ms),
        ]
        for k in g.kernels
    ]  # fmt: skip
    boxes = None
    if picture:
        groups, nodes = picture.ids()
        boxes = [(f"d{number}", groups.get(k.number) or nodes[k.number, 0]) for k in g.kernels]
    titles = ["", "kind", "ops", "lines", "time", "of the graph", "at the limit", "reached", "bytes", "compiled"]
    return table_of(titles, rows, {0, 4, 5, 6, 7, 8, 9}, {2}, boxes) if rows else ""


def _breaks(e):
    rows = [[f"after graph {b.graph}", short(b.where), b.line, b.what, b.advice] for b in e.break_reasons]
    return table_of(["", "where", "line", "why", "what would remove it"], rows, code={2})


def _recompiles(e):
    rows = [
        [
            f"graph {r['graph']}", "compiled" if r["compiled"] else "recorded anew", r["cause"], r["reason"], short(r["where"]),
            short(r["before"]), time(r["milliseconds"]) if r["compiled"] else "", str(len(r["kernels"])), _advice.of_recompile(r["cause"]),
        ]
        for r in e.recompiles
    ]  # fmt: skip
    titles = [
        "", "", "cause", "first difference", "now at", "before at", "took", "kernels built", "what often removes it",
    ]  # fmt: skip
    return table_of(titles, rows, {6, 7})


def _not_fused(g):
    rows = [
        [
            f"{n.kernel} {n.op}",
            short(n.where),
            f"{n.reader} {n.reader_op}",
            short(n.reader_where),
            size(n.bytes),
            n.why,
            n.meaning,
        ]
        for n in g.not_fused
    ]
    titles = ["kernel", "line", "read by", "line", "bytes", "not one kernel because", ""]
    told = f"{count(len(rows), 'value')} handed from kernel to kernel through memory"
    return f"<details><summary>{told}, and why</summary>{table_of(titles, rows, {4})}</details>"


def _limits(e):
    rows = []
    for device, known in e.limits.items():
        rows.append(
            [
                device,
                "copies of 64M" if device == "cpu" else "large copies",
                f"{known['bytes_per_second'] / 1e9:.1f} GB/s",
            ]
        )
        rows += [
            [device, f"products of {t}", f"{rate / 1e9:.0f} Gflop/s"] for t, rate in known["flops_per_second"].items()
        ]
    told = (
        "Measured when the first report is made. A kernel's floor is the longer of what its bytes and its arithmetic take"
        " at these rates; small kernels are limited by what starting them takes, which is not in it."
    )
    return f"<p>{told}</p>" + table_of(["device", "", "at most"], rows, {2})
