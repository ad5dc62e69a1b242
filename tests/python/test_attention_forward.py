"""multi_head_attention_forward, and layers of it: values, gradients and errors are torch's."""

import numpy as np
import pytest
from torch_peer import assert_torch_says, needs_torch, run_here, run_torch

import smolder
from smolder import nn

RUN = """
import itertools
def numbers(*shape):
    n = 1
    for s in shape:
        n *= s
    return torch.sin(torch.arange(n, dtype=torch.float64) * 0.37 + n).reshape(shape)
def run(batch=3, same=True, bias=True, bias_kv=False, zero=False, separate=False, static=False, single=False,
        weights=True, average=True, mask=None, padding=None, causal=False, kdim=8, vdim=8):
    F, e, heads, L, S = torch.nn.functional, 8, 2, 4, 5
    S = L if same else S
    q, k, v = numbers(L, batch, e), numbers(S, batch, kdim) * 2, numbers(S, batch, vdim) * 3
    if same:
        k = v = q
    if single:
        q, k, v = q[:, 0], k[:, 0], v[:, 0]
    leaves = [x.detach().clone().requires_grad_() for x in (q, k, v)]
    if same:
        leaves = leaves[:1] * 3
    w = [(numbers(*s) * 0.3).requires_grad_() for s in ((3 * e, e), (e, e), (e, e), (e, kdim), (e, vdim))]
    b = [(numbers(*s) * 0.1).requires_grad_() for s in ((3 * e,), (e,), (1, 1, e), (1, 1, e))]
    options = dict(training=True, need_weights=weights, average_attn_weights=average, is_causal=causal)
    n = 1 if single else batch
    block = torch.arange(L).unsqueeze(1) < torch.arange(S).unsqueeze(0)
    if mask == "bool":
        options["attn_mask"] = block
    elif mask == "float":
        options["attn_mask"] = numbers(L, S)
    elif mask == "heads":
        options["attn_mask"] = numbers(n * heads, L, S)
    pad = torch.arange(S).expand(n, S) >= S - 1
    if padding:
        pad = pad if padding == "bool" else pad.to(torch.float64) * -2
        options["key_padding_mask"] = pad[0] if single else pad
    if separate:
        options |= dict(use_separate_proj_weight=True, q_proj_weight=w[2], k_proj_weight=w[3], v_proj_weight=w[4])
    if static:
        options |= dict(static_k=numbers(n * heads, S, e // heads), static_v=numbers(n * heads, S, e // heads) + 1)
    out, probabilities = F.multi_head_attention_forward(
        *leaves, e, heads, None if separate else w[0], b[0] if bias else None, b[2] if bias_kv else None,
        b[3] if bias_kv else None, zero, 0.0, w[1], b[1] if bias else None, **options)
    total = (out * numbers(*out.shape)).sum() + (0 if probabilities is None else (probabilities ** 2).sum())
    total.backward()
    grads = [None if x.grad is None else x.grad.tolist() for x in (*leaves, *w, *b)]
    return out.tolist(), None if probabilities is None else probabilities.tolist(), grads
cases = [dict(same=a, weights=b, mask=c) for a, b, c in itertools.product((True, False), (True, False), (None, "bool", "float", "heads"))]
cases += [dict(bias=False), dict(single=True), dict(single=True, same=False, mask="heads", padding="bool", average=False),
    dict(bias_kv=True, zero=True, mask="float", padding="float"), dict(bias_kv=True, padding="bool", mask="bool", weights=False),
    dict(zero=True, same=False, weights=False, padding="bool"), dict(separate=True, same=False, kdim=6, vdim=5),
    dict(separate=True, bias=False), dict(static=True), dict(static=True, weights=False, same=False),
    dict(mask="bool", causal=True, weights=False), dict(mask="bool", causal=True), dict(mask="bool", causal=True, padding="bool", weights=False)]
out = [run(**case) for case in cases]
"""


def assert_near(a, b):
    if a is None or b is None:
        assert a is b
    elif isinstance(a, list) and (not a or not isinstance(a[0], float)):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_near(x, y)
    else:
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@needs_torch
@pytest.mark.filterwarnings("ignore:Support for mismatched")
def test_values_and_gradients_are_those_of_torch():
    assert_near(run_here(RUN), run_torch(RUN))


