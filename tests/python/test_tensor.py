import copy
import pickle

import numpy as np
import pytest
from conftest import DEVICE, assert_same_bits

import smolder
from smolder import Size


def test_tensor_infers_dtypes_from_python_and_keeps_numpys():
    assert smolder.tensor([1.0, 2.0]).dtype == smolder.float32
    assert smolder.tensor([1, 2]).dtype == smolder.int64
    assert smolder.tensor([True]).dtype == smolder.bool
    assert smolder.tensor([1, 2.5]).dtype == smolder.float32
    assert smolder.tensor(3).shape == () and smolder.tensor(3).item() == 3
    for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"):
        array = np.array([[0, 1], [1, 0]], dtype=name)
        t = smolder.tensor(array)
        assert t.dtype == getattr(smolder, name)
        assert_same_bits(t.numpy(), array)
    assert smolder.tensor([]).shape == (0,) and smolder.tensor([]).dtype == smolder.float32
    assert smolder.tensor([[]]).shape == (1, 0)


def test_tensor_refuses_what_it_cannot_hold():
    with pytest.raises(TypeError, match="longdouble"):
        smolder.tensor(np.zeros(2, np.longdouble))
    with pytest.raises(ValueError, match="expected sequence of length 2"):
        smolder.tensor([[1, 2], [3]])
    with pytest.raises(ValueError, match="too many dimensions 'str'"):
        smolder.tensor(["a"])


def test_a_tensor_is_a_copy_of_its_array():
    array = np.arange(4.0)
    t = smolder.tensor(array)
    array[0] = 9
    assert t[0].item() == 0


def test_bfloat16_rounds_once_and_reads_as_float32():
    t = smolder.tensor([1.0, 1.00390625, 3.1415927], dtype=smolder.bfloat16)
    assert t.dtype == smolder.bfloat16
    assert t.tolist() == [1.0, 1.0, 3.140625]
    with pytest.raises(TypeError, match="bfloat16"):
        t.numpy()


def test_sizes():
    t = smolder.zeros(2, 3, 4)
    assert isinstance(t.shape, Size) and repr(t.shape) == "smolder.Size([2, 3, 4])"
    assert t.size() == (2, 3, 4) and t.size(-1) == 4 and t.shape.numel() == 24
    assert (t.ndim, t.dim(), t.numel(), len(t)) == (3, 3, 24, 2)
    assert t.T.shape == (4, 3, 2) and t.mT.shape == (2, 4, 3)
    assert isinstance(t.shape[1:], Size)
    with pytest.raises(IndexError, match="Dimension out of range"):
        t.size(3)
    with pytest.raises(TypeError, match="0-d"):
        len(smolder.tensor(1))


GATHERED = [[0, 2], (slice(None), [1, -1, 0]), np.array([2, 0, 0])]
VIEWS = [
    0,
    -1,
    (0, 1),
    (slice(None), 1),
    slice(1, None),
    slice(None, None, 2),
    slice(-3, -1),
    (Ellipsis, 0),
    (0, Ellipsis, 1),
    None,
    (slice(None), None, 2),
    (1, slice(0, 2), slice(1, 4, 2)),
    Ellipsis,
    slice(5, 2),
    np.int64(1),
]


@pytest.mark.parametrize("index", VIEWS + GATHERED, ids=repr)
def test_getitem_agrees_with_numpy(index):
    array = np.arange(60.0).reshape(3, 4, 5)
    assert_same_bits(smolder.tensor(array)[index].numpy(), np.ascontiguousarray(array[index]))


def test_getitem_with_tensors():
    array = np.arange(12.0).reshape(4, 3)
    t = smolder.tensor(array)
    rows = np.array([[0, 3], [-1, 1]])
    assert_same_bits(t[smolder.tensor(rows)].numpy(), array[rows])
    assert_same_bits(t[smolder.tensor(2)].numpy(), array[2])
    assert_same_bits(t[t > 3].numpy(), array[array > 3])
    with pytest.raises(IndexError, match="out of bounds"):
        t[4]
    with pytest.raises(IndexError, match="too many indices"):
        t[0, 0, 0]
    with pytest.raises(ValueError, match="step"):
        t[::-1]


