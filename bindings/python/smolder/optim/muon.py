"""Muon."""

from __future__ import annotations

import math

from smolder import _core
from smolder._core import addmm
from smolder._names import listing as _listing
from smolder._typing import Params
from smolder.optim.optimizer import Optimizer

__all__ = ["Muon"]
__dir__ = _listing(__name__)

# How the rate follows from a matrix's rows and columns.
_RATIOS = {
    None: lambda rows, columns: math.sqrt(max(1.0, rows / columns)),
    "original": lambda rows, columns: math.sqrt(max(1.0, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


class Muon(Optimizer):
    """torch.optim.Muon: averages of the gradients of matrices are made nearly orthogonal, in bfloat16."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        for name, value in (("Learning rate", lr), ("momentum", momentum), ("weight decay", weight_decay)):
            if value < 0:
                raise ValueError(f"{name} should be >= 0 but is: {value}")
        if adjust_lr_fn not in _RATIOS:
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        if ns_steps >= 100:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        defaults = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov}
        defaults |= {"ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn}
        super().__init__(params, defaults)
        for p in (p for group in self.param_groups for p in group["params"]):
            if p.dim() != 2:
                raise ValueError(f"Muon only supports 2D parameters whereas we found a parameter with size: {p.size()}")

    def _update(self, parameter, grad, options):
        state = self.state[parameter]
        if not state:
            state["momentum_buffer"] = _core.zero_state(parameter)
        momentum, lr = options["momentum"], float(options["lr"])
        old = state["momentum_buffer"]
        average = old + (grad - old) * (1 - momentum)
        self._write(old, average)
        update = grad + (average - grad) * momentum if options["nesterov"] else average
        update = _orthogonal(update, options["ns_coefficients"], options["ns_steps"], options["eps"])
        rate = lr * _RATIOS[options["adjust_lr_fn"]](*parameter.shape)
        self._write(parameter, parameter * (1 - lr * options["weight_decay"]) - update.to(parameter.dtype) * rate)


def _orthogonal(matrix, coefficients, steps, eps):
    """A matrix with the same singular vectors and singular values near 1, by the iteration of Newton and Schulz."""
    a, b, c = coefficients
    tall = matrix.size(0) > matrix.size(1)
    x = (matrix.t() if tall else matrix).to(_core.bfloat16)
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        products = x @ x.t()
        x = addmm(x, addmm(products, products, products, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x
