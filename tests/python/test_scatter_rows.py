"""Writes and reads at an index of rows that is given as one of elements: `index[:, None].expand_as(x)`, as message passing
says it. They are the sums of an index of elements, bit for bit, in steps and op by op, and are planned as sums of rows."""

from contextlib import nullcontext

import numpy as np
import pytest
from conftest import assert_same_bits

import smolder

RNG = np.random.default_rng(7)

# How programs make an index of elements out of one of rows, all along axis 0 of a matrix.
SPREADS = {
    "expand_as": lambda i, n: i[:, None].expand_as(smolder.zeros(len(i), n)),
    "expand": lambda i, n: i.unsqueeze(-1).expand(-1, n),
    "view and expand": lambda i, n: i.view(-1, 1).expand(i.size(0), n),
    "repeat": lambda i, n: i.view(-1, 1).repeat(1, n),
    "transposed": lambda i, n: i.expand(n, i.size(0)).t(),
    "broadcast_to": lambda i, n: smolder.broadcast_to(i[:, None], (i.size(0), n)),
    "cast after": lambda i, n: i[:, None].expand(-1, n).int(),
    "a part": lambda i, n: i[:, None].expand(-1, n + 3)[:, 2 : n + 2],
}


def elements(i, n):
    """The same numbers, of which no step knows that they repeat."""
    return smolder.tensor(np.repeat(i.numpy()[:, None], n, 1))


def sums(x, index, source):
    """Added up one after the other, in the dtype."""
    out = x.copy()
    for row, place in enumerate(index):
        out[place] += source[row]
    return out


def in_both(function):
    """The results of a step, and of ops one by one."""
    ours = function()
    ours = [t.numpy().copy() for t in (ours if isinstance(ours, tuple) else (ours,))]
    with smolder.eager():
        one_by_one = function()
    one_by_one = one_by_one if isinstance(one_by_one, tuple) else (one_by_one,)
    for a, b in zip(ours, one_by_one, strict=True):
        assert_same_bits(a, b.numpy())
    return ours


def used(function):
    """The primitives that a step ran as library calls."""
    smolder.mark_step()
    calls = [k for g in smolder.explain(function)().graphs for k in g.kernels if k.kind == "library"]
    return [call.ops[-1].primitives[-1] for call in calls]


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("rows, places, width", [(7, 4, 5), (300, 9, 2), (64, 64, 16), (1, 3, 4), (5, 1, 3)])
def test_sums_of_rows_whatever_spreads_the_index(spread, rows, places, width):
    i = RNG.integers(0, places, rows)
    x, source = (RNG.standard_normal((n, width)).astype(np.float32) for n in (places, rows))
    tx, ts, ti = map(smolder.tensor, (x, source, i))
    want = sums(x, i, source)
    (got,) = in_both(lambda: tx.scatter_add(0, SPREADS[spread](ti, width), ts))
    assert_same_bits(got, want)
    assert_same_bits(tx.scatter_add(0, elements(ti, width), ts).numpy(), want)
    (taken,) = in_both(lambda: tx.gather(0, SPREADS[spread](ti, width)))
    assert_same_bits(taken, x[i])
    (put,) = in_both(lambda: tx.scatter(0, SPREADS[spread](ti, width), ts))
    last = x.copy()
    last[i] = source  # NumPy's last stays, too
    assert_same_bits(put, last)


@pytest.mark.parametrize("spread", [s for s in SPREADS if s != "cast after"])
def test_they_are_planned_as_rows(spread):
    x, source, i = smolder.rand(9, 4), smolder.rand(30, 4), smolder.tensor(RNG.integers(0, 9, 30))
    assert used(lambda: (x + 1).scatter_add(0, SPREADS[spread](i, 4), source * 2)) == ["index_add"]
    assert used(lambda: (x + 1).scatter(0, SPREADS[spread](i, 4), source * 2)) == ["index_set"]
    assert used(lambda: (x + 1).scatter_add(0, elements(i, 4), source * 2)) == ["scatter_add"]


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_any_axis_and_more_dimensions(axis):
    shape, count = [3, 4, 5], 11
    x = RNG.standard_normal(shape).astype(np.float32)
    source_shape = list(shape)
    source_shape[axis] = count
    source = RNG.standard_normal(source_shape).astype(np.float32)
    i = RNG.integers(0, shape[axis], count)
    along = [1, 1, 1]
    along[axis] = count
    tx, ts, ti = map(smolder.tensor, (x, source, i))
    (got,) = in_both(lambda: tx.scatter_add(axis, ti.view(along).expand(source_shape), ts))
    want = np.moveaxis(sums(np.moveaxis(x, axis, 0), i, np.moveaxis(source, axis, 0)), 0, axis)
    assert_same_bits(got, want)
    (taken,) = in_both(lambda: tx.gather(axis, ti.view(along).expand(source_shape)))
    assert_same_bits(taken, np.take(x, i, axis))