@pytest.mark.parametrize("index", VIEWS, ids=repr)
def test_setitem_agrees_with_numpy(index):
    array = np.arange(60.0).reshape(3, 4, 5)
    t = smolder.tensor(array)
    t[index] = -1
    array[index] = -1
    assert_same_bits(t.numpy(), array)
    t = smolder.tensor(array)
    value = np.full_like(array[index], 7.0)
    t[index] = smolder.tensor(value)
    array[index] = value
    assert_same_bits(t.numpy(), array)


def test_writes_through_views_reach_the_base():
    t = smolder.zeros(3, 4)
    row = t[1]
    row += 2
    t[:, 0] = 5
    assert t.tolist() == [[5, 0, 0, 0], [5, 2, 2, 2], [5, 0, 0, 0]]
    assert row.tolist() == [5, 2, 2, 2]
    t.view(12)[11] = 1
    assert t[2, 3].item() == 1


def test_python_protocols():
    t = smolder.tensor([1.0, 2.0])
    assert [x.item() for x in t] == [1.0, 2.0]
    assert 2.0 in t and 3.0 not in t
    assert float(smolder.tensor(2.5)) == 2.5 and int(smolder.tensor(3)) == 3
    assert [10, 20, 30][smolder.tensor(1)] == 20
    assert bool(smolder.tensor(True)) and not smolder.tensor([0.0])
    assert f"{smolder.tensor(3.14159):.2f}" == "3.14"
    with pytest.raises(RuntimeError, match="ambiguous"):
        bool(t)
    with pytest.raises(RuntimeError, match="no values"):
        bool(smolder.tensor([]))
    assert {t: 1}[t] == 1
    assert np.asarray(t).tolist() == [1.0, 2.0]
    assert (t + np.float32(1)).tolist() == [2.0, 3.0]
    assert (np.float64(2) * t).tolist() == [2.0, 4.0]


def test_number_slots_agree_with_numpy():
    a, b = np.array([7, -7, 3], np.int64), np.array([2, 2, -2], np.int64)
    x, y = smolder.tensor(a), smolder.tensor(b)
    for got, want in [(x + y, a + b), (x - 1, a - 1), (2 * x, 2 * a), (x // y, a // b), (x % y, a % b), (-x, -a)]:
        assert_same_bits(got.numpy(), want)
    assert_same_bits((x / y).numpy(), (a / b).astype(np.float32))
    assert (1 - x).tolist() == [-6, 8, -2] and (x**2).tolist() == [49, 49, 9] and (x & y).tolist() == (a & b).tolist()
    assert (x > y).tolist() == [True, False, True] and (~(x > y)).tolist() == [False, True, False]
    assert abs(x).tolist() == [7, 7, 3]
    m, n = np.random.default_rng(0).normal(size=(2, 3, 3))
    np.testing.assert_allclose((smolder.tensor(m) @ smolder.tensor(n)).numpy(), m @ n, rtol=1e-12)


def test_in_place_keeps_the_object():
    t = smolder.ones(2)
    kept = t
    t += 1
    assert t is kept and t.mul_(3) is t and t.tolist() == [6, 6]
    assert t.requires_grad_() is t


def test_conversions():
    t = smolder.tensor([1.7, -1.7])
    assert t.long().tolist() == [1, -1] and t.double().dtype == smolder.float64
    assert t.to(smolder.float16).dtype == smolder.float16 and t.to(DEVICE) is t and t.float() is t
    assert t.to(smolder.tensor(1)).dtype == smolder.int64
    assert t.device.type == smolder.device(DEVICE).type and str(t.cpu().device) == "cpu"


def test_creation_agrees_with_numpy():
    assert smolder.arange(5).tolist() == [0, 1, 2, 3, 4] and smolder.arange(5).dtype == smolder.int64
    assert smolder.arange(1, 2, 0.25).tolist() == [1.0, 1.25, 1.5, 1.75]
    assert smolder.arange(3, 0, -1).tolist() == [3, 2, 1]
    assert smolder.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    assert smolder.eye(2).tolist() == [[1, 0], [0, 1]] and smolder.full((2,), 7).dtype == smolder.int64
    assert smolder.ones_like(smolder.zeros(2, 3)).shape == (2, 3)
    assert smolder.zeros(2, requires_grad=True).requires_grad
    assert sorted(smolder.randperm(9).tolist()) == list(range(9))
    draws = smolder.randint(3, 6, (1000,))
    assert set(draws.tolist()) == {3, 4, 5}
    u = smolder.rand(10000)
    assert u.min().item() >= 0 and u.max().item() < 1 and abs(u.mean().item() - 0.5) < 0.02
    n = smolder.randn(10000)
    assert abs(n.mean().item()) < 0.05 and abs(n.std().item() - 1) < 0.05


def test_seed_repeats_and_streams_differ():
    smolder.manual_seed(3)
    a, b = smolder.randn(50), smolder.randn(50)
    smolder.manual_seed(3)
    c = smolder.randn(50)
    assert_same_bits(a.numpy(), c.numpy())
    assert not np.array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "bool"])
