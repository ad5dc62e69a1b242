"""Adadelta."""

from smolder import _core
from smolder.optim.optimizer import Optimizer, check_options, implementation


class Adadelta(Optimizer):
    """torch.optim.Adadelta: steps as large as those before, by their mean squares and those of gradients."""

    def __init__(
        self,
        params,
        lr=1.0,
        rho=0.9,
        eps=1e-6,
        weight_decay=0,
        foreach=None,
        *,
        capturable=False,
        maximize=False,
        differentiable=False,
    ):
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
        state = self.state[parameter]
        self._count(state, parameter)
        self._assign(parameter, state, ["square_avg", "acc_delta"], _core.adadelta_step, grad, options)
