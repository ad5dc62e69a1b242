"""Tensors that share storage and those that do not, through whichever handle it is written."""

import random

import numpy as np
import pytest
from conftest import ONE_BY_ONE

import smolder
from smolder import nn


def values(*tensors):
    return [t.tolist() for t in tensors]


# -- gradients


def test_leaves_that_get_one_gradient_keep_their_own():
    a, b = (nn.Parameter(smolder.zeros(2)) for _ in range(2))
    for _ in range(4):
        ((smolder.ones(2) * 2 + a + b) ** 2).sum().backward()
    assert values(a.grad, b.grad) == [[16, 16], [16, 16]]
    a.grad.mul_(3)
    assert values(a.grad, b.grad) == [[48, 48], [16, 16]]


def test_a_gradient_given_is_not_written():
    w, g = smolder.ones(3, requires_grad=True), smolder.ones(3)
    w.backward(g)
    w.grad.mul_(5)
    assert values(g, w.grad) == [[1, 1, 1], [5, 5, 5]]


@pytest.mark.parametrize("reduced", ["sum", "mean"])
def test_the_gradient_of_a_reduction_can_be_written(reduced):
    w = smolder.ones(4, requires_grad=True)
    for _ in range(2):
        getattr(w, reduced)().backward()
    each = 2.0 if reduced == "sum" else 0.5
    assert w.grad.tolist() == [each] * 4
    w.grad[0] = 7
    nn.utils.clip_grad_norm_([w], 1.0)
    assert np.linalg.norm(w.grad.numpy()) == pytest.approx(1, rel=1e-5)


def test_what_saved_nothing_goes_backward_again():
    x = smolder.ones(3, requires_grad=True)
    total = (x + x).sum()
    total.backward()
    total.backward()
    assert x.grad.tolist() == [4, 4, 4]
    total = x.exp().sum()
    total.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        total.backward()


# -- detached tensors


@pytest.mark.parametrize("detached", [lambda t: t.detach(), lambda t: t.data])
def test_a_write_to_a_detached_tensor_changes_values_and_no_history(detached):
    x = smolder.ones(3, requires_grad=True)
    y = x * 2
    d = detached(y)
    d[0] = 5
    d[1:].add_(1)
    assert values(y, d) == [[5, 3, 3], [5, 3, 3]]
    assert not d.requires_grad and y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    detached(x).add_(1)
    assert x.tolist() == [2, 2, 2] and x.is_leaf and x.requires_grad


def test_views_of_a_detached_tensor_follow_the_storage():
    x = smolder.ones(3)
    d = x.detach()
    v = d[1:]
    x.add_(1)
    assert values(d, v) == [[2, 2, 2], [2, 2]]
    v.mul_(3)
    assert values(x, d, v) == [[2, 6, 6], [2, 6, 6], [6, 6]]
    d2 = v.detach()
    d2.zero_()
    assert values(x, d, v) == [[2, 0, 0], [2, 0, 0], [0, 0]]
    assert x._version == d._version == v._version == d2._version == 3


def test_a_detached_tensor_takes_history_of_its_own():
    x, w = smolder.zeros(2), smolder.ones(2, requires_grad=True)
    d = x.detach()
    d.copy_(w * 3)
    assert d.requires_grad and not x.requires_grad
    d.sum().backward()
    assert values(w.grad, x) == [[3, 3], [3, 3]]


def test_detach_in_place():
    x = smolder.ones(2, requires_grad=True)
    y = x * 2
    assert y.detach_() is y
    assert y.is_leaf and not y.requires_grad and y.grad_fn is None
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        (x * 2)[0].detach_()


def test_data_can_be_assigned():
    p, q = nn.Parameter(smolder.ones(3)), smolder.zeros(2, 2)
    p.data = q
    q[0, 0] = 4
    p.data[1, 1] = 3
    assert values(p, q) == [[[4, 0], [0, 3]]] * 2
    assert p.requires_grad and p.is_leaf and isinstance(p, nn.Parameter)
    p.sum().backward()
    assert p.grad.tolist() == [[1, 1], [1, 1]]
    x = smolder.arange(3.0)
    x.data = x[1:]
    assert x.tolist() == [1, 2]
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got int"):
        x.data = 3


