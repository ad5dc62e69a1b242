"""Derivatives: autograd, functions with gradients of their own, func's transforms."""

from typing import Any

import smolder
from smolder import Tensor, func, nn
from smolder.autograd import Function
from smolder.autograd.function import FunctionCtx


class Cube(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * 3 * x**2


def energy(x: Tensor) -> Tensor:
    return (x.sin() * x).sum()


x = smolder.randn(3, requires_grad=True)
cubes: Tensor = Cube.apply(x)
(gradient,) = smolder.autograd.grad(cubes.sum(), x, create_graph=True)
smolder.autograd.backward([gradient.sum()], [smolder.tensor(1.0)])
slope: Tensor = func.grad(energy)(x.detach())
value_and_slope = func.grad_and_value(energy)(x.detach())
jacobian = func.jacrev(energy)(x.detach())
curvature = func.hessian(energy)(x.detach())
batched = func.vmap(energy)(smolder.rand(4, 3))
output, pull = func.vjp(energy, x.detach())
model = nn.Linear(3, 2)
called = func.functional_call(model, dict(model.named_parameters()), (x,))
checked: bool = smolder.autograd.gradcheck(energy, (smolder.rand(3, dtype=smolder.float64, requires_grad=True),))
context: type[FunctionCtx] = FunctionCtx


def doubled(gradient: Tensor) -> Tensor | None:
    return gradient * 2


hook = x.register_hook(doubled)
energy(x).backward()
hook.remove()
mapped = smolder.vmap(energy, in_dims=0)(smolder.rand(2, 3))
print(slope, value_and_slope, jacobian, curvature, batched, output, pull, called, checked, context, mapped)
