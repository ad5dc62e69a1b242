"""Attention on CUDA, which keeps no scores: against the composition in float32, and what it takes of memory."""

import numpy as np
import pytest

import smolder
from smolder import backends, cuda
from smolder.nn import functional as F

pytestmark = pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")

UNITS = {"float16": 3e-3, "bfloat16": 2e-2}
LENGTHS = [(1, 1), (7, 7), (64, 64), (65, 65), (100, 100), (1024, 1024), (1, 300), (130, 257), (257, 130)]


def heads(rng, length, width, batch=2, count=3):
    """[batch, heads, length, width] as it lies in the result of a projection; in float32, of few bits."""
    x = np.round(rng.standard_normal((batch, length, count, width)) * 64) / 64
    return smolder.tensor(x, dtype=smolder.float32, device="cuda").transpose(1, 2)


def composed(q, k, v, is_causal, scale):
    scores = q @ k.transpose(-1, -2) * scale
    if is_causal:
        seen = smolder.ones(scores.shape[-2:], dtype=smolder.bool, device="cuda").tril()
        scores = scores.masked_fill(~seen, float("-inf"))
    return scores.softmax(-1) @ v


def values(attend, operands, grad, dtype):
    """The result and the gradients of the operands, in float32."""
    leaves = [x.to(dtype).detach().requires_grad_() for x in operands]
    out = attend(*leaves)
    out.backward(grad.to(dtype))
    return [x.detach().float()._to_numpy() for x in (out, *(leaf.grad for leaf in leaves))]


@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("width", [8, 33, 40, 64, 80, 128])
def test_attention_is_its_composition(dtype, is_causal, width):
    rng = np.random.default_rng(0)
    half = getattr(smolder, dtype)
    for queries, keys in LENGTHS:
        operands = [heads(rng, n, width) for n in (queries, keys, keys)]
        grad = heads(rng, queries, width)
        rounded = [x.to(half).float() for x in operands]
        wanted = values(
            lambda q, k, v: composed(q, k, v, is_causal, width**-0.5), rounded, grad.to(half).float(), smolder.float32
        )
        got = values(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal), operands, grad, half)
        for name, a, b in zip(("result", "query", "key", "value"), got, wanted, strict=True):
            off = np.abs(a - b).max() / max(1.0, np.abs(b).max())
            assert off < UNITS[dtype], (name, queries, keys, off)


@pytest.mark.parametrize("shape", [(5, 16), (2, 5, 16), (2, 3, 2, 5, 16)])
def test_any_rank_and_scales_below_zero(shape):
    rng = np.random.default_rng(1)
    q, k, v, grad = (
        smolder.tensor(rng.standard_normal(shape), dtype=smolder.float16, device="cuda").float() for _ in range(4)
    )
    for scale in (-0.3, 0.0, 0.3):
        wanted = values(lambda q, k, v, s=scale: composed(q, k, v, True, s), (q, k, v), grad, smolder.float32)
        got = values(
            lambda q, k, v, s=scale: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=s),
            (q, k, v),
            grad,
            smolder.float16,
        )
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=3e-3 * max(1.0, np.abs(b).max()))


