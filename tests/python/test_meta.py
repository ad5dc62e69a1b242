"""The device "meta": shapes and dtypes without elements, and modules made there and filled later."""

import copy

import pytest
from torch_peer import assert_torch_says, needs_torch

import smolder
from smolder import nn

BEFORE = """
t = torch.empty(3, 4, device="meta")
def module():
    with torch.device("meta"):
        return torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.BatchNorm1d(2))
def assigned():
    m = module()
    state = {k: torch.ones(v.shape, dtype=v.dtype) for k, v in m.state_dict().items()}
    return m.load_state_dict(state, assign=True), m[0].weight.is_meta, m.eval()(torch.ones(1, 4)).tolist()
def drawn():
    torch.manual_seed(3)
    module()
    after = torch.rand(2).tolist()
    torch.manual_seed(3)
    return after == torch.rand(2).tolist()
def gradient():
    x = torch.empty(2, 2, device="meta", requires_grad=True)
    (x * 2).sum().backward()
    return x.grad.device, x.grad.shape
"""
USES = """
t | t.device | t.is_meta | t.device == torch.device("meta") | (t @ t.t()).shape | (t + 1).device | t.half() | t.data_ptr() | t.dtype
t.to("cpu") | t.cpu() | t.tolist() | torch.ones(2).to("meta") | torch.zeros_like(t, device="cpu") | torch.ones(2, device="meta", dtype=torch.int64)
torch.nn.Parameter(t) | [p.is_meta for p in module().parameters()] | module().to_empty(device="cpu")[0].weight.device | assigned() | drawn() | gradient()
module()(torch.empty(5, 4, device="meta")).shape | module().to("meta")[0].bias.device | torch.arange(5, device="meta").shape | t.new_zeros(2).device
torch.nn.utils.skip_init(torch.nn.Linear, 2, 3).weight.shape | torch.nn.utils.skip_init(torch.nn.ReLU) | torch.nn.utils.skip_init(int)
torch.nn.utils.skip_init(torch.nn.Conv2d, 2, 3, 3, dtype=torch.float64).weight.dtype | torch.nn.utils.skip_init(torch.nn.GRU, 2, 3, device="meta").weight_ih_l0.device
torch.nn.Linear(2, 2).to("meta").weight | module().to("cpu") | torch.tensor([1, 2], device="meta") | torch.empty(0, device="meta")
"""


@needs_torch
def test_what_it_gives_is_what_torch_gives():
    assert_torch_says([use.strip() for use in USES.replace("\n", "|").split("|") if use.strip()], BEFORE)


def test_tensors_there_take_no_memory_and_compute_nothing():
    with smolder.device("meta"):
        big = smolder.zeros(10**6, 10**6)
        model = nn.Linear(10**6, 10**6)
    assert (big @ big).shape == (10**6, 10**6) and model(big).is_meta
    model.weight.data.add_(1)
    smolder.mark_step()  # 4 TB, were it computed
    assert big.is_meta and str(big) == "tensor(..., device='meta', size=(1000000, 1000000))"
    assert copy.deepcopy(model).weight.is_meta
    small = smolder.zeros(2, device="meta")
    for read in (small.tolist, small.sum().item, small.cpu):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            read()
    with pytest.raises(RuntimeError, match="on the same device"):
        smolder.ones(2) + smolder.ones(2, device="meta")


def test_a_model_is_made_there_and_filled_with_weights():
    with smolder.device("meta"):
        model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    filled = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 1))
    state = filled.state_dict()
    model.load_state_dict(state, assign=True)
    assert not model[0].weight.is_meta and isinstance(model[0].weight, nn.Parameter)
    x = smolder.ones(2, 3)
    assert model[0](x).tolist() == filled[0](x).tolist()
    (model[0](x) ** 2).sum().backward()
    assert model[0].weight.grad.shape == (3, 3)
