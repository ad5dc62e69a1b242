"""Adafactor."""

from __future__ import annotations

from smolder import _core
from smolder._creation import zeros
from smolder._names import listing as _listing
from smolder._types import finfo
from smolder._typing import Params
from smolder.optim.optimizer import Optimizer, check_options

__all__ = ["Adafactor"]
__dir__ = _listing(__name__)


class Adafactor(Optimizer):
    """torch.optim.Adafactor (arXiv 1804.04235): second moments of matrices are products of those of rows and columns."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_options(lr=lr, weight_decay=weight_decay)
        if beta2_decay > 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and eps[0] < 0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if eps[1] < 0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if d < 1:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        defaults = {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay}
        super().__init__(params, defaults | {"foreach": foreach, "maximize": maximize})

    def _can_skip(self):
        return False  # rates are computed of the count of steps, here

    def _update(self, parameter, grad, options):
        state = self._state_of(parameter)
        step = self._advance(state, "step", 0, lambda step: step + 1, parameter)
        if len(state) == 1:
            if grad.dim() > 1:
                rows, columns = (*grad.shape[:-1], 1), (*grad.shape[:-2], 1, grad.size(-1))
                state["row_var"] = zeros(rows, dtype=grad.dtype, device=grad.device)
                state["col_var"] = zeros(columns, dtype=grad.dtype, device=grad.device)
            else:
                state["variance"] = _core.zero_state(parameter)
        grad, lr = -grad if options["maximize"] else grad, float(options["lr"])
        smallest, smallest_scale = options["eps"]
        smallest = finfo(parameter.dtype).eps if smallest is None else smallest
        scale = _root_mean_square(parameter).clamp(min=smallest_scale) * min(lr, step**-0.5)
        weight = step ** options["beta2_decay"]  # of the new squares
        square = grad * grad
        if grad.dim() > 1:
            self._write(state["row_var"], _mixed(state["row_var"], square.mean(-1, keepdim=True), weight))
            self._write(state["col_var"], _mixed(state["col_var"], square.mean(-2, keepdim=True), weight))
            whole = state["row_var"].mean(-2, keepdim=True).clamp(min=smallest)
            variance = state["row_var"] * state["col_var"] / whole
        else:
            self._write(state["variance"], _mixed(state["variance"], square, weight))
            variance = state["variance"]
        update = grad * variance.clamp(min=smallest * smallest).rsqrt()
        update = update / (_root_mean_square(update) / options["d"]).clamp(min=1.0)
        self._write(parameter, parameter * (1 - lr * options["weight_decay"]) - update * scale)


def _root_mean_square(x):
    return (x * x).mean().sqrt()


def _mixed(old, new, weight):
    return old + (new - old) * weight
