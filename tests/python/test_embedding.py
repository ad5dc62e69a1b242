"""Embeddings beyond a lookup: rows kept short, gradients by frequency, the forms in which they print."""

import numpy as np
import pytest

import smolder
from smolder import nn
from smolder.nn import functional as F

ROWS = np.random.default_rng(4).normal(size=(5, 3))
NUMBERS = [[1, 2, 1], [4, 0, 1]]


@pytest.mark.parametrize("norm_type", (1.0, 2.0, float("inf")))
def test_rows_that_are_looked_up_are_shortened(norm_type):
    layer = nn.Embedding(5, 3, max_norm=0.5, norm_type=norm_type, _weight=smolder.tensor(ROWS))
    found = layer(smolder.tensor(NUMBERS))
    lengths = np.linalg.norm(ROWS, norm_type, axis=1, keepdims=True)
    expected = np.where(lengths > 0.5, ROWS * (0.5 / (lengths + 1e-7)), ROWS)
    expected[3] = ROWS[3]  # which nothing looks up
    np.testing.assert_allclose(layer.weight.detach(), expected, rtol=1e-12)
    np.testing.assert_allclose(found.detach(), expected[NUMBERS], rtol=1e-12)
    found.sum().backward()
    np.testing.assert_array_equal(layer.weight.grad[:, 0], np.bincount(np.ravel(NUMBERS), minlength=5))


def test_gradients_are_shared_by_the_lookups_of_a_row():
    layer = nn.Embedding(5, 3, padding_idx=2, scale_grad_by_freq=True)
    layer(smolder.tensor(NUMBERS)).sum().backward()
    np.testing.assert_array_equal(layer.weight.grad[:, 0], [1, 1, 0, 0, 1])
    with pytest.raises(NotImplementedError, match="scale_grad_by_freq is not supported with sparse gradients"):
        F.embedding(smolder.tensor(NUMBERS), layer.weight, scale_grad_by_freq=True, sparse=True)


def test_bags_of_them():
    bag = nn.EmbeddingBag(5, 3, max_norm=0.5, scale_grad_by_freq=True, mode="sum", _weight=smolder.tensor(ROWS))
    table = nn.Embedding(5, 3, max_norm=0.5, scale_grad_by_freq=True, _weight=smolder.tensor(ROWS))
    numbers = smolder.tensor(NUMBERS)
    found, expected = bag(numbers), table(numbers).sum(1)
    np.testing.assert_allclose(found.detach(), expected.detach(), rtol=1e-12)
    found.square().sum().backward()
    expected.square().sum().backward()
    np.testing.assert_allclose(bag.weight.grad, table.weight.grad, rtol=1e-12)
    with pytest.raises(ValueError, match="max mode does not support scaling the gradient by the frequency"):
        F.embedding_bag(numbers, bag.weight, mode="max", scale_grad_by_freq=True)


def test_pretrained_bags_and_how_tables_print():
    bag = nn.EmbeddingBag.from_pretrained(smolder.tensor(ROWS), mode="sum", padding_idx=1)
    assert not bag.weight.requires_grad and repr(bag) == "EmbeddingBag(5, 3, mode='sum', padding_idx=1)"
    table = nn.Embedding(5, 3, padding_idx=-1, max_norm=1.0, norm_type=1, scale_grad_by_freq=True)
    assert repr(table) == "Embedding(5, 3, padding_idx=4, max_norm=1.0, norm_type=1, scale_grad_by_freq=True)"
