"""Rates that fall when a measure gets no better."""

from __future__ import annotations

import math
from collections.abc import Sequence

from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.optim.lr_scheduler._base import LRScheduler, _check_optimizer, _rates, _warn_epoch, set_rate
from smolder.optim.optimizer import Optimizer

__all__ = ["ReduceLROnPlateau"]
__dir__ = _listing(__name__)


class ReduceLROnPlateau(LRScheduler):
    """The rate times factor when a measure has got no better for more than `patience` epochs.

    step(metrics) reads the measure: given a tensor, it ends the step.
    """

    factor: float
    optimizer: Optimizer
    default_min_lr: float | int | Sequence[float] | None
    patience: int
    cooldown: int
    eps: float
    last_epoch: int
    threshold: float
    mode_worse: float
    best: float
    cooldown_counter: int
    num_bad_epochs: int

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        _check_optimizer(optimizer)
        self.factor, self.optimizer = factor, optimizer
        groups = len(optimizer.param_groups)
        several = isinstance(min_lr, list | tuple)
        if several and len(min_lr) != groups:
            raise ValueError(f"expected {groups} min_lrs, got {len(min_lr)}")
        self.default_min_lr = None if several else min_lr
        self.min_lrs = list(min_lr) if several else [min_lr] * groups
        self.patience, self.cooldown, self.eps, self.last_epoch = patience, cooldown, eps, 0
        self._last_lr = _rates(optimizer)
        if mode not in ("min", "max"):
            raise ValueError("mode " + mode + " is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError("threshold mode " + threshold_mode + " is unknown!")
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf
        self._reset()

    def _reset(self):
        self.best, self.cooldown_counter, self.num_bad_epochs = self.mode_worse, 0, 0

    def step(self, metrics: float | Tensor, epoch: int | float | None = None) -> None:
        """Takes the measure of an epoch."""
        current = float(metrics)
        if epoch is not None:
            _warn_epoch()
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._reduce_lr()
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = _rates(self.optimizer)

    def _reduce_lr(self):
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            if self.default_min_lr is None:
                raise RuntimeError(
                    f"The number of param groups in the `optimizer` ({len(groups)}) differs from when "
                    f"`ReduceLROnPlateau` was initialized ({len(self.min_lrs)}), usually due to a new param group being "
                    "added to the optimizer. Please modify the `min_lrs` field to match the length of the `optimizer` "
                    "param groups."
                )
            self.min_lrs = [self.default_min_lr] * len(groups)
        for low, group in zip(self.min_lrs, groups, strict=True):
            old = float(group["lr"])
            new = max(old * self.factor, low)
            if old - new > self.eps:
                set_rate(group, new)

    @property
    def in_cooldown(self) -> bool:
        """Whether the rate was reduced within the last `cooldown` epochs."""
        return self.cooldown_counter > 0

    def _is_better(self, value, best):
        sign = -1 if self.mode == "min" else 1
        margin = sign * self.threshold
        bound = best * (1.0 + margin) if self.threshold_mode == "rel" else best + margin
        return value < bound if self.mode == "min" else value > bound
