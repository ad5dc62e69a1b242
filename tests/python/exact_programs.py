"""Random programs of views, writes in place, indices that hold a position twice, mixed dtypes, random ops and compiled
functions, run by Smolder or by torch.

    python exact_programs.py torch to PATH  writes a golden file there, from torch
    python exact_programs.py torch NUMBER   says what a program left

Every op of theirs gives the same bits whoever computes it: elements are small integers, sums of them fit, and random
numbers are drawn where there is only one to draw. Statements that torch refuses are noted, and left out with Smolder;
and what is left at the end: values, what needs gradients, the gradients, and what else a write to each value changes.
"""

import importlib
import json
import sys
import warnings
from pathlib import Path

import numpy as np
from container_programs import Dice, digest

GOLDEN = Path(__file__).parents[1] / "golden/exact_programs.json"
PROGRAMS, STEPS, VALUES = 2500, 10, 4

DTYPES = ["float32", "float32", "int64", "bool", "int8", "uint8", "int16", "int32", "float64", "float16", "bfloat16"]
DTYPES += ["complex64"]
SHAPES = ["(2, 3)", "(3,)", "(2, 1)", "(3, 2)", "()", "(1, 3)", "(4,)", "(2, 2, 3)", "(0, 3)", "(3, 3)", "(2, 3)"]
NUMBERS = ["2", "-1", "0", "3", "0.5", "True", "7", "200", "-3", "1.0", "2"]
INDICES = ["T.tensor([0, 0, 1])", "T.tensor([1, -1])", "[0, 1, 1]", "T.tensor([[0], [1]])", "T.tensor([True, False])"]
INDICES += ["T.tensor([1, 1], dtype=T.int32)", "T.tensor(1)", "T.tensor([], dtype=T.int64)", "{y} > 0", "{x} > 0"]