def test_pickle_and_deepcopy(dtype):
    t = smolder.tensor([[0, 1], [1, 0]], dtype=getattr(smolder, dtype))
    for out in (pickle.loads(pickle.dumps(t)), copy.deepcopy(t)):
        assert out.dtype == t.dtype and out.tolist() == t.tolist() and out is not t
    w = smolder.ones(2, requires_grad=True)
    assert pickle.loads(pickle.dumps(w)).requires_grad and copy.deepcopy(w).requires_grad


def test_limits_and_promotion():
    for name in ("float64", "float32", "float16"):
        ours, theirs = smolder.finfo(getattr(smolder, name)), np.finfo(name)
        assert (ours.eps, ours.max, ours.tiny, ours.bits) == (theirs.eps, theirs.max, theirs.tiny, theirs.bits)
    for name in ("int8", "int16", "int32", "int64", "uint8"):
        ours, theirs = smolder.iinfo(getattr(smolder, name)), np.iinfo(name)
        assert (ours.min, ours.max, ours.bits) == (theirs.min, theirs.max, theirs.bits)
    assert smolder.iinfo(smolder.uint8).max == 255 and smolder.iinfo(smolder.int64).min == -(2**63)
    assert smolder.promote_types(smolder.uint8, smolder.int8) == smolder.int16
    assert smolder.promote_types(smolder.int64, smolder.float16) == smolder.float16
    assert smolder.result_type(smolder.ones(2, dtype=smolder.float16), 2.0) == smolder.float16
    assert (smolder.ones(2, dtype=smolder.int32) + 1.5).dtype == smolder.float32
    assert (smolder.ones(2, dtype=smolder.int32) + smolder.tensor(1)).dtype == smolder.int32


def test_equal_and_allclose():
    a = smolder.tensor([1.0, float("nan")])
    assert not smolder.equal(a, a) and not smolder.allclose(a, a) and smolder.allclose(a, a, equal_nan=True)
    assert smolder.allclose(smolder.ones(3), smolder.ones(3) + 1e-9)
    assert not smolder.allclose(smolder.ones(3), smolder.ones(3) + 1e-3)


def test_modes_nest_decorate_and_are_of_the_thread():
    import threading

    seen = []
    with smolder.no_grad():
        assert not smolder.is_grad_enabled()
        thread = threading.Thread(target=lambda: seen.append(smolder.is_grad_enabled()))
        thread.start()
        thread.join()
        with smolder.enable_grad():
            assert smolder.is_grad_enabled()
        assert not smolder.is_grad_enabled()
    assert smolder.is_grad_enabled() and seen == [True]

    @smolder.no_grad()
    def inside():
        return smolder.is_grad_enabled()

    @smolder.no_grad
    def bare():
        return smolder.is_grad_enabled()

    assert not inside() and not bare()
    with smolder.eager():
        assert smolder.is_eager_enabled()
    assert not smolder.is_eager_enabled()
    smolder.set_grad_enabled(False)
    assert not smolder.is_grad_enabled()
    smolder.set_grad_enabled(True)
    with smolder.set_grad_enabled(False):
        assert not smolder.is_grad_enabled()
    assert smolder.is_grad_enabled()
