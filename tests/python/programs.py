"""Random programs: what one is, how it is written as Python, and how one is made from a seed."""

import dataclasses
import functools
import random

import numpy as np

import smolder
from smolder.nn import functional as F

FLOATS = ["float32", "float32", "float32", "float64", "bfloat16", "float16"]
INTEGERS = ["int64", "int64", "int32", "uint8", "int16", "int8"]


@dataclasses.dataclass(frozen=True)
class Input:
    """A leaf: normal numbers that want a gradient, or small integers, or bools."""

    shape: tuple
    dtype: str

    def __str__(self):
        if self.dtype == "bool":
            return f"smolder.tensor(dice.random({self.shape}) < 0.5)"
        if self.dtype in INTEGERS:
            return f"smolder.tensor(dice.integers(0, 5, {self.shape}), dtype=smolder.{self.dtype})"
        return f"smolder.tensor(dice.normal(size={self.shape}), dtype=smolder.{self.dtype}).requires_grad_()"


@dataclasses.dataclass(frozen=True)
class Step:
    """A value: an expression with {0}, {1} for the values it is made of. No extent is written in it, so that it holds
    for a program with smaller ones."""

    text: str
    operands: tuple


@dataclasses.dataclass(frozen=True)
class Program:
    """Values v0, v1, ...: the inputs first, then one for each step. Those not kept die after their last use."""

    seed: int
    inputs: tuple
    steps: tuple
    kept: frozenset
    losses: tuple  # values whose sum is differentiated
    optimizer: str = ""  # a call that steps the float inputs

    @functools.cached_property
    def lines(self):
        """The program as Python; `smolder`, `np` and `F` are what it is run with."""
        out = ["smolder.manual_seed(1)", f"dice = np.random.default_rng({self.seed})"]
        out += [f"v{i} = {x}" for i, x in enumerate(self.inputs)]
        last = {}
        for at, step in enumerate(self.steps):
            for i in step.operands:
                last[i] = at
        for at, step in enumerate(self.steps):
            new = len(self.inputs) + at
            out.append(f"v{new} = {step.text.format(*(f'v{i}' for i in step.operands))}")
            used = {*step.operands, new}
            dead = sorted(i for i in used if last.get(i, at) == at and not self.lives(i))
            if dead:
                out.append("del " + ", ".join(f"v{i}" for i in dead))
        if self.losses:
            out.append("loss = " + " + ".join(f"v{i}.float().sum()" for i in self.losses))
            out.append("loss.requires_grad and loss.backward()")
            leaves = [f"v{i}" for i, x in enumerate(self.inputs) if x.dtype in FLOATS]
            if self.optimizer:
                out.append(f"smolder.optim.{self.optimizer.format('[' + ', '.join(leaves) + ']')}.step()")
        return out

    def lives(self, i):
        """Whether a value is there at the end."""
        return i < len(self.inputs) or i in self.kept or i in self.losses

    @functools.cached_property
    def code(self):
        return [compile(line, f"<program {self.seed}>", "exec") for line in self.lines]

    def __str__(self):
        return "\n".join(["import numpy as np, smolder", "from smolder.nn import functional as F", *self.lines])


@dataclasses.dataclass(frozen=True)
class Meta:
    """Facts that a step may know about a value."""

    shape: tuple
    dtype: str
    writable: (
        bool  # in place: no leaf that wants a gradient nor a view of one, not one of several views, no memory twice
    )

    @property
    def floating(self):
        return self.dtype in FLOATS

    @property
    def rank(self):
        return len(self.shape)


UNARY = ["abs", "square", "sign", "exp", "tanh", "sigmoid", "sin", "log1p", "erf", "isnan", "floor", "sqrt", "expm1"]
FLOAT_UNARY = ["neg", "relu", "F.gelu", "F.silu", "rsqrt", "F.softplus", "round"]
BINARY = ["{0} + {1}", "{0} * {1}", "{0} / {1}", "{0}.maximum({1})", "{0}.minimum({1})", "smolder.atan2({0}, {1})"]
COMPARE = ["{0} > {1}", "{0} <= {1}", "{0} == {1}", "{0}.logical_and({1})", "{0}.logical_xor({1})"]
NUMBER = ["{0} + %r", "{0} - %r", "%r - {0}", "{0} * %r", "{0} / %r", "{0}.clamp(min=%r)", "{0} ** abs(%r)"]
REDUCE = ["sum", "amax", "amin", "prod", "any", "all"]
FLOAT_REDUCE = ["sum", "mean", "logsumexp", "var", "sum", "amax", "norm"]
OPTIMIZERS = ["SGD({}, lr=0.1, momentum=0.9)", "SGD({}, lr=0.5)", "AdamW({}, lr=0.01)", "Adam({}, amsgrad=True)"]


