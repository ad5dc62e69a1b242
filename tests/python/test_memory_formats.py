"""channels_last and channels_last_3d: strides are torch's where a tensor was put into the format, values never differ."""

import copy
import io

import numpy as np
import pytest
from torch_peer import assert_torch_says, needs_torch

import smolder
from smolder import nn

LAST, LAST_3D, ROWS = smolder.channels_last, smolder.channels_last_3d, smolder.contiguous_format
SHAPE, STRIDES = (2, 3, 4, 5), (60, 1, 15, 3)


def image():
    return smolder.arange(120.0).reshape(SHAPE)


MAKES = {
    "contiguous": lambda x: x.contiguous(memory_format=LAST),
    "to": lambda x: x.to(memory_format=LAST),
    "to dtype and format": lambda x: x.to(smolder.float64, memory_format=LAST),
    "double": lambda x: x.double(memory_format=LAST),
    "clone": lambda x: x.clone(memory_format=LAST),
    "smolder.clone": lambda x: smolder.clone(x, memory_format=LAST),
    "clone of one": lambda x: x.to(memory_format=LAST).clone(),
    "copy of one": lambda x: x.to(memory_format=LAST).to(smolder.float32, copy=True),
    "dtype of one": lambda x: x.to(memory_format=LAST).double(),
    "detach of one": lambda x: x.to(memory_format=LAST).detach(),
    "write to one": lambda x: x.to(memory_format=LAST).mul_(1),
}


@pytest.mark.parametrize("how", MAKES)
def test_strides_of_what_is_put_into_the_format(how):
    x = image()
    y = MAKES[how](x)
    assert y.stride() == STRIDES and y.shape == x.shape
    assert not y.is_contiguous() and y.is_contiguous(memory_format=LAST) and not y.is_contiguous(memory_format=LAST_3D)
    assert y.tolist() == x.tolist()
    assert y.permute(0, 2, 3, 1).is_contiguous() and y.permute(0, 2, 3, 1).view(-1)[:3].tolist() == [0, 20, 40]
    assert y.contiguous().stride() == y.to(memory_format=ROWS).stride() == y.clone(memory_format=ROWS).stride()
    assert y.contiguous().is_contiguous() and y.contiguous(memory_format=LAST) is y and y.to(memory_format=LAST) is y
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        y.view(-1)


def test_functions_that_make_tensors_like_another():
    y = image().to(memory_format=LAST)
    makes = [smolder.zeros_like, smolder.ones_like, smolder.empty_like, smolder.rand_like, smolder.randn_like]
    makes += [lambda x, **o: smolder.full_like(x, 2, **o), lambda x, **o: smolder.randint_like(x, 5, **o)]
    for make in makes:
        assert make(y).stride() == make(image(), memory_format=LAST).stride() == STRIDES
        assert make(y, memory_format=ROWS).is_contiguous() and make(image()).is_contiguous()
    assert smolder.empty(2, 3, 4, 5, memory_format=LAST).stride() == STRIDES
    assert smolder.empty(1, 2, 3, 4, 5, memory_format=LAST_3D).stride() == (120, 1, 40, 10, 2)


def test_files_arrays_and_copies_keep_the_format():
    y = image().to(memory_format=LAST)
    data = io.BytesIO()
    smolder.save({"y": y}, data)
    data.seek(0)
    loaded = smolder.load(data)["y"]
    assert loaded.stride() == copy.deepcopy(y).stride() == STRIDES and loaded.tolist() == y.tolist()
    assert y.numpy().strides == tuple(4 * s for s in STRIDES) and np.array_equal(y.numpy(), image().numpy())


def test_models_train_to_the_same_bits():
    def make():
        smolder.manual_seed(0)
        return nn.Sequential(
            nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 4, 1), nn.Flatten(), nn.Linear(24, 2)
        )

    def losses(model, x):
        optimizer, found = smolder.optim.SGD(model.parameters(), 0.1, momentum=0.9), []
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
        return found

    rows, last, x = make(), make(), image() * 0.01
    parameters = list(last.parameters())
    assert last.to(memory_format=LAST) is last and all(
        a is b for a, b in zip(parameters, last.parameters(), strict=True)
    )
    assert last[0].weight.stride() == (27, 1, 9, 3) and last[0].weight.is_leaf and last[5].weight.is_contiguous()
    assert losses(last, x.to(memory_format=LAST)) == losses(rows, x)
    assert last[0].weight.stride() == (27, 1, 9, 3)  # after the optimizer's writes
    rows.load_state_dict(last.state_dict())
    last.load_state_dict(rows.state_dict())
    assert last[0].weight.stride() == (27, 1, 9, 3) and last[0].weight.tolist() == rows[0].weight.tolist()