UNARY = ["{x}.neg()", "-{x}", "{x}.abs()", "{x}.sign()", "{x}.square()", "{x} * {k}", "{x} + {k}", "{x} - {k}"]
UNARY += ["{k} - {x}", "{x} / 2", "{x} // 2", "{x} % 3", "{x}.clamp(-2, 2)", "{x}.clamp(min={k})", "{x}.logical_not()"]
UNARY += ["~{x}", "{x} & 3", "{x} ^ 1", "{x} | 4", "{x} << 1", "{x} >> 1", "{x}.floor()", "{x}.round()", "{x}.relu()"]
UNARY += ["{x} > {k}", "{x} == {k}", "{x} != 0", "{x}.pow(2)", "{x} ** 3", "cast({x}, T.{d})", "cast({x}, T.{d})"]
UNARY += ["{x}.conj()", "{x}.real", "T.isnan({x})", "{x}.sgn()", "{x}.double().to(T.float16)", "{x}.bool()"]
UNARY += ["T.full_like({x}, {k})", "T.zeros_like({x})", "{x}.new_ones(2, 3)", "{x}.clone()", "{x}.float()"]
VIEWS = [
    "{x}[0]",
    "{x}[1:]",
    "{x}[::2]",
    "{x}[..., 0]",
    "{x}[..., ::2]",
    "{x}[None]",
    "{x}.t()",
    "{x}.transpose(0, -1)",
]
VIEWS += ["{x}.view(-1)", "{x}.reshape(-1)", "{x}.reshape(3, -1)", "{x}.unsqueeze(-1)", "{x}.squeeze()", "{x}.detach()"]
VIEWS += ["{x}.expand(2, *{x}.shape)", "{x}.diagonal()", "{x}.flip(0)", "{x}.roll(1, 0)", "{x}.unfold(0, 2, 1)"]
VIEWS += ["{x}.movedim(0, -1)", "{x}.narrow(0, 0, 1)", "{x}.chunk(2)[-1]", "{x}.split(1)[0]", "{x}.unbind()[0]"]
VIEWS += ["{x}.contiguous()", "{x}.select(-1, 0)", "{x}.as_strided((2, 2), (1, 1))", "T.view_as_real({x})"]
VIEWS += ["{x}.permute(*reversed(range({x}.dim())))", "{x}.tril()", "F.pad({x}, (1, 0))", "{x}.expand_as({y})"]
BINARY = [
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "{x} > {y}",
    "{x} == {y}",
    "T.maximum({x}, {y})",
    "T.minimum({x}, {y})",
]
BINARY += ["T.where({x} > 0, {x}, {y})", "T.where({y} != 0, {x}, {k})", "{x}.masked_fill({y} > 0, {k})"]
BINARY += ["T.cat([{x}, {y}])", "T.cat([{x}, {y}], -1)", "T.stack([{x}, {y}])", "{x} & {y}", "{x} ^ {y}", "{x} @ {y}"]
BINARY += ["{x}.logical_and({y})", "{x} @ {y}.T", "T.add({x}, {y}, alpha={k})", "{x} // ({y}.abs() + 1)"]
BINARY += ["{x} % ({y}.abs() + 1)", "T.addcmul({x}, {x}, {y})", "T.broadcast_tensors({x}, {y})[0]", "{x} + {y}.sum()"]
BINARY += ["T.isin({x}, {y})", "T.outer({x}, {y})", "{x}.lerp({y}, 0.5)", "T.bucketize({x}, {y}.view(-1).sort()[0])"]
REDUCED = ["{x}.sum()", "{x}.sum(0)", "{x}.sum(-1, keepdim=True)", "{x}.prod()", "{x}.amax(0)", "{x}.amin()"]
REDUCED += ["{x}.max(-1)[0]", "{x}.any(0)", "{x}.all()", "{x}.cumsum(0)", "{x}.cumprod(-1)", "{x}.argmax()"]
REDUCED += ["{x}.sort(0, stable=True)[1]", "{x}.sort(-1, descending=True)[0]", "{x}.topk(1)[0]", "{x}.median()"]
REDUCED += ["{x}.count_nonzero()", "{x}.unique()", "{x}.nonzero()", "{x}.diff()", "{x}.cummax(0)[0]", "{x}.trace()"]
REDUCED += ["{x}.aminmax()[1]", "{x}.sum(dtype=T.{d})", "{x}.sum((0, -1))", "{x}.argmin(0)", "{x}.nansum()"]
INDEXED = ["{x}[{i}]", "{x}[..., {i}]", "{x}.index_select(0, {i})", "{x}.gather(0, first({x}))", "{x}.take({i})"]
INDEXED += [
    "{x}.scatter_add(0, first({y}), {y})",
    "{x}.scatter(0, first({y}), {y})",
    "{x}.scatter(-1, first({x}), {k})",
]
INDEXED += [
    "{x}.scatter_reduce(0, first({y}), {y}, '{r}')",
    "{x}.index_add(0, {i}, {y})",
    "{x}.index_copy(0, {i}, {y})",
]
INDEXED += ["{x}.index_put(({i},), {y}, accumulate=True)", "{x}.index_put(({i},), {y})", "{x}.index_fill(0, {i}, {k})"]
INDEXED += ["{x}.put({i}, {y}, accumulate=True)", "{x}.masked_select({y} > 0)", "{x}[{i}, 0]", "F.one_hot({x}.abs())"]
INDEXED += [
    "{x}.masked_scatter({x} > 0, {y})",
    "{x}.index_reduce(0, {i}, {y}, 'amax')",
    "{x}.repeat_interleave({i}, 0)",
]
WRITES = ["{x}.add_({k})", "{x}.mul_({y})", "{x}.copy_({y})", "{x}[0] = {k}", "{x}[{i}] = {k}", "{x}[{i}] += {k}"]
WRITES += ["{x}[{i}] = {y}", "{x}[{x} > 0] = {k}", "{x}.zero_()", "{x}.fill_({k})", "{x} += {y}", "{x}[..., 0] *= {k}"]
WRITES += ["{x}.neg_()", "{x}.clamp_(-1, 1)", "{x}.masked_fill_({y} > 0, {k})", "{x}.scatter_add_(0, first({y}), {y})"]
WRITES += ["{x}.index_add_(0, {i}, {y})", "{x}.index_put_(({i},), {y}, accumulate=True)", "{x}.sub_({y}, alpha=2)"]
WRITES += ["{x}.logical_not_()", "{x}.bitwise_xor_(1)", "{x}.cumsum_(0)", "{x}.transpose(0, -1).add_({k})", "{x}.t_()"]
WRITES += ["{x}.view(-1)[::2].mul_({k})", "{x}.diagonal().fill_({k})", "{x}.expand(2, *{x}.shape).add_(1)"]
WRITES += ["T.add({x}, {y}, out={z})", "{x}.requires_grad_()", "{x}.detach_()", "{x}.index_fill_(0, {i}, {k})"]
WRITES += ["{x}.triu_()", "{x}.random_(3, 4)", "{x}.bernoulli_(1.0)", "{x}.scatter_(0, first({y}), {y})", "{x} *= {k}"]
WRITES += ["{x}.data = {y}", "{x}.set_({y})", "{x}.copy_({x}.flip(0))", "{x}[1:] += {x}[:-1]", "{x}.add_({x}.t())"]
WRITES += ["{x}.scatter_reduce_(0, first({y}), {y}, '{r}', include_self=False)", "{x}.div_(2)", "{x}.pow_(2)"]
DRAWN = ["T.rand_like({x}).add(1).floor()", "T.bernoulli(T.ones({x}.shape))", "T.randint(3, 4, {x}.shape)"]
DRAWN += ["T.randperm(3).sort()[0]", "F.dropout({x}, 0.0)", "T.multinomial(T.tensor([0.0, 1.0]), 3, True)"]
DRAWN += ["T.rand({x}.shape).ge({y})", "T.normal(2.0, 0.0, (2, 3))", "T.randint(0, 1, (2, 3)).add({x})"]
LAST = ["a + b", "b", "a.sum()", "a * 2 - b", "a.clone()", "a[0]"]


