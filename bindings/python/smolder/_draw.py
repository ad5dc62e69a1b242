"""Graphs drawn: as DOT, as SVG laid out in layers, and as a page of HTML that needs nothing but itself."""

import dataclasses
import html
import itertools
import json
from importlib import resources

_CHARACTER = 7.0  # points that one takes, about
_LINE = 15
_PAD = 8
_GAP = 14
_TITLE = 20  # of a group
_LONGEST = 44


@dataclasses.dataclass
class Node:
    """A box. `details` are (name, value) pairs that the page shows; `kind` chooses the colour, `share` draws a bar."""

    key: str
    text: str
    kind: str = "plain"
    group: str | None = None
    details: list = dataclasses.field(default_factory=list)
    share: float | None = None


@dataclasses.dataclass
class Edge:
    """An arrow from a node's key to another's."""

    start: str
    end: str
    details: list = dataclasses.field(default_factory=list)


class Drawing:
    """Nodes, in groups or by themselves, and edges. Kinds: plain, kernel, library, fallback, data."""

    def __init__(self):
        self.nodes, self.groups, self.edges = {}, {}, []

    def add_group(self, key, text, *, kind="kernel", details=(), share=None):
        """A box around the nodes that name it, such as a kernel's ops."""
        self.groups[key] = Node(key, text, kind, None, list(details), share)

    def add_node(self, key, text, *, kind="plain", group=None, details=(), share=None):
        """A box with a line of text."""
        self.nodes[key] = Node(key, text, kind, group, list(details), share)

    def add_edge(self, start, end, *, details=()):
        """An arrow between two nodes that are there."""
        self.edges.append(Edge(start, end, list(details)))

    def dot(self, name="graph"):
        """The graph in the language of Graphviz."""
        quote = json.dumps
        lines = [f"digraph {quote(name)} {{", '  node [shape=box, fontname="sans-serif", fontsize=10];']
        numbers = {key: f"n{i}" for i, key in enumerate(self.nodes)}
        for i, group in enumerate([None, *self.groups]):
            inside = [n for n in self.nodes.values() if n.group == group]
            if group is not None:
                lines += [f"  subgraph cluster_{i} {{", f"    label={quote(self.groups[group].text)};"]
            lines += [f"  {'  ' if group is not None else ''}{numbers[n.key]} [label={quote(n.text)}];" for n in inside]
            if group is not None:
                lines.append("  }")
        lines += [f"  {numbers[e.start]} -> {numbers[e.end]};" for e in self.edges]
        return "\n".join([*lines, "}"]) + "\n"

    def svg(self, number=0):
        """The graph as an <svg> element; `number` keeps those of one page apart."""
        return _Picture(self, number).text()

    def ids(self):
        """The data-id that `svg` gives each box, by key: groups, then nodes."""
        return {k: f"g{i}" for i, k in enumerate(self.groups)}, {k: f"n{i}" for i, k in enumerate(self.nodes)}

    def details(self):
        """The facts that the page shows for each box, by the id that `svg` gives it."""
        return {
            name: [[node.text, ""], *([str(a), str(b)] for a, b in node.details)]
            for boxes, names in zip((self.groups, self.nodes), self.ids(), strict=True)
            for node, name in zip(boxes.values(), names.values(), strict=True)
        }


def layers(keys, edges):
    """The layer of each key: behind all that lead to it, and what nothing leads to close before what it leads to.

    Edges that close a circle, in the order of keys, are as if reversed.
    """
    after, before = {k: [] for k in keys}, {k: [] for k in keys}
    for a, b in _without_circles(keys, edges):
        after[a].append(b)
        before[b].append(a)
    waits = {k: len(before[k]) for k in keys}
    level, ready = {}, [k for k in keys if not waits[k]]
    for k in ready:  # grows
        level[k] = max((level[b] + 1 for b in before[k]), default=0)
        for b in after[k]:
            waits[b] -= 1
            if not waits[b]:
                ready.append(b)
    for k in reversed(ready):
        if not before[k] and after[k]:
            level[k] = min(level[b] for b in after[k]) - 1
    return level


