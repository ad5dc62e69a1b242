"""A step that differs from the one before in exactly one field never gives a stale result.

A random program runs until it is predicted; then one like it but for an attribute, a dtype, the category of a number,
strides, a mode, what is held at the end, or what shares memory; then the first again. Each run must give what eager
execution gives, bit for bit.

SMOLDER_TEST_MUTATIONS is how many of each kind (100; 1,000 take two cores two minutes), SMOLDER_TEST_SEED the
first seed.
"""

import dataclasses
import os
import random
import re
import warnings

import pytest
from conftest import same_bits
from program_modes import eager, execute
from programs import FLOATS, INTEGERS, Generator, Input, Program, Step

COUNT = int(os.environ.get("SMOLDER_TEST_MUTATIONS", "100"))
FIRST = int(os.environ.get("SMOLDER_TEST_SEED", "0"))
CHUNK = 50
TRIES = 8  # sites of a program that are tried


@dataclasses.dataclass(frozen=True)
class Strided(Input):
    """An input of the same numbers with other strides."""

    layout: str = ""

    def __str__(self):
        made = super().__str__().removesuffix(".requires_grad_()")
        return made + self.layout + (".requires_grad_()" if self.dtype in FLOATS else "")


@dataclasses.dataclass(frozen=True)
class WithoutGradient(Input):
    def __str__(self):
        return super().__str__().removesuffix(".requires_grad_()")


@dataclasses.dataclass(frozen=True)
class Alias(Input):
    """An input that is another one, or has a copy of it; either way dice are drawn for it."""

    of: str = ""

    def __str__(self):
        drawn = super().__str__().removesuffix(".requires_grad_()")
        return f"({drawn}, {self.of})[1]"


@dataclasses.dataclass(frozen=True)
class InMode(Program):
    """A program whose steps run in a mode."""

    mode: str = "smolder.enable_grad()"

    @property
    def wrapped(self):
        inner = "\n    ".join(line for line in self.lines if line)
        return f"with {self.mode}:\n    {inner}"

    @property
    def code(self):
        return [compile(self.wrapped, f"<program {self.seed}>", "exec")]

    def __str__(self):
        return "\n".join(["import numpy as np, smolder", "from smolder.nn import functional as F", self.wrapped])


def with_step(program, at, text):
    steps = list(program.steps)
    steps[at] = Step(text, steps[at].operands)
    return dataclasses.replace(program, steps=tuple(steps))


def with_input(program, at, new):
    inputs = list(program.inputs)
    inputs[at] = new
    return dataclasses.replace(program, inputs=tuple(inputs))


def texts(program, pattern):
    """Where a pattern matches in the steps: (step, match)."""
    return [(at, m) for at, step in enumerate(program.steps) for m in re.finditer(pattern, step.text)]


def rewritten(program, dice, pattern, choices):
    """One match of the pattern replaced by one of choices(match)."""
    found = texts(program, pattern)
    if not found:
        return None
    at, m = dice.choice(found)
    others = [c for c in choices(m) if c != m[0]]
    if not others:
        return None
    text = program.steps[at].text
    return with_step(program, at, text[: m.start()] + dice.choice(others) + text[m.end() :])


# -- each kind: (program before, program after), or None where the program has nothing of the kind

AXIS = r"(?<=dim=)-?\d+|(?<=\()-?\d+(?=\)|, True)|(?<=, )-?\d(?=\))|(?<=\[)\d+(?=::)|(?<=::)\d|True|False"


def attribute(program, dice):
    """An axis, a bound or step of a slice, whether a dimension is kept, whether attention is causal."""

    def choices(m):
        if m[0] in ("True", "False"):
            return ["True", "False"]
        return [str(n) for n in (-2, -1, 0, 1, 2, 3)]

    return program, rewritten(program, dice, AXIS, choices)


