"""Rates that rise and fall: half cosines, with restarts; triangles; one cycle."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.optim.lr_scheduler._base import LRScheduler, _check_optimizer, _per_group, _rates, _state_of, set_rate
from smolder.optim.optimizer import Optimizer

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"]
__dir__ = _listing(__name__)


class CosineAnnealingLR(LRScheduler):
    """From the initial rate down to eta_min along a half cosine of T_max epochs, and up again.

    Each rate follows from the one before, so that what a program sets in between is kept, in proportion.
    """

    T_max: int
    eta_min: float

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        self._asked()
        groups, low = self.optimizer.param_groups, self.eta_min
        if self._is_initial:
            return _rates(self.optimizer)
        if self._step_count == 1 and self.last_epoch > 0:
            angle = self.last_epoch * math.pi / self.T_max
            return [low + (base - low) * (1 + math.cos(angle)) / 2 for base in self.base_lrs]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the rate was eta_min: nothing to scale
            up = 1 - math.cos(math.pi / self.T_max)
            return [group["lr"] + (base - low) * up / 2 for base, group in zip(self.base_lrs, groups, strict=True)]
        now, before = (1 + math.cos(math.pi * epoch / self.T_max) for epoch in (self.last_epoch, self.last_epoch - 1))
        return [now / before * (group["lr"] - low) + low for group in groups]

    def _get_closed_form_lr(self):
        height = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Down to eta_min along a half cosine of T_0 epochs, then again from the top, each time T_mult times as long."""

    T_i: int
    T_mult: int
    eta_min: float | int
    T_cur: int
    last_epoch: int

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, float | int):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0, self.T_i, self.T_mult, self.eta_min, self.T_cur = T_0, T_0, T_mult, eta_min, last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float | Tensor]:
        self._asked()
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def step(self, epoch: int | float | None = None) -> None:
        """Goes to the next epoch, or to the one given, which may be a fraction: epoch + batch / batches."""
        self._keep()
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur, self.T_i = self.T_cur % self.T_i, self.T_i * self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        else:
            self._find(epoch)
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr)

    def _find(self, epoch):
        """The wave that an epoch belongs to, and where in it."""
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            n = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**n - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**n


class _Cycles(LRScheduler):
    """The base of schedules that move momentum, or the first of betas, against the rate."""

    use_beta1: bool

    def _begin_momentum(self, optimizer, base, largest, first):
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        if not first:
            return
        for high, low, group in zip(largest, base, optimizer.param_groups, strict=True):
            self._set_momentum(group, high)
            group["max_momentum"], group["base_momentum"] = high, low

    def _set_momentum(self, group, value):
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_Cycles):
    """Between base_lr and max_lr, up and down, in a triangle whose height may fall."""

    max_lrs: list[Any]
    total_size: float
    step_ratio: float
    mode: str
    gamma: float
    scale_mode: str
    base_momentums: list[Any]
    max_momentums: list[Any]

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[..., Any] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        base_lrs = _per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for lr, group in zip(base_lrs, optimizer.param_groups, strict=True):
                set_rate(group, lr)
        self.max_lrs = _per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode, self.gamma, self.scale_mode, self._scale_fn_custom = mode, gamma, scale_mode, scale_fn
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums = _per_group("base_momentum", optimizer, base_momentum)
            self.max_momentums = _per_group("max_momentum", optimizer, max_momentum)
            self._begin_momentum(optimizer, self.base_momentums, self.max_momentums, last_epoch == -1)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: Tensor) -> float:
        """The height of cycle x, or of epoch x where scale_mode is "iterations"."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return self.gamma**x
        return 1 / (2.0 ** (x - 1)) if self.mode == "triangular2" else 1.0

    def get_lr(self) -> list[float | Tensor]:
        self._asked()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for low, high, group in zip(
                self.base_momentums, self.max_momentums, self.optimizer.param_groups, strict=True
            ):
                self._set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer; of a scale_fn that is an object, its attributes."""
        return super().state_dict() | {"_scale_fn_custom": _state_of(self._scale_fn_custom)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if state_dict["_scale_fn_custom"] is not None:
            vars(self._scale_fn_custom).update(state_dict["_scale_fn_custom"])


class OneCycleLR(_Cycles):
    """One rise to max_lr and one fall, far below where it began, in total_steps steps; to be stepped every batch."""

    total_steps: int

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _check_optimizer(optimizer)
        self.total_steps = self._count_steps(total_steps, epochs, steps_per_epoch)
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._schedule_phases = self._phases(pct_start, three_phase)
        self._anneal_func_type = anneal_strategy
        largest = _per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for high, group in zip(largest, optimizer.param_groups, strict=True):
                group["initial_lr"], group["max_lr"] = high / div_factor, high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            base = _per_group("base_momentum", optimizer, base_momentum)
            high = _per_group("max_momentum", optimizer, max_momentum)
            self._begin_momentum(optimizer, base, high, last_epoch == -1)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _count_steps(total_steps, epochs, steps_per_epoch):
        if total_steps is not None:
            wanted = {"total_steps": total_steps}
        elif epochs is not None and steps_per_epoch is not None:
            wanted = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        for name, value in wanted.items():
            if value <= 0 or not isinstance(value, int):
                raise ValueError(f"Expected positive integer {name}, but got {value}")
        return math.prod(wanted.values())

    def _phases(self, pct_start, three_phase):
        def phase(end, start_lr, end_lr, start_momentum, end_momentum):
            out = {"end_step": end, "start_lr": start_lr, "end_lr": end_lr}
            return out | {"start_momentum": f"{start_momentum}_momentum", "end_momentum": f"{end_momentum}_momentum"}

        top, last = float(pct_start * self.total_steps) - 1, self.total_steps - 1
        up = phase(top, "initial_lr", "max_lr", "max", "base")
        if not three_phase:
            return [up, phase(last, "max_lr", "min_lr", "base", "max")]
        down = phase(float(2 * pct_start * self.total_steps) - 2, "max_lr", "initial_lr", "base", "max")
        return [up, down, phase(last, "initial_lr", "min_lr", "max", "max")]

    def _anneal(self, start, end, part):
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self) -> list[float | Tensor]:
        self._asked()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        begin = 0.0
        for phase in self._schedule_phases[:-1]:
            if step <= phase["end_step"]:
                break
            begin = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        part = (step - begin) / (phase["end_step"] - begin)
        groups = self.optimizer.param_groups
        if self.cycle_momentum:
            for group in groups:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._anneal(*ends, part))
        return [self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], part) for group in groups]
