"""Nested tensors: every rule beside the same op of each tensor alone."""

import copy

import numpy as np
import pytest

import smolder as sm
from smolder import nested, nn
from smolder.nn import functional as F

RNG = np.random.default_rng(0)
LENGTHS = (2, 5, 1)


def rows(*shape):
    return sm.from_numpy(RNG.standard_normal(shape))


PARTS = [rows(n, 4) for n in LENGTHS]
OTHERS = [rows(n, 4) for n in LENGTHS]
MATRIX, EACH, WEIGHT = rows(4, 3), rows(3, 1, 4), rows(3, 4)


def joined(parts, layout=sm.jagged, **options):
    return nested.nested_tensor(parts, layout=layout, **options)


def same(got, wanted):
    assert len(got) == len(wanted)
    for a, b in zip(got, wanted, strict=True):
        assert a.shape == b.shape and a.dtype == b.dtype
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), atol=1e-12)


OF_EACH = [  # of the nested tensor and of each alone
    lambda x: x + 1,
    lambda x: 2 - x,
    lambda x: -x,
    lambda x: x / 3,
    lambda x: x.sin(),
    lambda x: sm.exp(x),
    lambda x: F.gelu(x),
    lambda x: x > 0,
    lambda x: sm.where(x > 0, x, x * 2),
    lambda x: x.masked_fill(x > 0, 1.0),
    lambda x: x * sm.arange(4),
    lambda x: sm.zeros_like(x),
    lambda x: x.float(),
    lambda x: x.to(sm.float32),
    lambda x: x @ MATRIX,
    lambda x: F.linear(x, WEIGHT),
    lambda x: F.layer_norm(x, (4,)),
    lambda x: F.rms_norm(x, (4,)),
    lambda x: F.dropout(x, 0.5, False),
    lambda x: x.softmax(-1),
    lambda x: sm.log_softmax(x, -1),
    lambda x: x.softmax(-2),
    lambda x: x.sum(-1),
    lambda x: x.mean(-1, keepdim=True),
    lambda x: x.amax(-1),
    lambda x: x.max(-1)[1],
    lambda x: x.transpose(-1, -2),
    lambda x: x.transpose(-1, -2).transpose(-1, -2).contiguous(),
    lambda x: x.unsqueeze(-1),
    lambda x: x.unsqueeze(-1).squeeze(-1),
    lambda x: x.unflatten(-1, (2, 2)),
    lambda x: x.unflatten(-1, (2, 2)).flatten(-2),
    lambda x: x.unflatten(-1, (2, 2)).transpose(-3, -2),
    lambda x: x.chunk(2, -1)[1],
    lambda x: x.split([1, 3], -1)[1],
    lambda x: x.narrow(-1, 1, 2),
    lambda x: x.select(-1, 2),
    lambda x: sm.cat([x, x * 2], -1),
    lambda x: x.clone().add_(1),
]


@pytest.mark.parametrize("layout", [sm.jagged, sm.strided])
@pytest.mark.parametrize("function", OF_EACH)
def test_ops_are_those_of_each_tensor(function, layout):
    got = function(joined(PARTS, layout))
    assert got.is_nested and got.layout is layout
    same(got.unbind(), [function(p) for p in PARTS])


def test_two_nested_tensors_and_broadcast():
    a, b = joined(PARTS), nested.as_nested_tensor(OTHERS, layout=sm.jagged)
    same((a * b).unbind(), [p * q for p, q in zip(PARTS, OTHERS, strict=True)])
    same((a + EACH).unbind(), [p + e for p, e in zip(PARTS, EACH, strict=True)])
    same((a + EACH[:1]).unbind(), [p + EACH[0] for p in PARTS])
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function add"):
        a + joined(PARTS[:2])
    with pytest.raises(RuntimeError, match="cannot call binary pointwise function add"):
        a + rows(3, 5, 4)