def expression(dice):
    kind = dice.of([UNARY, VIEWS, VIEWS, BINARY, BINARY, REDUCED, INDEXED, INDEXED, DRAWN])
    return dice.of(kind)


def filled(text, dice, names=("v0", "v1", "v2", "v3")):
    text = text.replace("{i}", dice.of(INDICES))
    words = {"x": dice.of(names), "y": dice.of(names), "z": dice.of(names), "k": dice.of(NUMBERS)}
    return text.format(**words, d=dice.of(DTYPES), r=dice.of(["sum", "amax", "prod", "amin"]))


def compiled(dice):
    """A function that is called three times, with what it writes to."""
    lines = [filled(expression(dice), dice, ("a", "b")) for _ in range(2)]
    write = filled(dice.of([w for w in WRITES if "=" not in w]), dice, ("a", "b"))
    steps = [f"c := {lines[0]}", write, dice.of(LAST), lines[1]]
    steps = steps[dice.of("01") == "1" : int(dice.of("34"))]
    return f"thrice(lambda a, b: ({', '.join(steps).replace('c := ', '')},)[-1], {{x}}, {{y}})"


def statement(dice):
    roll = dice.of("0123456789")
    if roll in "0123":
        return filled(dice.of(WRITES), dice)
    text = compiled(dice) if roll == "4" else expression(dice)
    return filled(f"{{z}} = {text}", dice)


def programs():
    for i in range(PROGRAMS):
        dice = Dice(f"exact {i}")
        begin = []
        for n in range(VALUES):
            begin.append(f"v{n} = made({dice.of(DTYPES)!r}, {dice.of(SHAPES)}, {n})")
        begin += dice.of([[], [], ["v0.requires_grad_()"]])
        yield [*begin, *(statement(dice) for _ in range(1 + i % STEPS))]


