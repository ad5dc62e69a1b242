"""Memory shared with NumPy arrays, DLPack and buffers."""

import gc
import sys

import numpy as np
import pytest
from conftest import NUMPY

import smolder
from smolder import nn

pytestmark = NUMPY  # see test_cuda_sharing.py

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def copies():
    return smolder.metrics()["counters"]["copies"]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (2, 3)])
def test_an_array_and_its_tensor_are_one(dtype, shape):
    for tensor, array in [
        (lambda t: (t, t.numpy()))(smolder.zeros(shape, dtype=getattr(smolder, dtype))),
        (lambda t: (t, np.asarray(t)))(smolder.zeros(shape, dtype=getattr(smolder, dtype))),
        (lambda a: (smolder.from_numpy(a), a))(np.zeros(shape, dtype)),
        (lambda a: (smolder.as_tensor(a), a))(np.zeros(shape, dtype)),
        (lambda a: (smolder.asarray(a), a))(np.zeros(shape, dtype)),
        (lambda a: (smolder.from_dlpack(a), a))(np.zeros(shape, dtype)),
    ]:
        assert array.dtype == dtype and array.shape == tuple(tensor.shape) == shape
        array[...] = 1
        assert (tensor == 1).all().item() or array.size == 0
        tensor.zero_()
        assert not array.any()


def test_strides_and_offsets_are_kept_both_ways():
    base = np.arange(24.0).reshape(4, 6)
    t = smolder.from_numpy(base[1:, ::2].T)
    assert tuple(t.shape) == (3, 3) and t.stride() == (2, 6) and not t.is_contiguous()
    t[0] = -1
    assert base[1:, 0].tolist() == [-1] * 3
    back = t[1:].numpy()
    assert np.shares_memory(back, base) and back.strides == (16, 48)
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        t.view(-1)


def test_what_was_recorded_before_a_write_does_not_see_it():
    x = smolder.arange(4.0)
    array = x.numpy()
    doubled = x * 2
    total = x.sum()
    array[:] = 100
    assert doubled.tolist() == [0, 2, 4, 6] and total.item() == 6 and x.sum().item() == 400


def test_what_backward_needs_is_not_overwritten_from_outside():
    w = smolder.ones(3, requires_grad=True)
    array = w.detach().numpy()
    loss = (w * w).sum()
    array[:] = 10
    loss.backward()
    assert w.grad.tolist() == [2, 2, 2]
    (w * w).sum().backward()
    assert w.grad.tolist() == [22, 22, 22]


def test_training_is_seen_by_the_array_of_a_parameter():
    model = nn.Linear(3, 1)
    array = model.weight.detach().numpy()
    optimizer = smolder.optim.SGD(model.parameters(), lr=0.5)
    before = array.copy()
    model(smolder.ones(2, 3)).sum().backward()
    optimizer.step()
    assert np.array_equal(array, before - 0.5 * 2) and model.weight.tolist() == array.tolist()


def test_an_export_copies_nothing_and_ends_with_its_arrays():
    x = smolder.zeros(1000)
    smolder.mark_step()
    before = copies()
    address = x.numpy().ctypes.data
    assert x.detach().numpy().ctypes.data == address
    assert copies() == before
    with smolder.no_grad():
        x += 1  # no array is left: an op like any other, which ends no step
    assert x.sum().item() == 1000 and copies() == before


def test_values_that_others_hold_are_copied_out_and_counted():
    x = smolder.ones(3, requires_grad=True)
    y = (x * 2).exp()
    y.sum().item()
    before = copies()
    array = y.detach().numpy()  # backward keeps y
    assert copies() == before + 1
    array[:] = 0
    y.sum().backward()
    assert x.grad.numpy() == pytest.approx(2 * np.exp(2.0), rel=1e-6)


def test_arrays_are_let_go():
    array = np.zeros(5)
    count = sys.getrefcount(array)
    t = smolder.from_numpy(array)
    view = t[1:]
    del t
    view += 1
    assert array.tolist() == [0, 1, 1, 1, 1] and sys.getrefcount(array) > count
    del view
    gc.collect()
    for _ in range(3):
        smolder.from_numpy(np.zeros(1))
    assert sys.getrefcount(array) == count


def test_indexing_a_large_array_reads_only_what_is_asked_for():
    data = np.zeros((4096, 256), np.float32)
    t = smolder.from_numpy(data)
    rows = smolder.tensor([5, 7])
    before = smolder.metrics()["counters"]["copies.bytes"]
    data[5] = 1
    got = t.index_select(0, rows)
    data[5] = 2
    assert got.sum(1).tolist() == [256, 0]
    assert smolder.metrics()["counters"]["copies.bytes"] - before < 1 << 16


def test_an_expanded_tensor_is_filled_and_not_written():
    x = smolder.zeros(1, 3)
    array = x.numpy()
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.expand(2, 3).add_(1)
    assert not array.any()
    x.expand(2, 3).fill_(3)
    assert (array == 3).all()
    x.expand(2, 3).zero_()
    assert not array.any()


