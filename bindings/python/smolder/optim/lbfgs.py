"""L-BFGS: steps along directions that a history of gradients gives, with or without a search along each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolder import _core
from smolder._modes import enable_grad, no_grad
from smolder._names import listing as _listing
from smolder._typing import Params
from smolder.optim.optimizer import Optimizer, real_parts

__all__ = ["LBFGS"]
__dir__ = _listing(__name__)


def _cubic_minimum(x1, f1, g1, x2, f2, g2, bounds=None):
    """Where the cubic through two points with these values and slopes is least, within bounds."""
    low, high = bounds or ((x1, x2) if x1 <= x2 else (x2, x1))
    d1 = g1 + g2 - 3 * (f1 - f2) / (x1 - x2)
    square = d1**2 - g1 * g2
    if square < 0:
        return (low + high) / 2.0
    d2 = square.sqrt()
    if x1 <= x2:
        at = x2 - (x2 - x1) * ((g2 + d2 - d1) / (g2 - g1 + 2 * d2))
    else:
        at = x1 - (x1 - x2) * ((g1 + d2 - d1) / (g1 - g2 + 2 * d2))
    return min(max(at, low), high)


class _Point:
    """A step length, and there the value, the gradient and the slope along the direction."""

    def __init__(self, t, f, g, slope):
        self.t, self.f, self.g, self.slope = t, f, g, slope


class _Search:
    """A search for a step length that satisfies the strong Wolfe conditions."""

    def __init__(self, evaluate, start, direction, max_ls, c1=1e-4, c2=0.9):
        self.evaluate, self.start, self.direction, self.max_ls = evaluate, start, direction, max_ls
        self.c1, self.c2, self.evals = c1, c2, 0

    def at(self, t):
        f, g = self.evaluate(t)
        self.evals += 1
        return _Point(t, f, g, g.dot(self.direction))

    def rises(self, point):
        return point.f > self.start.f + self.c1 * point.t * self.start.slope

    def is_flat(self, point):
        return abs(point.slope) <= -self.c2 * self.start.slope

    def run(self, t, tolerance_change):
        """The point found, and how often the function was evaluated."""
        bracket, done, iterations = self._bracket(t)
        low = 0 if bracket[0].f <= bracket[-1].f else 1
        if not done:
            low = self._zoom(bracket, low, iterations, tolerance_change)
        return bracket[low], self.evals

    def _bracket(self, t):
        """Points between which there is one, or that one; and how many iterations it took."""
        before, new = _Point(0, self.start.f, self.start.g, self.start.slope), self.at(t)
        for iteration in range(self.max_ls):
            if self.rises(new) or (iteration > 1 and new.f >= before.f):
                return [before, new], False, iteration
            if self.is_flat(new):
                return [new], True, iteration
            if new.slope >= 0:
                return [before, new], False, iteration
            bounds = new.t + 0.01 * (new.t - before.t), new.t * 10
            t = _cubic_minimum(before.t, before.f, before.slope, new.t, new.f, new.slope, bounds)
            before, new = new, self.at(t)
        return [_Point(0, self.start.f, self.start.g, self.start.slope), new], False, self.max_ls

    def _zoom(self, bracket, low, iterations, tolerance_change):
        """Narrows a bracket of two points, of which `low` is the better one; which that is in the end."""
        length, little_progress = self.direction.abs().max(), False
        while iterations < self.max_ls:
            a, b = bracket
            if abs(b.t - a.t) * length < tolerance_change:
                break
            t = _cubic_minimum(a.t, a.f, a.slope, b.t, b.f, b.slope)
            least, most = min(a.t, b.t), max(a.t, b.t)
            eps, near = 0.1 * (most - least), False
            if min(most - t, t - least) < eps:  # near an end: the second time in turn, or beyond it, away from there
                near = not (little_progress or t >= most or t <= least)
                if not near:
                    t = most - eps if abs(t - most) < abs(t - least) else least + eps
            little_progress = near
            new, iterations = self.at(t), iterations + 1
            if self.rises(new) or new.f >= bracket[low].f:
                bracket[1 - low] = new
                low = 0 if bracket[0].f <= bracket[1].f else 1
                continue
            done = self.is_flat(new)
            if not done and new.slope * (bracket[1 - low].t - bracket[low].t) >= 0:
                bracket[1 - low] = bracket[low]
            bracket[low] = new
            if done:
                break
        return low


class LBFGS(Optimizer):
    """L-BFGS. step(closure) evaluates the closure, which computes the loss and its gradients, up to max_eval times.

    It reads values as it goes, so each evaluation ends a step of the program.
    """

    def __init__(
        self,
        params: Params,
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
        *,
        maximize: bool = False,
    ) -> None:
        if isinstance(lr, _core.Tensor) and lr.numel() != 1:
            raise ValueError("Tensor lr must be 1-element")
        if not lr >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
            "maximize": maximize,
        }
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _gradient(self):
        """All gradients in one vector; that of what is to be made less."""
        parts = [real_parts(_core.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in self._params]
        flat = _core.cat(parts, 0)
        return -flat if self.param_groups[0]["maximize"] else flat

    def _move(self, t, direction):
        at = 0
        for p in self._params:
            p = real_parts(p)
            p.add_(direction[at : at + p.numel()].reshape(p.shape) * t)
            at += p.numel()

    def _value(self, closure):
        loss = float(closure())
        return -loss if self.param_groups[0]["maximize"] else loss

    def step(self, closure: Callable[[], Any]) -> Any:
        """Makes up to max_iter moves. Returns the loss before the first."""
        with no_grad():
            loss = self._step(enable_grad()(closure))
        _core.step_boundary("optimizer.step")
        return loss

    def _step(self, closure):
        if not self._params:
            return closure()
        group, state = self.param_groups[0], self.state[self._params[0]]
        lr = group["lr"].item() if isinstance(group["lr"], _core.Tensor) else group["lr"]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = closure()
        loss = -float(first) if group["maximize"] else float(first)
        evals, gradient = 1, self._gradient()
        state["func_evals"] += 1
        if gradient.abs().max() <= group["tolerance_grad"]:
            return first
        for n_iter in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, gradient)
            before = loss
            state["prev_flat_grad"], state["prev_loss"] = gradient, loss
            t = min(1.0, 1.0 / gradient.abs().sum()) * lr if state["n_iter"] == 1 else lr
            state["d"], state["t"] = direction, t
            slope = gradient.dot(direction)
            if slope > -group["tolerance_change"]:
                break
            last, used = n_iter == group["max_iter"], 0
            if group["line_search_fn"] is not None:
                start = _Point(0, loss, gradient, slope)
                found, used = self._search(closure, start, direction, t, group["max_eval"] - evals)
                loss, gradient, t = found.f, found.g, found.t
                state["t"] = t
                self._move(t, direction)
            else:
                self._move(t, direction)
                if not last:  # whose value nobody would look at
                    loss, used = self._value(closure), 1
                    gradient = self._gradient()
            evals += used
            state["func_evals"] += used
            if last or evals >= group["max_eval"]:
                break
            if gradient.abs().max() <= group["tolerance_grad"]:
                break
            if (direction * t).abs().max() <= group["tolerance_change"]:
                break
            if abs(loss - before) < group["tolerance_change"]:
                break
        return first

    def _search(self, closure, start, direction, t, max_ls):
        group = self.param_groups[0]
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        origin = [p.clone() for p in self._params]

        def evaluate(t):
            self._move(t, direction)
            value = self._value(closure), self._gradient()
            for p, was in zip(self._params, origin, strict=True):
                p.copy_(was)
            return value

        return _Search(evaluate, start, direction, max_ls).run(t, 1e-9)  # torch's default, whatever the group says

    def _direction(self, state, gradient):
        """Where to go from here: down, as what gradients did on the ways before says."""
        if state["n_iter"] == 1:
            state["old_dirs"], state["old_stps"], state["ro"], state["H_diag"] = [], [], [], 1
            return -gradient
        y, s = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        ys = y.dot(s)
        dirs, steps, ro = state["old_dirs"], state["old_stps"], state["ro"]
        if ys > 1e-10:
            if len(dirs) == self.param_groups[0]["history_size"]:
                del dirs[0], steps[0], ro[0]
            dirs.append(y)
            steps.append(s)
            ro.append(1.0 / ys)
            state["H_diag"] = ys / y.dot(y)
        q, al = -gradient, [None] * len(dirs)
        for i in reversed(range(len(dirs))):
            al[i] = steps[i].dot(q) * ro[i]
            q = q - dirs[i] * al[i]
        r = q * state["H_diag"]
        for i, old in enumerate(dirs):
            r = r + steps[i] * (al[i] - old.dot(r) * ro[i])
        return r