def test_sums_over_the_dimension_that_differs():
    x = joined(PARTS)
    for name in ("sum", "mean", "amax", "amin"):
        same([getattr(x, name)(1)], [sm.stack([getattr(p, name)(0) for p in PARTS])])
        same([getattr(x, name)(dim=(1, 2))], [sm.stack([getattr(p, name)() for p in PARTS])])
    everything = sm.cat([p.reshape(-1) for p in PARTS])
    for name in ("sum", "mean", "max", "min"):
        same([getattr(x, name)()], [getattr(everything, name)()])
    with pytest.raises(RuntimeError, match="batch"):
        x.sum(0)


@pytest.mark.parametrize("dtype", [sm.int32, sm.int64, sm.uint8, sm.bool])
def test_extremes_of_integers_do_not_see_the_padding(dtype):
    parts = [sm.arange(2 * n).reshape(n, 2).remainder(5).add(1).to(dtype) for n in (1, 3)]
    x = joined(parts)
    same(x.amax(1), sm.stack([p.amax(0) for p in parts]))
    same(x.amin(1), sm.stack([p.amin(0) for p in parts]))


def test_where_a_nested_tensor_is_moved_to_its_offsets_are():
    x = joined(PARTS)
    moved = x.cpu()
    assert moved.offsets().device == moved.values().device == sm.device("cpu")
    same(moved.to_padded_tensor(0.0), x.to_padded_tensor(0.0).cpu())
    same(x.to(sm.float16).to_padded_tensor(1.0), x.to_padded_tensor(1.0).to(sm.float16))


@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_that_of_each_tensor(causal):
    q, k, v = ([rows(n, 4) for n in LENGTHS] for _ in range(3))

    def heads(x):
        return x.unflatten(-1, (2, 2)).transpose(-3, -2)

    leaves = [joined(x, requires_grad=True) for x in (q, k, v)]
    out = F.scaled_dot_product_attention(*map(heads, leaves), is_causal=causal)
    out = out.transpose(1, 2).flatten(-2)
    (out * out).sum().backward()
    alone = [[p.clone().requires_grad_() for p in x] for x in (q, k, v)]
    wanted = [
        F.scaled_dot_product_attention(*(heads(p).unsqueeze(0) for p in each), is_causal=causal)[0]
        .transpose(0, 1)
        .flatten(-2)
        for each in zip(*alone, strict=True)
    ]
    sum((w * w).sum() for w in wanted).backward()
    same(out.unbind(), wanted)
    for leaf, parts in zip(leaves, alone, strict=True):
        same(leaf.grad.unbind(), [p.grad for p in parts])


def test_padding_and_products_with_a_matrix_for_each():
    x = joined(PARTS)
    padded = nested.to_padded_tensor(x, -1.0)
    assert padded.shape == (3, 5, 4)
    for row, part in zip(padded, PARTS, strict=True):
        same([row[: len(part)]], [part])
        assert (row[len(part) :] == -1).all()
    wider = x.to_padded_tensor(0.0, output_size=(3, 6, 5))
    assert wider.shape == (3, 6, 5) and wider.sum().item() == pytest.approx(x.sum().item())
    with pytest.raises(RuntimeError, match="Truncation"):
        x.to_padded_tensor(0.0, (3, 4, 4))
    each = rows(3, 4, 2)
    same(sm.matmul(x, each).unbind(), [p @ m for p, m in zip(PARTS, each, strict=True)])
    same([x.transpose(1, 2) @ x], [sm.stack([p.T @ p for p in PARTS])])


