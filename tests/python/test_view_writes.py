"""Writes in place to views that no gradient can follow, refused in torch's words; and the objects that gradients are."""

import gc
import math
import re

import numpy
import pytest
from conftest import NUMPY

import smolder

SEVERAL = "This view is the output of a function that returns multiple views. Such functions do not allow"
AMBIGUOUS = "Given that this use case is ambiguous and error-prone, it is forbidden."


def base():
    return smolder.ones(4, 4, requires_grad=True).clone()


def refused(text):
    return pytest.raises(RuntimeError, match=re.escape(text))


OF_ONE_CALL = {
    "Unbind": lambda x: x.unbind(),
    "Unbind ": list,
    "Split": lambda x: x.split(2),
    "Split ": lambda x: x.chunk(2),
    "SplitWithSizes": lambda x: x.split([1, 3]),
    "SplitWithSizes ": lambda x: x.split_with_sizes([1, 3]),
}


@pytest.mark.parametrize("name", OF_ONE_CALL)
def test_views_that_one_call_returned(name):
    views = OF_ONE_CALL[name]
    for write in (lambda v: v.mul_(2), lambda v: v.copy_(smolder.zeros(())), lambda v: v.__setitem__(0, 1.0)):
        text = "Output 0 of Select" if "__setitem__" in write.__code__.co_names else f"Output 1 of {name.strip()}"
        with refused(f"{text} is a view and is being modified inplace. {SEVERAL}"):
            write(views(base())[1])
    with refused(f"Output 0 of Slice is a view and is being modified inplace. {SEVERAL}"):
        views(base())[0][1:].mul_(2)
    with refused(SEVERAL):  # a leaf's, too
        views(smolder.ones(4, 4, requires_grad=True))[0].mul_(2)
    with refused(SEVERAL):
        views(smolder.ones(4, 4))[0].mul_(smolder.ones((), requires_grad=True))


ONE_PIECE = [lambda x: x.split(4), lambda x: x.split([4]), lambda x: x.chunk(1)]


@pytest.mark.parametrize("pieces", ONE_PIECE)
def test_the_only_piece_is_a_view_and_what_it_is_of_stays_writable(pieces):
    x = base()[:]
    (piece,) = pieces(x)
    with refused(SEVERAL):
        piece.mul_(2)
    x.mul_(2)
    assert piece.tolist() == x.tolist() == [[2.0] * 4] * 4


@pytest.mark.parametrize("name", OF_ONE_CALL)
def test_views_that_one_call_returned_without_gradients(name):
    views = OF_ONE_CALL[name]
    x = smolder.ones(4, 4)
    views(x)[1].mul_(2)
    assert x.sum().item() > 16
    x = base()
    with smolder.no_grad():
        views(x)[1].mul_(2)
    assert x.sum().item() > 16
    views(x)[1].detach().mul_(2)
    assert x.sum().item() > 20


@pytest.mark.parametrize("name", ["tensor_split", "hsplit", "vsplit", "unsafe_chunk"])
def test_pieces_that_may_be_written(name):
    x = smolder.ones(4, 4, requires_grad=True)
    piece = getattr(x * 1, name)(2)[1]
    piece.mul_(3).sum().backward()
    assert x.grad.sum().item() == 24


def test_views_made_without_gradients():
    def made(x, view=lambda x: x[0], mode=smolder.no_grad):
        with mode():
            return view(x)

    text = f"A view was created in no_grad mode and is being modified inplace with grad mode enabled. {AMBIGUOUS}"
    for x in (base(), smolder.ones(4, 4, requires_grad=True)):
        for view in (lambda x: x[0], lambda x: x[0][1:], lambda x: x.unbind()[0], lambda x: x.view(16)):
            with refused(text):
                made(x, view).mul_(2)
    with refused(AMBIGUOUS):
        made(base())[1:].mul_(2)
    with refused("A view was created in inference mode and is being modified inplace in normal mode."):
        made(base(), mode=smolder.inference_mode).mul_(2)
    later = smolder.ones(4, 4)
    view = made(later)
    view.mul_(2)
    later.requires_grad_()
    with refused(AMBIGUOUS):
        view.mul_(2)


