"""Running a recorded step again: its inputs, its results in each tier, and where they differ."""

import math
import os
from contextlib import contextmanager

import numpy

from smolder import _core, _trace_file
from smolder._terminal import size
from smolder._types import name_of
from smolder.cli.trace import replay_graph

# Operands that hold positions: what bounds them, of the node.
_MOVES = ("reshape", "view", "permute", "transpose", "expand", "squeeze", "unsqueeze", "flatten", "contiguous", "slice",
          "select", "narrow", "flip", "to", "alias", "clone", "detach", "cat", "stack", "chunk", "split", "swapaxes",
          "movedim", "t", "roll", "repeat")  # fmt: skip
_INDICES = ("index", "indices", "target", "idx")
_WEIGHED = ("linear", "conv1d", "conv2d", "conv3d", "conv_transpose2d", "embedding")
_POSITIVE_OPS = ("log", "log2", "log10", "sqrt", "rsqrt", "sqrt_backward", "rsqrt_backward", "log_backward", "lgamma")
# Relative to what the elements of a result are like: arithmetic in another order differs by so much.
_TOLERANCE = {"float64": 1e-9, "float32": 2e-4, "float16": 2e-2, "bfloat16": 6e-2}


# -- inputs


def _operand_names(node):
    """The name of each operand of a node; those of a list have the list's."""
    names = _core._operand_names(node.op)
    extra = len(node.inputs) - len(names)
    return names if extra <= 0 else names[:1] * (extra + 1) + names[1:]


def _attr(node, name):
    for part in node.attrs.split(", "):
        key, _, value = part.partition("=")
        if key == name and value.lstrip("-").isdigit():
            return int(value)
    return None


class Uses:
    """Which ops read a value, also after it was moved or cast."""

    def __init__(self, step):
        self.readers, self.results = {}, []
        for node, first in zip(step.nodes, step.first_values(), strict=True):
            self.results.extend(node.results)
            for name, value in zip(_operand_names(node), node.inputs, strict=False):
                self.readers.setdefault(value, []).append((node, name, first))

    def of(self, value):
        found, todo, seen = [], [value], {value}
        while todo:
            for node, name, first in self.readers.get(todo.pop(), ()):
                found.append((node, name))
                if node.op in _MOVES and first not in seen:
                    seen.add(first)
                    todo.append(first)
        return found

    def bound(self, value):
        """The least number of places that an op counts with this value; None where none does."""
        least = None
        for node, name in self.of(value):
            if not name.startswith(_INDICES):
                continue
            sizes = self._places(node, name)
            least = sizes if least is None else min(least, sizes)
        return least

    def _places(self, node, name):
        shapes = {n: self.results[v][1] for n, v in zip(_operand_names(node), node.inputs, strict=False) if v >= 0}
        if name.startswith("target"):
            shape = shapes.get("self", shapes.get("input", next(iter(shapes.values()), [2])))
            return max(1, shape[1] if len(shape) > 1 else shape[0] if shape else 1)
        classes = _attr(node, "num_classes") or _attr(node, "num_weights") or _attr(node, "num_embeddings")
        if classes and classes > 0:
            return classes
        shape = shapes.get("weight", shapes.get("self", shapes.get("input", next(iter(shapes.values()), [1]))))
        dim = 0 if "weight" in shapes else _attr(node, "dim")
        if dim is None or not shape:
            return max(1, min(shape, default=1))
        return max(1, shape[dim])

    def positive(self, value):
        """Is it something that no number below zero makes sense for: what a logarithm is taken of, second moments?"""
        for node, name in self.of(value):
            if node.op in _POSITIVE_OPS or (node.op.endswith("_step") and name not in ("param", "grad")):
                return True
            if name in ("running_var", "invstd", "rstd", "save_invstd"):
                return True
        return False

    def scale(self, value):
        """How large its elements should be: with weights of size one the values of a deep net soon mean nothing, and
        gradients are too small to be normal numbers, with which arithmetic is slow."""
        shape = self.results[value][1]
        weighs = any(name == "weight" and node.op in _WEIGHED for node, name in self.of(value))
        return 1 / math.sqrt(max(1, math.prod(shape[1:]))) if weighs and len(shape) > 1 else 1.0


