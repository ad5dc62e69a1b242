"""Reads and writes at tensors of indices and masks: which elements they mean, and what is no index."""

import contextlib
import operator

import numpy as np
import pytest

import smolder
from smolder import _indexing
from smolder.nn import functional as F

tensor = smolder.tensor


def mode(eager):
    return smolder.eager() if eager else contextlib.nullcontext()


# -- writes at a mask: its dimensions are the ones that it stands for, not the last ones

MASKED = {
    "number": ((2, 3), tensor([True, False]), 1.5),
    "square": ((2, 2), tensor([False, True]), 1.0),
    "whole": ((2, 3), tensor([[True, False, True], [False, True, False]]), 2),
    "list": ((2, 3), [False, True], 3.0),
    "array": ((2, 3), np.array([False, True]), 3.0),
    "after a slice": ((3, 2), (slice(None), tensor([True, False])), 5.0),
    "before ... and an integer": ((2, 3, 2), (tensor([True, False]), Ellipsis, 0), 7.0),
    "two dimensions of three": ((2, 2, 3), tensor([[True, False], [False, True]]), 7.0),
    "none of its own": ((2, 3), tensor(True), 4.0),
    "row": ((2, 3), tensor([True, False]), np.float32([1, 2, 3])),
    "row with a leading one": ((2, 3), tensor([False, True]), np.float32([[1, 2, 3]])),
    "zero-dim tensor": ((2, 3), tensor([False, True]), np.float32(6)),
    "column, after a slice": ((2, 3), (slice(None), tensor([True, False, True])), np.float32([[1], [2]])),
}


def as_numpy(index):
    if isinstance(index, tuple):
        return tuple(map(as_numpy, index))
    return index._to_numpy() if isinstance(index, smolder.Tensor) else index


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("eager", [False, True])
def test_a_write_at_a_mask(name, eager):
    shape, index, value = MASKED[name]
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    with mode(eager):
        x = tensor(array)
        x[index] = tensor(value) if isinstance(value, np.ndarray | np.generic) else value
        got = x.tolist()
    array[as_numpy(index)] = value
    assert got == array.tolist()


def test_a_write_at_a_mask_keeps_the_dtype():
    x = tensor([1, 2])
    x[tensor([True, False])] = 7.9
    assert x.dtype == smolder.int64
    assert x.tolist() == [7, 2]


def test_gradients_of_a_write_at_a_mask():
    x, v = smolder.ones(2, 3, requires_grad=True), smolder.ones(3, requires_grad=True)
    y = x * 2
    y[tensor([True, False])] = v
    (y * tensor([[1.0, 2, 3], [4, 5, 6]])).sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [8, 10, 12]]
    assert v.grad.tolist() == [1, 2, 3]


def test_what_a_mask_can_not_do_says_so():
    x = smolder.zeros(2, 3)
    with pytest.raises(IndexError, match=r"mask \[3\] at index 0 does not match .* \[2, 3\] at index 0"):
        x[tensor([True, True, False])] = 1
    with pytest.raises(IndexError, match="too many indices"):
        x[smolder.ones(2, 3, 1) > 0] = 1
    assert x.tolist() == [[0] * 3] * 2


def test_a_write_at_a_mask_with_a_value_for_each_true_reads_nothing():
    x, mask = smolder.zeros(4, 2), tensor([True, False, True, False])
    before = counters()["syncs"]
    x[mask] = tensor([[1.0, 2.0], [3.0, 4.0]])
    x[x > 2.5] = 0
    assert counters()["syncs"] == before
    assert x.tolist() == [[1, 2], [0, 0], [0, 0], [0, 0]]


def counters():
    return smolder.metrics()["counters"]


def test_too_many_or_too_few_values_for_a_mask_are_an_error():
    for n in (2, 4):
        x = smolder.zeros(5)
        x[tensor([True, False, True, False, True])] = smolder.ones(n)
        with pytest.raises(RuntimeError, match="one for each True"):
            x.tolist()


# -- reads at masks, which sync under the name of the op, and at several indices