def test_parts_and_other_ways_to_make_one():
    values, offsets = sm.cat(PARTS), sm.tensor([0, 2, 7, 8])
    x = nested.nested_tensor_from_jagged(values, offsets)
    assert x.offsets().tolist() == [0, 2, 7, 8] and x.lengths() is None and x.numel() == 32
    assert x.dim() == 3 and len(x) == 3 and x.size(0) == 3 and x.size(-1) == 4
    assert x.shape == nested.nested_tensor_from_jagged(values * 2, offsets).shape
    assert x.shape != joined(PARTS).shape and str(x.shape[1]).startswith("j")
    same([x[1], x[-1], *x], [PARTS[1], PARTS[-1], *PARTS])
    same(x[:, :, 1].unbind(), [p[:, 1] for p in PARTS])
    same(nested.nested_tensor_from_jagged(values, lengths=sm.tensor(LENGTHS)).unbind(), PARTS)
    same(x.view(3, -1, 2, 2).unbind(), [p.view(-1, 2, 2) for p in PARTS])
    same(x.reshape(3, x.size(1), 2, 2).unbind(), [p.view(-1, 2, 2) for p in PARTS])
    same(copy.deepcopy(x).unbind(), PARTS)
    same(sm.cat([x, x]).unbind(), PARTS * 2)
    batch = rows(2, 6, 3)
    cut = nested.narrow(batch, 1, sm.tensor([0, 2]), sm.tensor([3, 4]), layout=sm.jagged)
    same(cut.unbind(), [batch[0, :3], batch[1, 2:6]])
    mask = sm.tensor([[True, False, True], [False, True, False]])
    same(nested.masked_select(batch[:, 0], mask).unbind(), [batch[0, 0][mask[0]], batch[1, 0][mask[1]]])
    table = nn.Embedding(9, 4)
    words = joined([sm.tensor([1, 2]), sm.tensor([3])])
    same(table(words).unbind(), [table(sm.tensor([1, 2])), table(sm.tensor([3]))])


def test_gradients_reach_what_was_joined():
    leaves = [p.clone().requires_grad_() for p in PARTS]
    x = nested.as_nested_tensor(leaves, layout=sm.jagged)
    (x.sin().to_padded_tensor(3.0) ** 2).sum().backward()
    for leaf in leaves:
        same([leaf.grad], [2 * leaf.sin() * leaf.cos()])
    layer = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.ReLU()).double()
    x = joined(PARTS, requires_grad=True)
    layer(x).sum(1).sum().backward()
    assert x.grad.is_nested and x.grad.shape[1] is x.shape[1]
    grad = layer[0].weight.grad.clone()
    layer.zero_grad()
    sum(layer(p).sum() for p in PARTS).backward()
    same([grad], [layer[0].weight.grad])


def test_printed_forms_and_errors():
    x = joined([sm.ones(1, 2), sm.ones(2, 2)], requires_grad=True)
    name = x.shape[1]
    assert (
        repr(x) == f"NestedTensor(size=(2, {name}, 2), offsets=tensor([0, 1, 3]), requires_grad=True, contiguous=True)"
    )
    assert (
        repr(joined([sm.ones(1), sm.ones(2)], sm.strided)) == "nested_tensor([\n  tensor([1.]),\n  tensor([1., 1.])\n])"
    )
    for call, text in (
        (lambda: x.cumsum(-1), "cumsum of a nested tensor is not supported"),
        (lambda: x.numpy(), "to_padded_tensor"),
        (lambda: joined([sm.ones(2, 3), sm.ones(3, 2)]), "several dimensions"),
        (lambda: nested.nested_tensor_from_jagged(x.values(), x.offsets(), sm.tensor([1, 1])), "gaps"),
    ):
        with pytest.raises(NotImplementedError, match=text):
            call()
    for call, text in (
        (lambda: x.transpose(0, 1), "dim=0"),
        (lambda: x.chunk(2, 1), "ragged dim"),
        (lambda: joined([]), "empty list"),
        (lambda: joined([sm.ones(1), sm.ones(1, 1)]), "same dim"),
        (lambda: joined([sm.ones(1)], sm.sparse_coo), "unsupported"),
        (lambda: joined([sm.ones(1, 3), sm.ones(2, 3)], sm.strided).size(1), "irregular"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(TypeError, match="Only lists"):
        nested.nested_tensor(3)
