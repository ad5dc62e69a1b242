"""torch.optim's functions that make one step on lists of tensors, against the optimizers of their names."""

import importlib

import pytest

import smolder
from smolder import nn, optim

# By optimizer: options of the class, the names of its states in the function's order, and options of the function.
KINDS = {
    "RMSprop": [
        {"lr": 0.1, "alpha": 0.9, "eps": 1e-8, "weight_decay": 0.1, "momentum": 0.5, "centered": True},
        ["square_avg", "grad_avg", "momentum_buffer"],
    ],
    "Adadelta": [
        {"lr": 0.1, "rho": 0.8, "eps": 1e-6, "weight_decay": 0.1, "maximize": True},
        ["square_avg", "acc_delta"],
    ],
    "Adagrad": [{"lr": 0.1, "lr_decay": 0.1, "eps": 1e-8, "weight_decay": 0.1, "maximize": False}, ["sum"]],
    "Adamax": [{"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-8, "weight_decay": 0.1}, ["exp_avg", "exp_inf"]],
    "NAdam": [
        {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-8, "weight_decay": 0.1, "momentum_decay": 0.01},
        ["exp_avg", "exp_avg_sq", "mu_product"],
    ],
    "RAdam": [{"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-8, "weight_decay": 0.1}, ["exp_avg", "exp_avg_sq"]],
}


def function(kind):
    name = kind.lower()
    return getattr(importlib.import_module(f"smolder.torch.only.optim.{name}"), name)


@pytest.mark.parametrize("kind", KINDS)
def test_a_function_makes_the_step_of_its_optimizer(kind):
    options, names = KINDS[kind]
    p = nn.Parameter(smolder.tensor([1.0, -2.0, 3.0]))
    q = smolder.tensor([1.0, -2.0, 3.0])
    optimizer = getattr(optim, kind)([p], **options)
    given = dict(options)
    if betas := given.pop("betas", None):
        given["beta1"], given["beta2"] = betas
    states = [[smolder.ones(()) if name == "mu_product" else smolder.zeros(3)] for name in names]
    steps = [smolder.tensor(0.0)]
    for i in range(8):
        grad = smolder.tensor([0.5, -0.1, 0.3]) * (i + 1)
        p.grad = grad
        optimizer.step()
        assert function(kind)([q], [grad], *states, steps, **given) is None
    assert steps[0].item() == 8
    assert (p.detach() - q).abs().max() < 1e-6
    for name, (state,) in zip(names, states, strict=True):
        assert (optimizer.state[p][name] - state).abs().max() < 1e-6, name


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_function_does_not_do_is_said(kind):
    options, names = KINDS[kind]
    given = {k: v for k, v in options.items() if k != "betas"} | (
        {"beta1": 0.9, "beta2": 0.9} if "betas" in options else {}
    )
    states = [[smolder.zeros(3)] for _ in names]
    lists = [smolder.ones(3)], [smolder.ones(3)], *states
    with pytest.raises(NotImplementedError, match=f"{kind.lower()}\\(\\): differentiable is not supported"):
        function(kind)(*lists, [smolder.tensor(0.0)], differentiable=True, **given)
    with pytest.raises(
        RuntimeError, match="API has changed, `state_steps` argument must contain a list of singleton tensors"
    ):
        function(kind)(*lists, [0], **given)