def _without_circles(keys, edges):
    follows = {k: [] for k in keys}
    for a, b in dict.fromkeys(edges):
        if a != b:
            follows[a].append(b)
    state, out = dict.fromkeys(keys, 0), []
    for first in keys:
        if state[first]:
            continue
        state[first] = 1
        stack = [(first, iter(follows[first]))]
        while stack:
            at, rest = stack[-1]
            for b in rest:
                out.append((b, at) if state[b] == 1 else (at, b))
                if state[b] == 0:
                    state[b] = 1
                    stack.append((b, iter(follows[b])))
                    break
            else:
                state[at] = 2
                stack.pop()
    return out


class _Layered:
    """Boxes of given sizes in layers from top to bottom, with the points that each edge goes by."""

    def __init__(self, sizes, edges, gap_x=_GAP, gap_y=26):
        self.sizes, self.gap_x, self.gap_y = dict(sizes), gap_x, gap_y
        self.edges = list(dict.fromkeys((a, b) for a, b in edges if a != b))
        self.level = layers(list(sizes), self.edges)
        lowest = min(self.level.values(), default=0)
        self.level = {k: v - lowest for k, v in self.level.items()}
        self.paths = {}
        self._add_bends()
        self._order()
        self._place()

    def _add_bends(self):
        self.rows = [[] for _ in range(max(self.level.values(), default=-1) + 1)]
        for k in self.sizes:
            self.rows[self.level[k]].append(k)
        self.links = []
        for a, b in self.edges:
            path = [a]
            step = 1 if self.level[b] > self.level[a] else -1
            for row in range(self.level[a] + step, self.level[b], step):
                bend = ("bend", a, b, row)
                self.sizes[bend] = (2, 0)
                self.level[bend] = row
                self.rows[row].append(bend)
                path.append(bend)
            path.append(b)
            self.paths[a, b] = path
            self.links += [(p, q) if self.level[p] < self.level[q] else (q, p) for p, q in itertools.pairwise(path)]
        self.above, self.below = {k: [] for k in self.sizes}, {k: [] for k in self.sizes}
        for p, q in self.links:
            self.below[p].append(q)
            self.above[q].append(p)

    def _order(self):
        place = {}

        def number():
            for row in self.rows:
                place.update((k, i) for i, k in enumerate(row))

        number()
        for sweep in range(8):
            down = sweep % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                near = self.above if down else self.below
                weight = {}
                for k in row:
                    neighbours = near[k]
                    weight[k] = sum(place[n] for n in neighbours) / len(neighbours) if neighbours else place[k]
                row.sort(key=weight.__getitem__)
                place.update((k, i) for i, k in enumerate(row))

    def _place(self):
        self.x, self.y = {}, {}
        for row in self.rows:
            at = 0.0
            for k in row:
                self.x[k] = at + self.sizes[k][0] / 2
                at += self.sizes[k][0] + self.gap_x
        for sweep in range(12):
            down = sweep % 2 == 0
            for row in self.rows if down else reversed(self.rows):
                self._pull(row, self.above if down else self.below, sweep >= 10)
        left = min((self.x[k] - self.sizes[k][0] / 2 for k in self.x), default=0)
        top = 0.0
        for row in self.rows:
            tall = max(self.sizes[k][1] for k in row)
            for k in row:
                self.x[k] -= left
                self.y[k] = top + tall / 2
            top += tall + self.gap_y
        self.width = max((self.x[k] + self.sizes[k][0] / 2 for k in self.x), default=0)
        self.height = max(top - self.gap_y, 0)

    def _pull(self, row, near, both):
        """Moves a row's boxes towards those that they are linked with, as far as their order allows."""
        wanted = []
        for k in row:
            neighbours = near[k] + ((self.below if near is self.above else self.above)[k] if both else [])
            wanted.append(sum(self.x[n] for n in neighbours) / len(neighbours) if neighbours else self.x[k])
        # Neighbours that want the same place are one block, which stands where its members want to be on average.
        blocks = []  # [sum of wishes for the block's start, members, width, first]
        for i, k in enumerate(row):
            half = self.sizes[k][0] / 2
            blocks.append([wanted[i] - half, 1, self.sizes[k][0] + self.gap_x, i])
            while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] + blocks[-2][2] > blocks[-1][0] / blocks[-1][1]:
                total, members, wide, _ = blocks.pop()
                blocks[-1][0] += total - members * blocks[-1][2]
                blocks[-1][1] += members
                blocks[-1][2] += wide
        ends = [block[3] for block in blocks[1:]] + [len(row)]
        for (total, members, _, first), end in zip(blocks, ends):
            at = total / members
            for k in row[first:end]:
                self.x[k] = at + self.sizes[k][0] / 2
                at += self.sizes[k][0] + self.gap_x