@pytest.mark.parametrize("reach", [(6, 3), (6, 2), (4, 3), (4, 1)])
def test_an_index_that_reaches_less(reach):
    """The source has fewer rows, the result fewer columns: a part of each is left."""
    x, source = RNG.standard_normal((5, 3)).astype(np.float32), RNG.standard_normal((6, 3)).astype(np.float32)
    i = RNG.integers(0, 5, reach[0])
    tx, ts, ti = map(smolder.tensor, (x, source, i))
    want = x.copy()
    want[:, : reach[1]] = sums(x[:, : reach[1]], i, source[: reach[0], : reach[1]])
    (got,) = in_both(lambda: tx.scatter_add(0, ti[:, None].expand(*reach), ts))
    assert_same_bits(got, want)
    (put,) = in_both(lambda: tx.scatter(0, ti[:, None].expand(*reach), ts))
    last = x.copy()
    last[:, : reach[1]][i] = source[: reach[0], : reach[1]]
    assert_same_bits(put, last)


@pytest.mark.parametrize("shape", [(0, 3), (4, 0)])
def test_an_index_of_no_elements(shape):
    x, i = smolder.rand(5, 3), smolder.full((shape[0],), 99)  # nobody looks at it
    (got,) = in_both(lambda: x.scatter_add(0, i[:, None].expand(*shape), smolder.rand(4, 3)))
    assert_same_bits(got, x.numpy())


@pytest.mark.parametrize("bad", [-1, 5, 2**40])
@pytest.mark.parametrize("op", ["scatter_add", "scatter", "gather"])
def test_an_index_out_of_range(op, bad):
    x, i = smolder.rand(5, 3), smolder.tensor([0, bad, 2])

    def run():
        at = i[:, None].expand(3, 3)
        return x.gather(0, at) if op == "gather" else getattr(x, op)(0, at, smolder.ones(3, 3))

    with pytest.raises(RuntimeError, match="out of"):
        run().tolist()
    with smolder.eager(), pytest.raises(RuntimeError, match="out of"):
        run().tolist()


def test_nothing_is_written_in_place_where_an_index_is_out_of_range():
    x = smolder.zeros(5, 3)
    x.add_(1)
    smolder.mark_step()
    with pytest.raises(RuntimeError, match="out of"):
        x.scatter_add_(0, smolder.tensor([0, 7])[:, None].expand(2, 3), smolder.ones(2, 3))
        x.tolist()
    assert x.tolist() == [[1.0] * 3] * 5


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float64"]
)
def test_every_dtype(dtype):
    dtype = getattr(smolder, dtype)
    i, width = RNG.integers(0, 6, 400), 3
    x, source = (smolder.tensor(RNG.integers(0, 90, (n, width))).to(dtype) for n in (6, 400))
    ti = smolder.tensor(i)
    (rows,) = in_both(lambda: x.scatter_add(0, ti[:, None].expand(-1, width), source).double())
    assert_same_bits(rows, x.scatter_add(0, elements(ti, width), source).double().numpy())
    if not dtype.is_floating_point and dtype != smolder.bool:
        exact = sums(x.long().numpy().copy(), i, source.long().numpy())
        assert_same_bits(rows, smolder.tensor(exact).to(dtype).double().numpy())


def test_gradients_are_those_of_an_index_of_elements():
    i, width = smolder.tensor(RNG.integers(0, 8, 50)), 6
    h, w = smolder.rand(8, width), smolder.rand(50, width)

    def gradients(at):
        x, y = h.clone().requires_grad_(), w.clone().requires_grad_()
        messages = x.gather(0, at) * y
        out = smolder.zeros(8, width).scatter_add(0, at, messages.sin())
        return smolder.autograd.grad((out * out).sum(), (x, y))

    rows = in_both(lambda: gradients(i[:, None].expand(-1, width)))
    for a, b in zip(rows, gradients(elements(i, width)), strict=True):
        assert_same_bits(a, b.numpy())
    # By hand, in float64.
    x, y, at = h.double().numpy(), w.double().numpy(), i.numpy()
    out = sums(np.zeros((8, width)), at, np.sin(x[at] * y))
    inner = 2 * out[at] * np.cos(x[at] * y)
    np.testing.assert_allclose(rows[0], sums(np.zeros((8, width)), at, inner * y), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rows[1], inner * x[at], rtol=1e-4, atol=1e-5)


def test_sizes_change_and_stay_right():
    for rows, places, width in [(20, 6, 4), (30, 6, 4), (30, 9, 7), (9, 9, 9), (30, 9, 1), (1, 1, 5)]:
        i = RNG.integers(0, places, rows)
        source = RNG.standard_normal((rows, width)).astype(np.float32)
        at = smolder.tensor(i)[:, None].expand(-1, width)
        got = smolder.zeros(places, width).scatter_add(0, at, smolder.tensor(source))
        assert_same_bits(got.numpy(), sums(np.zeros((places, width), np.float32), i, source))


# -- counts


