"""RMSprop."""

from __future__ import annotations

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Params
from smolder.optim.optimizer import Optimizer, check_options, implementation

__all__ = ["RMSprop"]
__dir__ = _listing(__name__)


class RMSprop(Optimizer):
    """torch.optim.RMSprop: gradients over the root of their mean square; centered, over their deviation."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered}
        defaults |= {"weight_decay": weight_decay, "capturable": capturable, "maximize": maximize}
        super().__init__(params, defaults | implementation(foreach, None, differentiable, fusible=False))

    def _options(self, group):
        return self._numbers(group, "lr", "alpha", "eps", "weight_decay", "momentum"), group["centered"]

    def _update(self, parameter, grad, options):
        numbers, centered = options
        state = self._state_of(parameter)
        names = ["square_avg", "grad_avg" if centered else None]
        names.append("momentum_buffer" if numbers["momentum"] > 0 else None)
        self._count(state, parameter)
        self._assign(parameter, state, names, _core.rmsprop_step, grad, numbers)
