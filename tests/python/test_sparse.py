"""Sparse tensors: against dense float64 NumPy over generated tensors, against what torch said of a sweep and of programs."""

import copy
import io
import itertools
import json
import math
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import sparse_programs
import torch_peer
from conftest import DEVICE, of_the_cpu
from peer_sweep import sweep
from test_sweeps import differs

import smolder
from smolder.nn import functional as F

SHAPES = [
    ((3, 4), 0),
    ((1, 1), 0),
    ((0, 4), 0),
    ((3, 0), 0),
    ((5,), 0),
    ((2, 3, 2), 0),
    ((3, 4, 2), 1),
    ((4, 2), 1),
    ((3, 0), 1),
]
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"]
BOUND = {"float64": 1e-12, "float32": 1e-5, "complex64": 1e-5, "float16": 1e-2, "bfloat16": 6e-2}


def random_coo(rng, shape, dense=0, count=5, dtype="float64", special=False):
    """A COO tensor with places that repeat, and the array that it is."""
    sizes, tail = shape[: len(shape) - dense], shape[len(shape) - dense :]
    count = count if math.prod(sizes) else 0
    places = np.stack([rng.integers(0, max(n, 1), count) for n in sizes]) if sizes else np.zeros((0, count), "int64")
    values = rng.integers(-4, 5, (count, *tail)).astype("float64")
    if special and count:
        values[rng.integers(0, count)] = rng.choice([np.nan, np.inf, -np.inf])
    if dtype in ("uint8", "bool"):
        values = np.abs(values)
    if dtype == "bool":
        values = (values > 0).astype("float64")
    kind = getattr(smolder, dtype)
    s = smolder.sparse_coo_tensor(
        smolder.tensor(places.astype("int64")).reshape(len(sizes), count), smolder.tensor(values).to(kind), shape
    )
    array = np.zeros(shape)
    with np.errstate(invalid="ignore"):
        np.add.at(array, tuple(places), values)
    return s, (array > 0).astype("float64") if dtype == "bool" else array


def array_of(x):
    """The elements as float64, or complex."""
    x = x.to_dense()
    return x.numpy() if x.dtype.is_complex else x.detach().to(smolder.float64).numpy()


def same(x, expected, dtype="float64"):
    np.testing.assert_allclose(array_of(x), expected, rtol=BOUND.get(dtype, 0), atol=BOUND.get(dtype, 0))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "dense"), SHAPES)
def test_layouts_hold_the_same_elements(shape, dense, dtype):
    rng = np.random.default_rng(len(shape) + dense)
    for count in (0, 6):
        s, array = random_coo(rng, shape, dense, count, dtype)
        same(s, array)
        c = s.coalesce()
        assert c.is_coalesced() and c.coalesce() is c
        same(c, array)
        places = c.indices().numpy()
        assert len({tuple(p) for p in places.T}) == places.shape[1]
        assert sorted(map(tuple, places.T)) == list(map(tuple, places.T))
        again = c.to_dense().to_sparse(len(shape) - dense)
        same(again, array)
        assert (s.sparse_dim(), s.dense_dim(), tuple(s.shape)) == (len(shape) - dense, dense, shape)
        if len(shape) - dense == 2:
            for turned in (s.to_sparse_csr(), s.to_sparse_csc()):
                same(turned, array)
                same(turned.to_sparse(), array)
                same(turned.to_sparse_csr().to_sparse_csc(), array)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "complex64"])
@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_products(layout, dtype):
    rng = np.random.default_rng(0)
    kind = getattr(smolder, dtype)
    for rows, middle, columns, count in itertools.product((0, 1, 5), (0, 1, 4), (0, 3), (0, 7)):
        s, array = random_coo(rng, (rows, middle), 0, count, dtype)
        s = getattr(s, f"to_sparse_{layout}")()
        right, left = (rng.integers(-3, 4, size).astype("float64") for size in ((middle, columns), (columns, rows)))
        x, y = smolder.tensor(right).to(kind), smolder.tensor(left).to(kind)
        same(s @ x, array @ right, dtype)
        same(smolder.sparse.mm(s, x), array @ right, dtype)
        same(y @ s, left @ array, dtype)
        same(smolder.mm(y, s), left @ array, dtype)
        start = np.ones((rows, columns))
        same(smolder.addmm(smolder.tensor(start).to(kind), s, x, beta=2, alpha=3), 2 * start + 3 * array @ right, dtype)
        if columns:
            same(s.mv(x[:, 0]), array @ right[:, 0], dtype)
            same(s @ x[:, 0], array @ right[:, 0], dtype)


