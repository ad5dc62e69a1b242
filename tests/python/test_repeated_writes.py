"""Writes to tensors with several elements in one place, as torch has them: most are refused, and of the others the last
that changed something counts. The expected values are PyTorch's."""

import re

import numpy as np
import pytest
from conftest import of_the_cpu

import smolder
from smolder import tensor

REFUSED = re.escape("unsupported operation: more than one element of the written-to tensor refers to a single memory")


def rows():
    base = smolder.arange(3.0)
    return base, base.expand(4, 3)


def detached():
    base = smolder.arange(3.0)
    return base, base.expand(4, 3).detach()


def external():
    array = np.arange(3, dtype=np.float32)
    return array, smolder.from_numpy(array).expand(4, 3)


EXTERNAL = pytest.param(external, marks=of_the_cpu("memory of NumPy's arrays"))
MASK = tensor([[True, False, False], [False, False, True], [True, False, False], [False, False, False]])
WRITES = {
    "fill_": (lambda x: x.fill_(5.0), [5, 5, 5]),
    "zero_": (lambda x: x.zero_(), [0, 0, 0]),
    "masked_fill_": (lambda x: x.masked_fill_(MASK, 7.0), [7, 1, 7]),
    "masked_fill_ of a tensor": (lambda x: x.masked_fill_(MASK, tensor(8.0)), [8, 1, 8]),
    "index_fill_": (lambda x: x.index_fill_(1, tensor([-1, 0]), 3.0), [3, 1, 3]),
    "x[mask]": (lambda x: x.__setitem__(MASK, 9.0), [9, 1, 9]),
    "x[mask] of a tensor": (lambda x: x.__setitem__(MASK, tensor([1.0, 2.0, 4.0])), [4, 1, 2]),
    "x[index]": (lambda x: x.__setitem__(tensor([2, 0]), tensor([[6.0], [5.0]])), [5, 5, 5]),
    "x[:, index]": (lambda x: x.__setitem__((slice(None), tensor([2])), 4.0), [0, 1, 4]),
    "index_put_": (lambda x: x.index_put_((tensor([0, 3]),), tensor([[1.0, 2, 3], [4, 5, 6]])), [4, 5, 6]),
    "index_put_ that adds": (lambda x: x.index_put_((tensor([0, 3, 3]),), tensor(1.0), accumulate=True), [3, 4, 5]),
    "fill_diagonal_": (lambda x: x.fill_diagonal_(7.0), [7, 7, 7]),
    "diagonal": (lambda x: x[:2].diagonal().fill_(7.0), [7, 7, 2]),
    "a row": (lambda x: x[1].mul_(2.0), [0, 2, 4]),
    "a column": (lambda x: x[:, 1].fill_(6.0), [0, 6, 2]),
}


@pytest.mark.parametrize("of", [rows, detached, EXTERNAL])
@pytest.mark.parametrize("name", WRITES)
def test_writes_that_torch_lets_through(name, of):
    write, expected = WRITES[name]
    base, x = of()
    write(x)
    assert base.tolist() == expected
    assert x.tolist() == [expected] * 4


@pytest.mark.parametrize("of", [rows, detached, EXTERNAL])
def test_nan_is_changed_once(of):
    base, x = of()
    x.masked_fill_(MASK, float("nan"))
    x.masked_fill_(tensor([[False, True, False]] + [[False] * 3] * 3), 4.0)
    assert str(base.tolist()) == "[nan, 4.0, nan]"


FORBIDDEN = {
    "add_": lambda x: x.add_(1.0),
    "copy_": lambda x: x.copy_(smolder.ones(4, 3)),
    "fill_ of a tensor": lambda x: x.fill_(tensor(1.0)),
    "x[...]": lambda x: x.__setitem__(..., 3.0),
    "x[:, 1:]": lambda x: x.__setitem__((slice(None), slice(1, None)), 3),
    "x[None]": lambda x: x.__setitem__(None, tensor(3.0)),
    "index_copy_": lambda x: x.index_copy_(0, tensor([0]), smolder.ones(1, 3)),
    "index_add_": lambda x: x.index_add_(0, tensor([0]), smolder.ones(1, 3)),
    "scatter_": lambda x: x.scatter_(0, tensor([[0, 0, 0]]), 1.0),
    "masked_scatter_": lambda x: x.masked_scatter_(MASK, smolder.ones(12)),
    "put_": lambda x: x.put_(tensor([0]), tensor([1.0])),
    "clamp_": lambda x: x.clamp_(0, 1),
    "out=": lambda x: smolder.add(smolder.ones(4, 3), 1, out=x),
}


@pytest.mark.parametrize("of", [rows, detached])
@pytest.mark.parametrize("name", FORBIDDEN)
def test_writes_that_torch_refuses(name, of):
    base, x = of()
    with pytest.raises(RuntimeError, match=REFUSED):
        FORBIDDEN[name](x)
    assert base.tolist() == [0, 1, 2]


def test_the_gradient_of_a_masked_write_to_an_expanded_tensor():
    base = smolder.arange(3.0, requires_grad=True)
    made = base * 2
    made.expand(4, 3).masked_fill_(MASK, 7.0)
    (made * tensor([1.0, 10.0, 100.0])).sum().backward()
    assert made.tolist() == [7, 2, 7] and base.grad.tolist() == [0, 20, 0]


def test_the_whole_is_no_part_of_itself():
    x = smolder.arange(6.0).reshape(2, 3)
    x[None, :2] = x  # torch takes it for the same elements, as another shape
    assert x.tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("cast", [lambda z: z.float(), lambda z: z.to(smolder.float32)])
def test_the_real_numbers_of_complex_ones_are_a_copy(cast):
    z = tensor([1 + 2j, 3 + 4j])
    x = cast(z)
    assert x.is_contiguous() and not x._is_view()
    x.add_(10)
    assert z.tolist() == [1 + 2j, 3 + 4j] and x.tolist() == [11, 13]
    z.real.add_(1)  # which is a view
    assert z.tolist() == [2 + 2j, 4 + 4j]
