"""Learning-rate schedules: they set `lr` of each group, a run-time number, so nothing is compiled."""

import math

from smolder.optim.optimizer import Optimizer


class LRScheduler:
    """Base: counts epochs from 0 and sets each group's lr from get_lr()."""

    def __init__(self, optimizer, last_epoch=-1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with last_epoch >= 0"
                )
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self._last_lr = [group["lr"] for group in optimizer.param_groups]
        self._is_initial = True  # the step below starts the count and changes no rate
        self.step()
        self._is_initial = False

    def get_lr(self):
        """The learning rates of this epoch, one a group."""
        raise NotImplementedError(f"{type(self).__name__} defines no get_lr")

    def get_last_lr(self):
        """The learning rates set last, one a group."""
        return self._last_lr

    def step(self):
        """Goes to the next epoch."""
        self.last_epoch += 1
        rates = self.get_lr()
        for group, lr in zip(self.optimizer.param_groups, rates):
            group["lr"] = lr
        self._last_lr = list(rates)

    def state_dict(self):
        """Everything but the optimizer and functions."""
        return {k: v for k, v in self.__dict__.items() if k not in ("optimizer", "lr_lambdas")}

    def load_state_dict(self, state_dict):
        """Takes over what state_dict() returned."""
        self.__dict__.update(state_dict)


class LambdaLR(LRScheduler):
    """The initial rate times lr_lambda(epoch); one function, or one a group."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        groups = len(optimizer.param_groups)
        lambdas = list(lr_lambda) if isinstance(lr_lambda, list | tuple) else [lr_lambda] * groups
        if len(lambdas) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(lambdas)}")
        self.lr_lambdas = lambdas
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas)]


class StepLR(LRScheduler):
    """The rate times gamma every step_size epochs."""

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if self.last_epoch == 0 or self.last_epoch % self.step_size != 0:
            return rates
        return [lr * self.gamma for lr in rates]


class CosineAnnealingLR(LRScheduler):
    """From the initial rate down to eta_min along a half cosine of T_max epochs, and up again.

    Each rate follows from the one before, so that what a program sets in between is kept, in proportion.
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        groups, low = self.optimizer.param_groups, self.eta_min
        if self._is_initial:
            return [group["lr"] for group in groups]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the rate was eta_min: nothing to scale
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [group["lr"] + (base - low) * rise for base, group in zip(self.base_lrs, groups, strict=True)]
        now, before = (1 + math.cos(math.pi * epoch / self.T_max) for epoch in (self.last_epoch, self.last_epoch - 1))
        return [now / before * (group["lr"] - low) + low for group in groups]
