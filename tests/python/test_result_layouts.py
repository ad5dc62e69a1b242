"""Results lie in memory as torch's do: in the order of their operands, of their query, or of their format."""

import copy
import io
import json
import pickle

import numpy as np
import pytest
from result_layouts import GOLDEN, told

import smolder
from smolder import nn


def turned(*shape, **options):
    """Numbers that lie as heads beside each other do: [B, H, T, E] of [B, T, H, E]."""
    b, h, t, e = shape
    return smolder.arange(float(b * h * t * e), **options).reshape(b, t, h, e).transpose(1, 2)


def test_generated_calls_lie_as_torchs():
    golden = json.loads(GOLDEN.read_text())
    wrong = {text: (said, theirs) for text, theirs in golden.items() if (said := told(text, smolder)) != theirs}
    assert wrong == {}
    assert len(golden) > 350


@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_a_result_owns_its_memory_and_has_its_operands_order(mode):
    with smolder.eager() if mode == "eager" else smolder.enable_grad():
        x = turned(2, 3, 5, 4)
        y = (x * 2 + 1).relu()
        assert y.stride() == x.stride() == (60, 4, 12, 1) and y._base is None and not y.is_contiguous()
        rows = x.contiguous() * 2 + 1
        assert rows.is_contiguous() and y.tolist() == rows.tolist()
        joined = y.transpose(1, 2).view(2, 5, 12)  # without contiguous()
        assert joined.tolist() == rows.transpose(1, 2).reshape(2, 5, 12).tolist()
        assert joined._base._is_same(y)
        with pytest.raises(RuntimeError, match="view size is not compatible"):
            y.view(2, 15, 4)
        joined.mul_(0)
        assert y._version == 1 and y.abs().sum() == 0 and y.stride() == (60, 4, 12, 1)
        y[0, 1, 2] = 5
        assert joined[0, 2, 4:8].tolist() == [5, 5, 5, 5]
        assert y.detach().stride() == y.data.stride() == y.clone().stride() == (60, 4, 12, 1)
        assert smolder.zeros_like(y).stride() == y.double().stride() == smolder.rand_like(y).stride() == (60, 4, 12, 1)
        assert y.contiguous().stride() == y.clone(memory_format=smolder.contiguous_format).stride() == (60, 20, 4, 1)


def test_arrays_files_and_copies_have_the_order():
    y = turned(2, 3, 5, 4) + 1
    values = y.tolist()
    array = y.numpy()
    assert array.strides == tuple(4 * s for s in y.stride()) and array.tolist() == values
    array[1, 2, 3, 0] = 77
    assert y[1, 2, 3, 0] == 77 and y.transpose(1, 2).view(-1)[60 + 3 * 12 + 8] == 77
    y[1, 2, 3, 0] = 78
    assert array[1, 2, 3, 0] == 78
    assert y.data_ptr() == array.__array_interface__["data"][0]
    del array
    assert (y * 1)[1, 2, 3, 0] == 78 and y.stride() == (60, 4, 12, 1)
    assert y[:, 1:].data_ptr() == y.data_ptr() + 4 * 4
    values = y.tolist()
    data = io.BytesIO()
    smolder.save({"y": y, "part": y[:, 1]}, data)
    data.seek(0)
    loaded = smolder.load(data)
    assert loaded["part"].tolist() == y[:, 1].tolist() and loaded["part"].stride() == (60, 12, 1)
    for other in (loaded["y"], pickle.loads(pickle.dumps(y)), copy.deepcopy(y), smolder.from_dlpack(y)):
        assert other.stride() == y.stride() and other.tolist() == values
    assert np.frombuffer(bytes(y.untyped_storage()), "float32").tolist() == y.transpose(1, 2).reshape(-1).tolist()
    assert y.as_strided((2, 6), (12, 1), 60).tolist() == y[1].transpose(0, 1).reshape(5, 12)[:2, :6].tolist()
    part = y.as_strided((2, 6), (12, 1), 60)
    part.zero_()
    assert y[1, 0, :2].abs().sum() == 0 and y[1, 2, :2].tolist() != [[0] * 4] * 2
    whole = turned(2, 3, 5, 4).int() * 2
    assert [int(whole[1, 2, 3, i]) for i in range(4)] == whole.tolist()[1][2][3]
    assert whole.share_memory_().tolist() == (turned(2, 3, 5, 4) * 2).tolist()


