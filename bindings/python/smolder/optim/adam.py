"""Adam and AdamW."""

from smolder import _core
from smolder.optim.optimizer import Optimizer, check_betas, check_options, implementation


class Adam(Optimizer):
    """torch.optim.Adam: weight decay adds to the gradient, unless it is decoupled, and shrinks the parameter."""

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        amsgrad=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
        fused=None,
        decoupled_weight_decay=False,
    ):
        # capturable: a step reads nothing back, so there is nothing to change for it.
        check_options(lr=lr, eps=eps)
        check_betas(betas)
        check_options(weight_decay=weight_decay)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        defaults |= {"amsgrad": amsgrad, "maximize": maximize, "capturable": capturable}
        defaults |= {"decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, defaults | implementation(foreach, fused, differentiable))

    def _options(self, group):
        options = self._numbers(group, "lr", "betas", "eps", "weight_decay")
        step = _core.adamw_step if group["decoupled_weight_decay"] else _core.adam_step
        return options, group["amsgrad"], step

    def _update(self, parameter, grad, options):
        numbers, amsgrad, update = options
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"] = _core.zeros_like(parameter)
            state["exp_avg_sq"] = _core.zeros_like(parameter)
        if amsgrad and "max_exp_avg_sq" not in state:
            state["max_exp_avg_sq"] = _core.zeros_like(parameter)
        mean, square, largest = state["exp_avg"], state["exp_avg_sq"], state["max_exp_avg_sq"] if amsgrad else None
        state["step"] = step = state["step"] + 1
        new, new_mean, new_square, new_largest = update(parameter, grad, mean, square, largest, step=step, **numbers)
        _core.assign(parameter, new)
        _core.assign(mean, new_mean)
        _core.assign(square, new_square)
        if largest is not None:
            _core.assign(largest, new_largest)


class AdamW(Adam):
    """torch.optim.AdamW: weight decay shrinks the parameter."""

    def __init__(
        self,
        params,
        lr=1e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=1e-2,
        amsgrad=False,
        *,
        maximize=False,
        foreach=None,
        capturable=False,
        differentiable=False,
        fused=None,
    ):
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
