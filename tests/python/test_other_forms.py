"""Calls that torch takes in another form: Python's types as dtypes, and numbers before tensors."""

import warnings

import numpy as np
import pytest

import smolder as sm
from smolder import _other_forms, nn

DTYPES = {bool: sm.bool, int: sm.int64, float: sm.float64, complex: sm.complex128}
X = sm.tensor([1.0, 2.0, 3.0])
M = sm.tensor([[1.0, 2.0], [3.0, 5.0]])
V = sm.tensor([1.0, 2.0])
B = sm.stack([M, M + 1])


@pytest.mark.parametrize("kind", DTYPES)
@pytest.mark.parametrize(
    "make",
    [
        lambda d: sm.zeros(3, dtype=d),
        lambda d: sm.ones((2, 2), dtype=d),
        lambda d: sm.full((2,), 1, dtype=d),
        lambda d: sm.empty(2, dtype=d),
        lambda d: sm.eye(2, dtype=d),
        lambda d: sm.tensor([1, 0], dtype=d),
        lambda d: sm.as_tensor([1, 0], dtype=d),
        lambda d: sm.as_tensor(X, dtype=d),
        lambda d: sm.zeros_like(X, dtype=d),
        lambda d: X.new_zeros(3, dtype=d),
        lambda d: X.new_tensor([1, 0], dtype=d),
        lambda d: X.to(d),
        lambda d: X.to("cpu", d),
        lambda d: X.to(dtype=d),
    ],
)
def test_types_of_python_are_dtypes(make, kind):
    assert make(kind).dtype == DTYPES[kind]


def test_types_of_python_are_dtypes_of_ops_and_layers():
    assert X.sum(dtype=float).dtype == sm.softmax(X, 0, dtype=float).dtype == sm.float64
    assert X.cumsum(0, dtype=int).tolist() == [1, 3, 6]
    assert sm.arange(3, dtype=float).dtype == sm.randn(3, dtype=float).dtype == sm.linspace(0, 1, 2, dtype=float).dtype
    assert sm.randint(5, (2,), dtype=int).dtype == sm.int64
    assert nn.Linear(2, 2, dtype=float).weight.dtype == nn.Linear(2, 2).to(float).weight.dtype == sm.float64


@pytest.mark.parametrize("make", [lambda: sm.zeros(3, dtype=str), lambda: X.sum(dtype=list), lambda: X.type(int)])
def test_other_types_are_not(make):
    with pytest.raises(TypeError):
        make()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (lambda: X.add(0.5, X), lambda: X.add(X, alpha=0.5)),
        (lambda: sm.add(X, 0.5, X), lambda: X.add(X, alpha=0.5)),
        (lambda: X.clone().add_(-0.5, X), lambda: X.add(X, alpha=-0.5)),
        (lambda: X.sub(2, X), lambda: X.sub(X, alpha=2)),
        (lambda: X.addcmul(0.5, X, X), lambda: X.addcmul(X, X, value=0.5)),
        (lambda: X.clone().addcmul_(0.5, X, X), lambda: X.addcmul(X, X, value=0.5)),
        (lambda: sm.addcmul(X, 0.5, X, X), lambda: X.addcmul(X, X, value=0.5)),
        (lambda: X.clone().addcdiv_(-0.5, X, X + 1), lambda: X.addcdiv(X, X + 1, value=-0.5)),
        (lambda: M.addmm(2, M, M), lambda: M.addmm(M, M, beta=2)),
        (lambda: M.clone().addmm_(2, 3, M, M), lambda: M.addmm(M, M, beta=2, alpha=3)),
        (lambda: sm.addmm(2, M, M, M), lambda: M.addmm(M, M, beta=2)),
        (lambda: sm.addmm(2, M, 3, M, M), lambda: M.addmm(M, M, beta=2, alpha=3)),
        (lambda: sm.addmv(2, V, 3, M, V), lambda: V.addmv(M, V, beta=2, alpha=3)),
        (lambda: V.addmv(2, M, V), lambda: V.addmv(M, V, beta=2)),
        (lambda: M.addr(2, 3, V, V), lambda: M.addr(V, V, beta=2, alpha=3)),
        (lambda: sm.addbmm(2, M, 3, B, B), lambda: M.addbmm(B, B, beta=2, alpha=3)),
        (lambda: B.baddbmm(2, B, B), lambda: B.baddbmm(B, B, beta=2)),
    ],
)
@pytest.mark.filterwarnings("ignore:This overload")
def test_numbers_before_tensors(old, new):
    assert sm.equal(old(), new())