def test_gradients_lie_as_their_leaf():
    leaf = (turned(2, 3, 5, 4) + 0).requires_grad_()
    assert leaf.is_leaf and leaf.stride() == (60, 4, 12, 1)
    (leaf.contiguous() ** 2).sum().backward()
    assert leaf.grad.stride() == leaf.stride() and leaf.grad.tolist() == (2 * leaf).tolist()
    rows = smolder.ones(3, 4, requires_grad=True)
    (rows.t() * smolder.arange(12.0).reshape(4, 3)).sum().backward()
    assert rows.grad.is_contiguous() and rows.grad.tolist() == smolder.arange(12.0).reshape(4, 3).t().tolist()
    model = nn.Conv2d(3, 4, 2).to(memory_format=smolder.channels_last)
    model(smolder.ones(1, 3, 4, 4)).sum().backward()
    assert model.weight.grad.is_contiguous(memory_format=smolder.channels_last)


def test_compiled_functions_and_vmap():
    @smolder.compile(fullgraph=True)
    def step(x):
        y = x.exp()
        return y, y.transpose(1, 2).view(2, 5, 12) if y.stride(1) < y.stride(2) else y.sum()

    x = turned(2, 3, 5, 4) * 0.01
    for _ in range(2):
        for given in (x, x.contiguous()):
            y, joined = step(given)
            assert y.stride() == given.stride() and y._base is None
            assert joined.dim() == (3 if given is x else 0)
            assert y.tolist() == x.exp().tolist()
    out = smolder.func.vmap(lambda x: (x.transpose(0, 1) * 2).transpose(0, 1).view(-1))(smolder.ones(2, 3, 4))
    assert out.tolist() == [[2.0] * 12] * 2


def kernels():
    """Kernels that plans needed so far, from wherever."""
    counters = smolder.metrics()["counters"]
    return sum(counters.get(name, 0) for name in ("kernels.compiled", "cache.memory_hits", "cache.disk_hits"))


def test_a_chain_is_one_kernel():
    x = smolder.randn(7, 6, 5, 3)
    smolder.mark_step()
    before = kernels()
    y = (x.transpose(1, 2) * 2 + 1).transpose(1, 2).view(7, 6, 15) - 1
    np.testing.assert_allclose(y.numpy(), x.numpy().reshape(7, 6, 15) * 2, atol=1e-6)
    assert kernels() - before == 1


# -- attention


def split(qkv, heads=4):
    """Queries, keys and values of a projection, [B, H, L, E]: views whose heads lie beside each other."""
    return (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in qkv.chunk(3, -1))


def test_attention_lies_as_its_query():
    qkv = smolder.randn(2, 6, 3 * 32)
    q, k, v = split(qkv)
    attend = nn.functional.scaled_dot_product_attention
    out = attend(q, k, v, is_causal=True)
    assert out.stride() == (192, 8, 32, 1) and not out.is_contiguous()
    rows = [t.contiguous() for t in (q, k, v)]
    plain = attend(*rows, is_causal=True)
    assert plain.stride() == attend(rows[0], k, v).stride() == (192, 48, 8, 1)
    assert plain.numpy().tobytes() == np.ascontiguousarray(out.numpy()).tobytes()
    joined = out.transpose(1, 2).view(2, 6, 32)  # without contiguous()
    np.testing.assert_array_equal(joined.numpy(), plain.transpose(1, 2).reshape(2, 6, 32).numpy())
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        plain.transpose(1, 2).view(2, 6, 32)
    assert attend(q, k, v[..., :4]).is_contiguous() and attend(q, k[:, :1], v[:, :1]).is_contiguous()
    assert attend(q, k, v, dropout_p=0.5).is_contiguous()


def test_gradients_of_attention_that_lies_as_its_query():
    start = smolder.randn(2, 6, 3 * 32, dtype=smolder.float64)
    gradients = []
    for join in (
        lambda y: y.transpose(1, 2).view(2, 6, 32),
        lambda y: y.contiguous().transpose(1, 2).reshape(2, 6, 32),
    ):
        x = start.clone().requires_grad_()
        (join(nn.functional.scaled_dot_product_attention(*split(x))) ** 2).sum().backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_array_equal(*gradients)
