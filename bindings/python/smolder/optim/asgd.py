"""ASGD."""

from __future__ import annotations

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Params
from smolder.optim._state import _taken, put
from smolder.optim.optimizer import Optimizer, check_options, implementation

__all__ = ["ASGD"]
__dir__ = _listing(__name__)


class ASGD(Optimizer):
    """torch.optim.ASGD: gradient descent whose average, from step t0 on, is in each parameter's state as `ax`."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, weight_decay=weight_decay)
        defaults = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        defaults |= {"maximize": maximize, "capturable": capturable}
        super().__init__(params, defaults | implementation(foreach, None, differentiable, fusible=False))

    def _can_skip(self):
        return False  # rates are computed of the count of steps, here

    def _update(self, parameter, grad, options):
        state = self._state_of(parameter)
        step = self._advance(state, "step", 0, lambda step: step + 1, parameter)
        eta, mu = _taken(state, "eta", float(options["lr"])), _taken(state, "mu", 1.0)
        grad = -grad if options["maximize"] else grad
        if options["weight_decay"] != 0:
            grad = grad + parameter * float(options["weight_decay"])
        new = parameter * (1 - options["lambd"] * eta) - grad * eta
        self._write(parameter, new)
        put(state, "eta", eta)
        put(state, "mu", mu)
        if "ax" not in state:
            state["ax"] = _core.zero_state(parameter)
        self._write(state["ax"], new if mu == 1 else state["ax"] + (new - state["ax"]) * mu)
        lr, lambd = float(options["lr"]), options["lambd"]
        put(state, "eta", lr / (1 + lambd * lr * step) ** options["alpha"])
        put(state, "mu", 1 / max(1, step - options["t0"]))
