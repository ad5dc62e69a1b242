"""Attention on CUDA, which keeps no scores: against the composition in a wider type, and what it takes of memory."""

import contextlib

import numpy as np
import pytest

import smolder
from smolder import backends, cuda
from smolder.nn import functional as F

pytestmark = pytest.mark.skipif(not cuda.is_available(), reason="there is no CUDA device")

HALVES = {"float16": 3e-3, "bfloat16": 2e-2}
UNITS = HALVES | {"float32": 1e-5, "tf32": 4e-3}
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


def dtypes_of(kind):
    """The dtype of operands, and the one for comparing."""
    if kind in HALVES:
        return getattr(smolder, kind), smolder.float32
    return smolder.float32, smolder.float64


@contextlib.contextmanager
def precision_of(kind):
    before = smolder.get_float32_matmul_precision()
    smolder.set_float32_matmul_precision("high" if kind == "tf32" else "highest")
    try:
        yield
    finally:
        smolder.set_float32_matmul_precision(before)


def values(attend, operands, grad, dtype):
    """The result and the gradients of the operands, in float32."""
    leaves = [x.to(dtype).detach().requires_grad_() for x in operands]
    out = attend(*leaves)
    out.backward(grad.to(dtype))
    return [x.detach().float()._to_numpy() for x in (out, *(leaf.grad for leaf in leaves))]


@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("width", [8, 33, 40, 64, 80, 128])
def test_attention_is_its_composition(kind, is_causal, width):
    rng = np.random.default_rng(0)
    dtype, wide = dtypes_of(kind)
    for queries, keys in LENGTHS:
        operands = [heads(rng, n, width) for n in (queries, keys, keys)]
        grad = heads(rng, queries, width)
        rounded = [x.to(dtype).to(wide) for x in operands]
        wanted = values(
            lambda q, k, v: composed(q, k, v, is_causal, width**-0.5), rounded, grad.to(dtype).to(wide), wide
        )
        with precision_of(kind):
            got = values(
                lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=is_causal), operands, grad, dtype
            )
        for name, a, b in zip(("result", "query", "key", "value"), got, wanted, strict=True):
            off = np.abs(a - b).max() / max(1.0, np.abs(b).max())
            assert off < UNITS[kind], (name, queries, keys, off)


@pytest.mark.parametrize("kind", UNITS)
def test_work_for_all_of_a_device(kind):
    """TensorFloat32 is then multiplied in larger tiles."""
    rng = np.random.default_rng(10)
    dtype, wide = dtypes_of(kind)
    operands, grad = [heads(rng, 130, 64, 10, 16) for _ in range(3)], heads(rng, 130, 64, 10, 16)
    rounded = [x.to(dtype).to(wide) for x in operands]
    wanted = values(lambda q, k, v: composed(q, k, v, True, 0.125), rounded, grad.to(dtype).to(wide), wide)
    with precision_of(kind):
        got = values(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), operands, grad, dtype)
    for a, b in zip(got, wanted, strict=True):
        assert np.abs(a - b).max() < UNITS[kind] * max(1.0, np.abs(b).max())


@pytest.mark.parametrize("shape", [(5, 16), (2, 5, 16), (2, 3, 2, 5, 16)])
@pytest.mark.parametrize("dtype", [smolder.float16, smolder.float32])
def test_any_rank_and_scales_below_zero(shape, dtype):
    rng = np.random.default_rng(1)
    shape = (*shape[:-2], 16 + shape[-2], shape[-1])
    q, k, v, grad = (
        smolder.tensor(rng.standard_normal(shape), dtype=smolder.float16, device="cuda").float() for _ in range(4)
    )
    for scale in (-0.3, 0.0, 0.3):
        wanted = values(lambda q, k, v, s=scale: composed(q, k, v, True, s), (q, k, v), grad, smolder.float32)
        got = values(
            lambda q, k, v, s=scale: F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=s),
            (q, k, v),
            grad,
            dtype,
        )
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=3e-3 * max(1.0, np.abs(b).max()))


def masked_reference(q, k, v, mask, is_causal, scale):
    """As torch computes it: rows that see nothing are zeros."""
    scores = q @ k.transpose(-1, -2) * scale
    if is_causal:
        scores = scores.masked_fill(~smolder.ones(scores.shape[-2:], dtype=smolder.bool, device="cuda").tril(), -np.inf)
    seen = mask if mask.dtype == smolder.bool else mask != -np.inf  # or rows of nothing would have gradients of nan
    if mask.dtype != smolder.bool:
        scores = scores + smolder.where(seen, mask, 0.0)
    weights = scores.masked_fill(~seen, -np.inf).softmax(-1)
    return smolder.where(weights.isnan(), 0.0, weights) @ v


