"""Schedules of schedules: one after another, or all together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from smolder._names import listing as _listing
from smolder.optim.lr_scheduler._base import LRScheduler, _rates, set_rate
from smolder.optim.lr_scheduler._plateau import ReduceLROnPlateau
from smolder.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]
__dir__ = _listing(__name__)


def _check_schedulers(name, schedulers, optimizer, what):
    if len(schedulers) < 1:
        raise ValueError(f"{name} expects at least one scheduler{what}, but got no scheduler.")
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be specified "
                f"when calling `step`, but got one at index {i} in the given schedulers sequence."
            )
        if (optimizer or schedulers[0].optimizer) is not scheduler.optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {i} has {scheduler.optimizer}, which is different from "
                f"{type(optimizer or schedulers[0].optimizer).__name__}."
            )


class _Several(LRScheduler):
    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of the schedulers, their states."""
        return super().state_dict() | {"_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(state)


class SequentialLR(_Several):
    """One schedule after another: the next begins at each milestone."""

    optimizer: Optimizer
    last_epoch: int

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        _check_schedulers("SequentialLR", schedulers, optimizer, "")
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of milestone "
                f"points, but got number of schedulers {len(schedulers)} and the number of milestones to be equal to "
                f"{len(milestones)}"
            )
        self._schedulers, self._milestones, self.optimizer = schedulers, milestones, optimizer
        self.last_epoch = last_epoch + 1
        for group in optimizer.param_groups:
            set_rate(group, group["initial_lr"])
        _undo(self)  # each made its first step, of which only one counts
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:
        """Goes to the next epoch."""
        self._keep()
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo(scheduler):
    if hasattr(scheduler, "_schedulers"):
        for s in scheduler._schedulers:
            _undo(s)
    else:
        scheduler.last_epoch -= 1


class ChainedScheduler(_Several):
    """Schedules that all step together, each on what the ones before made of the rate."""

    optimizer: Optimizer

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        _check_schedulers("ChainedScheduler", schedulers, optimizer, " to be chained")
        self._schedulers, self.optimizer = schedulers, optimizer or schedulers[0].optimizer
        self._last_lr = _rates(self.optimizer)

    def step(self) -> None:
        """Goes to the next epoch."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = _rates(self.optimizer)
