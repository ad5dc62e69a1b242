"""Refusals of torch's layouts and settings, addresses, and that resized tensors are written through."""

import copy
import pickle

import numpy as np
import pytest
from conftest import NUMPY

import smolder


def test_a_resized_tensor_is_row_major():
    with pytest.raises(
        NotImplementedError, match=r"resize_\(\): memory_format smolder\.channels_last is not supported"
    ):
        smolder.ones(1, 2, 3, 4).resize_(1, 4, 3, 2, memory_format=smolder.channels_last)


@NUMPY
def test_an_address_is_that_of_the_elements():
    for dtype in (smolder.float32, smolder.float16, smolder.int64):
        x = smolder.arange(6).to(dtype)
        assert x.data_ptr() == x.numpy().__array_interface__["data"][0]
        assert x[2:].data_ptr() == x.data_ptr() + 2 * x.itemsize
    assert smolder.zeros(0).data_ptr() == 0
    x = smolder.zeros(2)
    assert x.data_ptr() == x.detach().data_ptr() != smolder.zeros(2).data_ptr()


def test_an_address_tells_copies_apart():
    x = smolder.arange(6.0)
    address = x.data_ptr()
    copies = [x.clone(), copy.deepcopy(x), smolder.empty(6).copy_(x), smolder.tensor(x)]
    addresses = [y.data_ptr() for y in copies]
    assert len({address, *addresses}) == 5
    assert x.data_ptr() == address and [y.data_ptr() for y in copies] == addresses
    row = copies[0][2:]
    assert row.data_ptr() == addresses[0] + 8 and row.tolist() == [2, 3, 4, 5]
    one, other = (smolder.nn.Linear(2, 2) for _ in range(2))
    other.load_state_dict(one.state_dict())
    assert one.weight.untyped_storage().data_ptr() != other.weight.untyped_storage().data_ptr()


def test_what_was_resized_is_the_tensor_that_was():
    x = smolder.arange(4)
    y = x
    x.resize_(2, 3)
    y[0, 0] = 7
    assert x.tolist() == [[7, 1, 2], [3, 0, 0]]


@pytest.mark.skipif(smolder.cuda.is_available(), reason="there is a CUDA device")
def test_default_devices_that_are_not_there_are_refused():
    with pytest.raises(RuntimeError, match="lava"):
        smolder.set_default_device("lava")
    with pytest.raises(RuntimeError, match="accelerator"):
        smolder.zeros(2).pin_memory()


def test_formats_and_layouts_are_pickled_by_name():
    for x in (smolder.strided, smolder.preserve_format):
        assert pickle.loads(pickle.dumps(x)) is x


def test_bfloat16_has_an_address_too():
    assert smolder.ones(2).bfloat16().data_ptr() != 0


def test_arrays_become_tensors_of_the_type_asked_for():
    assert smolder.LongTensor(np.array([1, 2])).dtype == smolder.int64