def dtype(program, dice):
    """The dtype of an input or of a cast."""
    if dice.random() < 0.4:
        same = lambda m: [f"smolder.{t}" for t in [*FLOATS, *INTEGERS]]  # noqa: E731
        after = rewritten(program, dice, r"smolder\.(float|bfloat|int|uint)\d+", same)
        if after:
            return program, after
    at = dice.randrange(len(program.inputs))
    x = program.inputs[at]
    kinds = next((k for k in (FLOATS, INTEGERS) if x.dtype in k), ["bool", "int64"])
    return program, with_input(program, at, Input(x.shape, dice.choice([t for t in kinds if t != x.dtype])))


NUMBER = r"(?<![\w.{\[:(-])-?\d+(\.\d+)?(e-?\d+)?(?![\w.}\])])|(?<=min=)-?\d+(\.\d+)?(?!\.)|(?<=(?:mul|add|ill)_\()\d"


def category(program, dice):
    """The same number as a bool, an int, a float."""

    def choices(m):
        value = float(m[0])
        same = [repr(value)]
        same += [repr(int(value))] if value == int(value) else []
        same += [repr(bool(value))] if value in (0, 1) else []
        # A number that keeps its value may change its category alone.
        return same if len(same) > 1 else [repr(int(value)), repr(value)]

    whole = [i for i, x in enumerate(program.inputs) if x.dtype not in FLOATS]
    if whole and dice.random() < 0.7:  # where a category shows in the result's dtype
        text = dice.choice(["{0} + 1", "{0} * 2", "{0} - 1.0", "{0} == 3", "{0} // 1", "2 - {0}", "{0}.clamp(min=1)"])
        new = len(program.inputs) + len(program.steps)
        steps = (*program.steps, Step(text, (dice.choice(whole),)))
        program = dataclasses.replace(program, steps=steps, kept=program.kept | {new})
    return program, rewritten(program, dice, NUMBER, choices)


LAYOUTS = [
    ".flip((0,)).flip((0,))",
    ".transpose(0, -1).clone().transpose(0, -1)",
    ".unsqueeze(0).expand(2, *{s})[1]",
    ".unsqueeze(-1).repeat(*[1] * {r}, 2)[..., 1]",
    ".repeat_interleave(2, 0)[::2]",
    ".reshape(-1).clone().view({s})",
]


def stride(program, dice):
    """An input with the same elements elsewhere."""
    at = dice.randrange(len(program.inputs))
    x = program.inputs[at]
    layout = dice.choice(LAYOUTS).format(s=x.shape, r=len(x.shape))
    copied = x.dtype in FLOATS  # a leaf, not a view of one
    strided = Strided(x.shape, x.dtype, layout + (".detach()" if copied else ""))
    return program, with_input(program, at, strided)


def mode(program, dice):
    """Whether gradients are recorded, or those of one input are wanted, or inference alone."""
    kind = dice.randrange(4)
    floats = [i for i, x in enumerate(program.inputs) if x.dtype in FLOATS]
    if kind == 0 and len(floats) > 1 and not program.optimizer:
        at = dice.choice(floats)
        x = program.inputs[at]
        return program, with_input(program, at, WithoutGradient(x.shape, x.dtype))
    fields = {f.name: getattr(program, f.name) for f in dataclasses.fields(program)} | {"optimizer": ""}
    other = dice.choice(["smolder.no_grad()", "smolder.inference_mode()", "smolder.eager()"])
    return InMode(**fields), InMode(**fields, mode=other)


def liveness(program, dice):
    """The values held at the end."""
    values = range(len(program.inputs), len(program.inputs) + len(program.steps))
    return program, dataclasses.replace(program, kept=program.kept ^ {dice.choice(values)})


