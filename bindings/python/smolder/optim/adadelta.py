"""Adadelta."""

from __future__ import annotations

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Params
from smolder.optim.optimizer import Optimizer, check_options, implementation

__all__ = ["Adadelta"]
__dir__ = _listing(__name__)


class Adadelta(Optimizer):
    """torch.optim.Adadelta: steps as large as those before, by their mean squares and those of gradients."""

    def __init__(
        self,
        params: Params,
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        if not 0.0 <= rho <= 1.0:
            raise ValueError(f"Invalid rho value: {rho}")
        check_options(eps=eps, weight_decay=weight_decay)
        defaults = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        defaults |= {"capturable": capturable}
        super().__init__(params, defaults | implementation(foreach, None, differentiable, fusible=False))

    def _options(self, group):
        return self._numbers(group, "lr", "rho", "eps", "weight_decay")

    def _update(self, parameter, grad, options):
        state = self._state_of(parameter)
        self._count(state, parameter)
        self._assign(parameter, state, ["square_avg", "acc_delta"], _core.adadelta_step, grad, options)
