"""torch's functions behind its optimizers: one step on lists of tensors, written in place."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing

if TYPE_CHECKING:
    from smolder._core import Tensor

__all__ = ["adadelta", "adagrad", "adam", "adamax", "adamw", "nadam", "radam", "rmsprop", "sgd"]
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


def _each(
    name: str, update: Callable[..., Any], params: Sequence[Tensor], grads: Sequence[Tensor], states: tuple[Any, ...],
    state_steps: Sequence[Tensor], differentiable: bool, numbers: Callable[[Tensor, int], dict[str, Any]],
) -> None:  # fmt: skip
    """A step of each parameter: its count, the numbers of that count, and what `update` makes of it and its states.

    A list of states that is empty, or None in one, is state that the step does not keep.
    """
    if not all(isinstance(step, _core.Tensor) for step in state_steps):
        raise RuntimeError("API has changed, `state_steps` argument must contain a list of singleton tensors")
    if differentiable:
        raise NotImplementedError(f"{name}(): differentiable is not supported")
    with no_grad():
        for i, p in enumerate(params):
            state_steps[i].add_(1)
            old = [of[i] if of else None for of in states]
            new, *made = update(p, grads[i], *old, **numbers(state_steps[i], i))
            p.copy_(new)
            for tensor, value in zip(old, made, strict=True):
                if tensor is not None:
                    tensor.copy_(value)


def rmsprop(
    params: Sequence[Tensor], grads: Sequence[Tensor], square_avgs: Sequence[Tensor], grad_avgs: Sequence[Tensor],
    momentum_buffer_list: Sequence[Tensor], state_steps: Sequence[Tensor], foreach: bool | None = None,
    maximize: bool = False, differentiable: bool = False, capturable: bool = False, has_complex: bool = False, *,
    lr: float, alpha: float, eps: float, weight_decay: float, momentum: float, centered: bool,
) -> None:  # fmt: skip
    """A step of RMSprop. foreach and capturable change nothing; differentiable steps are not supported."""
    states = square_avgs, grad_avgs if centered else (), momentum_buffer_list if momentum > 0 else ()
    numbers = {"lr": float(lr), "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
    numbers["maximize"] = maximize
    _each("rmsprop", _core.rmsprop_step, params, grads, states, state_steps, differentiable, lambda step, i: numbers)


def adadelta(
    params: Sequence[Tensor], grads: Sequence[Tensor], square_avgs: Sequence[Tensor], acc_deltas: Sequence[Tensor],
    state_steps: Sequence[Tensor], capturable: bool = False, foreach: bool | None = None, differentiable: bool = False,
    has_complex: bool = False, *, lr: float, rho: float, eps: float, weight_decay: float, maximize: bool,
) -> None:  # fmt: skip
    """A step of Adadelta. foreach and capturable change nothing; differentiable steps are not supported."""
    numbers = {"lr": float(lr), "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
    states = square_avgs, acc_deltas
    _each("adadelta", _core.adadelta_step, params, grads, states, state_steps, differentiable, lambda step, i: numbers)


def adagrad(
    params: Sequence[Tensor], grads: Sequence[Tensor], state_sums: Sequence[Tensor], state_steps: Sequence[Tensor],
    fused: bool | None = None, grad_scale: Tensor | None = None, found_inf: Tensor | None = None,
    has_sparse_grad: bool = False, foreach: bool | None = None, differentiable: bool = False, has_complex: bool = False, *,
    lr: float, weight_decay: float, lr_decay: float, eps: float, maximize: bool,
) -> None:  # fmt: skip
    """A step of Adagrad. foreach and fused change nothing; sparse gradients and differentiable steps are not supported."""
    _check("adagrad", grad_scale, found_inf)
    if has_sparse_grad or any(grad.is_sparse for grad in grads):
        raise NotImplementedError("adagrad(): sparse gradients are not supported: torch.optim.Adagrad takes them")
    numbers = {"lr": float(lr), "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
    update, counted = _core.adagrad_step, lambda step, i: numbers | {"step": step}
    _each("adagrad", update, params, grads, (state_sums,), state_steps, differentiable, counted)


def adamax(
    params: Sequence[Tensor], grads: Sequence[Tensor], exp_avgs: Sequence[Tensor], exp_infs: Sequence[Tensor],
    state_steps: Sequence[Tensor], foreach: bool | None = None, maximize: bool = False, differentiable: bool = False,
    capturable: bool = False, has_complex: bool = False, *, eps: float, beta1: float, beta2: float, lr: float,
    weight_decay: float,
) -> None:  # fmt: skip
    """A step of Adamax. foreach and capturable change nothing; differentiable steps are not supported."""
    numbers = {"lr": float(lr), "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
    numbers["maximize"] = maximize
    update, counted = _core.adamax_step, lambda step, i: numbers | {"step": step}
    _each("adamax", update, params, grads, (exp_avgs, exp_infs), state_steps, differentiable, counted)


def nadam(
    params: Sequence[Tensor], grads: Sequence[Tensor], exp_avgs: Sequence[Tensor], exp_avg_sqs: Sequence[Tensor],
    mu_products: Sequence[Tensor], state_steps: Sequence[Tensor], decoupled_weight_decay: bool = False,
    foreach: bool | None = None, capturable: bool = False, differentiable: bool = False, has_complex: bool = False,
    maximize: bool = False, *, beta1: float, beta2: float, lr: float, weight_decay: float, momentum_decay: float,
    eps: float,
) -> None:  # fmt: skip
    """A step of NAdam. foreach and capturable change nothing; differentiable steps are not supported."""
    numbers = {"lr": float(lr), "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
    numbers |= {"maximize": maximize, "decoupled": decoupled_weight_decay}

    def counted(step, i):
        mu, mu_next = (beta1 * (1.0 - 0.5 * 0.96 ** (n * momentum_decay)) for n in (step, step + 1))
        mu_products[i].mul_(mu)
        return numbers | {"step": step, "mu": mu, "mu_next": mu_next, "mu_product": mu_products[i]}

    _each("nadam", _core.nadam_step, params, grads, (exp_avgs, exp_avg_sqs), state_steps, differentiable, counted)


def radam(
    params: Sequence[Tensor], grads: Sequence[Tensor], exp_avgs: Sequence[Tensor], exp_avg_sqs: Sequence[Tensor],
    state_steps: Sequence[Tensor], decoupled_weight_decay: bool = False, foreach: bool | None = None,
    differentiable: bool = False, capturable: bool = False, has_complex: bool = False, maximize: bool = False, *,
    beta1: float, beta2: float, lr: float, weight_decay: float, eps: float,
) -> None:  # fmt: skip
    """A step of RAdam. foreach and capturable change nothing; differentiable steps are not supported."""
    numbers = {"lr": float(lr), "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
    numbers |= {"maximize": maximize, "decoupled": decoupled_weight_decay}
    update, counted = _core.radam_step, lambda step, i: numbers | {"step": step}
    _each("radam", update, params, grads, (exp_avgs, exp_avg_sqs), state_steps, differentiable, counted)
