"""Orthogonal polynomials, of float64 tensors x and degrees n, which are tensors or numbers.

Chebyshev's have closed forms, so they are one fused pass whatever the degrees are. The others are computed by their
recurrence: written out where the degree is a number, and otherwise by a loop that ends where the highest degree does and
runs with the step, so that no degree is read.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from smolder import _core
from smolder._control_flow import while_loop
from smolder._functions import broadcast_tensors
from smolder._typing import Number, Tensor

_WRITTEN_OUT = 32  # degrees up to here are no loop, where they are numbers
_FEW = 8  # and Chebyshev's polynomials of these are computed by the recurrence


def _degrees(n: Tensor) -> Tensor:
    """Whole degrees: a fraction is cut off, and what no degree is has the polynomial 0."""
    return _core.where(n.isfinite(), n.trunc(), -1.0)


def _by_recurrence(
    step: Callable[[Tensor, Tensor | float, Tensor, Tensor], Tensor],
    first: Callable[[Tensor], Tensor],
    x: Tensor,
    n: Tensor | Number,
    most: float = math.inf,
) -> Tensor:
    """The polynomial of degree n, where `step` makes that of k + 1 of those of k - 1 and k; nan beyond the degree `most`."""
    if not isinstance(n, _core.Tensor):
        n = math.trunc(n) if math.isfinite(n) else -1
        if n <= _WRITTEN_OUT:
            p, q = _core.zeros_like(x), _core.ones_like(x)
            for k in range(n):
                p, q = q, step(x, float(k), p, q) if k else first(x)
            return q if n >= 0 else p
        n = x.new_full((), float(n))
    x, n = broadcast_tensors(x, _degrees(n))
    if not x.numel():
        return x * n
    top = n.amax().clamp(max=most)

    def more(k, p, q):
        return k < top

    def next_degree(k, p, q):
        at = k < n
        return k + 1.0, _core.where(at, q, p), _core.where(at, step(x, k, p, q), q)

    k = x.new_ones(())
    _, _, out = while_loop(more, next_degree, (k, _core.ones_like(x), first(x) * 1.0))
    out = _core.where(n > 0, out, _core.where(n == 0, 1.0, 0.0))
    return _core.where(n > most, math.nan, out)


def hermite_h(x: Tensor, n: Tensor | Number, most: float) -> Tensor:
    """The physicist's."""
    return _by_recurrence(lambda x, k, p, q: (x + x) * q - 2.0 * k * p, lambda x: x + x, x, n, most)


def hermite_he(x: Tensor, n: Tensor | Number, most: float) -> Tensor:
    """The statistician's."""
    return _by_recurrence(lambda x, k, p, q: x * q - k * p, lambda x: x * 1.0, x, n, most)


def laguerre(x: Tensor, n: Tensor | Number) -> Tensor:
    """Laguerre's."""
    return _by_recurrence(lambda x, k, p, q: ((2.0 * k + (1.0 - x)) * q - k * p) / (k + 1.0), lambda x: 1.0 - x, x, n)


def legendre(x: Tensor, n: Tensor | Number) -> Tensor:
    """Legendre's."""
    return _by_recurrence(lambda x, k, p, q: ((2.0 * k + 1.0) * x * q - k * p) / (k + 1.0), lambda x: x * 1.0, x, n)


def _few(first: Tensor, x: Tensor, n: Tensor) -> Tensor:
    """A polynomial of Chebyshev of a degree up to _FEW, which the one of degree 1 says."""
    p, q = _core.ones_like(first), first
    out = _core.where(n < 0, 0.0, _core.where(n == 0, 1.0, first))
    for k in range(2, _FEW + 1):
        p, q = q, (x + x) * q - p
        out = _core.where(n == k, q, out)
    return out


# How a family is computed for degree n: its polynomial of degree 1 at x; within (-1, 1), from the angle a whose cosine
# is x; beyond 1, where x = cosh(a), without the factor exp(n a); at 1.
_Form = tuple[
    "Callable[[Tensor], Tensor]",
    "Callable[[Tensor, Tensor], Tensor]",
    "Callable[[Tensor, Tensor], Tensor]",
    "Callable[[Tensor], Tensor]",
]


def _share(turns: Tensor, a: Tensor, by: float) -> Tensor:
    """(1 - exp(-turns a)) / (1 - exp(-by a))."""
    return (-turns * a).expm1() / (-by * a).expm1()


_FORMS: dict[str, _Form] = {
    "t": (
        lambda x: x,
        lambda n, a: (n * a).cos(),
        lambda n, a: 0.5 + 0.5 * (-2.0 * n * a).exp(),
        lambda n: n * 0.0 + 1.0,
    ),
    "u": (
        lambda x: x + x,
        lambda n, a: ((n + 1.0) * a).sin() / a.sin(),
        lambda n, a: _share(2.0 * n + 2.0, a, 2.0),
        lambda n: n + 1.0,
    ),
    "v": (
        lambda x: x + x - 1.0,
        lambda n, a: ((n + 0.5) * a).cos() / (0.5 * a).cos(),
        lambda n, a: (1.0 + (-(2.0 * n + 1.0) * a).exp()) / (1.0 + (-a).exp()),
        lambda n: n * 0.0 + 1.0,
    ),
    "w": (
        lambda x: x + x + 1.0,
        lambda n, a: ((n + 0.5) * a).sin() / (0.5 * a).sin(),
        lambda n, a: _share(2.0 * n + 1.0, a, 1.0),
        lambda n: n + n + 1.0,
    ),
}
_MIRRORED = {"t": "t", "u": "u", "v": "w", "w": "v"}  # what a polynomial is at -x, but for the sign


def chebyshev(kind: str, few: int, x: Tensor, n: Tensor | Number) -> Tensor:
    """Chebyshev's of the kind t, u, v or w; within (-1, 1) degrees above `few` are trigonometric, as torch has it."""
    if not isinstance(n, _core.Tensor):
        n = x.new_full((), float(n))
    x, n = broadcast_tensors(x, _degrees(n))
    first, within, beyond, at_one = _FORMS[kind]
    _, _, mirrored, mirrored_at_one = _FORMS[_MIRRORED[kind]]
    size, below = x.abs(), x < 0
    sign = _core.where(below, 1.0 - 2.0 * (n - 2.0 * (n / 2.0).floor()), 1.0)
    root = (size - 1.0).sqrt() * (size + 1.0).sqrt()
    a = (size - 1.0 + root).log1p()
    growing = sign * (size + root) ** n * _core.where(below, mirrored(n, a), beyond(n, a))
    far = _core.where(size == 1.0, sign * _core.where(below, mirrored_at_one(n), at_one(n)), growing)
    out = _core.where(n > _FEW, far, _few(first(x), x, n))
    return _core.where(_core.logical_and(size < 1.0, n > few), within(n, x.acos()), out)


chebyshev_t = functools.partial(chebyshev, "t", 6)
chebyshev_u = functools.partial(chebyshev, "u", 8)
chebyshev_v = functools.partial(chebyshev, "v", 8)
chebyshev_w = functools.partial(chebyshev, "w", 8)


def _shifted(kind: str, few: int, x: Tensor, n: Tensor | Number) -> Tensor:
    return chebyshev(kind, few, x + x - 1.0, n)


shifted_t = functools.partial(_shifted, "t", 6)
shifted_u = functools.partial(_shifted, "u", 6)
shifted_v = functools.partial(_shifted, "v", 6)
shifted_w = functools.partial(_shifted, "w", 4)