def random_inputs(step, seed, saved=None):
    """A tensor for each leaf: what was saved, else random numbers that its readers can take."""
    chance = numpy.random.default_rng(seed)
    uses, out, number = Uses(step), [], 0
    for node, first in zip(step.nodes, step.first_values(), strict=True):
        if not node.is_leaf:
            continue
        kept = (saved or {}).get(number)
        number += 1
        out.append(kept if kept is not None else _random(node, first, uses, chance))
    return out


def _random(node, value, uses, chance):
    name, shape, _ = node.results[0]
    dtype = _trace_file._DTYPES[name]
    if name == "bool":
        array = chance.random(shape) < 0.5
    elif not dtype.is_floating_point:
        bound = uses.bound(value)
        array = chance.integers(0, bound if bound is not None else 4, shape)
        array = numpy.asarray(array, name)
    else:
        array = (
            chance.random(shape, numpy.float32) + 0.25
            if uses.positive(value)
            else chance.standard_normal(shape, numpy.float32) * numpy.float32(uses.scale(value))
        )
        return _core._from_contents(_bytes(numpy.asarray(array, numpy.float32)), shape, _core.float32).to(dtype)
    return _core._from_contents(_bytes(numpy.asarray(array)), shape, dtype)


def _bytes(array):
    return numpy.ascontiguousarray(array).reshape(-1).view(numpy.uint8)


# -- comparing


def compare(got, wanted, *, exact):
    """None where two tensors agree: in every bit, any nan being any other, or within what rounding explains. Else what
    differs: how many elements, by how much, and the first."""
    a, b = _wide(got), _wide(wanted)
    if a.dtype.kind != "f":
        wrong = a != b
    else:
        with numpy.errstate(invalid="ignore"):
            wrong = ~((a == b) & (numpy.signbit(a) == numpy.signbit(b)) | numpy.isnan(a) & numpy.isnan(b))
            if not exact:
                wrong &= ~_close(a, b, name_of(got.dtype))
    if not wrong.any():
        return None
    at = int(numpy.flatnonzero(wrong.reshape(-1))[0])
    with numpy.errstate(invalid="ignore", over="ignore"):
        apart = numpy.abs(a.astype(float) - b.astype(float))[wrong] if a.shape else numpy.abs(float(a) - float(b))
    most = numpy.nanmax(apart) if not numpy.isnan(apart).all() else math.nan
    return {
        "elements": int(wrong.sum()),
        "of": int(wrong.size),
        "most": float(most),
        "index": [int(i) for i in numpy.unravel_index(at, a.shape)],
        "got": a.reshape(-1)[at].item(),
        "wanted": b.reshape(-1)[at].item(),
    }


def _close(a, b, dtype):
    finite = b[numpy.isfinite(b)].astype(float)
    usual = math.sqrt(float(numpy.mean(finite * finite))) if finite.size else 0.0
    return numpy.abs(a.astype(float) - b) <= _TOLERANCE[dtype] * (numpy.abs(b.astype(float)) + usual)


def _wide(t):
    t = t.detach().cpu()
    return t.float().numpy() if t.dtype in (_core.bfloat16, _core.float16) else t.numpy()


# -- running


@contextmanager
def disabled(names):
    """Without stages and parts of the compiler."""
    before = os.environ.get("SMOLDER_DISABLE")
    try:
        if names:
            os.environ["SMOLDER_DISABLE"] = ",".join([*names, *([before] if before else [])])
        yield
    finally:
        if before is None:
            os.environ.pop("SMOLDER_DISABLE", None)
        else:
            os.environ["SMOLDER_DISABLE"] = before


