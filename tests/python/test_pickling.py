"""Pickled and deeply copied tensors: what they keep, as torch's do."""

import copy
import pickle

import pytest

import smolder
from smolder import nn


def again(x, protocol=2):
    return pickle.loads(pickle.dumps(x, protocol))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol(protocol):
    x = smolder.arange(6.0).reshape(2, 3).requires_grad_()
    y = again(x, protocol)
    assert y.tolist() == x.tolist() and y.requires_grad and y.is_leaf and type(y) is smolder.Tensor


def test_a_tensor_with_history_becomes_a_leaf():
    x = smolder.ones(2, requires_grad=True)
    y = again(x * 2)
    assert y.requires_grad and y.grad_fn is None and y.tolist() == [2, 2]
    (x * 2).sum().backward()
    assert again(x).grad is None


@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "int16", "int8", "uint8", "bool"]
)
def test_every_dtype(dtype):
    x = smolder.tensor([0, 1, 3]).to(getattr(smolder, dtype))
    assert again(x).dtype == x.dtype and again(x).tolist() == x.tolist()
    assert again(x[:0]).shape == (0,) and again(x[1]).item() == x[1].item()


LAYOUTS = {
    "transposed": lambda x: x.t(),
    "permuted": lambda x: x.view(2, 3, 2).permute(2, 0, 1),
    "expanded": lambda x: x[0].expand(3, 6),
    "expanded and transposed": lambda x: x[:1].expand(3, 6).t(),
    "stepped": lambda x: x[:, ::2],
    "empty": lambda x: x[:0].t(),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_order_in_memory(layout):
    x = LAYOUTS[layout](smolder.arange(12.0).reshape(2, 6))
    y = again(x)
    assert y.tolist() == x.tolist() and y.is_leaf
    if layout not in ("stepped", "empty"):  # gaps are not kept, nor how nothing lies in memory
        assert y.stride() == x.stride() and y.is_contiguous() == x.is_contiguous()


def test_part_of_a_large_tensor_is_small():
    assert len(pickle.dumps(smolder.zeros(100_000)[10:12])) < 1000


def test_attributes_and_parameters():
    p = nn.Parameter(smolder.ones(2), requires_grad=False)
    p.name_of_it = "p"
    for q in (again(p), copy.deepcopy(p)):
        assert type(q) is nn.Parameter and not q.requires_grad and q.name_of_it == "p" and q.tolist() == [1, 1]


def test_shallow_copies_keep_attributes():
    x = smolder.ones(2, requires_grad=True)
    x.mark = [3]
    y = copy.copy(x)
    assert y.mark is x.mark and y.requires_grad and y.is_leaf and y.data_ptr() == x.data_ptr()


def test_deep_copies_share_what_the_tensors_share():
    x = smolder.arange(6.0)
    y, row, column = copy.deepcopy([x, x[1:3], x.view(2, 3).t()])
    row[0] = 100
    assert y.tolist() == [0, 100, 2, 3, 4, 5] and column.tolist() == [[0, 3], [100, 4], [2, 5]]
    assert x.tolist() == [0, 1, 2, 3, 4, 5] and column.stride() == (1, 3)
    a, b = copy.deepcopy([x, x])
    assert a is b


def test_deep_copies_keep_gradients():
    x = smolder.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    y = copy.deepcopy(x)
    assert y.grad.tolist() == [3, 3] and y.grad is not x.grad and y.requires_grad
    with pytest.raises(RuntimeError, match="graph leaves"):
        copy.deepcopy(x * 2)


def test_generators_and_methods():
    g = smolder.Generator()
    g.manual_seed(5)
    smolder.rand(3, generator=g)
    assert smolder.rand(3, generator=again(g)).tolist() == smolder.rand(3, generator=g).tolist()
    assert again(smolder.Tensor.add) is smolder.Tensor.add