@pytest.mark.parametrize("places", [1, 3, 256, 700, 5000])
@pytest.mark.parametrize("count", [0, 1, 5, 4097, 300_000])
@pytest.mark.parametrize("kind", ["spread", "one place"])
def test_counts(places, count, kind):
    numbers = RNG.integers(0, places, count) if kind == "spread" else np.full(count, places - 1)
    want = np.bincount(numbers, minlength=places)
    t = smolder.tensor(numbers)
    (got,) = in_both(lambda: smolder.bincount(t, minlength=places))
    assert_same_bits(got, want)
    threads = smolder.get_num_threads()
    try:
        smolder.set_num_threads(5)
        assert_same_bits(smolder.bincount(t, minlength=places).numpy(), want)
    finally:
        smolder.set_num_threads(threads)


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_whole_numbers_are_added_modulo_their_size(dtype):
    """In tables of their own or not, and from more than zeros."""
    numbers = np.iinfo(dtype)
    i = RNG.integers(0, 7, 5000).astype(dtype)
    x, source = (RNG.integers(numbers.min, numbers.max, n, dtype=dtype) for n in (7, 5000))
    want = x.copy()
    with np.errstate(over="ignore"):
        np.add.at(want, i, source)
    ti, tx, ts = map(smolder.tensor, (i, x, source))
    for at in (ti, ti.flip(0).flip(0)):
        (got,) = in_both(lambda at=at: tx.index_add(0, at, ts))
        assert_same_bits(got, want)
        (got,) = in_both(lambda at=at: tx.scatter_add(0, at.long(), ts))
        assert_same_bits(got, want)


def test_weights_are_added_in_order():
    i, w = RNG.integers(0, 5, 3000), RNG.standard_normal(3000).astype(np.float32)
    (got,) = in_both(lambda: smolder.bincount(smolder.tensor(i), smolder.tensor(w)))
    assert_same_bits(got, sums(np.zeros(5, np.float32), i, w))


def test_one_number_at_many_places():
    i = RNG.integers(0, 5, 3000)
    for value in (1.0, 0.1, float("nan")):
        (got,) = in_both(lambda v=value: smolder.zeros(5).index_add(0, smolder.tensor(i), smolder.full((3000,), v)))
        assert_same_bits(got, sums(np.zeros(5, np.float32), i, np.full(3000, value, np.float32)))
    (put,) = in_both(lambda: smolder.zeros(6, 4).scatter(1, smolder.tensor(i[:6]).clamp(max=3)[:, None], 2.5))
    want = np.zeros((6, 4), np.float32)
    want[np.arange(6), np.minimum(i[:6], 3)] = 2.5
    assert_same_bits(put, want)
    rows = smolder.tensor(i[:9])
    (filled,) = in_both(lambda: smolder.zeros(5, 4).index_fill(0, rows, 3.0))
    assert_same_bits(
        filled, np.where(np.isin(np.arange(5), i[:9])[:, None], np.float32(3), np.zeros((5, 4), np.float32))
    )


def test_counting_makes_no_ones():
    """Counting reads the numbers, and does not write as many ones."""
    t = smolder.tensor(RNG.integers(0, 256, 100_000))
    smolder.mark_step()
    graphs = smolder.explain(lambda: smolder.bincount(t))().graphs
    assert max(g.arena_bytes for g in graphs) < 50_000
    graphs = smolder.explain(lambda: smolder.zeros(256, 9).scatter(0, t[:, None].expand(-1, 9), 1.0))().graphs
    assert max(g.arena_bytes for g in graphs) < 50_000


@pytest.mark.parametrize("bins, low, high", [(10, -2, 2), (100, 0, 0), (1, -1, 1), (7, 1, 1)])
def test_histograms(bins, low, high):
    x = RNG.standard_normal(20_000).astype(np.float32)
    ends = (low, high) if low != high else (x.min(), x.max()) if low == 0 else (low, high)
    if low == high == 1:
        x = np.ones(50, np.float32)
        ends = (0, 2)
    (got,) = in_both(lambda: smolder.histc(smolder.tensor(x), bins, *((low, high) if low != high else (0, 0))))
    want = np.histogram(x.astype(np.float64), bins, ends)[0]
    assert got.dtype == np.float32 and got.sum() == want.sum()
    assert np.abs(got - want).max() <= 2  # float32 puts what lies at an edge beside it


@pytest.mark.parametrize("odd", [float("nan"), float("inf"), -float("inf")])
def test_a_histogram_of_what_has_no_range(odd):
    x = smolder.tensor([1.0, odd, 2.0])
    for eager in (False, True):
        with smolder.eager() if eager else nullcontext(), pytest.raises(RuntimeError, match="is not finite"):
            smolder.histc(x, 3).tolist()
    assert smolder.histc(x, 3, 0, 3).tolist() == [0, 1, 1]  # which needs no range of the data
    counted = smolder.vmap(lambda row: smolder.histc(row, 2))(smolder.tensor([[0.0, 1.0], [5.0, 9.0]]))
    assert counted.tolist() == [[1, 1], [1, 1]]  # the check reads nothing
