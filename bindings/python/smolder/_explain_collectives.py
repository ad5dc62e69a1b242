"""The collectives of an explained call: how long they took and waited, and which work ran beside them."""

from __future__ import annotations

import dataclasses
import itertools
import re
import sys
from typing import Any

from smolder import _core
from smolder._explain_text import count, short, time
from smolder._terminal import cut, size, table, width

_MOST_ROWS = 40


@dataclasses.dataclass
class Collective:
    """A collective that the call waited for. Times are of this process, as they were in the call.

    `queued_ms` is how long it waited for the collectives of its group before it, `ms` how long it was under way, for the
    other processes to come as well, `waited_ms` how long the step stood still for it, and `hidden_ms` what of its time
    the step went on. `beside` are (graph, kernel) that ran between its begin and where its result was needed. `bucket`
    says of an all_reduce of DistributedDataParallel which parameters' gradients it has.
    """

    what: str
    group: str
    number: int
    where: str
    needed_at: str
    bytes: int
    queued_ms: float
    ms: float
    waited_ms: float
    hidden_ms: float
    beside: list[tuple[int, int]]
    beside_ms: float
    bucket: str


def start() -> None:
    """From now on collectives are kept."""
    _core._dist_take()
    _core._dist_keep(True)


def stop() -> list[dict[str, Any]]:
    """Those since `start`."""
    _core._dist_keep(False)
    return _core._dist_take()


def of(graphs: list[Any], ran: list[dict[str, Any]]) -> list[Collective]:
    """Them all, in the order in which they were begun."""
    places = _places(graphs, ran)
    buckets = _buckets()
    return [_collective(r, graphs, places.get(id(r)), buckets) for r in sorted(ran, key=lambda r: r["begun"])]


def _places(graphs, ran):
    """By collective: the kernels of the plans that began it and that needed its result, as (graph, kernel)."""
    begun, needed = iter(sorted(ran, key=lambda r: r["begun"])), iter(sorted(ran, key=lambda r: r["waited"]))
    begins, ends = {}, {}
    for g in graphs:
        for k in g.kernels:
            name = next((op.name for op in k.ops if op.name.startswith("dist::")), k.name)
            if not name.startswith("dist::") or name == "dist::send":
                continue
            if name not in ("dist::finish", "dist::follow", "dist::release"):
                begins[id(next(begun, None))] = (g.number, k.number)
            if not name.startswith(("dist::begin_", "dist::queue_")):
                ends[id(next(needed, None))] = (g.number, k.number)
    return {key: (at, ends[key]) for key, at in begins.items() if key in ends}


def _collective(r, graphs, place, buckets):
    beside = []
    if place:
        for g in graphs:
            beside += [(g.number, k.number) for k in g.kernels if place[0] < (g.number, k.number) < place[1]]
    known = {(g.number, k.number): k for g in graphs for k in g.kernels}
    beside = [at for at in beside if not known[at].name.startswith("dist::")]
    # The part of the time under way that passed before the step had to wait.
    under_way = max(0, r["ended"] - r["started"])
    stood = max(0, min(r["ended"], r["went_on"]) - max(r["started"], r["waited"]))
    elements = re.search(r"^all_reduce.* of \w+\[(\d+)\]$", r["what"])
    return Collective(
        what=r["what"], group=r["group"], number=r["number"], where=r["where"], needed_at=r["waited_at"], bytes=r["bytes"],
        queued_ms=(r["started"] - r["begun"]) / 1e6, ms=under_way / 1e6, waited_ms=(r["went_on"] - r["waited"]) / 1e6,
        hidden_ms=max(0, under_way - stood) / 1e6, beside=beside,
        beside_ms=sum(known[at].ms or 0.0 for at in beside),
        bucket=next(buckets.get(int(elements[1]), iter(())), "") if elements else "",
    )  # fmt: skip


def _buckets():
    """By how many elements they have: the parameters of each bucket, where there is DistributedDataParallel."""
    parallel = sys.modules.get("smolder.distributed._data_parallel")
    found = {}
    for reducer in list(parallel._reducers.values()) if parallel else []:
        for i, members in enumerate(reducer.buckets):
            names = [reducer.names[k] for k in members]
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            text = f"bucket {i}: {', '.join(names[:3])}{more}"
            found.setdefault(sum(reducer.parameters[k].numel() for k in members), []).append(text)
    return {elements: itertools.cycle(texts) for elements, texts in found.items()}  # those of one size take turns


TITLES = ["", "collective", "bytes", "time", "queued", "stood still", "hidden", "beside", "line", "of"]
RIGHT = (0, 2, 3, 4, 5, 6)


def rows(collectives: list[Collective]) -> list[list[str]]:
    """One a collective, under TITLES."""
    return [
        [
            str(c.number or ""), c.what, size(c.bytes), time(c.ms), time(c.queued_ms), time(c.waited_ms), time(c.hidden_ms),
            count(len(c.beside), "kernel"), short(c.where), c.bucket or c.group,
        ]
        for c in collectives
    ]  # fmt: skip


def lines(collectives: list[Collective]) -> list[str]:
    """The section of a report; nothing where there are none."""
    if not collectives:
        return []
    took, hidden = sum(c.ms for c in collectives), sum(c.hidden_ms for c in collectives)
    out = [
        "",
        f"{count(len(collectives), 'collective')}: {time(took)} under way, of which the step went on for {time(hidden)}"
        f" ({hidden / took * 100 if took else 0:.0f}% hidden) and stood still for"
        f" {time(sum(c.waited_ms for c in collectives))}",
    ]
    out += [cut("  " + line, width()) for line in table(TITLES, rows(collectives[:_MOST_ROWS]), right=RIGHT)]
    if len(collectives) > _MOST_ROWS:
        out.append(f"  and {len(collectives) - _MOST_ROWS} more")
    return out
