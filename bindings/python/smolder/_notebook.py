"""How things show themselves in a notebook."""

from __future__ import annotations

import html

from smolder import _core

__all__ = ["metrics_report"]

_ROWS, _COLUMNS = 12, 10  # of a table that shows a tensor; what is more is left out in the middle
_TABLE = "border-collapse:collapse;font-family:monospace;text-align:right"
_TALL = 640  # pixels of a page within a notebook


class Report(str):
    """Text of several lines, which shows itself as such at a prompt and in a notebook."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return preformatted(self)


def metrics_report() -> Report:
    """The counters of metrics() and the events of late, as text: what ran, what was compiled, what fell back."""
    return Report(_core.metrics_report())


def preformatted(text):
    """Text as HTML, line by line."""
    return f'<pre style="overflow-x:auto">{html.escape(text)}</pre>'


def framed(page):
    """A page of HTML within a notebook, with a style and a script of its own."""
    return (
        f'<iframe srcdoc="{html.escape(page, quote=True)}" sandbox="allow-scripts" '
        f'style="width:100%;height:{_TALL}px;border:0"></iframe>'
    )


def _shown(count, most):
    """Indices that are shown of so many, with None where some are left out."""
    if count <= most:
        return list(range(count))
    half = most // 2
    return [*range(half), None, *range(count - half, count)]


def _element(value):
    if isinstance(value, float):
        return f"{value:.4f}" if value == 0 or 1e-4 <= abs(value) < 1e6 else f"{value:.4e}"
    return str(value)


def tensor_html(tensor):
    """A tensor: a table of a vector's or a matrix's elements, else its text; below it shape, dtype and device."""
    facts = [f"{type(tensor).__name__} {list(tensor.shape)}", str(tensor.dtype), str(tensor.device)]
    facts += ["requires grad"] * tensor.requires_grad
    below = f"<small>{html.escape(' · '.join(facts))}</small>"
    if tensor.dim() not in (1, 2) or tensor.numel() == 0:
        return f"<div>{preformatted(repr(tensor))}{below}</div>"
    matrix = tensor.detach().reshape(1, -1) if tensor.dim() == 1 else tensor.detach()
    rows, columns = _shown(matrix.size(0), _ROWS), _shown(matrix.size(1), _COLUMNS)
    kept = matrix[[r for r in rows if r is not None]][:, [c for c in columns if c is not None]].tolist()
    lines = iter(kept)
    body = []
    for row in rows:
        values = iter([] if row is None else next(lines))
        cells = ("⋮" if row is None else "…" if c is None else _element(next(values)) for c in columns)
        body.append("<tr>" + "".join(f'<td style="padding:0 6px">{html.escape(cell)}</td>' for cell in cells) + "</tr>")
    table = f'<table style="{_TABLE}">' + "".join(body) + "</table>"
    return f'<div style="overflow-x:auto">{table}{below}</div>'


def graph_html(graph):
    """A graph drawn: its inputs and weights, and the ops between them and what it returns."""
    from smolder import _draw

    d = _draw.Drawing()
    shown = {value.name: repr(value) for value in graph.inputs}
    weights = dict(graph._graph.weights())
    for name, value in zip(graph.input_names, graph.inputs, strict=True):
        d.add_node(value.name, f"{name} {repr(value).partition(': ')[2]}", kind="data")
    for node in graph.nodes:
        made = {value.name: repr(value).partition(": ")[2] for value in node.outputs}
        shown |= made
        facts = [*((k, str(v)) for k, v in node.attributes.items()), ("line", node.source)]
        kind = next(iter(made.values()), "")
        d.add_node(node.name, f"{node.op} {kind}", kind="kernel", details=[f for f in facts if f[1]])
    makers = {value.name: node.name for node in graph.nodes for value in node.outputs}
    known = set(d.nodes)
    for node in graph.nodes:
        for value in node.inputs:
            start = makers.get(value, value)
            if start in known:
                d.add_edge(start, node.name)
    for name, value in zip(graph.output_names, graph.outputs, strict=True):
        d.add_node(f"output {name}", name, kind="data")
        if (start := makers.get(value.name, value.name)) in known:
            d.add_edge(start, f"output {name}")
    below = f"<p>{len(weights)} weights: {html.escape(', '.join(weights))}</p>" if weights else ""
    return framed(_draw.page(repr(graph), [("", d), ("", below)]))
