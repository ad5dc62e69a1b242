"""Adam and AdamW."""

from __future__ import annotations

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Params, Tensor
from smolder.optim._state import State, get, put
from smolder.optim.optimizer import Optimizer, _run_time_number, check_betas, check_options, implementation

__all__ = ["Adam", "AdamW"]
__dir__ = _listing(__name__)


class Adam(Optimizer):
    """torch.optim.Adam: weight decay adds to the gradient, unless it is decoupled, and shrinks the parameter."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        # capturable: a step reads nothing back, so there is nothing to change for it.
        check_options(lr=lr, eps=eps)
        check_betas(betas)
        check_options(weight_decay=weight_decay)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        defaults |= {"amsgrad": amsgrad, "maximize": maximize, "capturable": capturable}
        defaults |= {"decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, defaults | implementation(foreach, fused, differentiable))

    def _options(self, group):
        beta1, beta2 = group["betas"]
        numbers = beta1, beta2, group["eps"], group["weight_decay"]
        lr = _run_time_number(group, "lr") if _core._is_capturing() else float(group["lr"])
        return group["amsgrad"], (lr, *map(float, numbers), bool(group["maximize"]), group["decoupled_weight_decay"])

    def _update_sparse(self, parameter, grad, options):
        raise RuntimeError("Adam does not support sparse gradients, please consider SparseAdam instead")

    def _update(self, parameter, grad, options):
        amsgrad, numbers = options
        state = self.state[parameter]
        if type(state) is not State:
            state = self._state_of(parameter)
        if "exp_avg" not in state:
            put(state, "step", get(state, "step", 0))
            put(state, "exp_avg", _core.zero_state(parameter))
            put(state, "exp_avg_sq", _core.zero_state(parameter))
        if amsgrad and "max_exp_avg_sq" not in state:
            put(state, "max_exp_avg_sq", _core.zero_state(parameter))
        step = get(state, "step", 0)
        if self._skip is None and type(step) is int:
            step += 1
            put(state, "step", step)
            if _core._is_capturing():
                step = _run_time_number(state, "step", counts=True)
        else:
            step = self._count(state, parameter)
        largest = get(state, "max_exp_avg_sq") if amsgrad else None
        mean, square = get(state, "exp_avg"), get(state, "exp_avg_sq")
        _core.update_adam(parameter, grad, mean, square, largest, step, *numbers, self._skip)


class AdamW(Adam):
    """torch.optim.AdamW: weight decay shrinks the parameter."""

    def __init__(
        self,
        params: Params,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
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
