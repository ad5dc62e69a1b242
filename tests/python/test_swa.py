"""Averages of weights: torch's, update by update."""

import numpy as np
import pytest
from torch_peer import assert_torch_says, needs_torch, run_here, run_torch

import smolder
from smolder import nn
from smolder.optim import swa_utils

BEFORE = """
if torch.__name__ == "torch":
    import torch.optim.swa_utils as swa
else:
    from smolder.optim import swa_utils as swa
def model():
    m = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3)).double()
    with torch.no_grad():
        for i, p in enumerate(m.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel()).double() + i).reshape(p.shape))
    return m
"""
RUN = """
def averaged(**options):
    m = model()
    a = swa.AveragedModel(m, **options)
    seen = []
    for i in range(4):
        with torch.no_grad():
            for p in m.parameters():
                p.add_(torch.cos(torch.arange(p.numel()).double() * i).reshape(p.shape))
        m(torch.sin(torch.arange(8).double() * (i + 1)).reshape(4, 2))
        a.update_parameters(m)
        seen.append({k: v.tolist() for k, v in a.state_dict().items()})
    return seen
def rates(*args, **options):
    o = torch.optim.SGD([{"params": [torch.zeros(1, requires_grad=True)]}, {"params": [torch.ones(1, requires_grad=True)], "lr": 2.0}], lr=1.0)
    s, seen = swa.SWALR(o, *args, **options), []
    for _ in range(7):
        o.step()
        s.step()
        seen.append([*s.get_last_lr(), o.param_groups[0]["swa_lr"]])
    return seen, sorted(s.state_dict())
def batches():
    m = model()
    swa.update_bn([(torch.sin(torch.arange(8).double() * i).reshape(4, 2), 0) for i in (1, 2, 3)], m)
    return [b.tolist() for b in m.buffers()], m[1].momentum, m.training
out = [
    averaged(), averaged(multi_avg_fn=swa.get_ema_multi_avg_fn(0.9)), averaged(avg_fn=swa.get_ema_avg_fn(0.8)),
    averaged(multi_avg_fn=swa.get_swa_multi_avg_fn()), averaged(use_buffers=True, avg_fn=swa.get_swa_avg_fn()), averaged(use_buffers=True, avg_fn=swa.get_ema_avg_fn(0.5)),
    averaged(avg_fn=lambda a, p, n: a * 0.5 + p * n), rates(0.1), rates([0.1, 0.5], 3, "linear")[0], rates(0.05, 0)[0], batches(),
]
"""


def assert_near(a, b):
    if isinstance(a, dict):
        assert list(a) == list(b)
        a, b = list(a.values()), list(b.values())
    if isinstance(a, list):
        assert len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            assert_near(x, y)
    elif isinstance(a, float):
        np.testing.assert_allclose(a, b, rtol=1e-6)  # the share of a new model is float32 there in one case
    else:
        assert a == b


@needs_torch
def test_averages_and_rates_are_those_of_torch():
    ours, theirs = run_here(BEFORE + RUN), run_torch(BEFORE + RUN)
    ours[7][1] = theirs[7][1] = None  # names of state: torch's has members for what here are methods
    assert_near(ours, theirs)


@needs_torch
def test_errors_are_those_of_torch():
    uses = [
        "swa.get_ema_avg_fn(1.5)",
        "swa.get_ema_multi_avg_fn(-1)",
        "swa.AveragedModel(model(), avg_fn=len, multi_avg_fn=len)",
        "swa.SWALR(torch.optim.SGD(model().parameters()), 0.1, anneal_strategy='x')",
        "swa.SWALR(torch.optim.SGD(model().parameters()), 0.1, -1)",
        "swa.AveragedModel(model())",
        "swa.update_bn([], torch.nn.Linear(1, 1))",
    ]
    assert_torch_says(uses, BEFORE)


def test_an_average_is_a_model():
    m = nn.Linear(2, 1)
    a = swa_utils.AveragedModel(m)
    a.update_parameters(m)
    x = smolder.ones(1, 2)
    assert a(x).tolist() == m(x).tolist() and a.n_averaged.item() == 1
    schedule = swa_utils.SWALR(smolder.optim.SGD(m.parameters(), lr=1.0), 0.1)
    with pytest.warns(UserWarning, match="get_last_lr"):
        schedule.get_lr()