def test_products_of_two_sparse_matrices():
    rng = np.random.default_rng(1)
    for n, m, k, count in itertools.product((0, 1, 5), (0, 1, 4), (0, 6), (0, 9)):
        (a, left), (b, right) = random_coo(rng, (n, m), 0, count), random_coo(rng, (m, k), 0, count)
        out = smolder.sparse.mm(a, b)
        assert out.layout is smolder.sparse_coo and out.is_coalesced()
        same(out, left @ right)
        out = a.to_sparse_csr() @ b.to_sparse_csr()
        assert out.layout is smolder.sparse_csr
        same(out, left @ right)


def test_bmm():
    rng = np.random.default_rng(2)
    for batch, n, m in ((2, 3, 4), (0, 3, 4), (2, 0, 4), (1, 3, 1)):
        s, array = random_coo(rng, (batch, n, m), 0, 8)
        x = rng.standard_normal((batch, m, 2))
        same(smolder.bmm(s, smolder.tensor(x)), array @ x)


@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize(("shape", "dense"), SHAPES)
def test_elements(shape, dense, special):
    rng = np.random.default_rng(3)
    for count in (0, 1, 6):
        a, x = random_coo(rng, shape, dense, count, special=special)
        b, y = random_coo(rng, shape, dense, count)
        strided = rng.standard_normal(shape)
        with np.errstate(invalid="ignore"):
            same(a + b, x + y)
            same(a - b, x - y)
            same(a.coalesce() + b.coalesce(), x + y)
            same(smolder.add(a, b, alpha=2), x + 2 * y)
            same(smolder.tensor(strided) + a, strided + x)
            same(smolder.tensor(strided) - a, strided - x)
            same(a * 2 / 4, x / 2)
            same(-a, -x)
            same(a.abs(), np.abs(x))
            same(a.sin(), np.sin(x))
            same(a.sum(), x.sum())
            if not special:  # 0 * inf is nan where there is no value
                same(a * b, x * y)
                same(a * smolder.tensor(strided), x * strided)
            for dim in range(len(shape)):
                same(smolder.sparse.sum(a, dim), x.sum(dim))
                same(a.sum(dim, keepdim=True), x.sum(dim, keepdims=True))


@pytest.mark.parametrize(("shape", "dense"), [s for s in SHAPES if math.prod(s[0])])
def test_movement(shape, dense):
    rng = np.random.default_rng(4)
    for count in (0, 6):
        s, array = random_coo(rng, shape, dense, count)
        for dim in range(len(shape)):
            for i in (-shape[dim], shape[dim] - 1):
                same(s.select(dim, i), np.take(array, i, dim))
            index = rng.integers(0, shape[dim], 5)
            same(s.index_select(dim, smolder.tensor(index)), np.take(array, index, dim))
            same(s.narrow_copy(dim, 0, shape[dim] - 1), np.take(array, range(shape[dim] - 1), dim))
            same(smolder.cat([s, s, s], dim), np.concatenate([array] * 3, dim))
            same(s.unsqueeze(dim), np.expand_dims(array, dim))
        same(smolder.stack([s, s]), np.stack([array, array]))
        same(s[0], array[0])
        same(
            smolder.tensor(array + 1).sparse_mask(s.coalesce()),
            (array + 1) * (array_of(s.coalesce() * 0 + ones_at(s)) > 0),
        )
        if len(shape) - dense == 2:
            same(s.transpose(0, 1), array.swapaxes(0, 1))
            same(s.to_sparse_csr().transpose(0, 1), array.swapaxes(0, 1))


def ones_at(s):
    """1 wherever a tensor has a value."""
    c = s.coalesce()
    return smolder.sparse_coo_tensor(c.indices(), smolder.ones_like(c.values()), c.shape, is_coalesced=True)


