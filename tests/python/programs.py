"""Random programs: how they are made, run in every mode, compared and shrunk."""

import dataclasses
import random

import numpy as np
from conftest import same_bits

import smolder
from smolder import _core

UNARY = ["neg", "abs", "exp", "tanh", "sigmoid", "relu", "square", "sin", "sign", "log1p", "erf"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum"]
REDUCE = ["sum", "mean", "amax", "amin", "logsumexp"]
DTYPES = ["float32", "float32", "float32", "float64", "bfloat16", "float16"]


@dataclasses.dataclass(frozen=True)
class Program:
    """Steps (name, operand numbers, words) over values: the inputs first, then a value for each step."""

    seed: int
    dtype: str
    inputs: tuple  # shapes
    steps: tuple

    def arrays(self):
        return [np.random.default_rng([self.seed, i]).normal(size=s) for i, s in enumerate(self.inputs)]

    def __str__(self):
        """As Python, to be pasted after `import smolder, numpy as np`."""
        its = f"smolder.{self.dtype}"
        lines = [
            f"v{i} = smolder.tensor(np.random.default_rng([{self.seed}, {i}]).normal(size={s}), dtype={its})"
            ".requires_grad_()"
            for i, s in enumerate(self.inputs)
        ]
        lines += [f"v{len(self.inputs) + i} = {written(step)}" for i, step in enumerate(self.steps)]
        last = len(self.inputs) + len(self.steps) - 1
        return "\n".join([*lines, f"v{last}.float().sum().backward()"])


def written(step):
    name, operands, words = step
    args = [f"v{i}" for i in operands]
    if name == "where":
        return f"smolder.where({args[0]} > 0, {args[1]}, {args[2]})"
    if name == "write":
        return f"{args[0]}.clone().{words[0]}({args[1]})"
    if name == "reduce":
        return f"{args[0]}.{words[0]}({words[1]}, True)"
    return f"{args[0]}.{words[0]}({', '.join([*args[1:], *map(repr, words[1:])])})"


def broadcastable(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1]))


class Generator:
    """Makes the program of a seed; shapes are tracked to keep it valid."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        rows, columns = self.dice.choice([1, 2, 3, 5]), self.dice.choice([1, 4, 7, 33])
        dtype = self.dice.choice(DTYPES)
        inputs = ((rows, columns), (columns,), (rows, 1))
        self.shapes, self.steps = list(inputs), []
        for _ in range(self.dice.randint(3, 14)):
            self.step()
        self.program = Program(seed, dtype, inputs, tuple(self.steps))

    def pick(self, rank=None):
        fits = [i for i, s in enumerate(self.shapes) if rank is None or len(s) == rank]
        return self.dice.choice(fits)

    def add(self, name, operands, words, shape):
        self.steps.append((name, tuple(operands), words))
        self.shapes.append(tuple(shape))

    def step(self):
        kind = self.dice.choice(
            ["unary", "unary", "binary", "binary", "number", "reduce", "move", "softmax", "product", "write", "select"]
        )
        getattr(self, kind)()

    def unary(self):
        at = self.pick()
        self.add("method", [at], (self.dice.choice(UNARY),), self.shapes[at])

    def binary(self):
        a = self.pick()
        b = self.dice.choice([i for i, s in enumerate(self.shapes) if broadcastable(s, self.shapes[a])])
        shape = np.broadcast_shapes(self.shapes[a], self.shapes[b])
        self.add("method", [a, b], (self.dice.choice(BINARY),), shape)

    def number(self):
        at, value = self.pick(), self.dice.choice([0, 1, -1, 2, 0.5, 3.25, 1e-3])
        self.add("method", [at], (self.dice.choice(BINARY[:4]), value), self.shapes[at])

    def reduce(self):
        at = self.pick()
        shape = list(self.shapes[at])
        if not shape:
            return
        axis = self.dice.randrange(len(shape))
        shape[axis] = 1
        self.add("reduce", [at], (self.dice.choice(REDUCE), axis), shape)

    def move(self):
        at = self.pick()
        shape = self.shapes[at]
        if len(shape) == 2 and self.dice.random() < 0.5:
            self.add("method", [at], ("transpose", 0, 1), shape[::-1])
        elif shape and shape[-1] > 1:
            start = self.dice.randrange(shape[-1])
            self.add("method", [at], ("slice", -1, start, None), (*shape[:-1], shape[-1] - start))
        elif len(shape) < 3:
            self.add("method", [at], ("unsqueeze", 0), (1, *shape))

    def softmax(self):
        at = self.pick()
        if self.shapes[at]:
            name = self.dice.choice(["softmax", "log_softmax"])
            self.add("method", [at], (name, self.dice.randrange(len(self.shapes[at]))), self.shapes[at])

    def product(self):
        a = self.pick(rank=2)
        fits = [i for i, s in enumerate(self.shapes) if len(s) == 2 and s[0] == self.shapes[a][1]]
        if fits:
            b = self.dice.choice(fits)
            self.add("method", [a, b], ("matmul",), (self.shapes[a][0], self.shapes[b][1]))

    def write(self):
        a = self.pick()
        whole = self.shapes[a]
        fits = [
            i for i, s in enumerate(self.shapes) if broadcastable(s, whole) and np.broadcast_shapes(s, whole) == whole
        ]
        if whole and fits:
            self.add("write", [a, self.dice.choice(fits)], (self.dice.choice(["add_", "mul_"]),), whole)

    def select(self):
        a = self.pick()
        fits = [i for i, s in enumerate(self.shapes) if s == self.shapes[a]]
        self.add("where", [a, self.dice.choice(fits), self.dice.choice(fits)], (), self.shapes[a])


# -- running


def execute(program, arrays, syncs=None):
    """Every value of the program and the gradients of its inputs, as arrays."""
    leaves = [smolder.tensor(x, dtype=getattr(smolder, program.dtype)).requires_grad_() for x in arrays]
    values = list(leaves)
    for name, operands, words in program.steps:
        args = [values[i] for i in operands]
        if name == "method":
            out = getattr(args[0], words[0])(*args[1:], *words[1:])
        elif name == "reduce":
            out = getattr(args[0], words[0])(words[1], True)
        elif name == "where":
            out = smolder.where(args[0] > 0, args[1], args[2])
        else:
            out = args[0].clone()
            getattr(out, words[0])(args[1])
        values.append(out)
        if syncs and syncs.random() < 0.3:
            smolder.mark_step() if syncs.random() < 0.5 else syncs.choice(values).tolist()
    total = values[-1].float().sum()
    if total.requires_grad:
        total.backward()
    grads = [x.grad for x in leaves if x.grad is not None]
    return [t.detach()._to_numpy() for t in values] + [g._to_numpy() for g in grads]


def cold(program, arrays):
    """Every kernel is built for it, whatever the cache has."""
    _core.forget_traces()
    _core._build_kernels_anew(True)
    try:
        return execute(program, arrays)
    finally:
        _core._build_kernels_anew(False)


def again(program, arrays):
    """The same step once more: the predictor follows it."""
    return execute(program, arrays)


def warm(program, arrays):
    """A new plan of kernels that are in memory."""
    _core.forget_traces()
    return execute(program, arrays)


def from_disk(program, arrays):
    """A new plan of kernels that are in the database (or built, where there is none)."""
    _core._leave_kernels_on_disk()
    return warm(program, arrays)


def eager(program, arrays):
    with smolder.eager():
        return execute(program, arrays)


def without(option):
    def run(program, arrays):
        smolder.set_options(**{option: False})
        try:
            return execute(program, arrays)
        finally:
            smolder.set_options(**{option: True})

    return run


def with_syncs(program, arrays):
    """Steps end anywhere."""
    return execute(program, arrays, random.Random(program.seed))


REFERENCE = cold
MODES = {
    "once more": again,
    "warm cache": warm,
    "eager": eager,
    "predictor off": without("predict"),
    "fusion off": without("fuse"),
    "rules off": without("simplify"),
    "syncs at random": with_syncs,
    "kernels from disk": from_disk,
}


@dataclasses.dataclass
class Failure:
    """What went wrong: a mode whose bits differ from the cold run's, or one that raised."""

    mode: str
    what: str
    kind: str


