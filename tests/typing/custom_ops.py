"""Ops of a user: smolder.library, with shape rule, gradient and a call that keeps its types."""

from typing import Any

import numpy as np

import smolder
from smolder import Tensor
from smolder.library import Library, custom_op, opcheck, register_fake


@custom_op("typing_demo::scaled_sin", mutates_args=())
def scaled_sin(x: Tensor, scale: float) -> Tensor:
    return smolder.from_numpy(np.sin(x.numpy()) * np.float32(scale))


@scaled_sin.register_fake
def _(x: Tensor, scale: float) -> Tensor:
    return smolder.empty_like(x)


def setup(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0])
    ctx.scale = inputs[1]


def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
    (x,) = ctx.saved_tensors
    return grad * x.cos() * ctx.scale, None


scaled_sin.register_autograd(backward, setup_context=setup)

library = Library("typing_demo2", "DEF")
name: str = library.define("twice(Tensor x) -> Tensor")


def twice(x: Tensor) -> Tensor:
    return x + x


library.impl("twice", twice, "CPU")
register_fake("typing_demo2::twice", smolder.empty_like)

x = smolder.randn(4, requires_grad=True)
y: Tensor = scaled_sin(x, 2.0)
y.sum().backward()
results: dict[str, str] = opcheck(scaled_sin, (x, 2.0))
z = smolder.ops.typing_demo2.twice(x.detach())
print(y, results, z, name)