MODULE = """
def numbers(*shape):
    n = 1
    for s in shape:
        n *= s
    return torch.cos(torch.arange(n, dtype=torch.float64) * 0.61 + n).reshape(shape)
def run(kdim=None, vdim=None, S=5, L=3, need=True, single=False, **options):
    m = torch.nn.MultiheadAttention(8, 2, kdim=kdim, vdim=vdim, dtype=torch.float64, **options)
    for p in m.parameters():
        p.data = numbers(*p.shape) * 0.5
    first = options.get("batch_first")
    def shaped(n, size):
        return numbers(n, size) if single else numbers(2, n, size) if first else numbers(n, 2, size)
    q, k, v = shaped(L, 8), shaped(S, kdim or 8), shaped(S, vdim or 8)
    a, w = m(q, k, v, need_weights=need, attn_mask=torch.arange(S).expand(L, S) > 3)
    return a.tolist(), None if w is None else w.tolist(), [(k, list(p.shape)) for k, p in m.named_parameters()], repr(m)
out = [run(), run(kdim=6), run(vdim=4, bias=False), run(kdim=3, vdim=5, batch_first=True, need=False),
    run(add_bias_kv=True), run(add_zero_attn=True, batch_first=True), run(add_bias_kv=True, add_zero_attn=True, need=False),
    run(kdim=6, single=True, add_zero_attn=True)]
"""


@needs_torch
def test_layers_with_other_sizes_and_more_sources():
    for mine, other in zip(run_here(MODULE), run_torch(MODULE), strict=True):
        assert mine[2] == other[2] and mine[3] == other[3]
        assert_near(mine[:2], other[:2])


@needs_torch
def test_errors_are_those_of_torch():
    before = """
x, w, b = torch.ones(3, 2, 4), torch.ones(12, 4), torch.ones(4, 4)
def f(q=x, k=x, v=x, e=4, heads=2, weight=w, bk=None, bv=None, **options):
    return torch.nn.functional.multi_head_attention_forward(q, k, v, e, heads, weight, None, bk, bv, False, 0.0, b, None, **options)
"""
    uses = [
        "f(q=x[0, 0])", "f(k=x[0])", "f(e=5)", "f(heads=3)", "f(k=x[:2])", "f(weight=None)", "f(is_causal=True)",
        "f(key_padding_mask=torch.ones(3))", "f(attn_mask=torch.ones(3))", "f(attn_mask=torch.ones(3, 2))",
        "f(attn_mask=torch.ones(3, 3, 3))", "f(attn_mask=torch.ones(3, 3, dtype=torch.int64))", "f(bk=torch.ones(1, 1, 4))",
        "f(q=x[0], k=x[0], v=x[0], attn_mask=torch.ones(3, 2, 2))", "f(static_k=torch.ones(3, 3, 2))",
        "f(bv=torch.ones(1, 1, 4))", "f(bk=torch.ones(1, 1, 4), bv=torch.ones(1, 1, 4), static_k=torch.ones(4, 3, 2))",
        "f(static_v=torch.ones(4, 3, 3))", "f(use_separate_proj_weight=True)", "f(key_padding_mask=torch.ones(2, 4))",
        "f(use_separate_proj_weight=True, q_proj_weight=b, k_proj_weight=w, v_proj_weight=b)",
        "f(k=x[:2], use_separate_proj_weight=True)",
    ]  # fmt: skip
    assert_torch_says(uses, before)


def test_dropout_is_for_training():
    x = smolder.randn(3, 2, 8)
    m = nn.MultiheadAttention(8, 2, dropout=0.5, add_zero_attn=True)
    assert m(x, x, x)[0].tolist() != m(x, x, x)[0].tolist()
    m.eval()
    assert m(x, x, x)[0].tolist() == m(x, x, x)[0].tolist()
    with pytest.warns(UserWarning, match="mismatched key_padding_mask and attn_mask"):
        m(x, x, x, key_padding_mask=smolder.zeros(2, 3), attn_mask=smolder.zeros(3, 3) > 0)


def test_the_hint_is_the_mask_where_nothing_else_needs_it():
    layer = nn.MultiheadAttention(4, 2, batch_first=True)
    x = smolder.tensor(np.random.default_rng(1).normal(size=(2, 3, 4)).astype(np.float32))
    causal = smolder.ones(3, 3).triu(1).bool()
    expected = layer(x, x, x, attn_mask=causal, need_weights=False)[0]
    found = layer(x, x, x, attn_mask=smolder.zeros(3, 3), need_weights=False, is_causal=True)[0]
    assert smolder.allclose(found, expected, atol=1e-6)


def test_keys_have_the_rank_of_queries_and_the_shape_of_values():
    layer, x = nn.MultiheadAttention(4, 2), smolder.ones(2, 3, 4)
    with pytest.raises(AssertionError, match="expected `key` and `value` to be 3-D but found 2-D and 2-D tensors"):
        layer(x, x[0], x[0])
    with pytest.raises(AssertionError, match=r"key shape .* does not match value shape"):
        layer(x, smolder.ones(5, 3, 4), smolder.ones(6, 3, 4))