def _cut(text):
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _box(node):
    return max(30.0, len(_cut(node.text)) * _CHARACTER + 2 * _PAD), _LINE + _PAD


class _Picture:
    def __init__(self, drawing, number):
        self.drawing, self.number = drawing, number
        self.inside = {}  # by group: its own layout
        self.outer_of = {}  # by node: its group, or itself
        members = {g: [] for g in drawing.groups}
        for node in drawing.nodes.values():
            grouped = node.group in members
            self.outer_of[node.key] = ("g", node.group) if grouped else ("n", node.key)
            if grouped:
                members[node.group].append(node.key)
        sizes = {}
        for g, keys in members.items():
            own = [
                (e.start, e.end)
                for e in drawing.edges
                if drawing.nodes[e.start].group == drawing.nodes[e.end].group == g
            ]
            layout = self.inside[g] = _Layered({k: _box(drawing.nodes[k]) for k in keys}, own, 8, 12)
            title = len(_cut(drawing.groups[g].text)) * _CHARACTER + 2 * _PAD
            sizes["g", g] = (max(layout.width + 2 * _PAD, title), layout.height + _TITLE + 2 * _PAD)
        for key, outer in self.outer_of.items():
            if outer[0] == "n":
                sizes[outer] = _box(drawing.nodes[key])
        between = [(self.outer_of[e.start], self.outer_of[e.end]) for e in drawing.edges]
        self.outer = _Layered(sizes, between)

    def _centre(self, key):
        outer = self.outer_of[key]
        x, y = self.outer.x[outer], self.outer.y[outer]
        if outer[0] == "n":
            return x, y
        inner, (_, tall) = self.inside[outer[1]], self.outer.sizes[outer]
        return x - inner.width / 2 + inner.x[key], y - tall / 2 + _TITLE + _PAD + inner.y[key]

    def text(self):
        margin = 12
        wide, tall = self.outer.width + 2 * margin, self.outer.height + 2 * margin
        out = [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" id="d{self.number}" viewBox="0 0 {wide:.0f} {tall:.0f}"'
            f' data-width="{wide:.0f}" data-height="{tall:.0f}">',
            f'<defs><marker id="tip{self.number}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"'
            ' orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>',
            f'<g class="scene"><g transform="translate({margin} {margin})">',
        ]
        groups, nodes = self.drawing.ids()
        ids = {("g", k): name for k, name in groups.items()} | {("n", k): name for k, name in nodes.items()}
        for key, group in self.drawing.groups.items():
            outer = ("g", key)
            size = self.outer.sizes[outer]
            out.append(self._rectangle(ids[outer], group, self.outer.x[outer], self.outer.y[outer], size, True))
        out += self._edges(ids)
        for key, node in self.drawing.nodes.items():
            x, y = self._centre(key)
            out.append(self._rectangle(ids["n", key], node, x, y, _box(node), False))
        return "\n".join([*out, "</g></g></svg>"])

    @staticmethod
    def _rectangle(name, node, x, y, size, is_group):
        wide, tall = size
        left, top = x - wide / 2, y - tall / 2
        text_y = top + 14 if is_group else y + 4
        bar = ""
        if node.share is not None:
            bar = (
                f'<rect class="bar" x="{left:.1f}" y="{top + (_TITLE if is_group else tall - 3):.1f}"'
                f' width="{wide * min(max(node.share, 0), 1):.1f}" height="3"/>'
            )
        return (
            f'<g class="{"group" if is_group else "node"} {html.escape(node.kind)}" data-id="{name}" tabindex="0">'
            f"<title>{html.escape(node.text)}</title>"
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{tall:.1f}" rx="{6 if is_group else 4}"/>{bar}'
            f'<text x="{x:.1f}" y="{text_y:.1f}">{html.escape(_cut(node.text))}</text></g>'
        )

    def _edges(self, ids):
        drawn, out = {}, []
        for e in self.drawing.edges:
            drawn.setdefault((e.start, e.end), []).extend(e.details)
        for (start, end), details in drawn.items():
            a, b = self.outer_of[start], self.outer_of[end]
            (x1, y1), (x2, y2) = self._centre(start), self._centre(end)
            half1, half2 = _box(self.drawing.nodes[start])[1] / 2, _box(self.drawing.nodes[end])[1] / 2
            points = [(x1, y1 + half1)]
            if a != b and y2 > y1:
                path = self.outer.paths[a, b]
                points += [(self.outer.x[k], self.outer.y[k]) for k in path[1:-1]]
                bottom = self.outer.y[a] + self.outer.sizes[a][1] / 2
                if a[0] == "g" and path[1:-1]:
                    points.insert(1, (x1, bottom + 4))
            points.append((x2, y2 - half2))
            title = "".join(
                f"<title>{html.escape(text)}</title>" for text in ["; ".join(f"{n} {v}" for n, v in details)] if text
            )
            ends = f'data-from="{ids["n", start]} {ids[a]}" data-to="{ids["n", end]} {ids[b]}"'
            out.append(
                f'<path class="edge" {ends} d="{_curve(points)}" marker-end="url(#tip{self.number})">{title}</path>'
            )
        return out


