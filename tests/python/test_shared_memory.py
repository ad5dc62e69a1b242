"""Memory that processes share, storages that are written and grow, and what storages say."""

import multiprocessing

import numpy as np
import pytest
from conftest import of_the_cpu

import smolder
from smolder import nn


def _add_one(x):
    with smolder.no_grad():
        x.add_(1)
        x.tolist()  # ends the step


def _train(model):
    optimizer = smolder.optim.SGD(model.parameters(), lr=0.5)
    model(smolder.ones(1, 2)).sum().backward()
    optimizer.step()
    smolder.mark_step()


@of_the_cpu("processes share no memory of a device")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_process_writes_what_another_reads(method):
    x = smolder.zeros(3).share_memory_()
    assert x.is_shared() and x.untyped_storage().is_shared()
    process = multiprocessing.get_context(method).Process(target=_add_one, args=(x,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    assert x.tolist() == [1.0, 1.0, 1.0]


@of_the_cpu("processes share no memory of a device")
def test_a_model_is_trained_by_another_process():
    model = nn.Linear(2, 1)
    before = model.weight.detach().clone()
    assert model.share_memory() is model
    assert model.weight.is_shared() and isinstance(model.weight, nn.Parameter)
    process = multiprocessing.get_context("fork").Process(target=_train, args=(model,))
    process.start()
    process.join(60)
    assert process.exitcode == 0
    np.testing.assert_allclose((before - model.weight).detach().numpy(), 0.5, rtol=1e-6)


@of_the_cpu("processes share no memory of a device")
@pytest.mark.parametrize(
    "make", [smolder.zeros, lambda n: nn.Parameter(smolder.zeros(n)), lambda n: smolder.zeros(2 * n)[n:]]
)
def test_writes_of_tensors_of_any_kind_are_seen(make):
    x = make(2).share_memory_()
    process = multiprocessing.get_context("fork").Process(target=_add_one, args=(x,))
    process.start()
    process.join(60)
    assert x.tolist() == [1.0, 1.0]


@of_the_cpu("processes share no memory of a device")
def test_sharing_keeps_values_and_views():
    base = smolder.arange(6.0)
    view = base[2:4]
    view.share_memory_()
    assert view.tolist() == [2.0, 3.0]
    view.zero_()
    assert base.tolist() == [0.0, 1.0, 0.0, 0.0, 4.0, 5.0]
    assert not smolder.ones(2).is_shared()


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "bfloat16", "float64", "complex64"])
def test_dtypes_that_are_shared(dtype):
    x = smolder.tensor([0, 1, 1]).to(getattr(smolder, dtype)).clone()
    before = x.tolist()
    assert x.share_memory_() is x
    assert x.tolist() == before and x.dtype is getattr(smolder, dtype)


def test_a_storage_of_its_own_changes_its_size():
    storage = smolder.UntypedStorage(4)
    assert (storage.nbytes(), len(storage), storage.size()) == (4, 4, 4)
    storage.fill_(7)
    assert storage.resize_(6) is storage
    assert storage.tolist() == [7, 7, 7, 7, 0, 0]
    assert storage.resize_(2).tolist() == [7, 7]
    storage[0] = 1
    assert storage.tolist() == [1, 7]
    assert smolder.UntypedStorage(2).copy_(storage).tolist() == [1, 7]


def test_the_storage_of_a_tensor_grows():
    x = smolder.arange(4.0)
    storage = x.untyped_storage()
    storage.resize_(32)
    assert storage.nbytes() == 32 and x.untyped_storage().nbytes() == 32
    assert x.tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(NotImplementedError, match="tensors keep their shapes"):
        storage.resize_(0)


@of_the_cpu("what is printed names the device")
def test_what_storages_print():
    assert repr(smolder.UntypedStorage(2).fill_(3)) == (
        " 3\n 3\n[smolder.storage.UntypedStorage(device=cpu) of size 2]"
    )
    assert repr(smolder.ones(1).storage()).endswith(
        "[smolder.storage.TypedStorage(dtype=smolder.float32, device=cpu) of size 1]"
    )


def test_complex_tensors_of_either_storage_are_shared():
    made = smolder.tensor([1 + 2j, 3 - 1j], dtype=smolder.complex128)
    for x in (made, made * 2, made.to(smolder.complex64)):
        expected = x.tolist()
        assert x.share_memory_().is_shared() and x.tolist() == expected
