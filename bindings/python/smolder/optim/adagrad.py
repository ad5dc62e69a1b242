"""Adagrad."""

from smolder import _core
from smolder.optim.optimizer import Optimizer, check_options, implementation


class Adagrad(Optimizer):
    """torch.optim.Adagrad: gradients over the root of the sum of their squares so far."""

    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        fused=None,
    ):
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
        self.state[parameter] = {"step": 0, "sum": _core.full_like(parameter.detach(), float(value))}

    def _options(self, group):
        return self._numbers(group, "lr", "lr_decay", "eps", "weight_decay"), group["initial_accumulator_value"]

    def _update(self, parameter, grad, options):
        numbers, initial = options
        if not self.state[parameter]:  # of a group that was added later
            self._begin(parameter, initial)
        state = self.state[parameter]
        self._assign(
            parameter, state, ["sum"], _core.adagrad_step, grad, numbers | {"step": self._count(state, parameter)}
        )
