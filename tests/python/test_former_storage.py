"""Tensors that are given another's storage while views, aliases and arrays of them live, which keep what they had."""

import copy

import numpy as np
import pytest
from conftest import NUMPY

import smolder


@pytest.fixture(params=["lazy", "eager"], autouse=True)
def mode(request):
    if request.param == "lazy":
        yield
    else:
        with smolder.eager():
            yield


def given(x, t, how):
    if how == "data":
        x.data = t
    else:
        with smolder.no_grad():
            x.set_(t)


HOWS = pytest.mark.parametrize("how", ["data", "set_"])


@HOWS
def test_a_view_keeps_the_storage(how):
    x = smolder.arange(4.0)
    view, alias, row = x.view(2, 2), x.detach(), x.view(2, 2)[0]
    given(x, smolder.ones(3), how)
    assert x.tolist() == [1, 1, 1] and view.tolist() == [[0, 1], [2, 3]] and row.tolist() == [0, 1]
    view.add_(10)
    alias[3] = 7
    assert row.tolist() == [10, 11] and alias.tolist() == [10, 11, 12, 7] and x.tolist() == [1, 1, 1]
    later = x[1:]
    x.mul_(5)
    assert later.tolist() == [5, 5] and view.tolist() == [[10, 11], [12, 7]]


@HOWS
def test_a_write_that_reads_nothing_reaches_the_old_storage(how):
    x = smolder.zeros(4)
    view = x[:2]
    given(x, smolder.ones(2), how)
    view.fill_(3)
    assert x.tolist() == [1, 1] and view.tolist() == [3, 3]


def test_a_view_of_itself():
    x = smolder.arange(4.0)
    rest = x[1:]
    x.data = x[1]
    rest.add_(10)
    assert x.item() == 11 and rest.tolist() == [11, 12, 13]
    x.data = x.data
    x.fill_(2)
    assert rest.tolist() == [2, 12, 13]


def test_tensors_that_are_given_each_others_storage():
    a, b = smolder.zeros(2), smolder.ones(2)
    of_a, of_b = a.detach(), b.view(2, 1)
    a.data = b
    b.data = of_a
    a.data = b
    b.data = a
    a.fill_(5)
    assert b.tolist() == [5, 5] and of_a.tolist() == [5, 5] and of_b.tolist() == [[1], [1]]


def test_gradients_of_a_view_reach_the_leaf():
    p = smolder.ones(4, requires_grad=True)
    view = p.view(2, 2)
    p.data = smolder.full((4,), 3.0)
    (view * 2).sum().backward()
    assert p.grad.tolist() == [2, 2, 2, 2] and p.tolist() == [3, 3, 3, 3] and view.tolist() == [[1, 1], [1, 1]]


@NUMPY
def test_an_array_keeps_the_storage():
    x = smolder.zeros(3)
    array, view = x.numpy(), x[1:]
    x.data = smolder.ones(2)
    array[1] = 4
    view[1] = 6
    assert np.array_equal(array, [0, 4, 6]) and view.tolist() == [4, 6] and x.tolist() == [1, 1]


def test_again_and_again():
    x, kept = smolder.zeros(2), []
    for i in range(50):
        kept.append(x.view(2, 1))
        x.data = smolder.full((2,), i + 1.0)
    del kept[::2]
    assert [v[1].item() for v in kept] == list(range(1, 50, 2)) and x.tolist() == [50, 50]
    assert copy.deepcopy(x).tolist() == [50, 50]


# -- other calls that ended the process, or gave what was in memory


def test_more_axes_than_there_are_dimensions():
    many = list(range(65))
    x = smolder.zeros(2, 3)
    for call in (lambda: x.movedim(many, -1), lambda: x.sum(many), lambda: x.roll(many, many), lambda: x.repeat(many)):
        with pytest.raises((TypeError, RuntimeError, ValueError, IndexError)):
            call()
    with pytest.raises(ValueError, match="at most 64 dimensions"):
        smolder.zeros([1] * 65)


def test_scatter_of_no_elements_and_of_one():
    x, none = smolder.ones(2, 2), smolder.zeros(0, dtype=smolder.int64)
    assert x.scatter(0, none, smolder.ones(0)).tolist() == [[1, 1], [1, 1]]
    assert x.scatter_reduce(0, none, smolder.ones(0), "amin").tolist() == [[1, 1], [1, 1]]
    assert smolder.zeros(3).scatter(0, smolder.tensor(1), smolder.tensor(2.0)).tolist() == [0, 2, 0]