def test_views_that_are_made_and_written_without_gradients():
    x = smolder.ones(4, 4, requires_grad=True)
    with smolder.no_grad():
        view = x[0]
        view.mul_(2)
        detached = x.detach()
    detached.mul_(3)
    assert x.tolist() == [[6] * 4] + [[3] * 4] * 3


def test_a_gradient_is_one_object():
    x = smolder.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad is x.grad
    held = x.grad
    held.mark = 1
    (x * 2).sum().backward()
    assert x.grad is held and x.grad.mark == 1 and held.tolist() == [4] * 3
    given = smolder.ones(3)
    x.grad = given
    assert x.grad is given
    x.grad = None
    assert x.grad is None
    del given, held
    gc.collect()
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2] * 3 and not hasattr(x.grad, "mark")


@NUMPY
def test_windows_and_diagonals_are_views_of_memory_that_an_array_sees():
    x = smolder.arange(12.0).reshape(3, 4).clone()
    array, windows, diagonal = x.numpy(), x.unfold(1, 2, 1), x[:, :2].diagonal()
    x[0, 0] = 50
    assert windows[0, 0, 0].item() == 50
    array[0, 1] = 60
    assert windows[0].tolist() == [[50, 60], [60, 2], [2, 3]]
    array[1, 1] = 70
    assert diagonal.tolist() == [50, 70]
    windows.fill_(3)
    diagonal.fill_(4)
    assert array.tolist() == [[4, 3, 3, 3], [3, 4, 3, 3], [3, 3, 3, 3]]


