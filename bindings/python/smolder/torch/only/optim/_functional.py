"""torch's functions behind its optimizers: one step on lists of tensors, written in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from smolder._core import Tensor

__all__ = ["adam", "adamw", "sgd"]
__dir__ = _listing(__name__)


def _check(name, grad_scale, found_inf):
    for option, value in (("grad_scale", grad_scale), ("found_inf", found_inf)):
        if value is not None:
            raise NotImplementedError(f"{name}(): {option} is not supported")


def _adam(decoupled, lists, numbers, amsgrad, maximize):
    params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps = lists
    if not all(isinstance(step, _core.Tensor) for step in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    lr, beta1, beta2, eps, weight_decay = (x.item() if isinstance(x, _core.Tensor) else float(x) for x in numbers)
    with no_grad():
        for i, p in enumerate(params):
            step, largest = state_steps[i], max_exp_avg_sqs[i] if amsgrad else None
            step += 1
            rates = lr, beta1, beta2, eps, weight_decay
            _core.update_adam(
                p, grads[i], exp_avgs[i], exp_avg_sqs[i], largest, step, *rates, maximize, decoupled, None
            )


def adam(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    max_exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    decoupled_weight_decay: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """A step of Adam. foreach, capturable and fused change nothing; differentiable steps are not supported."""
    _check("adam", grad_scale, found_inf)
    if differentiable:
        raise NotImplementedError("adam(): differentiable is not supported")
    lists = params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps
    _adam(decoupled_weight_decay, lists, (lr, beta1, beta2, eps, weight_decay), amsgrad, maximize)


def adamw(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    exp_avgs: Sequence[Tensor],
    exp_avg_sqs: Sequence[Tensor],
    max_exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor],
    foreach: bool | None = None,
    capturable: bool = False,
    differentiable: bool = False,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    has_complex: bool = False,
    *,
    amsgrad: bool,
    beta1: float | Tensor,
    beta2: float | Tensor,
    lr: float | Tensor,
    weight_decay: float,
    eps: float,
    maximize: bool,
) -> None:
    """A step of AdamW: of adam() with decoupled weight decay."""
    lists = params, grads, exp_avgs, exp_avg_sqs, max_exp_avg_sqs, state_steps
    options = foreach, capturable, differentiable, fused, grad_scale, found_inf, has_complex, True
    numbers = {"beta1": beta1, "beta2": beta2, "lr": lr, "weight_decay": weight_decay, "eps": eps}
    adam(*lists, *options, amsgrad=amsgrad, maximize=maximize, **numbers)


def sgd(
    params: Sequence[Tensor],
    d_p_list: Sequence[Tensor],
    momentum_buffer_list: list[Tensor | None],
    has_sparse_grad: bool = False,
    foreach: bool | None = None,
    fused: bool | None = None,
    grad_scale: Tensor | None = None,
    found_inf: Tensor | None = None,
    *,
    weight_decay: float,
    momentum: float,
    lr: float | Tensor,
    dampening: float,
    nesterov: bool,
    maximize: bool,
) -> None:
    """A step of SGD; a buffer that is None is made, and put into the list. foreach and fused change nothing."""
    _check("sgd", grad_scale, found_inf)
    numbers = {"lr": float(lr), "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
    with no_grad():
        for i, p in enumerate(params):
            buffer = momentum_buffer_list[i]
            new, new_buffer = _core.sgd_step(p, d_p_list[i], buffer, maximize=maximize, nesterov=nesterov, **numbers)
            p.copy_(new)
            if buffer is not None:
                buffer.copy_(new_buffer)
            elif momentum != 0:
                momentum_buffer_list[i] = new_buffer
