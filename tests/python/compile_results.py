"""Helpers of the tests of smolder.compile: results that can be compared, what was told of recordings, a network.

Each test begins with no recordings."""

import dataclasses

import pytest

import smolder
from smolder import nn
from smolder.compiler import events


@pytest.fixture(autouse=True)
def fresh():
    smolder.compiler.reset()
    smolder.manual_seed(0)
    yield
    smolder.compiler.reset()


def told(event):
    return [e["reason"] for e in events if e["event"] == event]


def bits(o):
    """Results as something to compare, tensors by their bits and metadata."""
    if isinstance(o, smolder.Tensor):
        copy = o.detach().clone()
        raw = (copy.float() if o.dtype == smolder.bfloat16 else copy).numpy().tobytes()
        return ("tensor", o.dtype, tuple(o.shape), o.stride(), o.requires_grad, o.is_leaf, raw)
    if isinstance(o, dict):
        return (type(o), list(o), [bits(v) for v in o.values()])
    if isinstance(o, tuple | list):
        return (type(o), [bits(v) for v in o])
    if dataclasses.is_dataclass(o):
        return (type(o), bits(vars(o)))
    return o


def network():
    smolder.manual_seed(4)
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
