"""Rprop and ASGD: the way that torch's go, and what they raise."""

import copy

import numpy as np
from torch_peer import assert_torch_says, needs_torch, run_here, run_torch

import smolder
from smolder import nn, optim

RUN = """
def run(name, **options):
    p = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64))
    q = torch.nn.Parameter(torch.ones(2, 2, dtype=torch.float64))
    o = getattr(torch.optim, name)([p, q], **options)
    seen = []
    for i in range(6):
        o.zero_grad()
        ((p ** 2 * torch.tensor([1.0, 0.1, 10.0, (-1.0) ** i]).double()).sum() + (q.sin() * (i - 2)).sum()).backward()
        o.step()
        seen.append(p.tolist() + q.flatten().tolist())
    state = o.state[p]
    return seen, {k: state[k].tolist() for k in ("prev", "step_size", "ax") if k in state}, {k: float(state[k]) for k in ("step", "eta", "mu") if k in state}
out = [
    run("Rprop"), run("Rprop", lr=0.3, etas=(0.3, 1.5), step_sizes=(0.1, 0.5)), run("Rprop", maximize=True),
    run("ASGD"), run("ASGD", lr=0.1, lambd=0.1, alpha=0.5, t0=2, weight_decay=0.1), run("ASGD", t0=0, maximize=True),
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
    else:
        np.testing.assert_allclose(a, b, rtol=1e-6)  # there the rates are float32


@needs_torch
def test_they_go_the_way_of_torch():
    assert_near(run_here(RUN), run_torch(RUN))


@needs_torch
def test_they_say_what_torch_does():
    before = "p = [torch.nn.Parameter(torch.ones(2))]\n"
    uses = [
        "Rprop(p)",
        "Rprop(p, lr=-1)",
        "Rprop(p, etas=(1.5, 1.2))",
        "ASGD(p)",
        "ASGD(p, lr=-1)",
        "ASGD(p, lambd=-1)",
    ]
    uses += ["ASGD(p, weight_decay=-1)"]
    assert_torch_says([f"torch.optim.{use}" for use in uses], before)


def test_state_goes_on_where_it_was_saved():
    for kind in (optim.Rprop, optim.ASGD):
        model = nn.Linear(3, 2)
        made = kind(model.parameters(), lr=0.05)
        x = smolder.randn(4, 3)

        def train(model, optimizer, x=x):
            optimizer.zero_grad()
            model(x).pow(2).sum().backward()
            optimizer.step()

        train(model, made)
        other = copy.deepcopy(model)
        resumed = kind(other.parameters(), lr=0.05)
        resumed.load_state_dict(made.state_dict())
        for _ in range(2):
            train(model, made)
            train(other, resumed)
        assert model.weight.tolist() == other.weight.tolist()
