"""Adam and AdamW."""

from smolder import _core
from smolder.optim.optimizer import Optimizer, implementation


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
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps >= 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        if not weight_decay >= 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        defaults |= {"amsgrad": amsgrad, "maximize": maximize, "capturable": capturable}
        defaults |= {"decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, defaults | implementation(foreach, fused, differentiable))

    def _options(self, group):
        # Floats always: an int where a float was before would be another op to compile.
        numbers = {k: float(group[k]) for k in ("lr", "eps", "weight_decay")}
        beta1, beta2 = group["betas"]
        options = numbers | {"beta1": float(beta1), "beta2": float(beta2), "maximize": group["maximize"]}
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
