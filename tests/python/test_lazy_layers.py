"""Layers that learn their channels from the first input: as torch's, down to what they print and raise."""

import copy

import numpy as np
import pytest
from torch_peer import assert_torch_says, needs_torch

import smolder
from smolder import nn
from smolder.nn.lazy import LazyModuleMixin
from smolder.nn.parameter import is_lazy

BEFORE = """
x = torch.ones(2, 6, 5)
def seen(layer, *shape):
    out = layer(torch.ones(*shape))
    return layer, tuple(out.shape), {k: tuple(v.shape) for k, v in layer.state_dict().items()}
lazy = torch.nn.LazyLinear(3)
unbiased = torch.nn.LazyLinear(3, bias=False)
"""
USES = """
    torch.nn.LazyConv1d(4, 3) | torch.nn.LazyConvTranspose2d(4, 3, bias=False) | torch.nn.LazyBatchNorm1d(affine=False)
    torch.nn.LazyInstanceNorm1d() | lazy | lazy.weight | lazy.has_uninitialized_params() | unbiased | lazy.state_dict()
    seen(torch.nn.LazyLinear(3), 4, 5) | seen(torch.nn.LazyLinear(3, bias=False), 4, 5)
    seen(torch.nn.LazyConv1d(4, 3, 2, 1, groups=2), 2, 6, 5) | seen(torch.nn.LazyConv1d(4, 3), 6, 5)
    seen(torch.nn.LazyConv2d(4, (1, 3), padding="same", padding_mode="reflect"), 2, 6, 5, 5)
    seen(torch.nn.LazyConv3d(4, 2), 2, 1, 3, 3, 3) | seen(torch.nn.LazyConvTranspose3d(4, 2), 2, 1, 3, 3, 3)
    seen(torch.nn.LazyConvTranspose1d(4, 3, 2, 1, 1, groups=2), 2, 6, 5)
    seen(torch.nn.LazyConvTranspose2d(4, 3, dilation=2), 2, 6, 5, 5)
    seen(torch.nn.LazyBatchNorm1d(), 2, 6, 5) | seen(torch.nn.LazyBatchNorm2d(bias=False), 2, 6, 5, 5)
    seen(torch.nn.LazyBatchNorm3d(track_running_stats=False), 2, 6, 5, 5, 2)
    seen(torch.nn.LazyInstanceNorm1d(), 2, 6, 5) | seen(torch.nn.LazyInstanceNorm2d(affine=False), 2, 6, 5, 5)
    torch.nn.LazyConv1d(4, 3, groups=4)(x) | torch.nn.LazyConv2d(4, 3)(torch.ones(2, 3)) | lazy.weight.shape
    torch.nn.LazyLinear(3, dtype=torch.float64).weight.dtype | torch.nn.LazyConv1d(4, 3).double().bias.dtype
    torch.nn.Linear(2, 3).load_state_dict(lazy.state_dict()) | torch.nn.LazyLinear(3).load_state_dict(lazy.state_dict())
    lazy.weight.size() | lazy.weight.device | torch.nn.Parameter is torch.nn.UninitializedParameter.cls_to_become
    torch.nn.UninitializedBuffer() | torch.nn.UninitializedParameter(False).requires_grad
"""


@needs_torch
def test_layers_say_what_those_of_torch_do():
    assert_torch_says([use.strip() for use in USES.replace("\n", "|").split("|") if use.strip()], BEFORE)


@pytest.mark.parametrize(
    "use",
    [
        lambda w: w + 1,
        lambda w: 2 * w,
        lambda w: w @ w,
        lambda w: w[0],
        lambda w: w.sum(),
        lambda w: w.numel(),
        lambda w: w < 1,
        lambda w: -w,
        len,
    ],
)
def test_parameters_without_a_shape_cannot_be_used(use):
    with pytest.raises(ValueError, match="Attempted to use an uninitialized parameter in Tensor"):
        use(nn.LazyLinear(2).weight)


def test_training_begins_with_the_first_input():
    smolder.manual_seed(3)
    lazy = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyBatchNorm1d(), nn.LazyLinear(1))
    optimizer = smolder.optim.SGD(lazy.parameters(), lr=0.1)
    weight = lazy[0].weight
    x = smolder.randn(8, 5)
    smolder.manual_seed(3)
    lazy(x)
    assert lazy[0].weight is weight and type(weight) is nn.Parameter and type(lazy[3]) is nn.Linear
    smolder.manual_seed(3)
    plain = nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.BatchNorm1d(4), nn.Linear(4, 1))
    plain(x)
    assert all(
        np.array_equal(a.numpy(), b.numpy()) for a, b in zip(lazy.state_dict().values(), plain.state_dict().values())
    )
    before = weight.tolist()
    lazy(x).sum().backward()
    optimizer.step()
    assert weight.tolist() != before


def test_states_give_shapes():
    plain, lazy = nn.Linear(5, 3), nn.LazyLinear(3)
    lazy.load_state_dict(plain.state_dict())
    assert not lazy.has_uninitialized_params() and lazy.in_features == 0
    x = smolder.randn(2, 5)
    assert lazy(x).tolist() == plain(x).tolist() and type(lazy) is nn.Linear and lazy.in_features == 5
    other = nn.LazyLinear(3)
    other.load_state_dict(plain.state_dict())
    with pytest.raises(AssertionError, match="The in_features inferred from input: 4 is not equal"):
        other(smolder.ones(2, 4))


def test_copies_have_no_shape_either():
    lazy = nn.LazyBatchNorm1d(dtype=smolder.float64)
    other = copy.deepcopy(lazy)
    assert is_lazy(other.weight) and is_lazy(other.running_mean) and other.weight is not lazy.weight
    assert other.weight.dtype == smolder.float64
    lazy(smolder.ones(2, 3, dtype=smolder.float64))
    assert is_lazy(other.weight) and not is_lazy(lazy.weight)


def test_a_layer_of_ones_own():
    class Scale(LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.UninitializedParameter()

        def initialize_parameters(self, x, by=1):
            with smolder.no_grad():
                self.scale.materialize(x.shape[-1:])
                self.scale.fill_(by)

        def forward(self, x, by=1):
            return x * self.scale

    layer = Scale()
    assert layer(smolder.ones(2, 3), by=4).tolist() == [[4.0] * 3] * 2
    assert not hasattr(layer, "_initialize_hook") and layer(smolder.ones(3), by=5).tolist() == [4.0] * 3

    class Forgets(Scale):
        def initialize_parameters(self, *args, **kwargs):
            pass

    with pytest.raises(RuntimeError, match="module Forgets has not been fully initialized"):
        Forgets()(smolder.ones(2))