def a_mask(rng, shape, dtype):
    seen = rng.random(shape) > 0.3
    seen[..., 0, :] = seen.shape[-2] == 1 and seen[..., 0, :]  # a row that sees nothing
    if shape[-1] > 64:
        seen[..., 64:128] = False  # keys that no row sees, which kernels leave out
        seen[..., 64:, :64] = True  # and what a mask says nothing of
    if dtype == smolder.bool:
        return smolder.tensor(seen, device="cuda")
    numbers = np.round(rng.standard_normal(shape) * 8) / 8
    if shape[-1] > 64:
        numbers[..., 64:, :64] = 0
    return smolder.tensor(np.where(seen, numbers, -np.inf), dtype=dtype, device="cuda")


@pytest.mark.parametrize("kind", UNITS)
@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("shape", ["LS", "B11S", "1H1S", "BHLS", "B1L1", "11LS"])
def test_masks_are_taken_as_they_are(kind, added, shape):
    rng, scale, (dtype, wide) = np.random.default_rng(5), 0.2, dtypes_of(kind)
    for queries, keys, width in [
        (100, 100, 64),
        (64, 304, 40),
        (256, 128, 64),
        (257, 130, 128),
        (5, 7, 33),
        (17, 7, 33),
    ]:
        sizes = {"B": 2, "H": 3, "L": queries, "S": keys, "1": 1}
        mask = a_mask(rng, tuple(sizes[c] for c in shape), dtype if added else smolder.bool)
        operands = [heads(rng, n, width) for n in (queries, keys, keys)]
        grad = heads(rng, queries, width)
        wide_mask = mask.to(wide) if added else mask
        wanted = values(
            lambda q, k, v, m=wide_mask: masked_reference(q, k, v, m, False, scale),
            [x.to(dtype).to(wide) for x in operands],
            grad.to(dtype).to(wide),
            wide,
        )
        with precision_of(kind):
            got = values(
                lambda q, k, v, m=mask: F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=scale),
                operands,
                grad,
                dtype,
            )
        for name, a, b in zip(("result", "query", "key", "value"), got, wanted, strict=True):
            off = np.abs(a - b).max() / max(1.0, np.abs(b).max())
            assert off < UNITS[kind], (name, shape, queries, keys, off)


@pytest.mark.parametrize("dtype", [smolder.bfloat16, smolder.float32])
@pytest.mark.parametrize("length", [70, 64])
def test_the_lowest_numbers_of_a_mask_are_not_nothing(dtype, length):
    rng = np.random.default_rng(6)
    q, k, v = (heads(rng, length, 64).to(dtype) for _ in range(3))
    lowest = smolder.full((length, length), smolder.finfo(dtype).min, dtype=dtype, device="cuda")
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=lowest)
    mean = v.float().mean(-2, keepdim=True).expand_as(v)
    np.testing.assert_allclose(out.float()._to_numpy(), mean._to_numpy(), rtol=0, atol=2e-2)


def test_a_mask_that_learns_has_its_gradient():
    rng = np.random.default_rng(7)
    operands = [heads(rng, 65, 32).to(smolder.bfloat16) for _ in range(3)]
    grad = heads(rng, 65, 32)

    def of_mask(dtype):
        mask = smolder.tensor(np.ones((3, 65, 65)), dtype=dtype, device="cuda").requires_grad_()
        F.scaled_dot_product_attention(*(x.to(dtype) for x in operands), attn_mask=mask).backward(grad.to(dtype))
        return mask.grad.float()._to_numpy()

    wanted = of_mask(smolder.float32)
    assert np.abs(of_mask(smolder.bfloat16) - wanted).max() < 3e-2 * np.abs(wanted).max()


def test_memory_of_a_masked_step_does_not_grow_as_the_square():
    mask = smolder.ones(8192, dtype=smolder.bool, device="cuda")
    peak(1024, mask[:1024])
    short, long = peak(4096, mask[:4096]), peak(8192, mask)
    assert long < 3 * max(short, 4 * 4096 * 64 * 2 * 8)


