"""Making a failing step small: fewer outputs and ops, leaves in place of what computes them, smaller sizes."""

import copy
import dataclasses

from smolder import _core, _trace_file
from smolder._trace_file import Leaf, Node
from smolder.cli._rerun import Replay, Uses


@dataclasses.dataclass
class Case:
    """A step with its leaves' tensors."""

    trace: object
    step: object
    data: list
    device: str = "cpu"

    def replay(self):
        return Replay(self.trace, self.step, self.data, self.device)

    def failure(self):
        """The kind of failure; None for none, or where eager execution fails too."""
        try:
            found = self.replay().failure()
        except (RuntimeError, ValueError, NotImplementedError, TypeError, IndexError):
            return None
        return found and found[0]


def _needed(nodes, firsts, outputs, replaced):
    """Which nodes the outputs need, where some values are leaves or other values now."""
    owner = {
        first + i: k for k, (n, first) in enumerate(zip(nodes, firsts, strict=True)) for i in range(len(n.results))
    }
    needed, todo, seen = set(), list(outputs), set()
    while todo:
        v = todo.pop()
        if v < 0 or v in seen:
            continue
        seen.add(v)
        stand_in = replaced.get(v)
        if isinstance(stand_in, int):
            todo.append(stand_in)
        elif stand_in is None and owner[v] not in needed:
            needed.add(owner[v])
            todo.extend(nodes[owner[v]].inputs)
    return needed, seen


def rebuilt(case, outputs, replaced=None):
    """The case with only what `outputs` need. `replaced` says of values what takes their place: a tensor, which becomes
    a leaf, or another value, which comes before."""
    replaced = replaced or {}
    step, firsts = case.step, case.step.first_values()
    needed, used = _needed(step.nodes, firsts, outputs, replaced)
    nodes, data, numbers, now = [], [], [], {}
    at, leaf, number = 0, 0, 0
    for k, (node, first) in enumerate(zip(step.nodes, firsts, strict=True)):
        if k in needed:
            inputs = [now[v] if v >= 0 else -1 for v in node.inputs]
            nodes.append(dataclasses.replace(node, inputs=inputs))
            for i in range(len(node.results)):
                now[first + i] = at + i
            at += len(node.results)
            if node.is_leaf:
                data.append(case.data[leaf])
            elif node.is_number:
                numbers.append(step.numbers[number])
        for i, result in enumerate(node.results):
            stand_in = replaced.get(first + i)
            if first + i not in used or stand_in is None:
                continue
            if isinstance(stand_in, int):
                now[first + i] = now[stand_in]
                continue
            nodes.append(Node("leaf", [], [], [result], node.source))
            data.append(stand_in)
            now[first + i] = at
            at += 1
        leaf += node.is_leaf
        number += node.is_number
    leaves = [Leaf(*n.results[0][:2]) for n in nodes if n.is_leaf]
    smaller = dataclasses.replace(
        step, nodes=nodes, outputs=[now[v] for v in outputs], leaves=leaves, numbers=numbers, modes=[]
    )
    return dataclasses.replace(case, step=smaller, data=data)


def _values(case, values):
    """Some values as eager execution computes them, on the CPU."""
    step = dataclasses.replace(case.step, outputs=list(values))
    return [t.cpu() for t in Replay(case.trace, step, case.data, case.device).eager()]