class Replay:
    """One step with inputs, ready to run in any tier."""

    def __init__(self, trace, step, inputs, device="cpu"):
        self.trace, self.step, self.device = trace, step, device
        self.graph = replay_graph(trace, step)
        self.inputs = [t.to(device) for t in inputs]
        self.numbers = [value for _, value in step.numbers]
        self._wanted = self._op_by_op = None

    def compile(self, disable=()):
        """The plan, compiled with the options that the step was recorded with."""
        with disabled(disable):
            return self.graph.compile(self.device, self.step.options["fuse"], self.step.options["simplify"])

    def eager(self):
        """Results op by op; those that plans are compared with."""
        if self._wanted is None:
            self._wanted = self.run_eager()[0]
        return self._wanted

    def compare_with_host(self):
        """Takes results of the host for those of eager mode, whose ops are plans on a device: a fault of the compiler
        would be in both."""
        self._wanted = Replay(self.trace, self.step, [t.cpu() for t in self.inputs]).eager()

    def run_eager(self):
        """Results op by op, computed now, and which indices were out of range."""
        if self._op_by_op is None:
            self._op_by_op = self.graph.op_by_op(self.device)
        return self._op_by_op.run(self.inputs, self.numbers)

    def interpreted(self):
        """Results of the reference interpreter."""
        return self.graph.interpret([t.cpu() for t in self.inputs], self.numbers)

    @property
    def exact(self):
        """Whether plans promise the bits of eager execution."""
        return self.device == "cpu"  # on a device libraries choose how they add

    def differences(self, results, wanted, *, exact):
        """(output, what differs) of results that are not what was wanted."""
        found = ((i, compare(a, b, exact=exact)) for i, (a, b) in enumerate(zip(results, wanted, strict=True)))
        return [(i, difference) for i, difference in found if difference]

    def failure(self, plan=None, disable=()):
        """How the plan is wrong: None, "differs" with the outputs that do, or the error that it raises."""
        try:
            results = (plan or self.compile(disable)).run(self.inputs, self.numbers)[0]
        except (RuntimeError, ValueError, NotImplementedError, TypeError, IndexError, SystemError) as e:
            return (f"raises {type(e).__name__}", str(e))
        found = self.differences(results, self.eager(), exact=self.exact)
        return ("differs", found) if found else None

    def output_node(self, number):
        """The op that makes an output."""
        return _trace_file.nodes_of_value(self.step, self.step.outputs[number])

    def bad_indices(self):
        """Ops that find an index out of range in these inputs."""
        return self.run_eager()[1]


def _check_memory(step):
    """Raises MemoryError for a step that takes more memory than this machine has: who asks for so much may be ended."""

    def bytes_of(results):
        return sum(math.prod(shape) * _trace_file._DTYPES[dtype].itemsize for dtype, shape, _ in results)

    results = [result for node in step.nodes for result in node.results]
    largest = max((bytes_of(node.results) for node in step.ops() if node.op not in _MOVES), default=0)
    held = max(largest, bytes_of(results[v] for v in step.outputs))
    needed = held + sum(leaf.bytes for leaf in step.leaves)
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > there:
        raise MemoryError(f"the step takes {size(needed)} of memory at least, and this machine has {size(there)}")


def prepare(trace, number, device="cpu", seed=0):
    """A step of a trace with inputs: those saved, and random ones in place of others."""
    step = trace.steps[number]
    _check_memory(step)
    if any(n.op.startswith("dist::") for n in step.ops()):
        _core._dist_stand_in()  # the other ranks are not here
    saved = _trace_file.read_data(trace, number)
    made = random_inputs(step, seed, saved)
    replay = Replay(trace, step, made, device)
    if len(saved) < len(step.leaves) and replay.bad_indices():
        # An index in a way that is not known here: position 0 is there wherever anything is.
        leaves = [n for n in step.nodes if n.is_leaf]
        floats = ("float32", "float64", "float16", "bfloat16", "bool")
        made = [t if i in saved or leaves[i].results[0][0] in floats else t * 0 for i, t in enumerate(made)]
        replay = Replay(trace, step, made, device)
    return replay, len(saved)