class Run:
    """Runs statements. `compile` is what functions go through."""

    def __init__(self, T, compile=None):
        self.T, self.compile = T, compile or (lambda f: f)
        self.names = {"T": T, "F": T.nn.functional, "made": self.made, "cast": self.cast, "first": self.first}
        self.names["thrice"] = self.thrice

    def made(self, dtype, shape, n):
        rng = np.random.default_rng(n)
        array = rng.integers(0 if dtype == "uint8" else -3, 4, shape)
        if dtype == "complex64":
            array = array + 1j * rng.integers(-3, 4, shape)
        return self.T.tensor(array > 0 if dtype == "bool" else array, dtype=getattr(self.T, dtype))

    def cast(self, x, dtype):
        """To a dtype that holds what it gets: what becomes of other numbers is for no one to rely on."""
        if x.dtype.is_floating_point and not (dtype.is_floating_point or dtype.is_complex):
            x = x.nan_to_num(0, 100, 0).clamp(0, 100)
        return x.to(dtype)

    def first(self, x):
        """Indices of x's shape, all of them of the first place but those of every third element."""
        n = x.numel()
        return (self.T.arange(n) % 3 == 2).long().reshape(x.shape)

    def thrice(self, function, *operands):
        function = self.compile(function)
        for _ in range(3):
            out = function(*operands)
        return out

    def said(self, use):
        try:
            return use()
        except Exception:
            return "error"

    def values(self, x):
        if not isinstance(x, self.T.Tensor):
            return repr(x)
        x = x.detach()
        return f"{str(x.dtype).rpartition('.')[2]} {list(x.shape)} {x.tolist()}"

    def tensors(self):
        return [self.names[f"v{i}"] for i in range(VALUES)]

    def left(self, statements):
        """The values left, and the statements that raised, with the error."""
        raised = {}
        for i, s in enumerate(statements):
            try:
                exec(s, self.names)
            except Exception as error:
                raised[i] = error
        each = self.tensors()
        flags = [self.said(lambda t=t: [t.requires_grad, t.is_leaf]) for t in each]
        seen = [self.said(lambda t=t: self.values(t)) for t in each]
        return json.dumps([flags, seen, self.gradients(each), self.aliases(each)]), raised

    def gradients(self, each):
        out, leaves = [], [t for t in each if self.said(lambda t=t: t.requires_grad and t.is_leaf) is True]
        for t in each:
            if self.said(lambda t=t: t.requires_grad) is True:
                out.append(self.said(lambda t=t: self.weighed(t).backward(retain_graph=True)))
                out.append([self.said(lambda u=u: self.values(u.grad)) for u in leaves])
        return out

    def weighed(self, t):
        t = self.T.view_as_real(t) if t.dtype.is_complex else t
        return (t * (self.T.arange(t.numel()).reshape(t.shape) + 1).to(t.dtype)).sum()

    def zeroed(self, t):
        t.detach().zero_()

    def aliases(self, each):
        out = []
        for t in each:
            out.append(self.said(lambda t=t: self.zeroed(t)))
            out.append([self.said(lambda u=u: self.values(u)) for u in each])
        return out


def run(T, statements, compile=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Run(T, compile).left(statements)


if __name__ == "__main__":
    T = importlib.import_module(sys.argv[1])
    everything = list(programs())
    if len(sys.argv) == 3:
        print("\n".join(everything[int(sys.argv[2])]))
        print(run(T, everything[int(sys.argv[2])]))
    else:
        to = Path(sys.argv[3]) if len(sys.argv) > 3 else GOLDEN
        all_left = (run(T, p) for p in everything)
        lines = [f'"{digest(left)} {" ".join(map(str, raised))}"' for left, raised in all_left]
        to.write_text("[" + ",\n".join(lines) + "]\n")
