"""Fractional pools, window by window in Python, and against PyTorch."""

import itertools
import json

import numpy as np
import pytest
from torch_peer import assert_torch_says, needs_torch, run_here, run_torch

import smolder
from smolder import nn
from smolder.nn import functional as F

POOLS = {2: F.fractional_max_pool2d, 3: F.fractional_max_pool3d}


def starts(sample, length, count, window):
    if count == 1:
        return [length - window]
    apart = np.float32(length - window) / np.float32(count - 1)
    sample = np.float32(sample)
    return [int((np.float32(i) + sample) * apart) - int(sample * apart) for i in range(count - 1)] + [length - window]


def pooled(x, samples, window, size):
    """(values, indices) by loops."""
    dims = samples.shape[-1]
    values = np.zeros((*x.shape[:2], *size), np.float32)
    indices = np.zeros(values.shape, np.int64)
    for plane in np.ndindex(x.shape[:2]):
        order = samples[plane][::-1] if dims == 2 else samples[plane]
        begin = [starts(order[i], x.shape[2 + i], size[i], window) for i in range(dims)]
        for at in np.ndindex(*size):
            corner = [b[i] for b, i in zip(begin, at, strict=True)]
            cells = [tuple(c + o for c, o in zip(corner, off, strict=True)) for off in np.ndindex(*(window,) * dims)]
            best = max(cells, key=lambda cell: x[plane][cell])
            values[plane][at], indices[plane][at] = x[plane][best], np.ravel_multi_index(best, x.shape[2:])
    return values, indices


@pytest.mark.parametrize("dims, window, count", [(2, 2, 3), (2, 3, 4), (2, 2, 1), (3, 2, 3), (3, 1, 5)])
def test_windows_are_where_the_samples_put_them(dims, window, count):
    rng = np.random.default_rng(dims * 10 + count)
    x = (
        rng.permutation(2 * 3 * 9 * 7 * 8 // (8 if dims == 2 else 1))
        .astype(np.float32)
        .reshape(2, 3, *(9, 7, 8)[:dims])
    )
    samples = rng.random((2, 3, dims)).astype(np.float32)
    values, indices = pooled(x, samples, window, (count,) * dims)
    t = smolder.tensor(x, requires_grad=True)
    out, where = POOLS[dims](t, window, count, return_indices=True, _random_samples=smolder.tensor(samples))
    assert out.tolist() == values.tolist() and where.tolist() == indices.tolist()
    weights = rng.integers(1, 9, values.shape).astype(np.float32)
    (out * smolder.tensor(weights)).sum().backward()
    expected = np.zeros((6, x[0, 0].size), np.float32)
    for plane, (at, w) in enumerate(zip(indices.reshape(6, -1), weights.reshape(6, -1), strict=True)):
        np.add.at(expected[plane], at, w)
    assert t.grad.reshape(6, -1).tolist() == expected.tolist()


def test_layers_draw_and_keep_samples():
    x = smolder.arange(2 * 3 * 64.0).reshape(2, 3, 8, 8)
    layer = nn.FractionalMaxPool2d(2, output_ratio=(0.5, 0.75), return_indices=True)
    smolder.manual_seed(0)
    first = layer(x)[1]
    assert first.shape == (2, 3, 4, 6)
    drawn = [layer(x)[1].tolist() for _ in range(4)]
    assert any(other != first.tolist() for other in drawn)
    kept = nn.FractionalMaxPool3d(2, (2, 3, 4), _random_samples=smolder.rand(1, 2, 3))
    volume = smolder.randn(2, 5, 6, 7)
    assert kept(volume).shape == (2, 2, 3, 4) and kept(volume).tolist() == kept(volume).tolist()
    assert "_random_samples" in kept.state_dict()
    unpooled = F.max_unpool2d(*nn.FractionalMaxPool2d(2, output_ratio=0.5, return_indices=True)(x), 2)
    assert unpooled.shape == x.shape
    assert ((unpooled == x) | (unpooled == 0)).all()


MISTAKES = """
F.fractional_max_pool2d(x, 2, 8) | F.fractional_max_pool2d(x, 2) | F.fractional_max_pool2d(x, (2, 3, 4), 2) | F.fractional_max_pool2d(x, 5, 4)
F.fractional_max_pool2d(x, 2, 2, _random_samples=torch.rand(1, 2)) | F.fractional_max_pool2d(x, 2, 2, _random_samples=torch.rand(2, 3, 2).double())
F.fractional_max_pool2d(x, 2, 2, _random_samples=torch.rand(1, 3, 2)) | F.fractional_max_pool2d(x, 2, 2, _random_samples=torch.rand(2, 2, 2))
F.fractional_max_pool2d(x, 2, 2, _random_samples=torch.rand(2, 3, 3)) | torch.nn.FractionalMaxPool2d(2) | torch.nn.FractionalMaxPool2d(2, 3, 0.5)
torch.nn.FractionalMaxPool3d(2, output_ratio=1.5) | torch.nn.FractionalMaxPool3d(0, 2) | torch.nn.FractionalMaxPool2d(3, (2, 4))
"""


@needs_torch
def test_mistakes_are_torchs():
    uses = [use.strip() for use in MISTAKES.replace("\n", "|").split("|") if use.strip()]
    assert_torch_says(uses, "F, x = torch.nn.functional, torch.ones(2, 3, 8, 8)")


@needs_torch
def test_nans_and_infinities_are_taken_as_torch_takes_them():
    code = """
import json
x, s = (torch.tensor(json.loads(a)) for a in argv)
x[..., 3, 3], x[..., 2, 4], x[..., 4, 4] = float("nan"), float("inf"), float("nan")
values, indices = torch.nn.functional.fractional_max_pool2d(x, 3, (4, 5), return_indices=True, _random_samples=s)
out = [str(v) for v in values.flatten().tolist()], indices.flatten().tolist()
"""
    rng = np.random.default_rng(5)
    arguments = [json.dumps(a.tolist()) for a in (rng.standard_normal((2, 3, 9, 8)), rng.random((2, 3, 2)))]
    there = run_torch(code, *arguments)
    here = run_here(code.replace("for a in argv", f"for a in {arguments!r}"))
    assert here == there and any(itertools.chain(here[1]))
