"""RMSprop."""

from smolder import _core
from smolder.optim.optimizer import Optimizer, check_options, implementation


class RMSprop(Optimizer):
    """torch.optim.RMSprop: gradients over the root of their mean square; centered, over their deviation."""

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        check_options(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        defaults = {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered}
        defaults |= {"weight_decay": weight_decay, "capturable": capturable, "maximize": maximize}
        super().__init__(params, defaults | implementation(foreach, None, differentiable, fusible=False))

    def _options(self, group):
        return self._numbers(group, "lr", "alpha", "eps", "weight_decay", "momentum"), group["centered"]

    def _update(self, parameter, grad, options):
        numbers, centered = options
        state = self.state[parameter]
        names = ["square_avg", "grad_avg" if centered else None]
        names.append("momentum_buffer" if numbers["momentum"] > 0 else None)
        self._count(state, parameter)
        self._assign(parameter, state, names, _core.rmsprop_step, grad, numbers)