class Generator:
    """Makes the program of a seed. Steps are tried on small eager tensors as they are chosen, to know their shapes and
    dtypes; what a step that was thought valid raises is an error of the test or of Smolder, so it is not caught."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.large = seed % 40 == 7
        self.limit = 1 << 20 if self.large else 1 << 12
        self.rows = seed % 4 == 2  # what a kernel reads rows for in several phases
        self.inputs, self.steps, self.metas, self.tensors = self.leaves(), [], [], {}
        with smolder.eager(), smolder.no_grad():
            for x in self.inputs:
                self.meet(smolder.zeros(x.shape, dtype=getattr(smolder, x.dtype)), x.dtype not in FLOATS)
            for _ in range(self.dice.randint(2, 5) if self.large else self.dice.randint(3, 14)):
                self.step()
        self.program = self.finished(seed)
        del self.tensors

    def leaves(self):
        dice = self.dice
        if self.large:
            shape = dice.choice(
                [(2, 140_000), (1, 270_000), (131_073,), (300, 7), (2000, 33), (130, 1000), (20_000, 2)]
            )
        else:
            shape = dice.choice([1, 2, 3, 5]), dice.choice([1, 2, 4, 7, 33])
        first, other = dice.choice(FLOATS), dice.choice(FLOATS)
        inputs = [Input(shape, first), Input(shape[-1:], first), Input((*shape[:-1], 1), dice.choice([first, other]))]
        if dice.random() < 0.5:
            inputs.append(Input(dice.choice([shape, shape[-1:]]), dice.choice(INTEGERS)))
        if dice.random() < 0.3:
            inputs.append(Input(shape, "bool"))
        return tuple(inputs)

    def finished(self, seed):
        dice, count = self.dice, len(self.metas)
        floats = [i for i, m in enumerate(self.metas) if m.floating]
        losses = [floats[-1]] if dice.random() < 0.85 else []
        losses += dice.sample(floats, min(len(floats), 2)) if losses and dice.random() < 0.3 else []
        kept = {i for i in range(len(self.inputs), count) if dice.random() < 0.35} | {count - 1}
        optimizer = dice.choice(OPTIMIZERS) if losses and dice.random() < 0.3 else ""
        return Program(seed, self.inputs, tuple(self.steps), frozenset(kept), tuple(sorted({*losses})), optimizer)

    # choosing

    def meet(self, tensor, writable):
        self.tensors[len(self.metas)] = tensor
        self.metas.append(Meta(tuple(tensor.shape), str(tensor.dtype).removeprefix("smolder."), writable))

    def add(self, text, *operands, writable=True):
        values = [self.tensors[i] for i in operands]
        with np.errstate(all="ignore"):
            names = {"smolder": smolder, "F": F} | {f"a{i}": v for i, v in enumerate(values)}
            out = eval(text.format(*(f"a{i}" for i in range(len(values)))), names)
        if out.numel() <= self.limit and out.numel():
            self.steps.append(Step(text, operands))
            self.meet(out, writable)

    def pick(self, fits=lambda m: True):
        """A value that fits, the later the likelier; None where there is none."""
        found = [i for i, m in enumerate(self.metas) if fits(m)]
        return max(self.dice.choice(found), self.dice.choice(found)) if found else None

    def float_pick(self, rank=0):
        return self.pick(lambda m: m.floating and m.rank >= rank)

    def partner(self, shape, fits=lambda m: True):
        """A value that broadcasts with `shape` and makes nothing large of it."""

        def good(m):
            try:
                return fits(m) and np.prod(np.broadcast_shapes(m.shape, shape)) <= self.limit
            except ValueError:
                return False

        return self.pick(good)

    def into(self, at):
        """A value that can be written into value `at`'s whole shape, and whose dtype its own takes."""
        m = self.metas[at]
        return self.partner(m.shape, lambda o: np.broadcast_shapes(o.shape, m.shape) == m.shape and casts(o, m))

    def axis(self, at):
        return self.dice.randrange(self.metas[at].rank)

    def step(self):
        kinds = ["unary", "binary", "reduce", "softmax", "norm", "dropout", "loss", "attention"]
        if not self.rows:
            kinds += ["binary", "number", "compare", "reduce", "move", "move", "join", "select", "product"]
            kinds += ["write", "write_view", "index", "cast", "write"]
        getattr(self, self.dice.choice(kinds))()

    # kinds of steps

    def unary(self):
        at = self.pick(lambda m: m.dtype != "bool")
        name = self.dice.choice(UNARY + (FLOAT_UNARY if self.metas[at].floating else ["neg"]))
        self.add(f"{name}({{0}})" if "." in name else f"{{0}}.{name}()", at)

    def binary(self):
        a = self.pick()
        b = self.partner(self.metas[a].shape)
        bools = "bool" in (self.metas[a].dtype, self.metas[b].dtype)
        self.add(self.dice.choice(BINARY + ([] if bools else ["{0} - {1}"])), a, b)

    def compare(self):
        a = self.pick()
        self.add(self.dice.choice(COMPARE), a, self.partner(self.metas[a].shape))

    def number(self):
        whole = self.pick(lambda m: m.dtype in INTEGERS) if self.dice.random() < 0.5 else None
        at = self.pick(lambda m: m.dtype != "bool") if whole is None else whole
        if self.metas[at].floating:
            self.add(self.dice.choice(NUMBER) % self.dice.choice([0, 1, -1, 2, 0.5, 3.25, 1e-3]), at)
        else:
            more = ["{0} // %r", "{0} %% %r", "{0} & %r", "{0} ^ %r"]
            self.add(self.dice.choice(NUMBER + more) % self.dice.choice([1, -1, 2, 3, 7]), at)

    def reduce(self):
        at = self.pick(lambda m: m.rank > 0)
        m = self.metas[at]
        name = self.dice.choice(FLOAT_REDUCE if m.floating else REDUCE)
        axes = self.dice.choice([self.axis(at), self.axis(at), -1, tuple(range(m.rank))])
        if name == "prod" and isinstance(axes, tuple):
            axes = -1
        keep = self.dice.choice([True, False])
        if self.dice.random() < 0.1:
            name = self.dice.choice(["argmax", "argmin"])
            axes = -1
        words = f"dim={axes}, keepdim={keep}"
        self.add(f"{{0}}.{name}({words})", at)

    def move(self):
        at = self.pick()
        m = self.metas[at]
        ways = ["{0}.unsqueeze(-1)", "{0}.reshape(-1)"] if m.rank < 3 else ["{0}.flatten(1)"]
        if m.rank:
            axis = self.axis(at)
            spare = ", " * 0 + ":, " * axis
            ways += [f"{{0}}.transpose(0, {axis})", f"{{0}}.squeeze({axis})", f"{{0}}.select({axis}, -1)"]
            start, step = self.dice.randrange(min(m.shape[axis], 9)), self.dice.choice([1, 1, 2, 3])
            ways += [f"{{0}}[{spare}{start}::{step}]", f"{{0}}[{spare}:-1]", f"{{0}}.chunk(2, {axis})[-1]"] * 2
        way = self.dice.choice(ways)
        copies = ["{0}.flip((0,))", "{0}.unsqueeze(0).expand(2, *{0}.shape)", "F.pad({0}, (1, 2))", "{0}.clone()"]
        copies += ["{0}.tril()", "{0}.triu(1)"] if m.rank == 2 else []
        if self.dice.random() < 0.3 and m.rank in (1, 2):
            way = self.dice.choice(copies)
            self.add(way, at, writable="expand" not in way)
        else:
            self.add(way, at, writable=m.writable and "chunk" not in way)

    def join(self):
        at = self.pick(lambda m: m.rank > 0)
        other = self.pick(lambda m: m.shape == self.metas[at].shape)
        way = self.dice.choice(["smolder.cat([{0}, {1}], %d)", "smolder.stack([{0}, {1}, {0}], %d)"])
        self.add(way % self.axis(at), at, other)

    def select(self):
        a = self.pick()
        shape = self.metas[a].shape
        b = self.partner(shape)
        condition = self.partner(np.broadcast_shapes(shape, self.metas[b].shape))
        if self.dice.random() < 0.3 and self.metas[condition].shape == shape and self.metas[a].floating:
            self.add("{0}.masked_fill({1} > 0, 2)", a, condition)
        else:
            self.add("smolder.where({0} > 0, {1}, {2})", condition, a, b)

    def softmax(self):
        at = self.float_pick(1)
        if at is not None:
            self.add(f"{{0}}.{self.dice.choice(['softmax', 'log_softmax'])}({self.axis(at)})", at)

    def norm(self):
        at = self.float_pick(1)
        m = self.metas[at] if at is not None else None
        weight = m and self.pick(lambda w: w.shape == m.shape[-1:] and w.dtype == m.dtype)
        if weight is not None and self.dice.random() < 0.7:
            self.add("F.layer_norm({0}, {0}.shape[-1:], {1}, {1})", at, weight)
        elif m:
            self.add("F.layer_norm({0}, {0}.shape[-1:])", at)

    def dropout(self):
        at = self.float_pick()
        self.add("F.dropout({0}, 0.3)", at)

    def loss(self):
        at = self.pick(lambda m: m.floating and m.rank == 2)
        if at is None:
            return
        shape = self.metas[at].shape
        target = self.pick(lambda m: m.shape == shape[:1] and m.dtype in INTEGERS)
        if target is not None:
            self.add("F.cross_entropy({0}, {1}.long() % {0}.size(1))", at, target)
        else:
            other = self.pick(lambda m: m.shape == shape and m.dtype == self.metas[at].dtype)
            self.add("F.mse_loss({0}, {1})", at, other)

    def attention(self):
        q = self.pick(lambda m: m.floating and m.rank == 2 and m.shape[0] <= 64)
        if q is not None:
            m = self.metas[q]
            k = self.pick(lambda o: o.shape == m.shape and o.dtype == m.dtype)
            each = ", ".join(f"{{{i}}}.unsqueeze(0)" for i in (0, 1, 1))
            causal = self.dice.choice([True, False])
            self.add(f"F.scaled_dot_product_attention({each}, is_causal={causal}).squeeze(0)", q, k)

    def product(self):
        a = self.pick(lambda m: m.floating and m.rank == 2)
        if a is None:
            return
        m = self.metas[a]

        def fits(o):
            return o.rank == 2 and o.dtype == m.dtype and o.shape[0] * m.shape[0] <= self.limit

        b = self.pick(lambda o: fits(o) and o.shape[0] == m.shape[1] and o.shape[1] * m.shape[0] <= self.limit)
        t = self.pick(lambda o: fits(o) and o.shape[1] == m.shape[1])
        if b is not None and self.dice.random() < 0.5:
            self.add("{0} @ {1}", a, b)
        elif t is not None:
            self.add(self.dice.choice(["F.linear({0}, {1})", "{0} @ {1}.T", "({1} @ {0}.T).T"]), a, t)

    def index(self):
        at = self.pick(lambda m: m.rank > 0)
        axis = self.axis(at)
        kind = self.dice.randrange(4)
        if kind < 2:
            src = self.dice.choice(["argmax", "argmin"])
            own = f"{{0}}.{src}({axis}, True)"
            self.add(f"{{0}}.scatter_add({axis}, {own}, {{0}})" if kind else f"{{0}}.gather({axis}, {own})", at)
            return
        index = self.pick(lambda m: m.dtype in INTEGERS and m.rank == 1 and m.shape[0] <= 300)
        if index is None or np.prod(self.metas[at].shape) * self.metas[index].shape[0] > self.limit:
            return
        if self.metas[at].rank == 2 and self.metas[at].floating and kind == 2:
            self.add("F.embedding({1}.long() % {0}.size(0), {0})", at, index)
        else:
            self.add(f"{{0}}.index_select({axis}, {{1}}.long() % {{0}}.size({axis}))", at, index)

    def cast(self):
        at, dtype = self.pick(), self.dice.choice([*FLOATS, *INTEGERS, "bool"])
        m = self.metas[at]
        self.add(f"{{0}}.to(smolder.{dtype})", at, writable=m.writable or m.dtype != dtype)  # it may be itself

    def written(self, at):
        """A way of writing in place what value `at` can be written, and its operand."""
        other = self.into(at)
        dtype = self.metas[at].dtype
        ways = ["copy_({1})"] if other is not None else []
        if other is not None and dtype != "bool":
            ways += ["add_({1})", "mul_({1})"] * 2 + (["div_({1})"] if self.metas[at].floating else [])
        way = self.dice.choice([*ways, "fill_(3)", "zero_()"])
        return way, ([other] if "{1}" in way else [])

    def write(self):
        at = self.pick(lambda m: m.writable or m.rank)
        way, others = self.written(at)
        clone = "" if self.metas[at].writable and self.dice.random() < 0.8 else ".clone()"
        try:
            self.add(f"{{0}}{clone}.{way}", at, *others)
        except RuntimeError as error:
            if "single memory location" not in str(error):
                raise
            self.add(f"{{0}}{clone}.{way.replace('{1}', '{1}.clone()')}", at, *others)

    def write_view(self):
        """Writes a part, by a number or a value of the part's shape."""
        at = self.pick(lambda m: m.writable and m.rank > 0)
        if at is None:
            return
        axis, bools = self.axis(at), self.metas[at].dtype == "bool"
        part = self.dice.choice([f".select({axis}, 0)", ".transpose(0, -1)[:1]", ".reshape(-1)[1:]", "[..., ::2]"])
        way = self.dice.choice([".fill_(1)"] if bools else [".mul_(3)", ".add_(1)", f".copy_({{0}}{part} * 2)"])
        self.add(f"{{0}}{part}{way}", at)


def casts(source, target):
    """Whether an in-place op takes a value of one dtype into one of the other: not from a higher category."""
    rank = {"bool": 0, **dict.fromkeys(INTEGERS, 1)}
    return rank.get(source.dtype, 2) <= rank.get(target.dtype, 2)