def test_numbers_before_tensors_warn_once_and_return_self():
    _other_forms._warned.discard("add_")
    x = X.clone()
    with pytest.warns(UserWarning, match=r"This overload of add_ is deprecated:\n\tadd_\(Number alpha, Tensor other\)"):
        assert x.add_(0.5, X) is x
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.add_(0.5, X)


def test_other_orders_raise_as_before():
    with pytest.raises(TypeError, match=r"addcmul\(\) takes 2 positional arguments but 3 were given"):
        X.addcmul(X, X, 0.5)
    with pytest.raises(TypeError, match=r"mul\(\) takes 1 positional argument but 2 were given"):
        X.mul(0.5, X)


def test_arguments_by_the_names_of_torchs_other_forms():
    x = sm.arange(6)
    pieces = [[0, 1], [2, 3, 4, 5]]
    for parts in (
        x.split(split_size=[2, 4]),
        x.split(split_size=(2, 4), dim=-1),
        sm.split(x, split_size_or_sections=[2, 4]),
        sm.split(tensor=x, split_size_or_sections=(2, 4), dim=0),
        sm.tensor_split(x, tensor_indices_or_sections=sm.tensor([2, 6]))[:2],
        sm.tensor_split(x, sm.tensor([2, 6]))[:2],
        x.tensor_split(indices=sm.tensor([2, 6]))[:2],
    ):
        assert [p.tolist() for p in parts] == pieces
    assert [len(p) for p in sm.split(tensor=x, split_size_or_sections=4)] == [4, 2]
    assert [len(p) for p in sm.tensor_split(x, sm.tensor(3))] == [2, 2, 2]
    assert x.clone().resize_(size=(3, 2)).shape == (3, 2)
    with pytest.raises(TypeError, match="split_sizes_or"):
        sm.split(x, split_sizes_or=2)


def test_arguments_that_choose_a_way_are_taken():
    x, at = sm.arange(6.0).reshape(2, 3), sm.tensor([[0, 1]])
    assert sm.gather(input=x, dim=1, index=at, sparse_grad=False).tolist() == [[0.0, 1.0]]
    assert x.gather(1, at, sparse_grad=False).tolist() == [[0.0, 1.0]]
    with pytest.raises(TypeError, match="sparse_grad"):
        x.gather(1, at, sparse_grad=True)
    assert sm.layer_norm(x, (3,), cudnn_enable=False).shape == (2, 3)
    assert sm.group_norm(x.reshape(1, 2, 3), 2, None, None, 1e-5, cudnn_enabled=True).shape == (1, 2, 3)
    assert sm.dropout(x, p=0.5, train=False).tolist() == x.tolist()
    norm = x.norm(p=2, dim=1, dtype=sm.float64)
    assert norm.dtype == sm.float64 and norm.tolist() == pytest.approx([5**0.5, 50**0.5])


def test_tensors_are_made_in_the_layout_that_is_asked_for():
    x = sm.ones(2, 3)
    for made in (
        sm.zeros(2, 3, layout=sm.strided, names=None),
        sm.full((2, 3), 0.0, layout=sm.strided),
        sm.zeros_like(x, layout=sm.strided),
        x.new_zeros((2, 3), layout=sm.strided, pin_memory=False),
    ):
        assert made.tolist() == [[0.0] * 3] * 2
    assert sm.arange(3, layout=sm.strided).tolist() == [0, 1, 2]
    assert sm.hann_window(3, layout=sm.strided, pin_memory=False, dtype=sm.float64).dtype == sm.float64
    for made in (sm.zeros(2, 3, layout=sm.sparse_coo), sm.zeros_like(x, layout=sm.sparse_coo)):
        assert made.layout is sm.sparse_coo and made.to_dense().tolist() == [[0.0] * 3] * 2
    assert sm.empty(2, 3, layout=sm.sparse_csr).layout is sm.sparse_csr
    with pytest.raises(NotImplementedError, match="ones: a tensor of the layout"):
        sm.ones(2, layout=sm.sparse_coo)
    with pytest.raises(TypeError, match=r"must be torch\.layout, not int"):
        sm.zeros(2, layout=3)
    with pytest.raises(NotImplementedError, match="no names"):
        sm.zeros(2, names=("N",))