@pytest.mark.parametrize("exported", [False, True])
def test_partial_overlaps_are_refused(exported):
    x = smolder.arange(5.0)
    array = x.numpy() if exported else None
    for write in (
        lambda: x[1:].add_(x[:-1]),
        lambda: x[1:].copy_(x[:-1]),
        lambda: x.__setitem__(slice(1, None), x[:-1]),
    ):
        with pytest.raises(RuntimeError, match="some elements of the input tensor and the written-to tensor"):
            write()
    x[:2].add_(x[2:4])  # apart
    x.add_(x)  # the same
    assert x.tolist() == [4, 8, 4, 6, 8]
    del array


def test_dlpack():
    t = smolder.arange(6.0).reshape(2, 3)
    assert t.__dlpack_device__() == (1, 0)
    array = np.from_dlpack(t.t())
    t[0, 1] = 9
    assert array.tolist() == [[0, 3], [9, 4], [2, 5]]
    twin = smolder.from_dlpack(t)
    twin[1] = 0
    assert t.tolist() == [[0, 9, 2], [0, 0, 0]] and array[:, 1].tolist() == [0, 0, 0]
    half = smolder.ones(2, dtype=smolder.bfloat16)
    again = smolder.from_dlpack(half)
    again += 1
    assert half.tolist() == [2, 2] and again.dtype == smolder.bfloat16
    with pytest.raises(BufferError, match="require gradient"):
        smolder.ones(2, requires_grad=True).__dlpack__()


def test_torch_shares_memory():
    torch = pytest.importorskip("torch", reason="needs PyTorch")
    t = smolder.zeros(3)
    theirs = torch.from_dlpack(t)
    theirs[0] = 1
    t[1] = 2
    assert t.tolist() == theirs.tolist() == [1, 2, 0]
    ours = smolder.from_dlpack(torch.ones(2, dtype=torch.bfloat16))
    assert ours.dtype == smolder.bfloat16 and ours.tolist() == [1, 1]


def test_buffers():
    store = bytearray(12)
    t = smolder.frombuffer(store, dtype=smolder.int32)
    t[1] = 7
    assert store == b"\0\0\0\0\7\0\0\0\0\0\0\0"
    assert smolder.frombuffer(store, dtype=smolder.bfloat16, count=2, offset=4).shape == (2,)
    view = memoryview(t)
    view[2] = 5
    assert t.tolist() == [0, 7, 5] and view.format == "i" and view.shape == (3,)
    with pytest.raises(BufferError):
        memoryview(smolder.ones(2, requires_grad=True))
    for wrong, text in [
        ({"offset": 12}, "offset"),
        ({"offset": 1}, "multiple of element size"),
        ({"count": 4}, "greater than actual buffer length"),
        ({"count": 0}, "must not be 0"),
    ]:
        with pytest.raises(ValueError, match=text):
            smolder.frombuffer(store, dtype=smolder.int32, **wrong)


def test_what_cannot_be_shared_says_so():
    for array, error, text in [
        (np.zeros(3)[::-1], ValueError, "stride in the given numpy array is negative"),
        (np.zeros(3, np.longdouble), TypeError, "longdouble"),
        (np.zeros(3, ">f4"), ValueError, "byte order"),
        (np.zeros(3, [("a", "u1"), ("b", "f4")])["b"], ValueError, "not a multiple of the element byte size"),
        ([1], TypeError, "expected np.ndarray"),
    ]:
        with pytest.raises(error, match=text):
            smolder.from_numpy(array)
    with pytest.raises(TypeError, match="bfloat16"):
        smolder.zeros(2, dtype=smolder.bfloat16).numpy()
    with pytest.raises(RuntimeError, match="requires grad"):
        np.asarray(smolder.ones(2, requires_grad=True))
    with pytest.raises(ValueError, match="copy"):
        np.array(smolder.ones(2), dtype=np.float64, copy=False)
    with pytest.raises(ValueError, match="can't alias"):
        smolder.asarray([1, 2], copy=False)


def test_set_and_data_leave_the_array_of_the_old_storage():
    x, y = smolder.zeros(3), smolder.ones(2, 2)
    array = x.numpy()
    x.set_(y)
    x += 1
    assert array.tolist() == [0, 0, 0] and y.tolist() == [[2, 2], [2, 2]]
    x.data = smolder.from_numpy(array)
    array[0] = 4
    assert x.tolist() == [4, 0, 0]
    x.set_()
    assert tuple(x.shape) == (0,)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        smolder.ones(2, requires_grad=True).set_(y)
    with pytest.raises(RuntimeError, match="dtype"):
        smolder.ones(2).set_(smolder.ones(2, dtype=smolder.int64))


def test_arrays_die_on_other_threads_and_under_syncs():
    import threading

    tensors = [smolder.from_numpy(np.zeros(10)) for _ in range(50)]
    total = sum(t.sum() for t in tensors)
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    assert total.item() == 0
    thread.join()


def test_eager_mode_reads_and_writes_in_place():
    x = smolder.arange(6.0)
    array = x.numpy()
    with smolder.eager():
        y = x.reshape(2, 3)
        y.mul_(2)
        z = y.clone()
        same = x.to(smolder.float32) * 1
    array[:] = 0
    assert z.tolist() == [[0, 2, 4], [6, 8, 10]] and same.tolist() == [0, 2, 4, 6, 8, 10]
    assert y.tolist() == [[0, 0, 0], [0, 0, 0]]
