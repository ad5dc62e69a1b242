"""vmap of every row of the op table: a batch gives what its elements give one by one, with gradients, at the row's cases."""

import numpy as np
import pytest
from op_rows import DRAWN, ERRORS, WITH_TENSORS, arguments, call, ids, make, own_cases, rng_of

import smolder
from smolder import func

SIZE = 3
# Ops that read values to know their shapes, on which elements of a batch do not agree.
READS = {
    "argwhere", "bincount", "masked_select", "nonzero", "repeat_interleave.tensor",
    "repeat_interleave.repeats", "unique_of", "unique_rows", "where.condition",
}  # fmt: skip
# Rows that are looped over, and why.
LOOPS = {}
INTEGERS = {"checked_divisor", "bitwise_not", "bitwise_and", "bitwise_or", "bitwise_xor", "shl", "shr"}
CHECKED = [r for r in WITH_TENSORS if r["key"] not in DRAWN | READS]


class Batched:
    """A row's case with SIZE draws of its operands."""

    def __init__(self, row, case):
        dtype = "int64" if row["key"] in INTEGERS else "float32"
        draws = [arguments({**row, "key": f"{row['key']} of element {i}"}, case, dtype) for i in range(SIZE)]
        self.row, self.words = row, draws[0][1]
        self.writes = not (row["function"] or row["method"])
        self.names = list(draws[0][0])
        self.parts, self.dtypes, self.form = [], [], []
        for name in self.names:
            values = [d[0][name] for d in draws]
            listed = isinstance(values[0], list)
            self.form.append(len(values[0]) if listed else None)
            for k in range(len(values[0]) if listed else 1):
                drawn = [v[k] if listed else v for v in values]
                self.parts.append([np.asarray(a) for a, _ in drawn])
                self.dtypes.append(drawn[0][1])

    def __call__(self, *flat):
        flat, tensors = list(flat), {}
        for name, n in zip(self.names, self.form, strict=True):
            tensors[name] = flat.pop(0) if n is None else [flat.pop(0) for _ in range(n)]
        if self.writes:
            tensors[self.names[0]] = tensors[self.names[0]].clone()
        out = call(self.row, tensors, self.words)
        return tuple(out) if isinstance(out, tuple | list) else (out,)

    def single(self, i, batched):
        """Operands of element i, those of element 0 where they are the same for all."""
        return [make(p[i if b else 0], d) for p, d, b in zip(self.parts, self.dtypes, batched, strict=True)]

    def stacked(self, dims):
        out = []
        for p, d, dim in zip(self.parts, self.dtypes, dims, strict=True):
            out.append(make(p[0], d) if dim is None else make(np.stack(p, p[0].ndim + 1 + dim if dim < 0 else dim), d))
        return out

    def floats(self):
        return [i for i, d in enumerate(self.dtypes) if d.startswith("float")]


def placements(f):
    """Where operands have the batch: all first, all last, and each alone; what is written has one."""
    n = len(f.parts)
    yield (0,) * n
    yield (-1,) * n
    if n > 1:
        for i in range(1 if f.writes else n):
            yield tuple(0 if k == i else None for k in range(n))


def equal(a, b, where):
    assert a.dtype == b.dtype and a.shape == b.shape, where
    np.testing.assert_array_equal(a, b, err_msg=str(where))


def near(a, b, where):
    assert a.dtype == b.dtype and a.shape == b.shape, where
    a, b = a.astype(np.float64), b.astype(np.float64)
    scale = np.abs(b[np.isfinite(b)]).max(initial=1)
    np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5 * scale, err_msg=str(where))


def expected(f, dims):
    """Results of elements one by one, stacked; or that one of them is refused."""
    rows = []
    for i in range(SIZE):
        rows.append([t._to_numpy() for t in f(*f.single(i, [d is not None for d in dims]))])
    return [np.stack(column) for column in zip(*rows, strict=True)]


def loops():
    return dict(smolder.metrics()["counters"]).get("vmap.loops", 0)


@pytest.mark.parametrize("row", CHECKED, ids=ids(CHECKED))
def test_a_batch_is_its_elements(row):
    before, compared = loops(), 0
    with smolder.eager():
        for case in own_cases(row):
            f = Batched(row, case)
            for dims in placements(f):
                try:
                    wanted = expected(f, dims)
                except ERRORS:
                    continue
                found = func.vmap(f, dims)(*f.stacked(dims))
                compared += 1
                for k, w in enumerate(wanted):
                    equal(found[k]._to_numpy(), w, (row["key"], case.label, dims, k))
    assert compared
    assert (loops() > before) == (row["key"] in LOOPS)


def weighted(f, outs):
    total = smolder.zeros(())
    for i, out in enumerate(outs):
        if out.dtype == smolder.float32:
            weights = rng_of("weights", f.row["key"], i).normal(size=tuple(out.shape))
            total = total + (out * make(weights, "float32")).sum()
    return total


@pytest.mark.parametrize("row", CHECKED, ids=ids(CHECKED))
def test_gradients_of_a_batch_are_those_of_its_elements(row):
    with smolder.eager():
        for case in own_cases(row)[:2]:
            f = Batched(row, case)
            at = tuple(f.floats())
            if not at:
                continue
            for dims in list(placements(f))[:3]:
                one = func.grad(lambda *x, f=f: weighted(f, f(*x)), at)
                try:
                    rows = [one(*f.single(i, [d is not None for d in dims])) for i in range(SIZE)]
                    rows = [[g._to_numpy() for g in gs] for gs in rows]
                except ERRORS:
                    continue
                inside = func.vmap(one, dims)(*f.stacked(dims))

                def summed(*x, f=f, dims=dims):
                    return func.vmap(lambda *y: weighted(f, f(*y)), dims)(*x).sum()

                outside = func.grad(summed, at)(*f.stacked(dims))
                for k, i in enumerate(at):
                    wanted = np.stack([r[k] for r in rows])
                    near(inside[k]._to_numpy(), wanted, ("inside", row["key"], case.label, dims, k))
                    got, dim = outside[k]._to_numpy(), dims[i]
                    got = got if dim is None else np.moveaxis(got, dim, 0)
                    near(got, wanted.sum(0) if dim is None else wanted, ("outside", row["key"], case.label, dims, k))


@pytest.mark.parametrize("row", CHECKED, ids=ids(CHECKED))
def test_nested_batches(row):
    with smolder.eager():
        case = own_cases(row)[0]
        f = Batched(row, case)
        n = len(f.parts)
        stack = f.stacked((0,) * n)
        outer = [smolder.stack([x, x.flip(0)], 0) for x in stack]
        try:
            rows = [[t._to_numpy() for t in f(*f.single(i, [True] * n))] for i in range(SIZE)]
        except ERRORS:
            return
        found = func.vmap(func.vmap(f))(*outer)
        for k, x in enumerate(found):
            wanted = np.stack([r[k] for r in rows])
            equal(x._to_numpy(), np.stack([wanted, wanted[::-1]]), (row["key"], k))