# -- strides


def test_a_transposed_tensor_is_copied_to_be_contiguous():
    x = smolder.arange(6.0).reshape(2, 3).t()
    assert not x.is_contiguous() and x.stride() == (1, 3) and x.stride(-1) == 3
    for copy in (x.contiguous(), x.reshape(6), x.flatten()):
        assert copy.is_contiguous()
        copy.zero_()
    assert x.tolist() == [[0, 3], [1, 4], [2, 5]]
    with pytest.raises(RuntimeError, match="view size is not compatible with input tensor's size and stride"):
        x.view(-1)
    same = smolder.ones(2, 3)
    assert same.contiguous() is same or same.contiguous()._is_same(same)
    same.view(3, 2).zero_()
    assert same.tolist() == [[0, 0, 0], [0, 0, 0]]
    with pytest.raises(IndexError):
        x.stride(2)


def windows(seed):
    """A tensor and the same window of an array, by random views."""
    pick = random.Random(seed)
    shape = [pick.choice([1, 2, 3, 4]) for _ in range(pick.randint(1, 4))]
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    t = smolder.tensor(array)
    for _ in range(pick.randint(1, 5)):
        axis = pick.randrange(t.dim()) if t.dim() else 0
        kind = pick.choice(["transpose", "slice", "step", "unsqueeze", "select", "expand"])
        if kind == "unsqueeze" and t.dim() < 6:
            t, array = t.unsqueeze(axis), np.expand_dims(array, axis)
        elif t.dim() == 0:
            continue
        elif kind == "transpose":
            other = pick.randrange(t.dim())
            t, array = t.transpose(axis, other), array.swapaxes(axis, other)
        elif kind == "select":
            t, array = (
                t.select(axis, -1),
                array.take(-1, axis) if array.ndim == 1 else array[(slice(None),) * axis + (-1,)],
            )
        elif kind == "expand":
            t, array = t.expand(2, *t.shape), np.broadcast_to(array, (2, *array.shape))
        else:
            at = (slice(None),) * axis + (slice(0, None, 2) if kind == "step" else slice(0, pick.randint(1, 3)),)
            t, array = t[at], array[at]
    return t, np.asarray(array)


def test_strides_are_those_of_windows_on_memory():
    for seed in range(400):
        t, array = windows(seed)
        assert t.tolist() == array.tolist(), seed
        want = tuple(s // 4 for s in array.strides)
        moving = [i for i, n in enumerate(t.shape) if n != 1]  # NumPy's strides of extents of one are its own
        if t.numel():
            assert [t.stride(i) for i in moving] == [want[i] for i in moving], seed
            assert t.is_contiguous() == array.flags.c_contiguous, seed


# -- writing a result of another dtype


def test_a_result_of_the_same_category_is_cast_to_what_is_written():
    x = smolder.ones(2)
    x += smolder.full((2,), 0.5, dtype=smolder.float64)
    assert x.dtype == smolder.float32 and x.tolist() == [1.5, 1.5]
    i = smolder.ones(2, dtype=smolder.int32)
    i.add_(smolder.ones(2, dtype=smolder.int64))
    assert i.dtype == smolder.int32 and i.tolist() == [2, 2]
    h = smolder.ones(2, dtype=smolder.float16)
    h.mul_(smolder.full((2,), 3.0))
    assert h.dtype == smolder.float16 and h.tolist() == [3, 3]
    with pytest.raises(RuntimeError, match="result type float32 can't be cast to the desired output type int32"):
        i += 1.5


@ONE_BY_ONE
def test_a_view_is_right_again_after_a_failed_step():
    x = smolder.ones(4)
    smolder.mark_step()
    v = x[1:]
    huge = smolder.ones(2**45)
    x.add_(1)
    assert (v * 1).shape == (3,)
    with pytest.raises(MemoryError, match=r"met in full\(\) -> \[35184372088832\] float32 at .*test_storage.py:"):
        huge.tolist()
    assert values(x, v) == [[1, 1, 1, 1], [1, 1, 1]]
