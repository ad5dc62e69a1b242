"""Mistakes raise Python exceptions that say what was asked and found, at the user's line; work goes on after."""

import inspect
import pathlib

import pytest

import smolder
from smolder import nn
from smolder.nn import functional as F

ones = smolder.ones

MISTAKES = {
    "add shapes": (RuntimeError, lambda: ones(2, 3) + ones(4), ["2, 3", "4"]),
    "matmul shapes": (RuntimeError, lambda: ones(2, 3) @ ones(4, 5), ["2", "3", "4", "5"]),
    "linear shapes": (RuntimeError, lambda: nn.Linear(3, 2)(ones(1, 4)), ["4", "3"]),
    "view": (RuntimeError, lambda: ones(2, 3).view(4), ["4", "6"]),
    "expand": (RuntimeError, lambda: ones(2).expand(3), ["2", "3"]),
    "cat": (RuntimeError, lambda: smolder.cat([ones(2, 3), ones(2, 4)]), ["3", "4"]),
    "axis": (IndexError, lambda: ones(2).sum(1), ["1"]),
    "softmax axis": (IndexError, lambda: ones(2).softmax(2), ["2"]),
    "permute": (RuntimeError, lambda: ones(2, 3).permute(0, 0), ["0"]),
    "dtype": ((RuntimeError, TypeError), lambda: smolder.tensor([1, 2]).softmax(0), ["int64"]),
    "mean of integers": (RuntimeError, lambda: smolder.tensor([1, 2]).mean(), ["int64"]),
    "index dtype": ((RuntimeError, IndexError, TypeError), lambda: ones(3).gather(0, ones(2)), ["float32"]),
    "target rank": ((RuntimeError, ValueError), lambda: F.cross_entropy(ones(2, 3), smolder.tensor([0])), ["2", "1"]),
    "empty maximum": ((RuntimeError, IndexError), lambda: smolder.zeros(0).max(), []),
    "norm shape": (RuntimeError, lambda: F.layer_norm(ones(2, 3), (4,)), ["4", "3"]),
    "argument": (TypeError, lambda: ones(2).sum("x"), []),
    "operand": (TypeError, lambda: ones(2) + "x", []),
    "select": (IndexError, lambda: ones(2)[2], ["2"]),
    "item": (RuntimeError, lambda: ones(2).item(), ["2"]),
    "slice of no axis": (RuntimeError, lambda: smolder.slice_backward(ones(()), 1, 0, 0, 1), ["0-dim"]),
    "slice_scatter of no axis": (RuntimeError, lambda: ones(()).slice_scatter(ones(()), 0, 0, 1), ["0-dim"]),
    "split of no axis": ((RuntimeError, IndexError), lambda: ones(()).split(1), ["no dimensions"]),
    "unbind of no axis": ((RuntimeError, IndexError), lambda: ones(()).unbind(), ["no dimensions"]),
    "reshape": (RuntimeError, lambda: ones(6).reshape(-1, 4), ["4"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_explained_and_leave_work_intact(name):
    kind, wrong, words = MISTAKES[name]
    kept = ones(3) * 2
    with pytest.raises(kind) as caught:
        wrong()
    for word in words:
        assert word in str(caught.value), str(caught.value)
    assert kept.tolist() == [2, 2, 2]
    assert (kept + 1).tolist() == [3, 3, 3]


def test_the_message_names_the_users_line():
    with pytest.raises(RuntimeError) as caught:
        line = inspect.currentframe().f_lineno + 1
        ones(2, 3).view(4)
    assert f"{pathlib.Path(__file__).name}:{line}" in str(caught.value)


@pytest.mark.parametrize("index", [5, -6])
def test_an_index_out_of_range_is_reported_with_its_op(index):
    with pytest.raises((IndexError, RuntimeError)) as caught:
        ones(5).gather(0, smolder.tensor([0, index])).tolist()
    assert "gather" in str(caught.value) or "index" in str(caught.value)
    assert ones(2).tolist() == [1, 1]


def test_a_class_out_of_range_is_reported():
    with pytest.raises((IndexError, RuntimeError)):
        F.cross_entropy(ones(2, 3), smolder.tensor([0, 3])).item()
    assert ones(2).tolist() == [1, 1]


def test_out_of_memory_is_an_exception_and_work_goes_on():
    w = ones(4) * 3
    smolder.mark_step()
    huge = smolder.zeros(1 << 46) + 1  # more than an address space holds
    with pytest.raises((MemoryError, RuntimeError)):
        smolder.mark_step()
    del huge
    assert w.tolist() == [3, 3, 3, 3]


def test_a_step_whose_plan_finds_no_memory_runs_op_by_op():
    p = nn.Parameter(ones(1000))
    optimizer = smolder.optim.SGD([p], lr=0.5)
    p.grad = ones(1000)
    smolder.mark_step()
    smolder._core._fail_allocation_after(1)
    try:
        x = ones(100_000) * 2 + p.detach().sum()
        with pytest.warns(UserWarning, match="could not run as a plan and ran op by op: out of memory"):
            assert x.tolist() == [1002] * 100_000
    finally:
        smolder._core._fail_allocation_after(0)
    assert p.tolist() == [1] * 1000
    optimizer.step()
    assert p.tolist() == [0.5] * 1000


def test_unsupported_things_say_so():
    for wrong in (lambda: ones(2).to("cuda"), lambda: ones(2)[[True, False]], lambda: smolder.device("mps")):
        with pytest.raises(NotImplementedError):
            wrong()
