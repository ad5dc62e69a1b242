"""Reductions over segments, against NumPy over each, and their gradients."""

import numpy
import pytest

import smolder

REDUCTIONS = {
    "sum": (numpy.sum, 0.0),
    "mean": (numpy.mean, numpy.nan),
    "max": (numpy.max, -numpy.inf),
    "min": (numpy.min, numpy.inf),
    "prod": (numpy.prod, 1.0),
}
DATA = numpy.array([[-5.0, -3.7], [-2.4, -1.1], [0.2, 1.5], [2.8, 4.1], [5.4, 6.7], [8.0, 9.3]])
LENGTHS = [2, 0, 3, 1]


@pytest.mark.parametrize("reduce", REDUCTIONS)
def test_each_segment_is_reduced(reduce):
    of, nothing = REDUCTIONS[reduce]
    parts = numpy.split(DATA, numpy.cumsum(LENGTHS)[:-1])
    expected = numpy.stack([of(p, 0) if len(p) else numpy.full(2, nothing) for p in parts])
    x = smolder.tensor(DATA, requires_grad=True)
    by_length = smolder.segment_reduce(x, reduce, lengths=smolder.tensor(LENGTHS))
    numpy.testing.assert_allclose(by_length.detach().numpy(), expected, rtol=1e-14)
    by_offset = smolder.segment_reduce(x, reduce, offsets=smolder.tensor([0, 2, 2, 5, 6]))
    numpy.testing.assert_array_equal(by_offset.detach().numpy(), by_length.detach().numpy())
    weights = smolder.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]], dtype=smolder.float64)
    (got,) = smolder.autograd.grad((by_length * weights)[[0, 2, 3]].sum(), x)
    row = [0, 0, 2, 2, 2, 3]
    slope = {
        "sum": lambda i, j: 1.0,
        "mean": lambda i, j: 1.0 / LENGTHS[row[i]],
        "prod": lambda i, j: expected[row[i], j] / DATA[i, j],
    }.get(reduce, lambda i, j: float(DATA[i, j] == expected[row[i], j]))
    wanted = [[slope(i, j) * weights.tolist()[row[i]][j] for j in range(2)] for i in range(6)]
    numpy.testing.assert_allclose(got.numpy(), wanted, rtol=1e-13, atol=0)


def test_another_axis_initial_values_and_ties():
    x = smolder.arange(24.0).reshape(2, 4, 3)
    found = smolder.segment_reduce(x, "mean", lengths=smolder.tensor([[1, 3], [2, 2]]), axis=1)
    assert found.tolist() == [[[0, 1, 2], [6, 7, 8]], [[13.5, 14.5, 15.5], [19.5, 20.5, 21.5]]]
    y = smolder.tensor([1.0, 3.0, 3.0], requires_grad=True)
    lengths = smolder.tensor([3, 0])
    assert smolder.segment_reduce(y, "mean", lengths=lengths, initial=2.0).tolist() == [3.0, 2.0]
    most = smolder.segment_reduce(y, "max", lengths=lengths, initial=2.0)
    most.sum().backward()
    assert most.tolist() == [3.0, 2.0] and y.grad.tolist() == [0, 0.5, 0.5]


def test_what_is_no_segmentation():
    x = smolder.ones(4, 2)
    for error, text, given in (
        (RuntimeError, "Either lengths or offsets", {}),
        (RuntimeError, "indices based reduction is not supported", {"indices": smolder.tensor([0])}),
        (RuntimeError, "Expected all rows of lengths", {"lengths": smolder.tensor([1, 2])}),
        (RuntimeError, "negative value", {"lengths": smolder.tensor([-1, 5])}),
        (RuntimeError, "last dimension of lengths", {"lengths": smolder.tensor([[2, 2]])}),
        (IndexError, "Dimension out of range", {"lengths": smolder.tensor([4]), "axis": 2}),
    ):
        with pytest.raises(error, match=text):
            smolder.segment_reduce(x, "sum", **given)
    with pytest.raises(RuntimeError, match="either sum, prod, mean, amax or amin, got median"):
        smolder.segment_reduce(x, "median", lengths=smolder.tensor([4]))
    with pytest.raises(NotImplementedError, match="segment_reduce"):
        smolder.segment_reduce(x.long(), "sum", lengths=smolder.tensor([4]))
