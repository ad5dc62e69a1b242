"""Pipes of data, as libraries derive theirs from them."""

import pickle

import pytest

import smolder
from smolder.utils.data import DataLoader, IterDataPipe, MapDataPipe, functional_datapipe
from smolder.utils.data.datapipes.iter import Batcher, IterableWrapper
from smolder.utils.data.datapipes.map import SequenceWrapper


def double(x):
    return 2 * x


def test_names_follow_each_other():
    pipe = IterableWrapper(range(10)).map(double).filter(lambda x: x % 3 != 0).batch(2)
    assert list(pipe) == [[2, 4], [8, 10], [14, 16]] == list(pipe)
    assert list(pipe.unbatch()) == [2, 4, 8, 10, 14, 16]
    assert list(IterableWrapper([[[1], [2]], [[3]]]).unbatch(unbatch_level=-1)) == [1, 2, 3]
    assert list(IterableWrapper([1]).concat(IterableWrapper([2, 3]))) == [1, 2, 3]
    assert list(IterableWrapper([1, 2]).zip(IterableWrapper("ab"))) == [(1, "a"), (2, "b")]


def test_lengths():
    ten = IterableWrapper(range(10))
    assert len(ten) == len(ten.map(double)) == len(ten.shuffle()) == 10
    assert len(ten.batch(3)) == 4 and len(ten.batch(3, drop_last=True)) == 3 == len(list(ten.batch(3, drop_last=True)))
    assert len(ten.concat(ten)) == 20 and len(ten.zip(IterableWrapper([1]))) == 1
    with pytest.raises(TypeError, match="Mapper instance doesn't have valid length"):
        len(ten.filter(bool).map(double))


def test_columns():
    rows = IterableWrapper([(1, 2), (3, 4)])
    assert list(rows.map(double, input_col=1)) == [(1, 4), (3, 8)]
    assert list(rows.map(lambda a, b: a + b, input_col=[0, 1], output_col=-1)) == [(1, 2, 3), (3, 4, 7)]
    assert list(IterableWrapper([{"a": 1}]).map(double, "a", "b")) == [{"a": 1, "b": 2}]
    assert list(rows.filter(lambda b: b > 2, input_col=1)) == [(3, 4)]


def test_shuffled_by_the_generator_of_tensors():
    pipe = IterableWrapper(range(50)).shuffle(buffer_size=7)
    smolder.manual_seed(1)
    first = list(pipe)
    second = list(pipe)
    smolder.manual_seed(1)
    assert list(pipe) == first != second
    assert sorted(first) == sorted(second) == list(range(50))
    assert list(pipe.set_shuffle(False)) == list(range(50))


def test_classes_of_ones_own():
    @functional_datapipe("add_to_each")
    class Adder(IterDataPipe):
        def __init__(self, source, n):
            self.source, self.n = source, n

        def __iter__(self):
            for x in self.source:
                yield x + self.n

    try:
        assert list(IterableWrapper([1, 2]).add_to_each(3).batch(2)) == [[4, 5]]
        with pytest.raises(Exception, match="add_to_each as it is already taken"):
            functional_datapipe("add_to_each")(Adder)
    finally:
        del IterDataPipe.functions["add_to_each"]

    class Triples(Batcher):  # as torch_geometric's is
        def __init__(self, source):
            super().__init__(source, batch_size=3, drop_last=True, wrapper_class=tuple)

    assert list(Triples(IterableWrapper(range(7)))) == [(0, 1, 2), (3, 4, 5)]
    with pytest.raises(AttributeError, match="'IterableWrapper' object has no attribute 'add_to_each"):
        IterableWrapper([1]).add_to_each(1)


def test_pipes_by_key():
    pipe = SequenceWrapper([1, 2, 3]).map(double)
    assert pipe[2] == 6 and len(pipe) == 3 and isinstance(pipe, MapDataPipe)
    assert SequenceWrapper({"a": 1}).map(double)["a"] == 2


def test_loaders_take_them():
    pipe = IterableWrapper(range(6)).map(double)
    batches = list(DataLoader(pipe, batch_size=4))
    assert [b.tolist() for b in batches] == [[0, 2, 4, 6], [8, 10]]
    assert [b.tolist() for b in DataLoader(SequenceWrapper([1, 2, 3]).map(double), batch_size=2)] == [[2, 4], [6]]
    assert [b.tolist() for b in IterableWrapper([1, 2, 3, 4]).batch(2).collate()] == [[1, 2], [3, 4]]
    assert list(pickle.loads(pickle.dumps(pipe))) == list(pipe)


def test_copies_of_what_is_wrapped():
    lists = [[1], [2]]
    for sample in IterableWrapper(lists):
        sample.append(0)
    assert lists == [[1], [2]]
    for sample in IterableWrapper(lists, deepcopy=False):
        sample.append(0)
    assert lists == [[1, 0], [2, 0]]
