"""Explains a call: its graphs, what broke them, kernels with their times and limits, and why it compiled."""

from __future__ import annotations

import dataclasses
import functools
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import smolder
from smolder import _advice, _core, _explain_collectives, _lines, _notebook
from smolder._types import name_of
from smolder._typing import Device, PathLike

__all__ = ["explain", "explain_last_step"]

VERSION = 1  # of what to_dict() says
_ROUNDS = 15  # of timing a plan, at most
_SECONDS = 0.5


@dataclasses.dataclass
class Break:
    """A break in a graph: a value was needed. `what` says why in words, `advice` what would remove it."""

    reason: str
    where: str
    line: str
    what: str
    advice: str
    graph: int


@dataclasses.dataclass
class Op:
    """An op as it was recorded, or the part of one that a kernel computes."""

    name: str
    where: str
    results: list[str] = dataclasses.field(default_factory=list)
    primitives: list[str] = dataclasses.field(default_factory=list)
    inputs: list[int] = dataclasses.field(default_factory=list)
    reads: list[int] = dataclasses.field(default_factory=list)
    writes: list[int] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Kernel:
    """A step of a plan: `kind` is kernel, library or fallback, or eager for an op that ran by itself.

    `ms` is the median of several runs, `floor_ms` what the machine's limits allow, `share` the second of the first.
    `compile_ms` is None where it came from a cache. `reads` and `writes` are (buffer, bytes).
    """

    number: int
    name: str
    kind: str
    where: str
    launch: int
    key: str | None
    compile_ms: float | None
    bytes: int
    flops: float
    ms: float | None
    floor_ms: float
    share: float | None
    ops: list[Op]
    reads: list[tuple[int, int]]
    writes: list[tuple[int, int]]


@dataclasses.dataclass
class NotFused:
    """Two kernels, the second of which reads what the first writes, that are not one."""

    kernel: int
    reader: int
    op: str
    where: str
    reader_op: str
    reader_where: str
    bytes: int
    why: str
    meaning: str


@dataclasses.dataclass
class Graph:
    """A step that ran. `how` is plan, one by one, or eager; `ended_by` the reason of the sync that ran it."""

    number: int
    device: str
    how: str
    ended_by: str
    where: str
    note: str
    ops: list[Op]
    kernels: list[Kernel]
    buffers: list[dict]
    not_fused: list[NotFused]
    arena_bytes: int
    bytes: int
    ms: float | None
    floor_ms: float
    host_ms: float
    compile_ms: float
    recompile: dict | None