def test_the_ways_that_may_be_used():
    from smolder.nn.attention import SDPBackend, sdpa_kernel

    rng = np.random.default_rng(8)
    q, k, v = (heads(rng, 300, 64).to(smolder.bfloat16) for _ in range(3))
    mask = smolder.ones(300, 300, dtype=smolder.bool, device="cuda")

    def attend(ways, dtype=smolder.bfloat16, **options):
        with sdpa_kernel(ways):
            out = F.scaled_dot_product_attention(q.to(dtype), k.to(dtype), v.to(dtype), **options)
        return out.float()._to_numpy()  # after the scope: what was said in it holds

    default = F.scaled_dot_product_attention(q, k, v).float()._to_numpy()
    for way in (
        SDPBackend.MATH,
        SDPBackend.FLASH_ATTENTION,
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.CUDNN_ATTENTION,
    ):
        if way == SDPBackend.CUDNN_ATTENTION and not backends.cudnn.is_available():
            continue
        np.testing.assert_allclose(attend(way), default, rtol=0, atol=2e-2)
    assert not np.array_equal(
        attend(SDPBackend.MATH, is_causal=True), attend(SDPBackend.FLASH_ATTENTION, is_causal=True)
    )
    attend(SDPBackend.EFFICIENT_ATTENTION, attn_mask=mask)
    attend([SDPBackend.FLASH_ATTENTION, SDPBackend.MATH], attn_mask=mask)
    for options in ({"attn_mask": mask}, {"dtype": smolder.float32}):
        with pytest.raises(RuntimeError, match=r"No available kernel\.  Aborting execution\."):
            attend(SDPBackend.FLASH_ATTENTION, **options)
    with pytest.raises(RuntimeError, match="No viable backend for scaled_dot_product_attention was found"):
        attend([])


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
@pytest.mark.parametrize(("kind", "unit"), [("bfloat16", 4e-2), ("float32", 1e-5), ("tf32", 4e-3)])
def test_a_block_of_a_transformer_has_the_gradients_of_the_host(splits, kind, unit):
    before = joined()
    with precision_of(kind):
        got = block_values("cuda", dtypes_of(kind)[0], seed=4 + splits, splits=splits)
    assert joined() > before, "the gradient of the projection is put together by a kernel"
    wanted = block_values("cpu", dtypes_of(kind)[1], seed=4 + splits, splits=splits)
    for a, b in zip(got, wanted, strict=True):
        assert np.abs(a - b).max() < unit * np.abs(b).max()


@pytest.mark.skipif(not backends.cudnn.is_available(), reason="there is no cuDNN")
def test_cudnn_writes_the_gradient_of_a_projection():
    wanted = block_values("cuda", smolder.bfloat16, length=1024)
    before = made_plans()
    with backends.cudnn.flags(enabled=True, benchmark=True):
        got = block_values("cuda", smolder.bfloat16, length=1024)
    assert made_plans() - before == 2
    for a, b in zip(got, wanted, strict=True):
        assert np.abs(a - b).max() < 4e-2 * np.abs(b).max()


@pytest.mark.parametrize("kind", ["bfloat16", "float32", "tf32"])
def test_each_run_has_the_same_bits(kind):
    with precision_of(kind):
        first, *others = (block_values("cuda", dtypes_of(kind)[0], length=300) for _ in range(4))
    for other in others:
        for a, b in zip(other, first, strict=True):
            np.testing.assert_array_equal(a, b)


def test_what_is_not_a_number_spreads_over_its_row():
    rng = np.random.default_rng(9)
    for kind in UNITS:
        dtype, _ = dtypes_of(kind)
        q, k, v = (heads(rng, 64, 64).to(dtype).contiguous() for _ in range(3))
        q[0, 1, 5, 3] = float("nan")
        with precision_of(kind):
            out = F.scaled_dot_product_attention(q, k, v).float()._to_numpy()
        bad = np.zeros(out.shape, dtype=bool)
        bad[0, 1, 5] = True
        np.testing.assert_array_equal(np.isnan(out), bad)


@pytest.mark.parametrize("mask", [None, "bool"])
@pytest.mark.parametrize("kind", ["bfloat16", "float32", "tf32"])
def test_eager_gives_what_a_step_gives(mask, kind):
    rng = np.random.default_rng(0)
    operands, grad = [heads(rng, 70, 64) for _ in range(3)], heads(rng, 70, 64)
    mask = mask and smolder.ones(70, 70, dtype=smolder.bool, device="cuda").tril()

    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, mask)

    with precision_of(kind):
        recorded = values(attend, operands, grad, dtypes_of(kind)[0])
        with smolder.eager():
            eager = values(attend, operands, grad, dtypes_of(kind)[0])
    for a, b in zip(recorded, eager, strict=True):
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
@pytest.mark.parametrize("dtype", HALVES)
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
            assert off < HALVES[dtype], (name, flags, off)


def made_plans():
    return smolder.metrics()["counters"].get("cudnn.plans", 0)


def peak(length, mask=None):
    """Bytes above those held that attention of 4 heads takes, forward and backward."""
    rng = np.random.default_rng(0)
    leaves = [heads(rng, length, 64, 1, 4).to(smolder.bfloat16).detach().requires_grad_() for _ in range(3)]
    smolder.mark_step()
    cuda.synchronize()
    cuda.reset_peak_memory_stats()
    before = cuda.memory_allocated()
    F.scaled_dot_product_attention(*leaves, attn_mask=mask, is_causal=mask is None).float().sum().backward()
    smolder.mark_step()
    cuda.synchronize()
    return cuda.max_memory_allocated() - before


def test_memory_does_not_grow_as_the_square_of_the_length():
    peak(1024)
    short, long = peak(4096), peak(8192)
    assert long < 3 * max(short, 4 * 4096 * 64 * 2 * 8)
