"""Programs of views, arrays on their memory, writes and gradients in any order, run by Smolder or by torch.

    python sharing_programs.py torch to PATH  writes a golden file there, from torch
    python sharing_programs.py torch NUMBER   says what a program left

What a program left is looked at only when it has ended, as looking may change it: which names are one tensor, what needs
gradients, values, gradients, the errors of statements, what a backward adds, and what sees a write by each name.
"""

import importlib
import json
import sys
from pathlib import Path

import numpy as np
from container_programs import Dice, digest

GOLDEN = Path(__file__).parents[1] / "golden/sharing_programs.json"
PROGRAMS, ASSIGNING, STEPS = 1500, 1500, 9  # those that also give a tensor another's memory come last

SAME = ["{x}.reshape({x}.shape)", "{x}.view({x}.shape)", "{x}.view(-1)", "{x}.reshape(-1)", "{x}.flatten()", "{x}[...]"]
SAME += ["{x}[:]", "{x}.view_as({x})", "{x}.expand({x}.shape)", "{x}.expand_as({x})", "{x}.squeeze()", "{x}.t()"]
SAME += ["{x}.contiguous()", "{x}.to({x}.dtype)", "{x}.float()", "{x}.type_as({x})", "{x}.to('cpu')", "{x}.cpu()"]
SAME += ["{x}.unsqueeze(0)", "{x}.ravel()", "{x}.movedim(0, 0)", "{x}.narrow(0, 0, 2)", "{x}.unflatten(0, (2, -1))"]
SAME += ["{x}.transpose(0, -1)", "{x}.broadcast_to({x}.shape)", "T.broadcast_tensors({x}, {x})[1]", "{x}.positive()"]
SAME += ["T.atleast_1d({x})", "T.atleast_2d({x})", "{x}.permute(*range({x}.dim()))", "{x}[0]"]
SAME += ["{x}[1:]", "{x}.select(0, 1)", "{x}.view(2, 2).diagonal()"]
OWN = ["{x}.detach()", "{x}.data", "nn.Parameter({x})", "T.as_tensor({x})", "T.asarray({x})"]
OWN += [
    "{x}.detach().requires_grad_()",
    "{x}.clone()",
    "{x} + 2",
    "{x}.detach().clone()",
    "T.from_dlpack({x}.detach())",
]
OWN += ["copy.copy({x})", "T.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)"]
ARRAYS = ["{x}.detach().numpy()", "{x}.numpy()", "np.asarray({x}.detach())", "np.from_dlpack({x}.detach())"]
ARRAYS += ["{x}.data.numpy()", "{x}.detach().cpu().numpy()", "{x}.numpy(force=True)"]
ARRAYS += ["{x}.detach().__array__()", "np.zeros(4, dtype='float32')"]
WRITES = ["{x}.add_({k})", "{x}.neg_()", "{x}[0] = {k}", "{x}.zero_()", "{x}.fill_({k})", "{x} += {k}"]
WRITES += ["no_grad(lambda: {x}.add_({k}))", "no_grad(lambda: {x}.neg_())", "{x}.data.add_({k})"]
WRITES += ["{x}.detach().mul_({k})", "{x}.detach_()"]
GRADIENTS = [
    "({x} + 1).sum().backward(retain_graph=True)",
    "{x}.requires_grad_(False)",
    "({x} * {k}).sum().backward(retain_graph=True)",
]
GRADIENTS += [
    "{x}.sum().backward(retain_graph=True)",
    "{x}.grad = None",
    "{x}.grad = T.ones_like({x})",
    "{x}.retain_grad()",
]
READS = [
    "{x}.sum().item()",
    "no_grad(lambda: {x}.sum().item())",
    "{x}.tolist()",
    "repr({x})",
    "no_grad(lambda: {x} * 2)",
]
ASSIGNS = ["{x}.data = {z}", "{x}.data = {z}.detach()", "{x}.data = {z}[0]", "{x}.data = {z} * 2", "{x}.data = {x}"]
ASSIGNS += [
    "{x}.data = {z}.detach().view(-1)",
    "{x}.data = T.ones(3)",
    "{x}.data = T.eye(2).t()",
    "{x}.data = {x}.data",
]
ASSIGNS += ["{x}.data = {x}.data.clone()", "{x}.data = {x}.detach().t()", "{x}.data = T.from_numpy({n})"]
ASSIGNS += ["{x}.set_({z})", "{x}.set_({z}.detach())", "no_grad(lambda: {x}.set_({z}))", "{x}.data.set_({z}.data)"]
ASSIGNS += ["{x}.set_()", "no_grad(lambda: {x}.set_(T.ones(3)))", "{x}.detach().set_(T.ones(3))"]
ASSIGNS += ["no_grad(lambda: {x}.resize_(2))", "{x}.data.resize_(2)", "{x}.grad.data = T.ones(4)"]
ASSIGNS += ["{x}.data = T.zeros(2, dtype=T.float64)", "{x}.data = T.ones(2, dtype=T.int64)", "{x}.data.t_()"]
ASSIGNS += ["{x}.t_()", "{x}.unsqueeze_(0)", "{x}.squeeze_()", "{x}.transpose_(0, -1)", "{x}.detach().unsqueeze_(0)"]


