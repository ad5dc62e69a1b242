"""Adagrad."""

from __future__ import annotations

from smolder import _core
from smolder._creation import full_like
from smolder._names import listing as _listing
from smolder._typing import Params
from smolder.optim._state import State
from smolder.optim.optimizer import Optimizer, check_options, implementation

__all__ = ["Adagrad"]
__dir__ = _listing(__name__)


class Adagrad(Optimizer):
    """torch.optim.Adagrad: gradients over the root of the sum of their squares so far."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(
            lr=lr,
            lr_decay=lr_decay,
            weight_decay=weight_decay,
            initial_accumulator_value=initial_accumulator_value,
            eps=eps,
        )
        defaults = {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
        defaults |= {"initial_accumulator_value": initial_accumulator_value, "maximize": maximize}
        super().__init__(params, defaults | implementation(foreach, fused, differentiable))
        for group in self.param_groups:
            for p in group["params"]:
                self._begin(p, group["initial_accumulator_value"])

    def _begin(self, parameter, value):
        first = complex(value, value) if parameter.is_complex() else float(value)
        self.state[parameter] = State(step=0, sum=full_like(parameter.detach(), first))

    def _options(self, group):
        return self._numbers(group, "lr", "lr_decay", "eps", "weight_decay"), group["initial_accumulator_value"]

    def _update(self, parameter, grad, options):
        numbers, initial = options
        if not self.state[parameter]:  # of a group that was added later
            self._begin(parameter, initial)
        state = self._state_of(parameter)
        self._assign(
            parameter, state, ["sum"], _core.adagrad_step, grad, numbers | {"step": self._count(state, parameter)}
        )

    def _update_sparse(self, parameter, grad, options):
        from smolder.optim._rows import Rows

        numbers, initial = options
        if numbers["weight_decay"] != 0:
            raise RuntimeError("weight_decay option is not compatible with sparse gradients")
        if not self.state[parameter]:
            self._begin(parameter, initial)
        state = self._state_of(parameter)
        size = numbers["lr"] / (1 + (self._count(state, parameter) - 1) * numbers["lr_decay"])
        rows = Rows(parameter, grad)
        values = -rows.values if numbers["maximize"] else rows.values
        squares = values.square()
        total = rows.of(state["sum"]) + squares
        self._write(state["sum"], rows.added(state["sum"], squares))
        change = values / (total.sqrt() + numbers["eps"]) * -size
        self._write(parameter, rows.added(parameter, change))