def _curve(points):
    x, y = points[0]
    out = [f"M{x:.1f} {y:.1f}"]
    for (x1, y1), (x2, y2) in itertools.pairwise(points):
        bend = (y2 - y1) / 2
        out.append(f"C{x1:.1f} {y1 + bend:.1f} {x2:.1f} {y2 - bend:.1f} {x2:.1f} {y2:.1f}")
    return "".join(out)


def page(title, sections):
    """One page of HTML. Sections are (heading, content): a Drawing, or text of HTML that is taken as it is."""
    style, script = (resources.files("smolder").joinpath(name).read_text() for name in ("_page.css", "_page.js"))
    body, details, number = [], {}, 0
    for heading, content in sections:
        body.append(f"<section><h2>{html.escape(heading)}</h2>" if heading else "<section>")
        if isinstance(content, Drawing):
            details[f"d{number}"] = content.details()
            body.append(
                f'<div class="view" id="v{number}"><div class="canvas">{content.svg(number)}</div>'
                '<aside><input class="find" type="search" placeholder="find an op" aria-label="find an op"/>'
                '<div class="details"><p class="hint">Point at a box for what it is; click to keep it. Drag to move,'
                " wheel to zoom, double click to fit.</p></div></aside></div>"
            )
            number += 1
        else:
            body.append(content)
        body.append("</section>")
    data = json.dumps(details).replace("<", "\\u003c")
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{style}</style></head>\n<body>\n<h1>{html.escape(title)}</h1>\n"
        + "\n".join(body)
        + f'\n<script type="application/json" id="details">{data}</script>\n<script>\n{script}</script>\n</body></html>\n'
    )
