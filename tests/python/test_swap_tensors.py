"""swap_tensors: each of two tensors becomes what the other was."""

import weakref

import pytest

import smolder
from smolder import nn
from smolder.utils import swap_tensors


def test_values_classes_and_attributes():
    a, b = smolder.ones(2), nn.Parameter(smolder.zeros(3, dtype=smolder.float64))
    a.note, b.grad = "a", smolder.full((3,), 2.0, dtype=smolder.float64)
    swap_tensors(a, b)
    assert type(a) is nn.Parameter and type(b) is smolder.Tensor
    assert a.tolist() == [0, 0, 0] and a.dtype == smolder.float64 and a.requires_grad and a.grad.tolist() == [2, 2, 2]
    assert b.tolist() == [1, 1] and b.note == "a" and not hasattr(a, "note") and not b.requires_grad


def test_a_module_keeps_the_object():
    layer = nn.Linear(2, 2)
    weight = layer.weight
    swap_tensors(weight, nn.Parameter(smolder.full((2, 2), 3.0)))
    assert layer.weight is weight and layer(smolder.ones(1, 2)).sub(layer.bias).tolist() == [[6.0, 6.0]]
    layer(smolder.ones(1, 2)).sum().backward()
    assert weight.grad.tolist() == [[1.0, 1.0]] * 2


def test_weak_references_are_refused():
    a, b = smolder.ones(2), smolder.zeros(2)
    kept = weakref.ref(b)
    with pytest.raises(RuntimeError, match="Cannot swap t2 because it has weakref"):
        swap_tensors(a, b)
    assert kept() is b