@pytest.mark.parametrize("dim", [0, 1])
def test_softmax(dim):
    rng = np.random.default_rng(5)
    for count in (0, 1, 9):
        s, array = random_coo(rng, (4, 5), 0, count)
        there = array_of(ones_at(s)) > 0
        with np.errstate(invalid="ignore", divide="ignore"):
            powers = np.where(there, np.exp(array), 0)
            share = powers / np.maximum(powers.sum(dim, keepdims=True), 1e-300)
            logs = np.where(there, np.log(share), 0)
        same(smolder.sparse.softmax(s, dim), share)
        same(smolder.sparse.log_softmax(s, dim), logs)


def test_softmax_of_few_values_in_a_large_tensor():
    s = smolder.sparse_coo_tensor([[5, 5, 900000], [0, 700000, 3]], [1.0, 1.0, 2.0], (1000000, 1000000))
    np.testing.assert_allclose(smolder.sparse.softmax(s, 1).values().numpy(), [0.5, 0.5, 1.0])


# -- gradients, against finite differences


def gradient_of(function, values):
    """d function / d values by central differences."""
    out = np.zeros_like(values)
    for i in np.ndindex(*values.shape):
        ends = []
        for sign in (1, -1):
            moved = values.copy()
            moved[i] += sign * 1e-6
            ends.append(function(smolder.tensor(moved)).item())
        out[i] = (ends[0] - ends[1]) / 2e-6
    return out


PLACES = [[0, 2, 1, 2, 0], [1, 3, 0, 3, 2]]
RIGHT = smolder.tensor(np.random.default_rng(6).standard_normal((4, 2)))
WEIGHT = smolder.tensor(np.random.default_rng(7).standard_normal((3, 4)))
OPS = {
    "mm": lambda s: (s @ RIGHT).square().sum(),
    "left": lambda s: (RIGHT[:3].t() @ s).square().sum(),
    "csr": lambda s: (s.to_sparse_csr() @ RIGHT).square().sum(),
    "csc": lambda s: (s.to_sparse_csc() @ RIGHT).square().sum(),
    "mv": lambda s: s.mv(RIGHT[:, 0]).square().sum(),
    "addmm": lambda s: smolder.sparse.addmm(RIGHT[:3], s, RIGHT, alpha=2).square().sum(),
    "dense": lambda s: (s.to_dense() * WEIGHT).square().sum(),
    "coalesce": lambda s: s.coalesce().values().square().sum(),
    "sum": lambda s: smolder.sparse.sum(s * 3) ** 2,
    "sum 0": lambda s: (smolder.sparse.sum(s, 0).to_dense() * WEIGHT[0]).square().sum(),
    "sum 1": lambda s: (smolder.sparse.sum(s, 1).to_dense() * WEIGHT[:, 0]).square().sum(),
    "softmax": lambda s: (smolder.sparse.softmax(s, 1).to_dense() * WEIGHT).sum(),
    "log_softmax": lambda s: (smolder.sparse.log_softmax(s, 0).to_dense() * WEIGHT).sum(),
    "tanh": lambda s: (s.tanh().to_dense() * WEIGHT).sum(),
    "t": lambda s: (s.t().to_dense() * WEIGHT.t()).square().sum(),
    "sum of two": lambda s: ((s + s * 2).to_dense() * WEIGHT).square().sum(),
    "to a strided": lambda s: (WEIGHT + s).square().sum(),
    "product": lambda s: ((s * s).to_dense() * WEIGHT).sum(),
    "with a strided": lambda s: (s * WEIGHT).to_dense().square().sum(),
    "of two": lambda s: smolder.sparse.mm(s, s.t()).to_dense().square().sum(),
    "select": lambda s: s.select(0, 2).to_dense().square().sum(),
    "index_select": lambda s: s.index_select(1, smolder.tensor([3, 0, 3])).to_dense().square().sum(),
    "cat": lambda s: (smolder.cat([s, s], 1) @ smolder.cat([RIGHT, RIGHT * 2])).square().sum(),
    "sampled": lambda s: (
        smolder.sparse.sampled_addmm(s.coalesce().to_sparse_csr(), RIGHT[:3], RIGHT.t(), beta=0.5)
        .to_dense()
        .square()
        .sum()
    ),
    "mean of rows": lambda s: smolder.sparse.mm(s.to_sparse_csr(), RIGHT, "mean").square().sum(),
    "double": lambda s: (s.float().double() @ RIGHT).sum(),
    "div": lambda s: (s / 4).to_dense().square().sum(),
    "mask": lambda s: s.sparse_mask(smolder.eye(3, 4, dtype=smolder.float64).to_sparse()).to_dense().square().sum(),
}


