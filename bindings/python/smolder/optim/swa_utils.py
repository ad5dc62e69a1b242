"""Averages of a model's weights over training, and what belongs to them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._creation import zeros
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._typing import Device, Tensor
from smolder._warn import warn
from smolder.nn.module import Module
from smolder.nn.normalization import _BatchNorm
from smolder.optim.lr_scheduler import LRScheduler
from smolder.optim.lr_scheduler._base import _per_group

if TYPE_CHECKING:
    from smolder._typing import Optimizer

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip
__dir__ = _listing(__name__)


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """A function that moves averages a part, 1 - decay, of the way to parameters, in place."""
    _check_decay(decay)

    def update(ema_param_list, current_param_list, _):
        with no_grad():
            for average, current in zip(ema_param_list, current_param_list, strict=True):
                if average.dtype.is_floating_point:
                    average.lerp_(current, 1 - decay)
                else:
                    average.copy_(average * decay + current * (1 - decay))

    return update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """A function that makes averages of num_averaged models those of one more, in place."""

    def update(averaged_param_list, current_param_list, num_averaged):
        with no_grad():
            part = 1 / (num_averaged + 1)
            for average, current in zip(averaged_param_list, current_param_list, strict=True):
                if average.dtype.is_floating_point:
                    average.lerp_(current, part.to(average.dtype) if isinstance(part, _core.Tensor) else part)
                else:
                    average.copy_(average + (current - average) * part)

    return update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """A function of an average, a parameter and a count: the average moved a part, 1 - decay, of the way there."""
    _check_decay(decay)

    def update(ema_param, current_param, num_averaged):
        with no_grad():
            return decay * ema_param + (1 - decay) * current_param

    return update


def get_swa_avg_fn() -> Callable[..., Any]:
    """A function of an average of num_averaged parameters, and one more: the average of all."""

    def update(averaged_param, current_param, num_averaged):
        with no_grad():
            return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages; all models count the same unless avg_fn or multi_avg_fn says else.

    With use_buffers buffers are averaged too; else they are those of the last model.
    """

    module: Module
    avg_fn: Callable[..., Any] | None
    multi_avg_fn: Callable[..., Any] | None
    use_buffers: bool

    def __init__(
        self,
        model: Module,
        device: Device = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., Any] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model) if device is None else deepcopy(model).to(device)
        self.register_buffer("n_averaged", zeros((), dtype=_core.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Takes a model into the averages. Reads how many there were before."""

        def members(of):
            return [*of.parameters(), *of.buffers()] if self.use_buffers else list(of.parameters())

        averages = [p.detach() for p in members(self.module)]
        current = [p.detach().to(a.device) for p, a in zip(members(model), averages)]
        if self.n_averaged == 0:
            for average, p in zip(averages, current):
                average.copy_(p)
        elif self.multi_avg_fn is not None:
            for some, others in _alike(averages, current):
                self.multi_avg_fn(some, others, self.n_averaged.to(some[0].device))
        else:
            avg_fn = self.avg_fn or get_swa_avg_fn()
            for average, p in zip(averages, current):
                average.copy_(avg_fn(average, p, self.n_averaged.to(average.device)))
        if not self.use_buffers:
            for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
                own.detach().copy_(other.detach().to(own.device))
        self.n_averaged += 1


def _alike(averages, current):
    """Lists of both, of one device and dtype each."""
    groups = {}
    for average, p in zip(averages, current):
        some, others = groups.setdefault((average.device, average.dtype), ([], []))
        some.append(average)
        others.append(p)
    return groups.values()


def update_bn(loader: Iterable[Any], model: Module, device: Device = None) -> None:
    """Makes the statistics of batch norms those of all batches of a loader, whose inputs come first where they are lists."""
    momenta = {module: module.momentum for module in model.modules() if isinstance(module, _BatchNorm)}
    if not momenta:
        return
    was_training = model.training
    model.train()
    with no_grad():
        for module in momenta:
            module.reset_running_stats()
            module.momentum = None
        for input in loader:
            input = input[0] if isinstance(input, list | tuple) else input
            model(input if device is None else input.to(device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Goes to the rate swa_lr within anneal_epochs, and stays there."""

    anneal_epochs: int

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(_per_group("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self._anneal_strategy, self.anneal_epochs = anneal_strategy, anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: Tensor) -> float:
        """How much of the way is gone at a part t of the epochs."""
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[float | Tensor]:
        """The next rates."""
        if not self._get_lr_called_within_step:
            warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.")
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        whole = max(1, self.anneal_epochs)
        before = self.anneal_func(max(0, min(1, (step - 1) / whole)))
        now = self.anneal_func(max(0, min(1, step / whole)))
        rates = []
        for group in self.optimizer.param_groups:
            lr, end = group["lr"], group["swa_lr"]
            first = end if before == 1 else (lr - before * end) / (1 - before)
            rates.append(end * now + first * (1 - now))
        return rates
