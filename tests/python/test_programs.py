"""Random programs: lazy, eager, predictor off, fusion off and with syncs anywhere, all give the same bits.

SMOLDER_TEST_PROGRAMS is how many (default 400), SMOLDER_TEST_SEED the first seed. A failure names its seed and the
shortest prefix of the program that still fails.
"""

import os
import random

import numpy as np
import pytest
from conftest import same_bits

import smolder

COUNT = int(os.environ.get("SMOLDER_TEST_PROGRAMS", "400"))
FIRST = int(os.environ.get("SMOLDER_TEST_SEED", "0"))
CHUNK = 25

UNARY = ["neg", "abs", "exp", "tanh", "sigmoid", "relu", "square", "sin", "sign", "log1p", "erf"]
BINARY = ["add", "sub", "mul", "div", "maximum", "minimum"]
REDUCE = ["sum", "mean", "amax", "amin", "logsumexp"]
DTYPES = ["float32", "float32", "float32", "float64", "bfloat16", "float16"]


def broadcastable(a, b):
    return all(m == n or 1 in (m, n) for m, n in zip(a[::-1], b[::-1]))


class Generator:
    """A program is a list of (operation, operand numbers, words); shapes are tracked to keep it valid."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        rows, columns = self.dice.choice([1, 2, 3, 5]), self.dice.choice([1, 4, 7, 33])
        self.dtype = self.dice.choice(DTYPES)
        self.shapes, self.program, self.inputs = [], [], []
        for shape in [(rows, columns), (columns,), (rows, 1)]:
            self.inputs.append(np.random.default_rng([seed, len(self.inputs)]).normal(size=shape))
            self.shapes.append(shape)
        for _ in range(self.dice.randint(3, 14)):
            self.step()

    def pick(self, rank=None):
        fits = [i for i, s in enumerate(self.shapes) if rank is None or len(s) == rank]
        return self.dice.choice(fits)

    def add(self, name, operands, words, shape):
        self.program.append((name, operands, words))
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
        else:
            self.add("method", [at], ("unsqueeze", 0), (1, *shape)) if len(shape) < 3 else None

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
        fits = [
            i
            for i, s in enumerate(self.shapes)
            if tuple(np.broadcast_shapes(s, self.shapes[a]) if broadcastable(s, self.shapes[a]) else ())
            == self.shapes[a]
        ]
        if self.shapes[a] and fits:
            self.add("write", [a, self.dice.choice(fits)], (self.dice.choice(["add_", "mul_"]),), self.shapes[a])

    def select(self):
        a = self.pick()
        fits = [i for i, s in enumerate(self.shapes) if s == self.shapes[a]]
        self.add("where", [a, self.dice.choice(fits), self.dice.choice(fits)], (), self.shapes[a])


def execute(program, inputs, dtype, syncs=None):
    """Every value of the program and the gradients of its inputs, as arrays."""
    leaves = [smolder.tensor(x, dtype=getattr(smolder, dtype)).requires_grad_() for x in inputs]
    values = list(leaves)
    for name, operands, words in program:
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


def run_mode(mode, seed, program, inputs, dtype):
    options = {"predictor off": {"predict": False}, "fusion off": {"fuse": False}}.get(mode)
    if mode == "eager":
        with smolder.eager():
            return execute(program, inputs, dtype)
    if mode == "syncs":
        return execute(program, inputs, dtype, random.Random(seed))
    if options is None:
        return execute(program, inputs, dtype)
    smolder.set_options(**options)
    try:
        return execute(program, inputs, dtype)
    finally:
        smolder.set_options(**dict.fromkeys(options, True))


MODES = ["eager", "predictor off", "fusion off", "syncs", "again"]


def first_difference(seed, program, inputs, dtype):
    """The mode and value number that disagree with the plain lazy run, or None."""
    base = execute(program, inputs, dtype)
    for mode in MODES:
        for i, (a, b) in enumerate(zip(base, run_mode(mode, seed, program, inputs, dtype), strict=True)):
            if not same_bits(a, b):
                return mode, i, a, b
    return None


def explain(seed, generated):
    program = generated.program
    for length in range(1, len(program) + 1):
        found = first_difference(seed, program[:length], generated.inputs, generated.dtype)
        if found:
            mode, i, a, b = found
            listed = "\n".join(f"  v{len(generated.inputs) + k} = {step}" for k, step in enumerate(program[:length]))
            return f"seed {seed}, {generated.dtype}: lazy and {mode} differ in value {i}:\n{listed}\n{a}\n{b}"
    return f"seed {seed}: differed once, and not when run again"


@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_random_programs_give_the_same_bits_in_every_mode(first):
    for seed in range(first, min(first + CHUNK, FIRST + COUNT)):
        generated = Generator(seed)
        if first_difference(seed, generated.program, generated.inputs, generated.dtype):
            pytest.fail(explain(seed, generated))
