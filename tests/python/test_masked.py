"""Reductions under masks: against NumPy's arrays with masks."""

import math

import numpy as np
import pytest

import smolder
from smolder import masked

X = np.random.default_rng(1).normal(size=(4, 5))
MASK = np.random.default_rng(2).random((4, 5)) > 0.4
MASK[:2], MASK[:, :2] = True, True
THERE = np.ma.masked_array(X, ~MASK)
x, mask = smolder.tensor(X), smolder.tensor(MASK)


@pytest.mark.parametrize("name", ("sum", "prod", "mean", "amax", "amin", "var", "std"))
@pytest.mark.parametrize("dim", (None, 0, -1))
@pytest.mark.parametrize("keepdim", (False, True))
def test_reductions_are_of_what_takes_part(name, dim, keepdim):
    of_numpy = getattr(THERE, {"amax": "max", "amin": "min"}.get(name, name))
    expected = of_numpy(axis=dim, keepdims=keepdim, **({"ddof": 1} if name in ("var", "std") else {}))
    found = getattr(masked, name)(x, dim, keepdim=keepdim, mask=mask)
    np.testing.assert_allclose(found.numpy(), np.ma.getdata(expected), rtol=1e-12)


def test_other_reductions():
    np.testing.assert_allclose(masked.median(x, 1, mask=mask), _medians())
    np.testing.assert_allclose(masked.logsumexp(x, 0, mask=mask), np.log(np.ma.exp(THERE).sum(0)))
    np.testing.assert_allclose(masked.norm(x, 1, 1, mask=mask), np.abs(THERE).sum(1))
    np.testing.assert_array_equal(masked.argmax(x, 1, mask=mask), THERE.argmax(1))
    np.testing.assert_array_equal(masked.argmin(x, 0, mask=mask), THERE.argmin(0))


def _medians():
    """The smaller of the two in the middle, where there are two."""
    return [np.sort(row[there])[(there.sum() - 1) // 2] for row, there in zip(X, MASK, strict=True)]


def test_normalizations():
    soft = masked.softmax(x, 1, mask=mask)
    expected = np.ma.exp(THERE) / np.ma.exp(THERE).sum(1)[:, None]
    np.testing.assert_allclose(soft, expected.filled(0), rtol=1e-12)
    np.testing.assert_allclose(masked.log_softmax(x, 1, mask=mask).exp(), soft, rtol=1e-12)
    np.testing.assert_allclose(masked.softmin(-x, 1, mask=mask), soft, rtol=1e-12)
    lengths = np.sqrt((THERE**2).sum(0))
    np.testing.assert_allclose(masked.normalize(x, 2.0, 0, mask=mask), (THERE / lengths).filled(0), rtol=1e-12)
    np.testing.assert_allclose(masked.cumsum(x, 1, mask=mask), np.cumsum(THERE.filled(0), 1), rtol=1e-12)
    np.testing.assert_allclose(masked.cumprod(x, 1, mask=mask), np.cumprod(THERE.filled(1), 1), rtol=1e-12)
    both = masked.logaddexp(x, x, input_mask=mask, other_mask=~mask)
    np.testing.assert_allclose(both, X, rtol=1e-12)  # one of the two is left out everywhere


def test_gradients_reach_what_takes_part():
    given = x.clone().requires_grad_()
    masked.mean(given, 1, mask=mask).sum().backward()
    np.testing.assert_allclose(given.grad, MASK / MASK.sum(1, keepdims=True), rtol=1e-12)


def test_where_nothing_takes_part():
    none = smolder.zeros(5, dtype=smolder.bool)
    assert masked.sum(x[0], mask=none) == 0 and masked.amax(x[0], mask=none) == -math.inf
    assert masked.mean(x[0], mask=none).isnan() and masked.softmax(x[0], 0, mask=none).isnan().all()
    with pytest.raises(ValueError, match="no fully masked out rows"):
        masked.median(smolder.arange(5), mask=none)


def test_what_is_refused():
    with pytest.raises(NotImplementedError, match="MaskedTensor is not supported"):
        masked.MaskedTensor(x, mask)
    assert not masked.is_masked_tensor(x)
    with pytest.raises(IndexError, match="expected broadcastable mask"):
        masked.sum(x[0], mask=mask)
    with pytest.raises(NotImplementedError, match=r"tensors have to be strided, got .*sparse_coo"):
        masked.sum(x.to_sparse(), mask=mask)
    with pytest.raises(NotImplementedError, match=r"identity of amax on .*complex128 input"):
        masked.amax(x + 1j, mask=mask)