@dataclasses.dataclass(repr=False)
class Explanation:
    """The findings of `smolder.explain`; str() is a report, `html()` a page with the graph drawn.

    graph_count, graph_break_count, break_reasons, op_count, ops_per_graph, out_guards and compile_times are named as
    torch's are.
    """

    function: str
    where: str
    graphs: list[Graph]
    break_reasons: list[Break]
    fallbacks: list[dict[str, Any]]
    out_guards: list[str]
    limits: dict[str, Any]
    wall_ms: float | None
    timed: bool
    result: object = dataclasses.field(default=None, repr=False)
    collectives: list[Any] = dataclasses.field(default_factory=list)

    @property
    def graph_count(self) -> int:
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        return len(self.break_reasons)

    @property
    def op_count(self) -> int:
        return sum(len(g.ops) for g in self.graphs)

    @property
    def ops_per_graph(self) -> list[list[str]]:
        """The names of each graph's ops, as recorded."""
        return [[op.name for op in g.ops] for g in self.graphs]

    @property
    def kernels(self) -> list[Kernel]:
        """Those of all graphs."""
        return [k for g in self.graphs for k in g.kernels]

    @property
    def recompiles(self) -> list[dict[str, Any]]:
        """Why graphs were compiled or recorded anew, for those that were, with the number of the graph."""
        return [{"graph": g.number, **g.recompile} for g in self.graphs if g.recompile]

    @property
    def compile_ms(self) -> float:
        return sum(g.compile_ms for g in self.graphs)

    @property
    def compile_times(self) -> str:
        """A line for each kernel that was compiled."""
        built = [(k.compile_ms, k.name) for k in self.kernels if k.compile_ms is not None]
        return "\n".join(f"{ms:.1f} ms  {name}" for ms, name in sorted(built, reverse=True))

    @property
    def bytes(self) -> int:
        """Moved by all kernels."""
        return sum(g.bytes for g in self.graphs)

    @property
    def kernel_ms(self) -> float | None:
        times = [g.ms for g in self.graphs if g.ms is not None]
        return sum(times) if times else None

    @property
    def floor_ms(self) -> float:
        return sum(g.floor_ms for g in self.graphs)

    def to_dict(self) -> dict[str, Any]:
        """All of it but the call's result, as what JSON knows; `version` changes when fields go or change meaning."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "result"}
        plain = {
            name: [dataclasses.asdict(x) for x in value]
            if name in ("graphs", "break_reasons", "collectives")
            else value
            for name, value in fields.items()
        }
        sums = ("graph_count", "graph_break_count", "op_count", "ops_per_graph", "compile_ms", "compile_times")
        sums += ("bytes", "kernel_ms", "floor_ms", "recompiles")
        return {"version": VERSION} | plain | {name: getattr(self, name) for name in sums}

    def to_json(self, indent: int | None = None) -> str:
        """The same as text."""
        return json.dumps(self.to_dict(), indent=indent)

    def __str__(self) -> str:
        from smolder._explain_text import report

        return report(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return _notebook.framed(self.html())

    def html(self) -> str:
        """One page with the graph drawn, which needs no other file and no network."""
        from smolder._explain_html import page

        return page(self)

    def save(self, path: PathLike) -> None:
        """Writes the page, or JSON where the path ends in .json, or the report where it ends in .txt."""
        path = str(path)
        text = self.to_json(2) if path.endswith(".json") else str(self) if path.endswith(".txt") else self.html()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)


def explain(f: Callable[..., Any]) -> Callable[..., Explanation]:
    """A function that calls `f` once and says what became of the call, as an Explanation.

    The call is the program's own: its effects are those of calling f, and plans that are not there are compiled at once. What is pending runs before it, what it leaves
    pending runs after it. Then each plan that ran is run some times more, to be timed, on what it read and with results
    that nobody sees: for this, what the call read is kept until then.
    """
    if not callable(f):
        raise TypeError(f"explain: expected a callable, got {type(f).__name__}")

    @functools.wraps(f, updated=())
    def call(*args, **kwargs):
        guards = _guards(f, args, kwargs)
        smolder.mark_step()
        told = _fallback_events()
        behind = _core._set_compiling(False)  # what is explained is plans
        log = _core._start_step_log(True)
        _explain_collectives.start()
        began = time.perf_counter()
        try:
            result = f(*args, **kwargs)
            smolder.mark_step()
            for device in range(_core._cuda_device_count()):
                smolder.cuda.synchronize(device)
            wall = time.perf_counter() - began
        finally:
            steps, collectives = _core._stop_step_log(log), _explain_collectives.stop()
            _core._set_compiling(behind)
        fallbacks = [event for key, event in _fallback_events(told).items()]
        out = _explanation(_name(f), _where(f), steps, guards, fallbacks, wall * 1e3, result)
        out.collectives = _explain_collectives.of(out.graphs, collectives)
        return out

    return call


def explain_last_step(device: Device = None) -> Explanation:
    """Describes the step that ran last on a device, timed with stand-ins for its inputs."""
    name = str(smolder.get_default_device() if device is None else smolder.device(device))
    step = _core._last_step(name)
    if step is None:
        raise RuntimeError(
            f"explain_last_step: no step has run on {name}, or it has no plan (yet: see wait_for_compiles)"
        )
    return _explanation("the last step", "", [step], [], [], None, None)


def _explanation(name, where, steps, guards, fallbacks, wall, result):
    from smolder._limits import limits

    graphs, breaks, known = [], [], {}
    for step in steps:
        if step.how != "plan":
            ran = step.ops, []
        elif step.instance not in known:  # what repeats has its ops once
            ran = known[step.instance] = step.ops, _times(step)
        else:
            ran = known[step.instance]
        graphs.append(_graph(len(graphs), step, *ran, limits(step.device)))
        if step.reason and step.how != "eager" and step.reason not in _advice.BOUNDARIES:
            what, advice = _advice.of_break(step.reason, step.where)
            line = _lines.source_line(step.where)
            breaks.append(Break(step.reason, step.where, line, what, advice, graphs[-1].number))
    devices = {g.device.partition(":")[0] for g in graphs} or {"cpu"}
    return Explanation(
        name, where, graphs, breaks, fallbacks, guards, {d: limits(d).to_dict() for d in sorted(devices)}, wall,
        all(g.ms is not None for g in graphs if g.kernels), result,
    )  # fmt: skip


def _times(step):
    """Median seconds of each step of the plan; none where kernels of users would run again."""
    once = step.times(1)
    if not once:
        return []
    took = sum(t[0] for t in once if t)
    rounds = max(2, min(_ROUNDS, int(_SECONDS / max(took, 1e-6))))
    return [statistics.median(t) if t else None for t in step.times(rounds)]


def _graph(number, step, ran, times, limits):
    report = step.report() if step.how == "plan" else None
    ops = [
        Op(op["name"], op["where"], [f"{dtype}[{', '.join(map(str, shape))}]" for dtype, shape in op["results"]])
        for op in ran
    ]
    kernels, buffers, not_fused, arena = [], [], [], 0
    if report:
        buffers, arena = report["buffers"], report["arena_bytes"]
        for i, k in enumerate(report["steps"]):
            kernels.append(_kernel(i, k, times[i] if i < len(times) else None, limits, step.recompile))
        for n in report["not_fused"]:
            kinds = [report["steps"][n[side]]["kind"] for side in ("from", "to")]
            kinds = ["kernel" if kind in ("interpreted", "quick") else kind for kind in kinds]
            not_fused.append(
                NotFused(n["from"], n["to"], n["op"], n["where"], n["reader"], n["reader_where"],
                         buffers[n["buffer"]]["bytes"], n["why"], _advice.of_neighbours(n["why"], kinds))
            )  # fmt: skip
    elif step.how == "eager":
        kernels = [_eager(i, op, limits) for i, op in enumerate(ran)]
    measured = [k.ms for k in kernels if k.ms is not None]
    return Graph(
        number=number, device=step.device, how=step.how, ended_by=step.reason, where=step.where, note=step.note, ops=ops,
        kernels=kernels, buffers=buffers, not_fused=not_fused, arena_bytes=arena, bytes=sum(k.bytes for k in kernels),
        ms=sum(measured) if measured else None, floor_ms=sum(k.floor_ms for k in kernels), host_ms=step.ms,
        compile_ms=step.recompile["milliseconds"] if step.recompile and step.recompile["compiled"] else 0.0,
        recompile=step.recompile,
    )  # fmt: skip


def _kernel(number, k, seconds, limits, recompile):
    floor = limits.floor(k["bytes"], k["product_flops"], k["product_dtype"], k["other_flops"])
    built = {b["key"] for b in recompile["kernels"]} if recompile else ()
    return Kernel(
        number=number, name=k["name"], kind=k["kind"], where=k["where"], launch=k["launch"], key=k["key"],
        compile_ms=k["built_ms"] if k["key"] in built else None, bytes=k["bytes"],
        flops=k["product_flops"] + k["other_flops"], ms=None if seconds is None else seconds * 1e3,
        floor_ms=floor * 1e3, share=floor / seconds if seconds else None,
        ops=[Op(op["name"], op["where"], [], op["primitives"], op["inputs"], op["reads"], op["writes"]) for op in k["ops"]],
        reads=k["reads"], writes=k["writes"],
    )  # fmt: skip


def _eager(number, op, limits):
    floor = limits.floor(op["bytes"]) * 1e3
    return Kernel(
        number=number, name=op["name"], kind="eager", where=op["where"], launch=number, key=None, compile_ms=None,
        bytes=op["bytes"], flops=0.0, ms=op["ms"], floor_ms=floor, share=floor / op["ms"] if op["ms"] else None,
        ops=[Op(op["name"], op["where"])], reads=[], writes=[],
    )  # fmt: skip


def _fallback_events(before=None):
    """How often each fallback happened; with `before`, those since."""
    now = {(e["reason"], e["where"]): e["count"] for e in _core.metrics()["events"] if e["kind"] == "fallback"}
    if before is None:
        return now
    return {
        key: {"what": key[0], "where": key[1], "count": count - before.get(key, 0)}
        for key, count in now.items()
        if count > before.get(key, 0)
    }


def _name(f):
    return getattr(f, "__qualname__", None) or type(f).__qualname__


def _where(f):
    f = getattr(f, "_function", f)
    code = getattr(f, "__code__", None) or getattr(getattr(type(f), "forward", None), "__code__", None)
    return _lines.place(code.co_filename, code.co_firstlineno) if code else ""


# -- guards


def _guards(f, args, kwargs):
    """Lists what smolder.compile would guard for this call, a line each; or says why it could not compile it."""
    from smolder.compiler._record import Recorder
    from smolder.compiler._world import Unguarded

    f = getattr(f, "_function", f)
    try:
        world, tensors, spec = Recorder(f, _name(f), False)._look(args, kwargs)
    except Unguarded as why:
        return [f"cannot be guarded: {why}"]
    lines = list(_of_argument(spec))
    arguments = {id(t) for t, _ in tensors}
    lines += [f"{path} is the tensor {_meta(t)}" for t, path in world.tensors if id(t) not in arguments]
    lines += [_of_item(item) for item in world.items if item[2] is not spec]
    modes = "gradients, inference, autocast, default device, precision and strict mode"
    lines.append(f"{modes} are as they were")
    if world.unguarded:
        lines.insert(0, f"cannot be guarded: {world.unguarded}")
    return list(dict.fromkeys(lines))


def _of_argument(spec):
    kind, path, value = spec[:3]
    if kind == "tensor":
        yield f"{path} is a tensor {_meta(value)}"
    elif kind == "value":
        yield f"{path} == {value!r}"
    elif kind == "object":
        yield f"{path} is the same {type(value).__name__}"
    else:
        if path != "arguments" and not (path in ("args", "kwargs") and not spec[3]):
            yield f"{path} is a {value.__name__} of {len(spec[3])}"
        for part in spec[3]:
            yield from _of_argument(part)


def _meta(t):
    shape = ", ".join(map(str, t.shape))
    grad = ", requires_grad" if t.requires_grad else ""
    return f"{name_of(t.dtype)}[{shape}] on {t.device}{grad}"


def _of_item(item):
    kind, path = item[:2]
    if kind == "entry":
        return f"the global {path} is the same"
    if kind == "function":
        return f"the code and defaults of {path} are the same"
    if kind == "class":
        return f"the members of class {path} are the same"
    if kind == "cell":
        return f"the closure's {path} is the same"
    if kind == "attribute":
        return f"{path} is the same"
    return f"{path} holds the same {len(item[3])} items"