@pytest.mark.parametrize("name", OPS)
def test_gradients_of_values(name):
    values = np.array([0.5, -1.25, 2.0, 0.75, -0.5])
    of_values = lambda v: OPS[name](smolder.sparse_coo_tensor(PLACES, v, (3, 4)))  # noqa: E731
    v = smolder.tensor(values).requires_grad_()
    of_values(v).backward()
    wanted = gradient_of(of_values, values) if name != "double" else None
    if wanted is not None:
        np.testing.assert_allclose(v.grad.numpy(), wanted, atol=1e-5)
    leaf = smolder.sparse_coo_tensor(PLACES, smolder.tensor(values), (3, 4), requires_grad=True)
    assert leaf.is_leaf and leaf.requires_grad
    OPS[name](leaf).backward()
    assert leaf.grad.layout is smolder.sparse_coo and leaf.grad.shape == leaf.shape
    np.testing.assert_array_equal(leaf.grad._values().numpy(), v.grad.numpy())
    np.testing.assert_array_equal(leaf.grad._indices().numpy(), PLACES)


@pytest.mark.parametrize("layout", ["coo", "csr", "csc"])
def test_gradients_of_the_strided_factor(layout):
    s, array = random_coo(np.random.default_rng(8), (3, 4), 0, 6)
    s = getattr(s, f"to_sparse_{layout}")()
    x = RIGHT.detach().clone().requires_grad_()
    (s @ x).square().sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * array.T @ (array @ RIGHT.numpy()))
    y = RIGHT[:3].t().detach().clone().requires_grad_()
    (y @ s).square().sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), 2 * (RIGHT[:3].t().numpy() @ array) @ array.T)


def test_second_gradients():
    v = smolder.tensor([0.5, -1.25, 2.0, 0.75, -0.5], dtype=smolder.float64).requires_grad_()
    loss = (smolder.sparse_coo_tensor(PLACES, v, (3, 4)) @ RIGHT).pow(3).sum()
    (first,) = smolder.autograd.grad(loss, v, create_graph=True)
    first.square().sum().backward()

    def norm(u):
        w = u.requires_grad_()
        out = (smolder.sparse_coo_tensor(PLACES, w, (3, 4)) @ RIGHT).pow(3).sum()
        return smolder.autograd.grad(out, w)[0].square().sum()

    np.testing.assert_allclose(v.grad.numpy(), gradient_of(norm, v.detach().numpy()), rtol=1e-5)


# -- sparse gradients of strided leaves


def looked_up(w, index, **options):
    return F.embedding(smolder.tensor(index), w, sparse=True, **options)


def test_embedding_gradients_are_sparse_and_add_up():
    rng = np.random.default_rng(9)
    start = rng.standard_normal((6, 3))
    for uses in itertools.product((True, False), repeat=3):
        w, other = (smolder.tensor(start).requires_grad_() for _ in range(2))
        for step, sparse in enumerate(uses):
            index = smolder.tensor([[1, 1], [step, 5]])
            for weight, flag in ((w, sparse), (other, False)):
                F.embedding(index, weight, sparse=flag).pow(3).sum().backward()
        assert w.grad.is_sparse == all(uses)
        np.testing.assert_allclose(array_of(w.grad), other.grad.numpy())


def test_embedding_in_one_graph_with_other_uses():
    for padding in (None, 1):
        grads = []
        for sparse in (True, False):
            w = smolder.tensor(np.arange(12.0).reshape(6, 2)).requires_grad_()
            index = smolder.tensor([1, 1, 4])
            twice = F.embedding(index, w, padding, sparse=sparse) * F.embedding(index, w, padding, sparse=sparse)
            (twice.sum() + (0 if padding else w.square().sum())).backward()
            assert w.grad.is_sparse == (sparse and padding is not None)
            grads.append(array_of(w.grad))
        np.testing.assert_allclose(*grads)


def test_a_weight_that_is_no_leaf_has_a_strided_gradient():
    w = smolder.ones(4, 2).requires_grad_()
    looked_up(w * 2, [1, 3]).sum().backward()
    assert not w.grad.is_sparse
    np.testing.assert_array_equal(w.grad.numpy(), [[0, 0], [2, 2], [0, 0], [2, 2]])