class Reducer:
    """Tries simpler cases; keeps those that fail as the first does."""

    def __init__(self, case, told=lambda text: None):
        self.case, self.told, self.tries = case, told, 0
        self.kind = case.failure()

    def keep(self, candidate):
        """Whether the candidate fails alike, and is the case then."""
        self.tries += 1
        if candidate is None or candidate.failure() != self.kind:
            return False
        self.case = candidate
        self.told(f"{len(candidate.step.ops())} ops after {self.tries} tries")
        return True

    def run(self):
        """The smallest case found; None where there is no failure."""
        if self.kind is None:
            return None
        self.keep(rebuilt(self.case, self.case.step.outputs))  # without what nothing needs
        self.one_output()
        self.earliest()
        progress = True
        while progress:
            progress = self.cut() | self.bypass() | self.shrink()
        return self.case

    def one_output(self):
        """One failing output instead of all."""
        if self.kind == "differs":
            numbers = [i for i, _ in self.case.replay().failure()[1]]
        else:
            numbers = range(len(self.case.step.outputs))
        for i in numbers:
            if len(self.case.step.outputs) > 1 and self.keep(rebuilt(self.case, [self.case.step.outputs[i]])):
                return

    def earliest(self):
        """The first value that fails as the only output, by bisection: what comes after it is dropped."""
        step = self.case.step
        if len(step.outputs) != 1:
            return
        values = [
            first + i
            for n, first in zip(step.nodes, step.first_values(), strict=True)
            if not (n.is_leaf or n.is_number)
            for i in range(len(n.results))
            if first + i < step.outputs[0] and not n.results[i][2]
        ]
        whole, low, high = self.case, 0, len(values)
        while low < high:
            mid = (low + high) // 2
            if self.keep(rebuilt(whole, [values[mid]])):
                high = mid
            else:
                low = mid + 1

    def cut(self):
        """Leaves, with what eager execution computes, in place of runs of ops: halves first, then ever fewer."""
        progress, length = False, max(1, len(self.case.step.ops()) // 2)
        while True:
            start = 0
            while start < len(self.case.step.ops()):
                if self._cut_run(start, length):
                    progress = True
                else:
                    start += length
            if length == 1:
                return progress
            length = max(1, length // 2)

    def _cut_run(self, start, length):
        step = self.case.step
        ops = [(n, f) for n, f in zip(step.nodes, step.first_values(), strict=True) if not (n.is_leaf or n.is_number)]
        run = ops[start : start + length]
        made = {f + i for n, f in run for i in range(len(n.results)) if not n.results[i][2]}
        if made & set(step.outputs):
            return False
        inside = {id(n) for n, _ in run}
        read = sorted({v for n in step.nodes if id(n) not in inside for v in n.inputs} & made)
        if not read:
            return False
        try:
            tensors = _values(self.case, read)
        except (RuntimeError, ValueError, NotImplementedError):
            return False
        return self.keep(rebuilt(self.case, step.outputs, dict(zip(read, tensors, strict=True))))

    def bypass(self):
        """Ops without effect on the failure: an operand like the result takes its place."""
        progress, at = False, 0
        while at < len(self.case.step.nodes):
            step = self.case.step
            node, first = step.nodes[at], step.first_values()[at]
            results = [r for n in step.nodes for r in n.results]
            alike = [v for v in node.inputs if v >= 0 and results[v] == node.results[0]]
            kept = len(node.results) == 1 and any(
                self.keep(rebuilt(self.case, [v if o == first else o for o in step.outputs], {first: v})) for v in alike
            )
            progress |= kept
            at += not kept
        return progress

    def shrink(self):
        """Smaller extents, everywhere the same number stands for one."""
        progress, tried = False, set()
        while True:
            sizes = sorted({n for leaf in self.case.step.leaves for n in leaf.shape if n > 1}, reverse=True)
            pair = next(((n, m) for n in sizes for m in (1, 2, n // 2) if 0 < m < n and (n, m) not in tried), None)
            if pair is None:
                return progress
            tried.add(pair)
            if self.keep(self._resized(*pair)):
                progress = True
                tried = {t for t in tried if t[0] != pair[1]}

    def _resized(self, old, new):
        """The case with every extent `old` made `new`; None where the ops' rules refuse that."""
        step = copy.deepcopy(self.case.step)
        data = []
        leaf = 0
        for node in step.nodes:
            if node.is_leaf:
                dtype, shape, weak = node.results[0]
                node.results = [(dtype, [new if n == old else n for n in shape], weak)]
                part = tuple(slice(0, new) if n == old else slice(None) for n in shape)
                data.append(self.case.data[leaf][part].contiguous() if part else self.case.data[leaf])
                leaf += 1
            elif not node.is_number:
                sizes = _core._size_words(node.op, node.words)
                node.words = [new if is_size and w == old else w for w, is_size in zip(node.words, sizes, strict=True)]
        try:
            graph = _core._ReplayGraph([n.plain(n.source) for n in step.nodes], step.outputs)
        except (RuntimeError, ValueError, NotImplementedError, TypeError, IndexError):
            return None
        step.nodes = [Node(*node) for node in graph.nodes()]
        step.leaves = [Leaf(*n.results[0][:2]) for n in step.nodes if n.is_leaf]
        return dataclasses.replace(self.case, step=step, data=within_bounds(step, data))


def within_bounds(step, data):
    """Leaves whose elements say where something is, made to name places that are still there."""
    uses, out = Uses(step), []
    values = [first for node, first in zip(step.nodes, step.first_values(), strict=True) if node.is_leaf]
    for value, t in zip(values, data, strict=True):
        bound = None if t.dtype.is_floating_point or t.dtype == _core.bool else uses.bound(value)
        out.append(t if bound is None else t.clamp(max=bound - 1))
    return out


def write(path, case):
    """Writes a case, with its data, as a trace of one step."""
    used = sorted({n.source for n in case.step.nodes if n.source} | ({case.step.source} if case.step.source else set()))
    numbers = {old: new for new, old in enumerate(used, 1)}
    step = dataclasses.replace(case.step, source=numbers.get(case.step.source, 0), runs=1)
    step.nodes = [dataclasses.replace(n, source=numbers.get(n.source, 0)) for n in step.nodes]
    trace = _trace_file.Trace([step], [case.trace.sources[s - 1] for s in used], [[0, 1]])
    _trace_file.write(path, trace, {(0, i): t for i, t in enumerate(case.data)})
