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
