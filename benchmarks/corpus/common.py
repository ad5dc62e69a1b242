"""Shared code of the corpus's programs: a register, and fixed numbers whichever library runs them.

A program is a function of the device and of whether to be small, which returns `step`: one step of what the program
does again and again, returning a tensor that follows from all of the step. Programs say `import torch`; worker.py decides
whose module that is.
"""

import itertools
import math

import numpy
import torch

PROGRAMS = {}  # name: (field, function)


def program(field):
    """Registers a function under its name."""

    def register(function):
        PROGRAMS[function.__name__] = (field, function)
        return function

    return register


class Draw:
    """Tensors of a NumPy generator's numbers, so that every library computes with the same."""

    def __init__(self, device, seed=0):
        self.device, self.rng = device, numpy.random.default_rng(seed)

    def tensor(self, array):
        return torch.from_numpy(numpy.ascontiguousarray(array)).to(self.device)

    def normal(self, *shape, scale=1.0):
        return self.tensor((self.rng.standard_normal(shape) * scale).astype(numpy.float32))

    def uniform(self, *shape, low=0.0, high=1.0):
        return self.tensor(self.rng.uniform(low, high, shape).astype(numpy.float32))

    def integers(self, high, *shape):
        return self.tensor(self.rng.integers(0, high, shape))

    def weights(self, module):
        """Gives a module's parameters numbers of the generator, in the order of their names; returns it on the device."""
        module.to(self.device)
        with torch.no_grad():
            for name, p in sorted(module.named_parameters()):
                if p.dim() > 1:
                    p.copy_(self.normal(*p.shape, scale=1 / math.sqrt(p[0].numel())))
                else:  # a norm's scale or a bias
                    p.copy_(float(name.endswith("weight")) + self.normal(*p.shape, scale=0.01))
        return module


def training(module, optimizer, loss):
    """A step of training: `loss(module)` is what it minimizes."""

    def step():
        optimizer.zero_grad()
        value = loss(module)
        value.backward()
        optimizer.step()
        return value.detach()

    return step


def mlp(*widths, activation=torch.nn.ReLU):
    """Linear layers with an activation between them."""
    layers = []
    for before, after in itertools.pairwise(widths):
        layers += [torch.nn.Linear(before, after), activation()]
    return torch.nn.Sequential(*layers[:-1])