@pytest.mark.filterwarnings("ignore:This overload")
def test_a_tensor_of_one_element_is_a_number_before_tensors():
    rate = sm.tensor(0.5)
    assert sm.equal(X.clone().add_(rate, X), X * 1.5)
    assert sm.equal(X.add(rate * -1, X), X * 0.5)
    assert sm.equal(X.addcmul(rate, X, X), X + 0.5 * X * X)
    with pytest.raises(TypeError, match=r"add\(\) takes 1 positional argument but 2 were given"):
        X.add(sm.tensor([0.5]), X)


@pytest.mark.parametrize("name", ["tensor_split", "hsplit", "vsplit", "dsplit"])
def test_a_tensor_tells_how_many_pieces_or_where_they_end(name):
    """A tensor of one dimension is a list, of one element too."""
    x = sm.arange(24).reshape(2, 3, 4) if name == "dsplit" else sm.arange(24).reshape(4, 6)
    axis = {"hsplit": 1, "dsplit": 2}.get(name, 0)
    ways = [getattr(x, name), lambda told: getattr(sm, name)(x, told)]
    if name == "tensor_split":
        ways.append(lambda told: x.tensor_split(told, dim=-2))
        ways.append(lambda told: sm.tensor_split(input=x, tensor_indices_or_sections=told, dim=0))
    for way in ways:
        for told, numbers in [
            (sm.tensor([1]), [1]),
            (sm.tensor([1, 3]), [1, 3]),
            (sm.tensor([], dtype=sm.int64), []),
            (sm.tensor([-1]), [-1]),
            (sm.tensor(2), 2),
        ]:
            got, expected = way(told), np.array_split(x.numpy(), numbers, axis)
            assert [p.tolist() for p in got] == [p.tolist() for p in expected], (name, numbers)


def test_a_tensor_that_tells_no_pieces():
    x = sm.arange(6)
    for told in (sm.tensor([[1]]), sm.tensor([[1, 2]])):
        with pytest.raises(RuntimeError, match="zero-dimensional or one-dimensional tensor, but got a tensor with 2 d"):
            x.tensor_split(told)
    for told in (sm.tensor([2.0]), sm.tensor(2.0), sm.tensor([2], dtype=sm.int32)):
        with pytest.raises(RuntimeError, match=r"to have dtype of long, but got smolder\.(float|int)32"):
            sm.tensor_split(x, told)


def test_a_factor_that_is_a_tensor_is_an_operand():
    x, y, rate = sm.arange(4.0), sm.ones(4), sm.tensor(0.5) * 3

    def syncs():
        return sm.metrics()["counters"].get("syncs", 0)

    before = syncs()
    sums = [
        sm.add(x, y, alpha=rate),
        x.sub(y, alpha=rate),
        sm.addcmul(x, y, y, value=rate),
        x.addcdiv(y, y, value=rate),
    ]
    assert syncs() == before
    for got, factor in zip(sums, (1.5, -1.5, 1.5, 1.5), strict=True):
        assert got.tolist() == [i + factor for i in range(4)] and got.dtype == sm.float32
    half = sm.add(x.bfloat16(), y.bfloat16(), alpha=sm.tensor(1.5, dtype=sm.float64))
    assert half.dtype == sm.bfloat16 and half.tolist() == [1.5, 2.5, 3.5, 4.5]
    assert sm.add(x.long(), 2 * y.long(), alpha=sm.tensor(3)).tolist() == [6, 7, 8, 9]
    leaf = sm.ones(2, requires_grad=True)
    sm.sub(leaf, leaf * 4, alpha=sm.tensor(0.5)).sum().backward()
    assert leaf.grad.tolist() == [-1, -1]
    for factor in (sm.tensor([1.5]), sm.tensor(1.5, requires_grad=True)):
        with pytest.raises(TypeError, match=r"add\(\): argument 'alpha' must be Number, not Tensor"):
            sm.add(x, y, alpha=factor)
    with pytest.raises(RuntimeError, match="must not be a floating point number"):
        sm.add(x.long(), y.long(), alpha=sm.tensor(1.5))
