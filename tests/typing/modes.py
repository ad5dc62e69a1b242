"""Modes: as context managers, and as decorators with and without parentheses."""

import smolder
from smolder import Tensor, nn


@smolder.no_grad()
def evaluated(model: nn.Module, x: Tensor) -> float:
    return float(model(x).sum())


@smolder.no_grad
def plain(x: Tensor) -> Tensor:
    return x * 2


@smolder.inference_mode()
def inferred(x: Tensor, *, scale: float = 1.0) -> Tensor:
    return x * scale


@smolder.enable_grad()
def recorded(x: Tensor) -> Tensor:
    return x * x


@smolder.autocast("cpu", dtype=smolder.bfloat16)
def product(a: Tensor, b: Tensor) -> Tensor:
    return a @ b


x = smolder.ones(2, 2, requires_grad=True)
first: float = evaluated(nn.Linear(2, 2), x)
second: Tensor = plain(x)
third: Tensor = inferred(x, scale=3.0)
with smolder.no_grad():
    fourth = recorded(x)
with smolder.set_grad_enabled(False), smolder.inference_mode(mode=True):
    assert not smolder.is_grad_enabled()
with smolder.autograd.detect_anomaly(), smolder.eager():
    recorded(x).sum().backward()
with smolder.autocast("cpu", dtype=smolder.bfloat16) as cast:
    half = product(x, x)
with smolder.device("cpu"):
    made = smolder.zeros(3)
with smolder.random.fork_rng():
    smolder.manual_seed(0)
with smolder.strict():
    print(first, second, third, fourth, half.dtype, made, cast)