@pytest.mark.parametrize("size", [0, 1, 2, 4, 5, 11])
@pytest.mark.parametrize("step", [1, 2, 4, 5, 12])
def test_windows_of_any_size_and_step(size, step):
    """Windows apart are a reshape, few overlapping elements are slices, and more are looked up."""
    array = numpy.arange(3 * 11 * 2.0).reshape(3, 11, 2)
    expected = numpy.lib.stride_tricks.sliding_window_view(array, size, 1)[:, ::step] if size else None
    x = smolder.tensor(array, requires_grad=True)
    windows = x.unfold(1, size, step)
    if size == 0:
        assert windows.shape == (3, 11 // step + 1, 2, 0)
        return
    numpy.testing.assert_array_equal(windows.detach().numpy(), expected)
    weights = numpy.arange(float(expected.size)).reshape(expected.shape)
    (windows * smolder.tensor(weights)).sum().backward()
    gradient = numpy.zeros_like(array)
    for i in range(expected.shape[1]):
        gradient[:, i * step : i * step + size] += weights[:, i].swapaxes(-1, -2)
    numpy.testing.assert_array_equal(x.grad.numpy(), gradient)


def test_few_elements_of_windows_are_not_looked_up():
    x = smolder.ones(70, 70)
    few, many = (str(smolder.explain(lambda size: x.unfold(1, size, 1).sum(-1))(size)) for size in (3, 9))
    assert "index_select" in many and "index_select" not in few


@pytest.mark.parametrize("detached", [False, True])
def test_a_write_to_one_of_several_windows_is_seen_in_all(detached):
    base = smolder.arange(6.0)
    windows = base.as_strided((4, 3), (1, 1))
    windows = windows.detach() if detached else windows
    windows[0, 1] = 9.0
    assert windows.tolist() == [[0, 9, 2], [9, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert base.tolist() == [0, 9, 2, 3, 4, 5]
    windows[3, 0], windows[0, 1] = float("nan"), 1.0
    assert windows[1].tolist()[:2] == [1, 2] and math.isnan(windows[2, 1].item()) and math.isnan(base[3].item())


ROWS = {  # views of an expanded tensor in which each element is but once
    "a row": (lambda x: x.expand(4, 3)[1], [1, 1, 1]),
    "rows": (lambda x: x.expand(4, 3)[2:3], [1, 1, 1]),
    "a part of a row": (lambda x: x.expand(4, 3)[3, 1:], [0, 1, 1]),
    "steps": (lambda x: x.expand(2, 2, 3)[0, 1, ::2], [1, 0, 1]),
    "a column": (lambda x: x.unsqueeze(1).expand(3, 4)[:, 2], [1, 1, 1]),
    "an element": (lambda x: x.expand(4, 3)[0, 1], [0, 1, 0]),
    "transposed": (lambda x: x.expand(4, 3).t()[:, :1], [1, 1, 1]),
}


@pytest.mark.parametrize("name", ROWS)
def test_a_row_of_an_expanded_tensor_is_written(name):
    view, where = ROWS[name]
    x = smolder.arange(3.0)
    before = x.clone()
    others = x.expand(4, 3)
    view(x).add_(10)
    expected = [v + 10 * w for v, w in zip(before.tolist(), where, strict=True)]
    assert x.tolist() == expected and others[2].tolist() == expected
    view(x).detach().sub_(10)
    assert x.tolist() == before.tolist()
    leaf = smolder.arange(3.0, requires_grad=True)
    y = leaf * 2
    view(y).mul_(5)
    y.sum().backward()
    assert leaf.grad.tolist() == [2 * (5 if w else 1) for w in where]


@NUMPY
def test_one_number_is_written_to_repeated_elements():
    base = smolder.arange(6.0).reshape(2, 3)
    assert base[:1].expand(4, 3).fill_(7)[2].tolist() == [7] * 3 and base.tolist() == [[7] * 3, [3, 4, 5]]
    smolder.Tensor.zero_(base[1].expand(2, 3))
    assert base.tolist() == [[7] * 3, [0] * 3]
    shared = smolder.arange(3.0)
    array = shared.numpy()
    shared.expand(2, 3).fill_(4.0)
    assert array.tolist() == [4] * 3
    leaf = smolder.ones(3, requires_grad=True)
    y = leaf * 2
    y[1:2].expand(3).zero_()
    y.sum().backward()
    assert leaf.grad.tolist() == [2, 0, 2]


def test_repeated_elements_are_not_written():
    x = smolder.arange(3.0)
    for write in (
        lambda: x.expand(4, 3).add_(1),
        lambda: x.expand(4, 3)[1:].add_(1),
        lambda: x.expand(2, 4, 3)[0].add_(1),
        lambda: x[:1].expand(5).copy_(smolder.arange(5.0)),
        lambda: smolder.add(x, 1, out=x.expand(2, 3)),
    ):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor refers to a single"):
            write()
    assert x.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("view", "plain"),
    [
        (lambda x: x.permute(1, 2, 0), lambda x: x.transpose(1, 2, 0)),
        (lambda x: x.transpose(0, 2), lambda x: x.transpose(2, 1, 0)),
        (lambda x: x.view(4, 3, 2), lambda x: x.reshape(4, 3, 2)),
    ],
    ids=["permute", "transpose", "view"],
)
def test_a_tensor_that_becomes_a_view_of_itself_at_every_step_compiles_nothing_more(view, plain):
    x = numpy.arange(24, dtype=numpy.float32).reshape(2, 3, 4)
    state, whole = smolder.tensor(x), None
    for turn in range(18):
        if turn == 12:
            smolder.wait_for_compiles()
            before = smolder.metrics()["counters"]["plans.compiled"]
        state, x = view(state), plain(x) * 2 + 1
        whole = state if whole is None else whole
        state.mul_(2).add_(1)
        assert state.sum().item() == x.sum()
    smolder.wait_for_compiles()
    assert smolder.metrics()["counters"]["plans.compiled"] == before
    assert state.tolist() == x.tolist() and whole.sum().item() == x.sum()
