"""Nodes of the history are called as torch calls them, by op and overload."""

import json

import pytest
from torch_peer import needs_torch, run_torch

import smolder

# Expressions in x (3, 4), v (4), i (integers) and F, and what torch calls the node.
NAMES = {
    "x.t()": "TBackward0",
    "x.T": "PermuteBackward0",
    "x.mm(x.t())": "MmBackward0",
    "x @ x.t()": "MmBackward0",
    "x @ v": "MvBackward0",
    "v @ v": "DotBackward0",
    "L.bmm(x[None], x.t()[None])": "BmmBackward0",
    "F.linear(x, x)": "MmBackward0",
    "F.linear(x, x, v[:3])": "AddmmBackward0",
    "L.addmv(v[:3], x, v)": "AddmvBackward0",
    "x.sum()": "SumBackward0",
    "x.sum(1)": "SumBackward1",
    "x.mean()": "MeanBackward0",
    "x.mean((0, 1))": "MeanBackward1",
    "x.prod()": "ProdBackward0",
    "x.prod(1)": "ProdBackward1",
    "x.max()": "MaxBackward1",
    "x.max(1)[0]": "MaxBackward0",
    "x.amax()": "AmaxBackward0",
    "x.min()": "MinBackward1",
    "x.kthvalue(1)[0]": "KthvalueBackward0",
    "x.trace()": "TraceBackward0",
    "x[0]": "SelectBackward0",
    "x[1:]": "SliceBackward0",
    "x[i]": "IndexBackward0",
    "x[x > 0]": "IndexBackward0",
    "x.take(i)": "TakeBackward0",
    "x.masked_select(x > 0)": "MaskedSelectBackward0",
    "x.unbind()[0]": "UnbindBackward0",
    "x.split(2)[0]": "SplitBackward0",
    "x.chunk(2)[0]": "SplitBackward0",
    "x.split([1, 2])[0]": "SplitWithSizesBackward0",
    "x.diagonal()": "DiagonalBackward0",
    "x.repeat(2, 1)": "RepeatBackward0",
    "x.roll(1, 0)": "RollBackward0",
    "x.unfold(0, 2, 1)": "UnfoldBackward0",
    "x + 1": "AddBackward0",
    "1 - x": "RsubBackward1",
    "1 / x": "MulBackward0",
    "x**2": "PowBackward0",
    "x**3": "PowBackward0",
    "F.softplus(x)": "SoftplusBackward0",
    "x**x": "PowBackward1",
    "2**x": "PowBackward2",
    "x % 2": "RemainderBackward0",
    "x % x": "RemainderBackward1",
    "L.lerp(x, x, 0.5)": "LerpBackward0",
    "L.lerp(x, x, x)": "LerpBackward1",
    "x.sgn()": "SgnBackward0",
    "F.glu(x)": "GluBackward0",
    "F.selu(x)": "EluBackward0",
    "F.conv2d(x[None, None], x[None, None])": "ConvolutionBackward0",
    "F.cross_entropy(x, i[:3])": "NllLossBackward0",
}


def name_of(expression, library):
    x, v = library.ones(3, 4, requires_grad=True), library.ones(4, requires_grad=True)
    names = {"x": x, "v": v, "i": library.tensor([0, 2, 1]), "F": library.nn.functional, "L": library}
    return eval(expression, names).grad_fn.name()


@pytest.mark.parametrize("expression", NAMES)
def test_names(expression):
    assert name_of(expression, smolder) == NAMES[expression]


@needs_torch
def test_torch_calls_them_so():
    code = """
def name_of(expression):
    x, v = torch.ones(3, 4, requires_grad=True), torch.ones(4, requires_grad=True)
    names = {"x": x, "v": v, "i": torch.tensor([0, 2, 1]), "F": torch.nn.functional, "L": torch}
    return eval(expression, names).grad_fn.name()
out = {e: name_of(e) for e in json.loads(argv[0])}
"""
    assert run_torch(code, json.dumps(list(NAMES))) == NAMES
