"""Adamax, NAdam and RAdam: Adam with another norm, with Nesterov's momentum, with its first steps rectified."""

from __future__ import annotations

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Params
from smolder.optim.optimizer import Optimizer, check_betas, check_options, implementation

__all__ = ["Adamax", "NAdam", "RAdam"]
__dir__ = _listing(__name__)


class Adamax(Optimizer):
    """torch.optim.Adamax: means of gradients over the largest of late."""

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps)
        check_betas(betas)
        check_options(weight_decay=weight_decay)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        defaults |= {"capturable": capturable}
        super().__init__(params, defaults | implementation(foreach, None, differentiable, fusible=False))

    def _options(self, group):
        return self._numbers(group, "lr", "betas", "eps", "weight_decay")

    def _update(self, parameter, grad, options):
        state = self._state_of(parameter)
        step = self._count(state, parameter)
        self._assign(parameter, state, ["exp_avg", "exp_inf"], _core.adamax_step, grad, options | {"step": step})


class NAdam(Optimizer):
    """torch.optim.NAdam: Adam that looks a step ahead."""

    def __init__(
        self,
        params: Params,
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps)
        check_betas(betas)
        check_options(weight_decay=weight_decay, momentum_decay=momentum_decay)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        defaults |= {"momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay}
        defaults |= {"capturable": capturable}
        super().__init__(params, defaults | implementation(foreach, None, differentiable, fusible=False))

    def _options(self, group):
        numbers = self._numbers(group, "lr", "betas", "eps", "weight_decay")
        return numbers | {"decoupled": group["decoupled_weight_decay"]}, group["momentum_decay"]

    def _update(self, parameter, grad, options):
        numbers, decay = options
        state = self._state_of(parameter)
        step = self._advance(state, "step", 0, lambda step: step + 1, parameter, shared=True)
        mu, mu_next = (numbers["beta1"] * (1.0 - 0.5 * 0.96 ** (n * decay)) for n in (step, step + 1))
        product = self._advance(state, "mu_product", 1.0, lambda product: product * mu, parameter)
        momenta = {"step": step, "mu": mu, "mu_next": mu_next, "mu_product": product}
        self._assign(parameter, state, ["exp_avg", "exp_avg_sq"], _core.nadam_step, grad, numbers | momenta)


class RAdam(Optimizer):
    """torch.optim.RAdam: Adam whose first steps are plain momentum, until the mean square can be trusted."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr, eps=eps)
        check_betas(betas)
        check_options(weight_decay=weight_decay)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        defaults |= {"decoupled_weight_decay": decoupled_weight_decay, "capturable": capturable}
        super().__init__(params, defaults | implementation(foreach, None, differentiable, fusible=False))

    def _options(self, group):
        numbers = self._numbers(group, "lr", "betas", "eps", "weight_decay")
        return numbers | {"decoupled": group["decoupled_weight_decay"]}

    def _update(self, parameter, grad, options):
        state = self._state_of(parameter)
        step = self._count(state, parameter)
        self._assign(parameter, state, ["exp_avg", "exp_avg_sq"], _core.radam_step, grad, options | {"step": step})
