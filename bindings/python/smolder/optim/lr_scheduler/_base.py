"""The base of learning-rate schedules: it counts epochs and sets `lr` of each group."""

from __future__ import annotations

import functools
import types
import weakref
from typing import Any

from smolder import _core
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder._warn import warn
from smolder.optim.optimizer import Optimizer, unbound_step

__all__ = ["LRScheduler"]
__dir__ = _listing(__name__)


_SEE = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def _check_optimizer(optimizer):
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _own(rate):
    """A rate that stays what it is when that of the group changes."""
    return rate.clone() if isinstance(rate, _core.Tensor) else rate


def _rates(optimizer):
    return [_own(group["lr"]) for group in optimizer.param_groups]


def set_rate(group: dict[str, Any], rate: float | Tensor) -> None:
    """Sets the rate of a group. A tensor that holds it is written to, as others may have that tensor."""
    held = group["lr"]
    if not isinstance(held, _core.Tensor):
        group["lr"] = rate
        return
    with no_grad():
        held.fill_(rate)


def _per_group(name, optimizer, value):
    groups = len(optimizer.param_groups)
    if not isinstance(value, list | tuple):
        return [value] * groups
    if len(value) != groups:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, param_groups "
            f"has {groups}."
        )
    return list(value)


def _watch_steps(optimizer):
    """Notes in the optimizer that it made a step, whoever overrides step()."""
    if hasattr(optimizer.step, "_wrapped_by_lr_sched"):
        return
    before, this = unbound_step(optimizer), weakref.ref(optimizer)

    @functools.wraps(before)
    def step(*args, **kwargs):
        it = this()
        it._opt_called = True
        return before(it, *args, **kwargs)

    step._wrapped_by_lr_sched = True
    optimizer.step = step


def _state_of(function):
    """The part of a function that a state_dict holds: attributes of a callable object, nothing of a plain function."""
    return None if function is None or isinstance(function, types.FunctionType) else dict(vars(function))


class LRScheduler:
    """Base: counts epochs from 0 and sets each group's lr from get_lr()."""

    optimizer: Optimizer
    last_epoch: int
    base_lrs: list[Any]

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch "
                    ">= 0.\nThis typically happens when:\n1. You're trying to resume training from a checkpoint but "
                    "haven't properly loaded the optimizer state\n2. You're using last_epoch >= 0 for a fresh training "
                    "run (not recommended)"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        _watch_steps(optimizer)
        self._initial_step()

    def _initial_step(self):
        """Starts the count; most schedules change no rate in it."""
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def get_lr(self) -> list[float | Tensor]:
        """The learning rates of this epoch, one a group; for step() to call."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_lr")

    def get_last_lr(self) -> list[float | Tensor]:
        """The learning rates set last, one a group."""
        return self._last_lr

    def step(self, epoch: int | float | None = None) -> None:
        """Goes to the next epoch, or to the one given, which torch calls deprecated."""
        self._keep()
        if self._step_count == 1:
            self._check_order()
        self._step_count += 1
        if epoch is not None:
            _warn_epoch()
        self._update_lr(epoch)

    def _keep(self):
        """Has the state of a step that is yet to run restored if that step fails."""
        _core._restore_on_failure(vars(self), if_pending=True)
        for group in self.optimizer.param_groups:
            _core._restore_on_failure(group, if_pending=True)

    def _check_order(self):
        if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
            warn(
                "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                f"Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. {_SEE}"
            )
        elif not getattr(self.optimizer, "_opt_called", False):
            warn(
                "Detected call of `lr_scheduler.step()` before `optimizer.step()`. You should call them in the opposite "
                "order: `optimizer.step()` before `lr_scheduler.step()`. Failure to do this will result in skipping the "
                f"first value of the learning rate schedule. {_SEE}"
            )

    def _update_lr(self, epoch=None):
        closed = epoch is not None and getattr(self, "_get_closed_form_lr", None)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._set(closed or self.get_lr)

    def _set(self, rates):
        self._get_lr_called_within_step = True
        try:
            values = rates()
        finally:
            self._get_lr_called_within_step = False
        for group, lr in zip(self.optimizer.param_groups, values, strict=True):
            set_rate(group, lr)
        self._last_lr = _rates(self.optimizer)

    def _scaled(self, factor):
        """The rates, each times a factor."""
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _asked(self):
        if not self._get_lr_called_within_step:
            warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.")

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict() returned."""
        self.__dict__.update(state_dict)


def _warn_epoch():
    warn(
        "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
        "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
        "form is used instead of the new chainable form, where available."
    )


class _LRScheduler(LRScheduler):
    """The name that LRScheduler had."""
