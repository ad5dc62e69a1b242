"""Adam for gradients of few rows."""

from __future__ import annotations

import math
from typing import Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Params, Tensor
from smolder.optim.optimizer import Optimizer

__all__ = ["SparseAdam"]
__dir__ = _listing(__name__)


class SparseAdam(Optimizer):
    """torch.optim.SparseAdam: Adam whose moments and parameters change in the rows that a sparse gradient has alone."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        if not lr > 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if not eps > 0.0:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})
        sparse = [
            [g, i] for g, group in enumerate(self.param_groups) for i, p in enumerate(group["params"]) if p.is_sparse
        ]
        if sparse:
            raise ValueError(f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors")

    _counts_as_torch = False

    def _options(self, group):
        return self._numbers(group, "lr", "betas", "eps")

    def _update(self, parameter, grad, options):
        raise RuntimeError("SparseAdam does not support dense gradients, please consider Adam instead")

    def _update_sparse(self, parameter: Tensor, grad: Tensor, options: Any) -> None:
        from smolder.optim._rows import Rows

        state = self.state[parameter]
        step = self._count(state, parameter)
        for name in ("exp_avg", "exp_avg_sq"):
            if name not in state:
                state[name] = _core.zero_state(parameter)
        rows = Rows(parameter, grad)
        values = -rows.values if options["maximize"] else rows.values
        moments = []
        for name, of, beta in (("exp_avg", values, "beta1"), ("exp_avg_sq", values.square(), "beta2")):
            old = rows.of(state[name])
            change = (of - old) * (1 - options[beta])
            moments.append(old + change)
            self._write(state[name], rows.added(state[name], change))
        if isinstance(step, _core.Tensor):
            first, second = (1 - options[b] ** step for b in ("beta1", "beta2"))
            size = options["lr"] * second.sqrt() / first
        else:
            size = options["lr"] * math.sqrt(1 - options["beta2"] ** step) / (1 - options["beta1"] ** step)
        change = moments[0] / (moments[1].sqrt() + options["eps"]) * -size
        self._write(parameter, rows.added(parameter, change))
