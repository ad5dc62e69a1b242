"""Rprop."""

from __future__ import annotations

from smolder import _core
from smolder._creation import full_like
from smolder._names import listing as _listing
from smolder._typing import Params
from smolder.optim._state import get, put
from smolder.optim.optimizer import Optimizer, check_options, implementation, real_parts

__all__ = ["Rprop"]
__dir__ = _listing(__name__)


class Rprop(Optimizer):
    """torch.optim.Rprop: steps grow while a gradient keeps its sign, and shrink when it turns."""

    def __init__(
        self,
        params: Params,
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(lr=lr)
        if not 0.0 < etas[0] < 1.0 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        defaults = {"lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize, "capturable": capturable}
        super().__init__(params, defaults | implementation(foreach, None, differentiable, fusible=False))

    def _update(self, parameter, grad, options):
        state = self._state_of(parameter)
        self._count(state, parameter)
        if "prev" not in state:
            put(state, "prev", _core.zero_state(parameter))
            first, complex_one = float(options["lr"]), parameter.dtype.is_complex
            put(state, "step_size", full_like(grad.detach(), complex(first, first) if complex_one else first))
        grad = -grad if options["maximize"] else grad
        (shrink, grow), (least, most) = options["etas"], options["step_sizes"]
        # The two parts of complex numbers are updated each by itself.
        back = _core.view_as_complex if parameter.dtype.is_complex else _same
        grad, value, prev, size = map(real_parts, (grad, parameter, get(state, "prev"), get(state, "step_size")))
        turned = grad * prev
        change = _core.where(turned > 0, grow, _core.where(turned < 0, shrink, 1.0))
        size = (size * change.to(grad.dtype)).clamp(least, most)
        grad = _core.where(turned < 0, 0.0, grad)  # where it turned, the step is left out
        self._write(parameter, back(value - grad.sign() * size))
        self._write(get(state, "prev"), back(grad))
        self._write(get(state, "step_size"), back(size))


def _same(x):
    return x