def test_the_gradient_is_one_object_that_may_be_written():
    w = smolder.ones(4, 2).requires_grad_()
    looked_up(w, [1, 3]).sum().backward()
    assert w.grad is w.grad and isinstance(w.grad, smolder.Tensor)
    w.grad.mul_(3)
    np.testing.assert_array_equal(w.grad.to_dense().numpy(), [[0, 0], [3, 3], [0, 0], [3, 3]])
    w.grad.zero_()
    assert w.grad._nnz() == 0
    w.grad = smolder.sparse_coo_tensor([[2]], smolder.ones(1, 2), (4, 2))
    looked_up(w, [0]).sum().backward()
    np.testing.assert_array_equal(w.grad.to_dense().numpy(), [[1, 1], [0, 0], [1, 1], [0, 0]])
    with pytest.raises(RuntimeError, match="size"):
        w.grad = smolder.sparse_coo_tensor([[2]], smolder.ones(1, 2), (5, 2))
    w.grad = None
    assert w.grad is None


def test_an_op_refuses_a_sparse_gradient():
    class Sparse(smolder.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, grad):
            return grad.to_sparse()

    x = smolder.ones(2, 2).requires_grad_()
    Sparse.apply(x).sum().backward()
    assert x.grad.is_sparse
    with pytest.raises(NotImplementedError, match="MulBackward0 is not supported with a sparse gradient"):
        Sparse.apply(x * 2).sum().backward()


def test_optimizers_change_the_rows_alone():
    """SparseAdam on whole tables is Adam on the rows that have a gradient each time."""
    start = np.random.default_rng(10).standard_normal((5, 2))
    for sparse, strided in (("SparseAdam", "Adam"), ("SGD", "SGD"), ("Adagrad", "Adagrad")):
        tables = [smolder.tensor(start).requires_grad_() for _ in range(2)]
        optimizers = [getattr(smolder.optim, n)([w], lr=0.1) for n, w in zip((sparse, strided), tables, strict=True)]
        for _ in range(5):
            for w, o, flag in zip(tables, optimizers, (True, False), strict=True):
                o.zero_grad()
                F.embedding(smolder.tensor([1, 4, 1]), w, sparse=flag).pow(2).sum().backward()
                o.step()
        np.testing.assert_allclose(tables[0].detach().numpy(), tables[1].detach().numpy(), rtol=1e-4)


def test_optimizer_state_is_saved():
    w = smolder.ones(4, 2).requires_grad_()
    optimizer = smolder.optim.SparseAdam([w], lr=0.1)
    looked_up(w, [1, 3]).pow(2).sum().backward()
    optimizer.step()
    state = copy.deepcopy(optimizer.state_dict())
    assert set(state["state"][0]) == {"step", "exp_avg", "exp_avg_sq"}
    other = w.detach().clone().requires_grad_()
    again = smolder.optim.SparseAdam([other], lr=0.5)
    again.load_state_dict(state)
    for o, table in ((optimizer, w), (again, other)):
        o.zero_grad()
        looked_up(table, [1, 1]).pow(2).sum().backward()
        o.step()
    np.testing.assert_array_equal(w.detach().numpy(), other.detach().numpy())


# -- tensors as objects


def kinds():
    s = smolder.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    return {"coo": s, "coalesced": s.coalesce(), "csr": s.to_sparse_csr(), "csc": s.to_sparse_csc()}


@pytest.mark.parametrize("kind", ["coo", "coalesced", "csr", "csc"])
def test_copies_and_files(kind):
    s = kinds()[kind]
    file = io.BytesIO()
    smolder.save({"a": s, "list": [s]}, file)
    file.seek(0)
    loaded = smolder.load(file)
    assert loaded["a"] is loaded["list"][0]
    for t in (copy.copy(s), copy.deepcopy(s), pickle.loads(pickle.dumps(s)), s.clone(), s.detach(), loaded["a"]):
        assert t is not s and t.layout is s.layout and t.shape == s.shape and repr(t) == repr(s)
        assert t.layout is not smolder.sparse_coo or t.is_coalesced() == s.is_coalesced()
    leaf = s.clone().requires_grad_()
    assert copy.deepcopy(leaf).requires_grad and pickle.loads(pickle.dumps(leaf)).requires_grad


