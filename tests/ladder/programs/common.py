"""Shared code of the ladder's programs: weights that depend on no generator, training, and the line that they print."""

import itertools
import json
import sys
import traceback

import numpy as np
import torch
from torch import nn


def fill(model):
    """Gives parameters numbers of their own, the same wherever it runs."""
    with torch.no_grad():
        for i, (_, p) in enumerate(sorted(model.named_parameters())):
            n = torch.arange(p.numel(), dtype=torch.float64)
            scale = 0.3 / max(p.shape[-1] if p.dim() else 1, 1) ** 0.5
            values = torch.sin(n * 12.9898 + i * 4.1414) * scale + (0.5 if p.dim() == 1 and "norm" in _ else 0.0)
            p.copy_(values.reshape(p.shape).to(p.dtype))
    return model


def numbers(*shape):
    """Inputs, likewise."""
    n = 1
    for extent in shape:
        n *= extent
    return torch.cos(torch.arange(n, dtype=torch.float64) * 7.31).reshape(shape).float()


def tokens(rows, columns, vocabulary):
    """Token ids, likewise."""
    n = torch.arange(rows * columns)
    return ((n * 7919 + 13) % vocabulary).reshape(rows, columns)


def train(model, loss_of, steps=5, lr=1e-3):
    """The losses of a few steps of AdamW."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(float(loss))
    return losses


def fit(model, loss_of, steps=5, lr=1e-2):
    """The losses of a few steps of Adam, for models that scripts make."""
    return train(model, loss_of, steps, lr)


class Noise:
    """Random tensors by NumPy's generator, so that both draw the same."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)

    def randn(self, *shape):
        return torch.from_numpy(self.rng.standard_normal(shape).astype(np.float32))

    def randn_like(self, x):
        return self.randn(*x.shape)


def say(**found):
    """Prints what the ladder compares."""
    print("LADDER " + json.dumps(found))


def net(*sizes, act=nn.Tanh):
    """Layers of these widths."""
    layers = [m for i, o in itertools.pairwise(sizes) for m in (nn.Linear(i, o), act())]
    return fill(nn.Sequential(*layers[:-1]))


def stepped(make, steps=4, **options):
    """The losses of a small net under an optimizer that is made for its parameters."""
    model, x, y = net(8, 16, 3), numbers(16, 8), torch.arange(16) % 3
    optimizer, losses = make(model.parameters(), **options), []
    if hasattr(optimizer, "train"):
        optimizer.train()
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward(create_graph=getattr(optimizer, "second", False))
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def sums(*tensors):
    """The sum of each."""
    return [float(t.detach().double().sum()) for t in tensors]


def still(model):
    """The model without dropout, which draws numbers of its own wherever it runs."""
    for module in model.modules():
        if "drop" in type(module).__name__.lower() and isinstance(getattr(module, "p", None), float):
            module.p = 0.0
    return model


def on_images(model, size=32, classes=10, shape=None, steps=3):
    """Losses of a classifier of two images. In float64: a batch norm of two values makes much of the last bits."""
    x, y = numbers(*(shape or (2, 3, size, size))).double(), torch.arange(2) % classes
    model = still(fill(model)).double().train()
    return train(model, lambda: nn.functional.cross_entropy(model(x), y), steps)


def told(*outs):
    """The numbers that stand for whatever a program computes: of each tensor in it its sum and that of its magnitudes."""
    numbers_of = []
    for out in outs:
        if isinstance(out, dict):
            numbers_of += told(*out.values())
        elif isinstance(out, list | tuple):
            numbers_of += told(*out)
        elif isinstance(out, torch.Tensor):
            x = torch.view_as_real(out.detach().resolve_conj()) if out.is_complex() else out.detach()
            numbers_of += [float(x.double().sum()), float(x.double().abs().sum())]
        elif out is not None:
            numbers_of.append(float(out))
    return numbers_of


PROGRAMS = {}  # by name: what returns the numbers that are compared


def program(function):
    """Decorates a program of the ladder, whose name is the function's."""
    PROGRAMS[function.__name__.replace("_", " ")] = function
    return function


def named(name, function, *args):
    """Makes a program of a function and its arguments."""
    PROGRAMS[name] = lambda: function(*args)


def run_programs():
    """Runs the programs that the command line names, or all, and says what each gives."""
    for name in sys.argv[1:] or PROGRAMS:
        torch.manual_seed(0)
        try:
            say(program=name, losses=PROGRAMS[name](), made=None)
        except BaseException as error:
            at = traceback.format_exc().splitlines()[-6:]
            say(program=name, error=f"{type(error).__name__}: {error}"[:300], at=at)