def statement(dice, assigning=False):
    x, z, n, k = f"x{dice.of('012')}", f"x{dice.of('012')}", f"n{dice.of('01')}", dice.of("2357")
    text = dice.of(
        [f"{z} = {dice.of(SAME)}"] * 6
        + [f"{z} = {dice.of(SAME[:9])}; {z}.requires_grad_()"] * 2
        + [f"{z} = {dice.of(OWN)}"] * 3
        + [f"{n} = {dice.of(ARRAYS)}"] * 4
        + [dice.of(WRITES)] * 3
        + [dice.of(GRADIENTS)] * 4
        + [dice.of(READS)] * 2
        + [f"{z} = T.{dice.of(['from_numpy', 'as_tensor', 'asarray', 'from_dlpack'])}({n})"]
        + [f"{n}[...] = {k}", f"{n} += {k}", f"{n} = np.ones(2)", f"{z} = T.ones(2)", dice.of(ARRAYS)]
        + ([dice.of(ASSIGNS)] * 12 if assigning else [])
    )
    return text.format(x=x, z=z, n=n, k=k)


def programs():
    for i in range(PROGRAMS + ASSIGNING):
        dice = Dice(f"sharing {i}")
        first = dice.of(
            ["T.arange(4.0)", "T.ones(2, 2)", "T.ones(4, requires_grad=True)", "T.ones(4, requires_grad=True) + 1"]
        )
        begin = [f"x0 = {first}", "x1 = x0", "x2 = x0.view(2, 2)", "n0 = n1 = np.zeros(4, dtype='float32')"]
        yield [*begin, *(statement(dice, i >= PROGRAMS) for _ in range(1 + i % STEPS))]


class Run:
    def __init__(self, T):
        self.T = T
        self.names = {"T": T, "nn": T.nn, "np": np, "copy": importlib.import_module("copy"), "no_grad": self.no_grad}

    def no_grad(self, use):
        with self.T.no_grad():
            return use()

    def is_same(self, a, b):
        """Whether they are two Python objects for one tensor, which torch has not."""
        return hasattr(a, "_is_same") and a._is_same(b)

    def said(self, use):
        try:
            return use()
        except Exception as error:
            return "error " + type(error).__name__

    def values(self, x):
        if x is None or isinstance(x, str):
            return x
        return (x.detach() if isinstance(x, self.T.Tensor) else np.array(x)).tolist()

    def left(self, statements):
        errors = [self.said(lambda s=s: exec(s, self.names)) for s in statements]
        tensors, arrays = ([self.names.get(f"{c}{i}") for i in range(n)] for c, n in (("x", 3), ("n", 2)))
        each = [t for t in tensors if t is not None]
        same = [[a is b or self.is_same(a, b) for a in each] for b in each]
        flags = [self.said(lambda t=t: [t.requires_grad, t.is_leaf, t.grad_fn is None, list(t.shape)]) for t in each]
        seen = [self.said(lambda t=t: self.values(t)) for t in (*each, *arrays)]
        gradients = [self.said(lambda t=t: self.values(t.grad) if t.is_leaf else None) for t in each]
        after = []
        for t in each:
            after.append(self.said(lambda t=t: (t * 3).sum().backward(retain_graph=True)))
            after.append([self.said(lambda t=t: self.values(t.grad) if t.is_leaf else None) for t in each])
        for t in each:
            after.append(self.said(lambda t=t: t.detach().add_(100) and None))
            after.append([self.said(lambda t=t: self.values(t)) for t in (*each, *arrays)])
        return json.dumps([errors, same, flags, seen, gradients, after])


def run(T, statements):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Run(T).left(statements)


if __name__ == "__main__":
    T = importlib.import_module(sys.argv[1])
    everything = list(programs())
    if len(sys.argv) == 3:
        print("\n".join(everything[int(sys.argv[2])]))
        print(run(T, everything[int(sys.argv[2])]))
    else:
        to = Path(sys.argv[3]) if len(sys.argv) > 3 else GOLDEN
        to.write_text(json.dumps([digest(run(T, p)) for p in everything]).replace(", ", ",\n") + "\n")