def modes_of(program):
    """Every mode; of those without rules, which build kernels of their own, a tenth."""
    return [mode for mode in MODES if mode != "rules off" or program.seed % 10 == 0]


def failure_of(program):
    """The first mode that fails, or None."""
    arrays = program.arrays()
    base, mode = None, "cold cache"
    try:
        base = REFERENCE(program, arrays)
        for mode in modes_of(program):
            for i, (a, b) in enumerate(zip(base, MODES[mode](program, arrays), strict=True)):
                if not same_bits(a, b):
                    return Failure(mode, f"value {i} differs from the cold run's:\n{a}\n{b}", "bits")
    except Exception as e:
        return Failure(mode, f"{type(e).__name__}: {e}", type(e).__name__)
    return None


# -- shrinking


def without_step(program, at, keep_operand):
    """The program without a step: its uses take its first operand instead, or go too. None where nothing is left."""
    first = len(program.inputs)
    renamed, steps = {i: i for i in range(first)}, []
    for i, (name, operands, words) in enumerate(program.steps):
        if i == at or any(renamed[o] is None for o in operands):
            renamed[first + i] = renamed[operands[0]] if i == at and keep_operand else None
            continue
        renamed[first + i] = first + len(steps)
        steps.append((name, tuple(renamed[o] for o in operands), words))
    return dataclasses.replace(program, steps=tuple(steps)) if steps else None


def smaller(program):
    """Programs that are simpler by one thing: a run of steps, a step, an extent, the dtype."""
    n = len(program.steps)
    for length in (n // 2, n // 4):
        for start in range(0, n - length + 1, max(length, 1)) if length > 1 else ():
            cut = program
            for at in reversed(range(start, start + length)):
                cut = cut and without_step(cut, at, True)
            yield cut
    for at in reversed(range(n)):
        yield without_step(program, at, True)
        yield without_step(program, at, False)
    extents = sorted({n for shape in program.inputs for n in shape if n > 1}, reverse=True)
    for extent in extents:
        for to in {1, 2, extent // 2, extent - 1} - {0, extent}:
            change = {extent: to}
            yield dataclasses.replace(
                program, inputs=tuple(tuple(change.get(n, n) for n in shape) for shape in program.inputs)
            )
    if program.dtype != "float32":
        yield dataclasses.replace(program, dtype="float32")


def shrunk(program, failure_of=failure_of):
    """A program that fails as `program` does, and from which nothing can be taken so that it still does."""
    failure = failure_of(program)
    progress = failure is not None
    while progress:
        progress = False
        for candidate in smaller(program):
            found = candidate and failure_of(candidate)
            if found and found.kind == failure.kind:
                program, failure, progress = candidate, found, True
                break
    return program, failure