def test_a_file_with_indices_out_of_bounds_is_refused():
    file = io.BytesIO()
    smolder.save(smolder.sparse_coo_tensor([[0], [7]], [1.0], (2, 3)), file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        smolder.load(file)


def test_buffers():
    module = smolder.nn.Module()
    module.register_buffer("a", smolder.eye(2).to_sparse())
    module.double()
    assert module.a.dtype == smolder.float64 and module.a.is_sparse
    module.load_state_dict({"a": 2 * smolder.eye(2).to_sparse()})
    np.testing.assert_array_equal(module.a.to_dense().numpy(), 2 * np.eye(2))
    with pytest.raises(NotImplementedError, match="sparse"):
        smolder.nn.Parameter(smolder.eye(2).to_sparse())


def test_values_share_memory():
    values = smolder.tensor([1.0, 2.0])
    s = smolder.sparse_coo_tensor([[0, 1]], values, (3,))
    values.mul_(2)
    np.testing.assert_array_equal(s.to_dense().numpy(), [2, 4, 0])
    s._values().add_(1)
    np.testing.assert_array_equal(s.to_dense().numpy(), [3, 5, 0])
    s.mul_(2)
    np.testing.assert_array_equal(values.numpy(), [6, 10])


# Names of functions that are of something else than tensors.
OTHER = (
    "set_",
    "get_",
    "is_",
    "save",
    "load",
    "typename",
    "explain",
    "seed",
    "manual_",
    "compile",
    "capture",
    "record",
)


@pytest.mark.parametrize("kind", ["coo", "csr"])
def test_no_function_takes_a_sparse_tensor_for_its_values(kind):
    """Every function and method either has a rule, with the shape that the strided tensor has there, or raises."""
    s = kinds()["coalesced" if kind == "coo" else kind]
    strided = s.to_dense()
    places = [(n, getattr(smolder, n)) for n in dir(smolder)] + [(f"F.{n}", getattr(F, n)) for n in dir(F)]
    places += [(f"linalg.{n}", getattr(smolder.linalg, n)) for n in dir(smolder.linalg)]
    seen = 0
    for name, function in places:
        if isinstance(function, type) or not callable(function) or name.rpartition(".")[2].startswith(OTHER):
            continue
        for more in ((), (1,), (s,), (strided.t(),)):
            wanted = tuple(strided if x is s else x for x in more)
            try:
                out = function(s, *more)
            except (
                NotImplementedError,
                RuntimeError,
                TypeError,
                ValueError,
                IndexError,
                AttributeError,
                AssertionError,
            ):
                continue
            if not isinstance(out, smolder.Tensor):
                continue
            seen += 1
            expected = function(strided, *wanted)
            assert tuple(out.shape) == tuple(expected.shape), str((name, more))
            if (
                expected.dtype.is_floating_point
                and "empty" not in name
                and "rand" not in name
                and "softmax" not in name
            ):
                np.testing.assert_allclose(array_of(out), array_of(expected), err_msg=str((name, more)))
    assert seen > 20


def test_operators_of_other_classes_ask():
    s = kinds()["coalesced"]
    p = smolder.nn.Parameter(smolder.ones(2, 3))
    np.testing.assert_array_equal((p + s).detach().numpy(), [[1, 1, 4], [5, 1, 6]])
    np.testing.assert_array_equal((p * s).to_dense().detach().numpy(), [[0, 0, 3], [4, 0, 5]])
    np.testing.assert_array_equal((smolder.nn.Parameter(smolder.ones(1, 2)) @ s).detach().numpy(), [[4, 0, 8]])
    with pytest.raises(NotImplementedError, match=r"'aten::lt'|'aten::gt'"):
        p < s  # noqa: B015
    x = smolder.ones(2, 3)
    before = x
    x += s
    assert x is before
    np.testing.assert_array_equal(x.numpy(), [[1, 1, 4], [5, 1, 6]])
    with pytest.raises(NotImplementedError):
        x **= s


def test_errors_name_the_op_and_the_layout():
    for kind, backend in (("coo", f"Sparse{DEVICE.upper()}"), ("csr", f"SparseCsr{DEVICE.upper()}")):
        s = kinds()[kind]
        with pytest.raises(NotImplementedError, match=f"'aten::exp' with arguments from the '{backend}' backend"):
            s.exp()
        with pytest.raises(NotImplementedError, match="aten::cumsum"):
            smolder.cumsum(s, 0)


def test_compiled_functions_see_other_indices():
    """A step is recorded of values and indices as they are: no other tensor's indices are taken for them."""

    @smolder.compile
    def product(s, x):
        return s @ x

    x = smolder.tensor([[1.0], [10.0], [100.0]])
    for places in ([0, 1], [1, 2], [2, 0], [0, 1]):
        s = smolder.sparse_coo_tensor([[0, 1], places], [1.0, 1.0], (2, 3))
        assert product(s, x).flatten().tolist() == x[smolder.tensor(places), 0].tolist()


def test_training_with_sparse_gradients_in_a_compiled_step():
    w = smolder.ones(6, 2).requires_grad_()
    optimizer = smolder.optim.SparseAdam([w], lr=0.1)

    @smolder.compile
    def step(index):
        optimizer.zero_grad()
        loss = F.embedding(index, w, sparse=True).square().sum()
        loss.backward()
        optimizer.step()
        return loss

    v = smolder.ones(6, 2).requires_grad_()
    plain = smolder.optim.SparseAdam([v], lr=0.1)
    for at in (0, 1, 2, 1):
        index = smolder.tensor([at, 5, at])
        loss = step(index)
        plain.zero_grad()
        other = F.embedding(index, v, sparse=True).square().sum()
        other.backward()
        plain.step()
        assert loss.item() == other.item()
    np.testing.assert_array_equal(w.detach().numpy(), v.detach().numpy())


def test_meta():
    s = smolder.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,)).to("meta")
    assert s.is_meta and tuple(s.shape) == (3,) and "device='meta'" in repr(s)