def test_gradients_and_compiled_functions():
    x = image().requires_grad_()
    y = x.contiguous(memory_format=LAST)
    (y * smolder.arange(5.0)).sum().backward()
    assert x.grad.tolist() == smolder.arange(5.0).expand(SHAPE).tolist()

    @smolder.compile(fullgraph=True)
    def step(x):
        return x.to(memory_format=LAST).permute(0, 2, 3, 1).reshape(-1) + 1

    assert step(image()).tolist() == (image().permute(0, 2, 3, 1).reshape(-1) + 1).tolist()
    assert (
        smolder.func.vmap(lambda x: x.contiguous(memory_format=LAST) * 2)(image()[None]).tolist()
        == (image()[None] * 2).tolist()
    )


def test_what_has_no_such_format_raises():
    x = image()
    with pytest.raises(RuntimeError, match="required rank 4 tensor to use channels_last format"):
        x[0].to(memory_format=LAST)
    with pytest.raises(RuntimeError, match="required rank 5 tensor to use channels_last_3d format"):
        x.clone(memory_format=LAST_3D)
    with pytest.raises(RuntimeError, match="required rank 5"):
        nn.Conv2d(1, 2, 3).to(memory_format=LAST_3D)
    with pytest.raises(TypeError, match=r"must be smolder\.memory_format, not int"):
        x.to(memory_format=3)
    assert not x[0].is_contiguous(memory_format=LAST)


SHAPES = [(2, 1, 4, 5), (2, 3, 1, 1), (1, 3, 4, 5), (1, 1, 1, 1), (2, 1, 1, 1), (2, 3, 1, 5), (2, 1, 4, 1)]
USES = [f"told(torch.ones{shape}.{how})" for shape in SHAPES for how in ("contiguous(memory_format=L)", "to(memory_format=L)", "clone(memory_format=L)", "contiguous(memory_format=L).clone()")]  # fmt: skip
USES += """
told(y.permute(0, 2, 3, 1)) | told(y.transpose(1, 3)) | told(y[0]) | told(y[:, 1]) | told(y[..., 1:]) | told(y[:, :2]) | told(y.unsqueeze(0)) | told(y.flatten(2))
told(y.half()) | told(x.half(memory_format=L)) | told(y.to(torch.int64)) | told(y.contiguous()) | told(v.contiguous(memory_format=torch.channels_last_3d))
told(torch.zeros_like(v, memory_format=torch.channels_last_3d)) | told(v.to(memory_format=torch.channels_last_3d).clone()) | v.to(memory_format=L) | torch.zeros_like(x[0], memory_format=L)
[told(p) for p in torch.nn.Sequential(torch.nn.Conv2d(3, 6, 3), torch.nn.Conv2d(6, 4, 1), torch.nn.Linear(2, 3)).to(memory_format=L).parameters()]
""".strip().replace("\n", " | ").split(" | ")  # fmt: skip


@needs_torch
def test_strides_are_torchs():
    before = """
L, x, v = torch.channels_last, torch.arange(120.0).reshape(2, 3, 4, 5), torch.ones(2, 3, 2, 4, 5)
y = x.to(memory_format=L)
def told(t):
    return t.stride(), t.is_contiguous(), t.is_contiguous(memory_format=L)
"""
    assert_torch_says(USES, before)


# -- attention


def split(qkv, heads=4):
    """Queries, keys and values of a projection, [B, H, L, E]: views whose heads lie beside each other."""
    return (t.unflatten(-1, (heads, -1)).transpose(1, 2) for t in qkv.chunk(3, -1))


def test_attention_lies_as_its_query():
    qkv = smolder.randn(2, 6, 3 * 32)
    q, k, v = split(qkv)
    out = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    assert out.stride() == (192, 8, 32, 1) and not out.is_contiguous()
    rows = [t.contiguous() for t in (q, k, v)]
    plain = nn.functional.scaled_dot_product_attention(*rows, is_causal=True)
    assert plain.stride() == (192, 48, 8, 1)
    assert plain.numpy().tobytes() == out.numpy().tobytes()
    joined = out.transpose(1, 2).view(2, 6, 32)  # without contiguous()
    np.testing.assert_array_equal(joined.numpy(), plain.transpose(1, 2).reshape(2, 6, 32).numpy())
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        plain.transpose(1, 2).view(2, 6, 32)


@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_gradients_of_attention_that_lies_as_its_query(mode):
    start = smolder.randn(2, 6, 3 * 32, dtype=smolder.float64)
    gradients = []
    for join in (
        lambda y: y.transpose(1, 2).view(2, 6, 32),
        lambda y: y.contiguous().transpose(1, 2).reshape(2, 6, 32),
    ):
        x = start.clone().requires_grad_()
        function = lambda x: (join(nn.functional.scaled_dot_product_attention(*split(x))) ** 2).sum()  # noqa: B023, E731
        with smolder.eager() if mode == "eager" else smolder.enable_grad():
            function(x).backward()
        gradients.append(x.grad.numpy())
    np.testing.assert_array_equal(*gradients)
    i, step = (1, 2, 40), 1e-6
    ends = []
    for by in (step, -step):
        moved = start.clone()
        moved[i] += by
        ends.append(function(moved).item())
    np.testing.assert_allclose(gradients[0][i], (ends[0] - ends[1]) / (2 * step), rtol=1e-5)
