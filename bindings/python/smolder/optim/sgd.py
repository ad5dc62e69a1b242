"""Stochastic gradient descent."""

from __future__ import annotations

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Params
from smolder.optim.optimizer import Optimizer, implementation

__all__ = ["SGD"]
__dir__ = _listing(__name__)


class SGD(Optimizer):
    """torch.optim.SGD: momentum, dampening, weight decay, Nesterov."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: int = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        if lr < 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0.0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        defaults = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        defaults |= {"nesterov": nesterov, "maximize": maximize}
        super().__init__(params, defaults | implementation(foreach, fused, differentiable))

    def _options(self, group):
        numbers = self._numbers(group, "lr", "momentum", "dampening", "weight_decay")
        return numbers | {"nesterov": group["nesterov"]}

    def _update(self, parameter, grad, options):
        begun = options["momentum"] != 0 or parameter in self.state  # without momentum there is no entry, as in torch's
        state = self.state[parameter] if begun else {}
        if self._skip is not None and options["momentum"] != 0 and "momentum_buffer" not in state:
            state["momentum_buffer"] = _core.zero_state(parameter)  # where no buffer is, too, if there is no dampening
        buffer = state.get("momentum_buffer")
        new, new_buffer = _core.sgd_step(parameter, grad, buffer, **options)
        self._write(parameter, new)
        if buffer is not None:
            self._write(buffer, new_buffer)
        elif options["momentum"] != 0:
            state["momentum_buffer"] = new_buffer

    def _update_sparse(self, parameter, grad, options):
        from smolder._sparse._elementwise import add

        if options["weight_decay"] != 0:
            raise RuntimeError("add(sparse, dense) is not supported. Use add(dense, sparse) instead.")
        momentum, grad = options["momentum"], grad.detach()
        begun = self.state[parameter].get("momentum_buffer") if parameter in self.state else None
        if begun is not None and not begun.is_sparse:  # by a dense gradient, and it stays dense
            return self._update(parameter, grad.to_dense(), options)
        grad = -grad if options["maximize"] else grad
        if momentum != 0:
            if self._skip is not None:
                raise NotImplementedError(
                    "SGD: momentum of sparse gradients is not supported where a step may be skipped"
                )
            state = self.state[parameter]
            buffer = state.get("momentum_buffer")
            grad = grad.coalesce()
            new = grad if buffer is None else add(buffer * momentum, grad, alpha=1 - options["dampening"])
            state["momentum_buffer"] = new
            grad = add(grad, new, alpha=momentum) if options["nesterov"] else new
        self._write(parameter, add(parameter.detach(), grad, alpha=-options["lr"]))

    def _can_skip(self):
        def begun(group):
            return all("momentum_buffer" in self.state[p] for p in group["params"] if p.grad is not None)

        return all(g["momentum"] == 0 or g["dampening"] == 0 or begun(g) for g in self.param_groups)