def aliasing(program, dice):
    """Pairs that share memory: an input with another, or an operand with what was made of it."""
    inputs = program.inputs
    pairs = [(i, j) for j in range(len(inputs)) for i in range(j) if inputs[i] == inputs[j]]
    if dice.random() < 0.4:
        at = dice.randrange(len(inputs))  # beside one that is there, another of the same kind
        x = inputs[at]
        if not pairs:
            steps = tuple(Step(s.text, tuple(o + (o >= len(inputs)) for o in s.operands)) for s in program.steps)
            moved = lambda values: {v + (v >= len(inputs)) for v in values}  # noqa: E731
            program = dataclasses.replace(
                program,
                inputs=(*inputs, x),
                steps=steps,
                kept=frozenset(moved(program.kept)),
                losses=tuple(sorted(moved(program.losses))),
            )
            new = len(inputs)
            users = [i for i, s in enumerate(steps) if at in s.operands]
            if not users:
                return program, None
            user = dice.choice(users)
            operands = tuple(new if o == at else o for o in steps[user].operands)
            steps = (*steps[:user], Step(steps[user].text, operands), *steps[user + 1 :])
            program = dataclasses.replace(program, steps=steps)
            pairs = [(at, new)]
        i, j = dice.choice(pairs)
        x, ends = program.inputs[j], ".requires_grad_()" if program.inputs[j].dtype in FLOATS else ""
        before = with_input(program, j, Alias(x.shape, x.dtype, f"v{i}.detach().clone(){ends}"))
        return before, with_input(program, j, Alias(x.shape, x.dtype, dice.choice([f"v{i}", f"v{i}.detach(){ends}"])))
    return program, rewritten(program, dice, r"\{\d\}(\.clone\(\))?", lambda m: [m[0][:3], m[0][:3] + ".clone()"])


KINDS = {f.__name__: f for f in (attribute, dtype, category, stride, mode, liveness, aliasing)}


def outcome(program):
    """The results of eager execution; None where the change made no valid program."""
    try:
        return eager(program)
    except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
        return None


def pair(kind, seed):
    """A program and one that differs in one field, each with what it gives; None where the seed makes none."""
    if seed % 40 == 7:  # of large tensors, which are slow and differ in nothing else
        return None
    dice = random.Random(seed)
    program = Generator(seed).program
    if dice.random() < 0.5:  # a change is then seen wherever it is
        program = dataclasses.replace(program, kept=frozenset(range(len(program.inputs) + len(program.steps))))
    for _ in range(TRIES):
        before, after = KINDS[kind](program, dice)
        if after is None or after == before:
            continue
        outcomes = outcome(before), outcome(after)
        if None not in outcomes:
            return tuple(zip((before, after), outcomes, strict=True))
    return None


def difference(program, want):
    got = execute(program)
    if got.keys() != want.keys():
        return f"{sorted(got.keys() ^ want.keys())} on one side only"
    for name, array in want.items():
        if not same_bits(array, got[name]):
            return f"{name} is\n{got[name]}\nand not\n{array}"
    return None


def check(kind, seed):
    """Whether the seed makes a pair; it is run."""
    made = pair(kind, seed)
    if made is None:
        return False
    first, second = made
    for at, (program, want) in enumerate((first, first, second, first, second, second, first)):
        wrong = difference(program, want)
        assert not wrong, (
            f"{kind}, seed {seed}, run {at}: {wrong}\n\n{first[0]}\n\nand then\n\n{second[0]}\n\nalone: "
            f"SMOLDER_TEST_SEED={seed} SMOLDER_TEST_MUTATIONS=1 python -m pytest {__file__} -k {kind}"
        )
    return True


@pytest.mark.parametrize("first", range(0, COUNT, CHUNK))
@pytest.mark.parametrize("kind", KINDS)
def test_one_field_that_changes_between_steps(kind, first):
    wanted, seed = min(CHUNK, COUNT - first), FIRST + first * 20
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of ops without a lowering
        while wanted:
            wanted -= check(kind, seed)
            seed += 1
            assert seed < FIRST + (first + CHUNK) * 20, "too few programs have something of the kind"


@pytest.mark.parametrize("kind", KINDS)
def test_changes_are_seen(kind):
    """Most pairs give different results: otherwise a stale one would not be noticed."""
    pairs = [p for seed in range(60) if (p := pair(kind, seed))]
    assert len(pairs) >= 10
    differing = sum(a.keys() != b.keys() or any(not same_bits(a[k], b[k]) for k in a) for (_, a), (_, b) in pairs)
    # Strides mean to change no value, an alias does where it is written, and a category where there are integers.
    least = {"stride": 0, "aliasing": 0.05, "category": 0.1}.get(kind, 0.3)
    assert differing >= least * len(pairs), (differing, len(pairs))
