"""Memory of a NumPy array that nobody else refers to any more is a tensor's own: ops on it are recorded, and nothing is
copied. While somebody does, a write to either is seen by the other."""

import weakref

import numpy as np
import pytest
from conftest import NUMPY

import smolder

pytestmark = NUMPY


def count(name):
    return smolder.metrics()["counters"].get(name, 0)


def ones_of(n=300_000):
    return np.ones(n, np.float32)


def test_an_array_made_for_the_call_is_taken():
    before, copies = count("storage.taken"), count("copies")
    x = smolder.from_numpy(ones_of())
    address = x.data_ptr()
    eager = count("ops.eager")
    assert (x + 1).sum().item() == 600_000
    assert x.sum().item() == 300_000
    assert count("storage.taken") == before + 1
    assert count("copies") == copies and count("ops.eager") == eager
    assert x.data_ptr() == address


@pytest.mark.parametrize(
    "keep",
    [
        lambda a: a,
        lambda a: a[:5],
        lambda a: a.reshape(2, -1),
        lambda a: memoryview(a),
        lambda a: weakref.ref(a),
        lambda a: smolder.from_numpy(a),
        lambda a: [a],
    ],
    ids=["the array", "a part", "a view", "a memoryview", "a weak reference", "another tensor", "a list"],
)
def test_what_somebody_refers_to_is_shared(keep):
    before = count("storage.taken")
    array = ones_of(10)
    kept, x = keep(array), smolder.from_numpy(array)
    array[0] = 5
    del array
    assert (x * 2)[0].item() == 10
    assert count("storage.taken") == before
    x[1] = 7
    if isinstance(kept, weakref.ref):
        kept = kept()
    seen = np.asarray(kept[0] if isinstance(kept, list) else kept).reshape(-1)
    assert seen[:2].tolist() == [5, 7]
    seen[1] = 9
    assert x[1].item() == 9


def test_it_is_taken_when_the_last_other_one_is_gone():
    before = count("storage.taken")
    array = ones_of(10)
    part = array[2:]
    x = smolder.from_numpy(array)
    y = x + 1
    array[0] = 3
    del array
    assert (x.sum().item(), y.sum().item()) == (12, 20) and count("storage.taken") == before
    part[0] = 4
    assert x.sum().item() == 15
    del part
    assert (x + 1).sum().item() == 25 and count("storage.taken") == before + 1
    again = x.numpy()  # shared anew, in the same memory
    again[0] = 0
    assert x.sum().item() == 12


def test_views_of_taken_memory():
    x = smolder.from_numpy(np.arange(12, dtype=np.float32).reshape(3, 4))
    view, row = x.t(), x[1]
    x.add_(1)
    assert view[1].tolist() == [2, 6, 10] and row.tolist() == [5, 6, 7, 8]
    row.zero_()
    assert x.tolist() == [[1, 2, 3, 4], [0] * 4, [9, 10, 11, 12]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: np.frombuffer(bytearray(40), np.float32),
        lambda: np.broadcast_to(np.float32(1), (10,)),
        lambda: np.ones((5, 4), np.float32).T,
        lambda: np.ones(20, np.float32)[::2],
    ],
    ids=["of a buffer", "read-only", "transposed", "every other"],
)
@pytest.mark.filterwarnings("ignore")
def test_memory_that_is_not_the_arrays_or_has_gaps_stays_shared(make):
    before = count("storage.taken")
    x = smolder.from_numpy(make())
    assert (x + 1).sum().item() == make().sum() + make().size
    assert count("storage.taken") == before


def test_a_view_that_holds_the_last_reference_to_its_base():
    before = count("storage.taken")
    x = smolder.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert (x @ x.t()).tolist() == [[5, 14], [14, 50]]
    assert count("storage.taken") == before + 1


def test_gradients_and_writes_in_place():
    x = smolder.from_numpy(np.full((4, 3), 2, np.float32)).requires_grad_()
    (x * x).sum().backward()
    assert x.grad.tolist() == [[4.0] * 3] * 4
    with smolder.no_grad():
        x -= 0.5 * x.grad
    assert x.tolist() == [[0.0] * 3] * 4