def test_nothing_is_imported_before_it_is_asked_for():
    code = "import sys, smolder; assert not any(m.startswith('smolder._sparse') for m in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


# -- what torch said


@of_the_cpu("what is printed names the device")
def test_printed_forms_and_mistakes_are_those_of_torch():
    """The golden file is written by `peer_sweep.py torch sweeps/sparse_printed.py`."""
    folder = Path(__file__).parents[1]
    ours = json.loads(json.dumps(sweep(smolder, folder / "python/sweeps/sparse_printed.py")))
    theirs = json.loads((folder / "golden/sparse.json").read_text())
    assert ours.keys() == theirs.keys()
    wrong = {case: text for case in ours if (text := differs(ours[case], theirs[case]))}
    assert not wrong, "\n".join(f"{case}: {text}" for case, text in wrong.items())


# -- programs


@pytest.mark.parametrize("name", sparse_programs.PROGRAMS)
def test_programs_give_what_torch_gave(name):
    golden = json.loads(sparse_programs.GOLDEN.read_text())[name]
    np.testing.assert_allclose(list(sparse_programs.PROGRAMS[name](smolder, 1)), golden, rtol=2e-4, atol=1e-9)


@torch_peer.needs_torch
def test_programs_beside_torch():
    program = "import json, sys; sys.path.insert(0, sys.argv[1]); import sparse_programs as p, torch\n"
    program += "print('\\n' + json.dumps({n: list(f(torch, 2)) for n, f in p.PROGRAMS.items()}))"
    run = subprocess.run(
        [torch_peer.PYTHON, "-W", "ignore", "-c", program, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    for name, theirs in json.loads(run.stdout.splitlines()[-1]).items():
        ours = list(sparse_programs.PROGRAMS[name](smolder, 2))
        np.testing.assert_allclose(ours, theirs, rtol=2e-4, atol=1e-9, err_msg=name)


def test_the_default_dtype_is_not_printed():
    here = (
        smolder.eye(2).to_sparse(),
        smolder.eye(2).double().to_sparse(),
        smolder.eye(2).to(smolder.complex128).to_sparse(),
    )
    assert [("dtype=" in repr(s)) for s in here] == [False, True, True]
    smolder.set_default_dtype(smolder.float64)
    try:
        assert [("dtype=" in repr(s)) for s in here] == [True, False, False]
    finally:
        smolder.set_default_dtype(smolder.float32)