def block(x, weight, out_weight, count, splits=True):
    """Attention as a transformer has it: one projection for all, and one of the rows of all heads."""
    batch, length, width = x.shape
    if splits:
        q, k, v = (x @ weight).split(width, 2)
        q, k, v = (t.view(batch, length, count, width // count).transpose(1, 2) for t in (q, k, v))
    else:
        q, k, v = (x @ weight).view(batch, length, 3, count, width // count).permute(2, 0, 3, 1, 4).unbind(0)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return y.transpose(1, 2).contiguous().view(batch, length, width) @ out_weight


def block_values(where, dtype, seed=0, length=96, splits=True):
    rng = np.random.default_rng(seed)
    made = [rng.standard_normal(s) / 8 for s in ((2, length, 128), (128, 384), (128, 128))]
    leaves = [smolder.tensor(a, dtype=dtype, device=where).requires_grad_() for a in made]
    block(*leaves, 2, splits).float().square().mean().backward()
    return [leaf.grad.float()._to_numpy() for leaf in leaves]


def joined():
    return smolder.metrics()["counters"].get("attention.joined", 0)


@pytest.mark.parametrize("splits", [True, False])
def test_a_block_of_a_transformer_has_the_gradients_of_the_host(splits):
    before = joined()
    got = block_values("cuda", smolder.bfloat16, seed=4 + splits, splits=splits)
    assert joined() > before, "the gradient of the projection is put together by a kernel"
    wanted = block_values("cpu", smolder.float32, seed=4 + splits, splits=splits)
    for a, b in zip(got, wanted, strict=True):
        assert np.abs(a - b).max() < 4e-2 * np.abs(b).max()


@pytest.mark.skipif(not backends.cudnn.is_available(), reason="there is no cuDNN")
def test_cudnn_writes_the_gradient_of_a_projection():
    wanted = block_values("cuda", smolder.bfloat16, length=1024)
    before = made_plans()
    with backends.cudnn.flags(enabled=True, benchmark=True):
        got = block_values("cuda", smolder.bfloat16, length=1024)
    assert made_plans() - before == 2
    for a, b in zip(got, wanted, strict=True):
        assert np.abs(a - b).max() < 4e-2 * np.abs(b).max()


def test_each_run_has_the_same_bits():
    first = block_values("cuda", smolder.bfloat16, length=300)
    for _ in range(3):
        for a, b in zip(block_values("cuda", smolder.bfloat16, length=300), first, strict=True):
            np.testing.assert_array_equal(a, b)


def test_masks_and_second_derivatives_are_the_composition():
    rng = np.random.default_rng(2)
    q, k, v = (heads(rng, 20, 16).to(smolder.bfloat16) for _ in range(3))
    mask = smolder.ones(20, 20, dtype=smolder.bool, device="cuda").tril()
    masked = F.scaled_dot_product_attention(q, k, v, attn_mask=mask).float()._to_numpy()
    causal = F.scaled_dot_product_attention(q, k, v, is_causal=True).float()._to_numpy()
    np.testing.assert_allclose(masked, causal, rtol=0, atol=2e-2)
    q.requires_grad_()
    (dq,) = smolder.autograd.grad(
        F.scaled_dot_product_attention(q, k, v, is_causal=True).float().sum(), (q,), create_graph=True
    )
    dq.float().square().sum().backward()
    assert np.isfinite(q.grad.float()._to_numpy()).all() and np.abs(q.grad.float()._to_numpy()).max() > 0


@pytest.mark.skipif(not backends.cudnn.is_available(), reason="there is no cuDNN")
@pytest.mark.parametrize("dtype", UNITS)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("queries", "keys", "width"), [(1024, 1024, 64), (1024, 1216, 40), (1088, 1088, 128)])
def test_cudnn_gives_what_our_kernels_give(dtype, is_causal, queries, keys, width):
    rng = np.random.default_rng(3)
    operands, grad = [heads(rng, n, width) for n in (queries, keys, keys)], heads(rng, queries, width)
    half = getattr(smolder, dtype)

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=is_causal, scale=0.2)

    with backends.cudnn.flags(enabled=False):
        wanted = values(attend, operands, grad, half)
    before = made_plans()
    for flags, plans in (({}, 1), ({"benchmark": True}, 3), ({"benchmark": True, "deterministic": True}, 4)):
        with backends.cudnn.flags(enabled=True, **flags):
            got = values(attend, operands, grad, half)
        assert made_plans() - before == plans, "the gradient is cuDNN's only where bits may differ"
        for name, a, b in zip(("result", "query", "key", "value"), got, wanted, strict=True):
            off = np.abs(a - b).max() / max(1.0, np.abs(b).max())
            assert off < UNITS[dtype], (name, flags, off)


def made_plans():
    return smolder.metrics()["counters"].get("cudnn.plans", 0)


def peak(length):
    """Bytes above those held that attention of 4 heads takes, forward and backward."""
    rng = np.random.default_rng(0)
    leaves = [heads(rng, length, 64, 1, 4).to(smolder.bfloat16).detach().requires_grad_() for _ in range(3)]
    smolder.mark_step()
    cuda.synchronize()
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    F.scaled_dot_product_attention(*leaves, is_causal=True).float().sum().backward()
    smolder.mark_step()
    cuda.synchronize()
    return cuda.max_memory_allocated() - before


def test_memory_does_not_grow_as_the_square_of_the_length():
    peak(1024)
    short, long = peak(4096), peak(8192)
    assert long < 3 * max(short, 4 * 4096 * 64 * 2 * 8)