@pytest.mark.parametrize(
    "shape", [(), (1,), (0,), (63,), (64,), (65,), (3, 0), (5, 7), (2, 3, 4), (70, 1000), (200001,)]
)
@pytest.mark.parametrize("kept", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("dtype", ["bool", "float32", "int64"])
def test_nonzero_finds_what_numpy_finds(shape, kept, dtype):
    drawn = np.random.default_rng(3).random(shape) < kept
    values = np.asarray(drawn).astype(dtype)
    found = smolder.from_numpy(values.copy()).nonzero()
    assert found.dtype == smolder.int64
    assert np.array_equal(found.numpy(), np.argwhere(values))
    mask = smolder.from_numpy(np.asarray(drawn).copy())
    x = smolder.arange(values.size).reshape(shape)
    assert np.array_equal(x[mask].numpy(), x.numpy()[drawn])
    assert np.array_equal(smolder.masked_select(x, mask).numpy(), x.numpy()[drawn])


def test_a_mask_of_a_view_or_of_memory_that_others_write():
    grid = smolder.arange(24).reshape(4, 6)
    assert (grid % 5 == 0).t()[1:, ::2].nonzero().tolist() == np.argwhere((grid.numpy() % 5 == 0).T[1:, ::2]).tolist()
    memory = np.zeros(5, bool)
    mask = smolder.from_numpy(memory)
    memory[3] = True
    assert mask.nonzero().tolist() == [[3]]
    bytes_of_others = smolder.from_numpy(np.array([[2, 0, 255] * 100], np.uint8).view(bool))
    assert bytes_of_others.nonzero()[:, 1].tolist() == [i for i in range(300) if i % 3 != 1]


def test_what_is_nonzero_is_found_without_a_step_of_its_own():
    mask = tensor([True, False, True, True])
    smolder.mark_step()
    before = counters()
    found = mask.nonzero()
    assert found.shape == (3, 1)
    after = counters()
    assert after["ops.recorded"] == before["ops.recorded"]
    assert after["syncs"] == before["syncs"]


def test_a_read_at_a_mask_says_that_it_reads():
    smolder.reset_metrics()
    x = tensor([1.0, 2.0, 3.0])
    assert x[x != 2].tolist() == [1, 3]
    assert any("nonzero" in e["reason"] for e in smolder.metrics()["events"] if e["kind"] == "sync")


READS = {
    "two": (tensor([0, 1]), tensor([2, -1])),
    "two, broadcast": (tensor([[0], [1]]), tensor([2, 0, 1])),
    "after a slice": (slice(None), tensor([0, 1]), tensor([2, 3])),
    "apart": (tensor([0, 1]), slice(None), tensor([2, 3])),
    "apart, after None": (None, tensor([0, 1]), slice(1, None), tensor([2, 3])),
    "a list": ([0, 1],),
    "mask and index": (tensor([True, False]), tensor([0, 2])),
    "mask of two": (tensor([[True, False, True], [False, False, True]]),),
    "mask behind": (slice(None), slice(None), tensor([True, False, True, True])),
    "...": (Ellipsis, tensor([[0, -1]])),
}


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("eager", [False, True])
def test_reads_and_writes_at_several_indices(name, eager):
    index = READS[name]
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    with mode(eager):
        x = tensor(array)
        assert x[index].tolist() == array[as_numpy(index)].tolist()
        x[index] = 7
        got = x.tolist()
    array[as_numpy(index)] = 7
    assert got == array.tolist()


def test_an_index_out_of_range_in_one_of_several_dimensions_is_found():
    with pytest.raises(IndexError):
        smolder.ones(4, 5)[tensor([0]), tensor([5])].tolist()  # element 5 of 20 there is


def test_index_put_adds_up_equal_indices():
    x = smolder.zeros(3)
    assert x.index_put_((tensor([0, 2, 0]),), tensor([1.0, 2.0, 3.0]), accumulate=True) is x
    assert x.tolist() == [4, 0, 2]


def test_shapes_changed_in_place_are_views_of_the_same_storage():
    x = smolder.zeros(2, 3)
    flat = x.view(-1)
    assert x.t_() is x and x.shape == (3, 2)
    flat[1] = 5
    assert x.tolist() == [[0, 0], [5, 0], [0, 0]]
    assert x.unsqueeze_(0).shape == (1, 3, 2) and x.squeeze_().shape == (3, 2)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        smolder.ones(2, 2, requires_grad=True).t_()


# -- indices out of range. Only x[index] counts from the end, once


def classes(*numbers, loss=F.cross_entropy, **words):
    return lambda: loss(smolder.zeros(len(numbers), 3), tensor(numbers), **words)


ones = smolder.ones
OUT_OF_RANGE = {
    "x[index] below": (IndexError, lambda: ones(2)[tensor([-3])]),
    "x[index] above": (IndexError, lambda: ones(2)[tensor([2])]),
    "x[..., index]": (IndexError, lambda: ones(5, 2)[..., [0, -3]]),
    "gather": (RuntimeError, lambda: ones(3).gather(0, tensor([-1]))),
    "index_select": (IndexError, lambda: ones(3).index_select(0, tensor([-1]))),
    "scatter_add": (RuntimeError, lambda: ones(3).scatter_add(0, tensor([-1]), ones(1))),
    "index_add": (IndexError, lambda: ones(3).index_add(0, tensor([-1]), ones(1))),
    "embedding": (IndexError, lambda: F.embedding(tensor([-1]), ones(3, 2))),
    "cross_entropy below": (IndexError, classes(0, -1)),
    "cross_entropy above": (IndexError, classes(0, 3)),
    "cross_entropy ignoring another": (IndexError, classes(0, -100, ignore_index=1)),
    "nll_loss": (IndexError, classes(0, -1, loss=F.nll_loss)),
    "one_hot above": (RuntimeError, lambda: F.one_hot(tensor([0, 3]), 3)),
    "one_hot below": (RuntimeError, lambda: F.one_hot(tensor([0, -1]), 3)),
    "one_hot of the largest": (RuntimeError, lambda: F.one_hot(tensor([-1]))),
    "one_hot of nothing": (RuntimeError, lambda: F.one_hot(tensor([], dtype=smolder.int64))),
}


@pytest.mark.parametrize("name", OUT_OF_RANGE)
@pytest.mark.parametrize("eager", [False, True])
def test_an_index_out_of_range_is_an_error(name, eager):
    kind, wrong = OUT_OF_RANGE[name]
    with mode(eager), pytest.raises(kind) as caught:
        wrong().tolist()
    assert caught.type is kind
    assert ones(2).tolist() == [1, 1]


@pytest.mark.parametrize("eager", [False, True])
def test_a_class_out_of_range_is_named_in_torchs_words(eager):
    with mode(eager):
        with pytest.raises(IndexError, match="out of bounds"):
            classes(-1)().item()
        with pytest.raises(RuntimeError, match="Class values must be"):
            F.one_hot(tensor([3]), 3).tolist()


@pytest.mark.parametrize("loss", [F.cross_entropy, F.nll_loss])
def test_an_ignored_class_is_in_no_range(loss):
    for ignored in (-100, -1, 7):
        got = classes(1, ignored, loss=loss, ignore_index=ignored)().item()
        assert got == classes(1, loss=loss)().item()


@pytest.mark.parametrize("dtype", [smolder.int64, smolder.int32])
def test_an_index_tensor_counts_from_the_end(dtype):
    x = tensor([[1, 2], [3, 4], [5, 6]])
    assert x[tensor([-1, 0, -3], dtype=dtype)].tolist() == [[5, 6], [1, 2], [1, 2]]
    assert x[:, tensor([[-2], [1]], dtype=dtype)].tolist() == [[[1], [2]], [[3], [4]], [[5], [6]]]


# -- the binding takes the usual indices itself, and Python all others: both mean the same


def pending(item):
    """The item, which no step has computed if it is a tensor of one integer."""
    is_number = isinstance(item, smolder.Tensor) and item.dim() == 0 and not item.is_floating_point()
    return item + 0 if is_number and item.dtype != smolder.bool else item


def random_item(rng, n):
    kind = rng.integers(12)
    if kind < 2:
        return int(rng.integers(-n - (kind == 1), n + (kind == 1)))
    if kind < 5:
        bound = lambda: None if rng.random() < 0.3 else int(rng.integers(-n - 2, n + 3))  # noqa: E731
        return slice(bound(), bound(), None if rng.random() < 0.5 else int(rng.integers(1, 4)))
    if kind == 5:
        return None
    if kind == 6:
        return Ellipsis
    if kind == 7:
        shape = [(3,), (2, 2), (1,), (0,), ()][rng.integers(5)]
        return tensor(rng.integers(-n, n, shape), dtype=[smolder.int64, smolder.int32][rng.integers(2)])
    if kind == 8:  # which no step has computed
        return pending(tensor(int(rng.integers(-n, n))))
    if kind < 11:
        return tensor(rng.random([(n,), (n, n), (n - 1,), (0,), (n, n, n)][rng.integers(5 if kind == 9 else 2)]) < 0.5)
    return [True, np.int64(rng.integers(-n, n)), [0, 1], tensor(rng.random(n) < 0.5), range(2)][rng.integers(5)]


def outcome(call):
    try:
        out = call()
        return out.shape, out.tolist()
    except (IndexError, RuntimeError, TypeError, ValueError) as e:
        return type(e).__name__, str(e).split("\n")[0].split("; met in")[0]


@pytest.mark.parametrize("seed", range(4))
def test_an_index_means_the_same_to_the_binding_and_to_python(seed):
    rng = np.random.default_rng(seed)
    for _ in range(60):
        items = [random_item(rng, 4) for _ in range(rng.integers(0, 5))]

        def index(items=items):
            new = tuple(pending(i) for i in items)
            return new[0] if len(new) == 1 else new

        x = smolder.arange(64).reshape(4, 4, 4)[: rng.integers(2, 5)]
        assert outcome(lambda: x[index()]) == outcome(lambda: _indexing.get(x, index())), items  # noqa: B023
        values = [7, 2.5, True, tensor(5), tensor([1, 2, 3, 4]), tensor([[9.5]]), smolder.ones(1, 1, 1, 1), np.ones(4)]
        value = values[rng.integers(len(values))]

        def written(write, index=index, value=value, x=x):
            out = x.clone()
            write(out, index(), value)
            return out

        assert outcome(lambda: written(operator.setitem)) == outcome(lambda: written(_indexing.set)), (items, value)


@pytest.mark.parametrize("known", [False, True])
def test_a_number_in_a_tensor_beside_an_index_that_is_apart_is_a_number(known):
    x = smolder.arange(24.0).reshape(2, 3, 4)
    at, mask = tensor(1) if known else tensor(0) + 1, tensor([True, False, True, False])
    array = x.numpy()
    assert x[at, :, mask].tolist() == array[1][:, [0, 2]].tolist()  # which NumPy's [1, :, mask] is not
    assert x[tensor([0, 1]), :, at].tolist() == array[[0, 1]][:, :, 1].tolist()
    y = x.clone()
    y[at, :, mask] = tensor([[1.0, 2.0]])
    expected = array.copy()
    expected[1][:, [0, 2]] = [1, 2]
    assert y.tolist() == expected.tolist()


def test_usual_indices_are_read_without_python(monkeypatch):
    def refuse(*_):
        raise AssertionError("went to Python")

    monkeypatch.setattr(_indexing, "get", refuse)
    monkeypatch.setattr(_indexing, "set", refuse)
    x = smolder.arange(12.0).reshape(3, 4)
    where, mask, known = smolder.argmax(x[0]), x > 4, tensor(2)
    assert x[known].tolist() == [8, 9, 10, 11] and x[1, known].item() == 6 and x[where - 2, where].item() == 7
    assert x[:, where].tolist() == [3, 7, 11] and x[mask].tolist() == [5, 6, 7, 8, 9, 10, 11]
    assert x[:, mask[1]].tolist() == [[1, 2, 3], [5, 6, 7], [9, 10, 11]] and x[1][x[1] > 5].tolist() == [6, 7]
    assert x[known].data_ptr() == x[2].data_ptr()
    x[0, where] = 30.0
    x[known] = 1.0
    assert x.tolist() == [[0, 1, 2, 30], [4, 5, 6, 7], [1, 1, 1, 1]]


def test_elements_are_not_deleted():
    x = smolder.ones(3)
    with pytest.raises(TypeError, match="does not support deleting items"):
        del x[0]


def test_an_integer_out_of_range_names_its_dimension():
    x = smolder.zeros(2, 3, 4)
    for index, text in [
        ((0, -5), "index -5 is out of bounds for dimension 1 with size 3"),
        ((0, 0, 9), "index 9 is out of bounds for dimension 2 with size 4"),
        ((slice(None), 0, 9), "index 9 is out of bounds for dimension 2 with size 4"),
        (-3, "index -3 is out of bounds for dimension 0 with size 2"),
    ]:
        with pytest.raises(IndexError, match=text):
            x[index]
        with pytest.raises(IndexError, match=text):
            x[index] = 1


def test_index_put_takes_tensors():
    x, at = smolder.zeros(3), smolder.tensor([0])
    for put in (x.index_put, x.index_put_, lambda *given: smolder.index_put(x, *given)):
        with pytest.raises(TypeError, match=r"'values' .position 2. must be Tensor, not float"):
            put((at,), 1.0)
        with pytest.raises(TypeError, match=r"'indices' .position 1. must be tuple of Tensors, not Tensor"):
            put(at, smolder.ones(1))


WRITTEN = {
    "x[[-12]]": (lambda x: x[[-12]], "index -12 is out of bounds for a dimension with size 10"),
    "x[index]": (lambda x: x[tensor([3, 10])], "index 10 is out of bounds for a dimension with size 10"),
    "x[:, index]": (
        lambda x: x.reshape(2, 5)[:, tensor([0, -6])],
        "index -6 is out of bounds for a dimension with size 5",
    ),
    "x[i, j]": (
        lambda x: x.reshape(2, 5)[tensor([0, 1]), tensor([1, -7])],
        "index -7 is out of bounds for a dimension with size 5",
    ),
    "x[i, j], in the first": (
        lambda x: x.reshape(2, 5)[tensor([0, 2], dtype=smolder.int32), tensor([1, 1])],
        "index 2 is out of bounds for a dimension with size 2",
    ),
    "x[index] = v": (
        lambda x: setitem(x.clone(), tensor([-11]), 1),
        "index -11 is out of bounds for a dimension with size 10",
    ),
    "take": (lambda x: x.take(tensor([-13])), "index -13 is out of bounds for a dimension with size 10"),
    "put": (lambda x: x.put(tensor([-13]), tensor([1])), "index -13 is out of bounds for a dimension with size 10"),
    "index_fill": (
        lambda x: x.index_fill(0, tensor([-14]), 1),
        "index -14 is out of bounds for a dimension with size 10",
    ),
}


def setitem(x, index, value):
    x[index] = value
    return x


@pytest.mark.parametrize("eager", [False, True])
@pytest.mark.parametrize("name", WRITTEN)
def test_an_index_out_of_range_is_told_as_it_was_written(name, eager):
    call, text = WRITTEN[name]
    x = smolder.arange(10)
    with mode(eager), pytest.raises(IndexError, match=text):
        call(x).tolist()
    assert x.tolist() == list(range(10))


def test_an_index_out_of_range_changes_nothing():
    """Not memory that the step writes in place, and not an element that another index of the same place names."""
    x, kept = smolder.zeros(2, 3), smolder.ones(4)
    smolder.mark_step()
    with pytest.raises(IndexError, match="index 3 is out of bounds"):
        kept.add_(1)
        x[tensor([0, 1]), tensor([0, 3])] = 5.0
        x.tolist()
    assert x.tolist() == [[0, 0, 0]] * 2 and kept.tolist() == [1] * 4
    x[tensor([0, -1]), tensor([-3, 2])] = 5.0
    assert x.tolist() == [[5, 0, 0], [0, 0, 5]]


def test_numbers_of_other_integer_dtypes_are_indices_too():
    x = smolder.arange(3)
    for dtype in (smolder.int8, smolder.int16, smolder.int32):
        assert x[tensor(-1, dtype=dtype)].item() == 2
    assert x[tensor(1, dtype=smolder.uint8)].shape == (1, 3)  # a mask, as in torch
