"""L-BFGS: the way that torch's goes, and what it raises."""

import copy

import numpy as np
import pytest
from torch_peer import assert_torch_says, needs_torch, run_here, run_torch

import smolder
from smolder import optim

RUN = """
def rosenbrock(p):
    return ((1 - p[:-1]) ** 2).sum() + 100 * ((p[1:] - p[:-1] ** 2) ** 2).sum()
def run(f, start, steps, **options):
    p = torch.nn.Parameter(torch.tensor(start, dtype=torch.float64))
    o = torch.optim.LBFGS([p], **options)
    sign = -1 if options.get("maximize") else 1
    calls, seen = [0], []
    def closure():
        calls[0] += 1
        o.zero_grad()
        loss = sign * f(p)
        loss.backward()
        return loss
    for _ in range(steps):
        loss = o.step(closure)
        state = o.state[p]
        seen.append([float(loss), *p.tolist(), calls[0], state["n_iter"], state["func_evals"]])
    return seen
out = [
    run(rosenbrock, [-1.2, 1.0], 12, line_search_fn="strong_wolfe"),
    run(rosenbrock, [-1.2, 1.0, 0.5, 2.0], 3, line_search_fn="strong_wolfe", history_size=3, max_iter=7),
    run(rosenbrock, [1.5, 2.0], 4, lr=0.01, max_iter=5),
    run(lambda p: (p ** 2).sum(), [3.0, -4.0], 3),
    run(lambda p: (p ** 4).sum() + p.sum(), [3.0, -4.0], 3, maximize=True, line_search_fn="strong_wolfe"),
    run(lambda p: p.abs().sum() + (p ** 2).sum(), [3.0, -4.0], 4, line_search_fn="strong_wolfe", max_eval=3),
    run(lambda p: (p * p).sum(), [0.0, 0.0], 2),
    run(lambda p: torch.cosh(p).sum() - p.sum(), [5.0, -2.0, 7.0], 4, line_search_fn="strong_wolfe", lr=0.1),
    run(lambda p: torch.sin(3 * p).sum() + 0.1 * (p ** 2).sum(), [2.0, -1.5], 5, line_search_fn="strong_wolfe", lr=5),
]
"""


@needs_torch
def test_it_goes_the_way_of_torch():
    for mine, other in zip(run_here(RUN), run_torch(RUN), strict=True):
        for a, b in zip(mine, other, strict=True):
            assert a[-3:] == b[-3:], "evaluations and iterations"
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9)


@needs_torch
def test_it_says_what_torch_does():
    before = "p = torch.nn.Parameter(torch.ones(2))\ndef f():\n    p.grad = torch.ones(2)\n    return p.sum()\n"
    uses = [
        "torch.optim.LBFGS([p])",
        "torch.optim.LBFGS([p], lr=-1)",
        "torch.optim.LBFGS([p], lr=torch.ones(2))",
        "torch.optim.LBFGS([{'params': [p]}, {'params': [torch.nn.Parameter(torch.ones(1))]}])",
        "torch.optim.LBFGS([p], line_search_fn='x').step(f)",
        "torch.optim.LBFGS([p], 0.5, 3).state_dict()['param_groups']",
        "torch.optim.LBFGS([p]).step()",
    ]
    assert_torch_says(uses, before, differ=uses[-1:])


def fit(optimizer, model, x, y):
    def closure():
        optimizer.zero_grad()
        loss = smolder.nn.functional.mse_loss(model(x), y)
        loss.backward()
        return loss

    return closure


def test_state_goes_on_where_it_was_saved():
    x, y = smolder.randn(32, 4), smolder.randn(32, 2)
    model = smolder.nn.Sequential(smolder.nn.Linear(4, 8), smolder.nn.Tanh(), smolder.nn.Linear(8, 2))
    optimizer = optim.LBFGS(model.parameters(), max_iter=4, line_search_fn="strong_wolfe")
    first = optimizer.step(fit(optimizer, model, x, y)).item()
    other = copy.deepcopy(model)
    resumed = optim.LBFGS(other.parameters(), max_iter=4, line_search_fn="strong_wolfe")
    resumed.load_state_dict(optimizer.state_dict())
    losses = [o.step(fit(o, m, x, y)).item() for o, m in ((optimizer, model), (resumed, other)) for _ in range(3)]
    assert losses[:3] == losses[3:] and losses[2] < losses[0] < first


def test_a_closure_is_needed():
    with pytest.raises(TypeError, match="closure"):
        optim.LBFGS([smolder.ones(1, requires_grad=True)]).step()
