"""Special functions that are integrals, by Gauss and Legendre's rule over the part where the integrand is not negligible.

The nodes are a last dimension that the sum over it takes away again, so a function is one fused pass over its arguments,
on any device, without loops or branches. All is computed in float64.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy

from smolder import _core
from smolder._typing import Tensor
from smolder.autograd.function import Function, once_differentiable

# An integrand has fallen to exp(-_DEPTH) of its largest value where it is cut off: less than float64 resolves.
_DEPTH = 38.0


@functools.cache
def _legendre(count: int) -> tuple[list[float], list[float]]:
    nodes, weights = numpy.polynomial.legendre.leggauss(count)
    return ((nodes + 1) / 2).tolist(), (weights / 2).tolist()


def _integrals(width: Tensor, count: int, *of: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """The integrals of functions from 0 to width; their argument has one dimension more."""
    nodes, weights = (width.new_tensor(v) for v in _legendre(count))
    at = width.unsqueeze(-1) * nodes
    return [width * (f(at) * weights).sum(-1) for f in of]


def _log_gamma_error(a: Tensor) -> Tensor:
    """log Γ(a) less Stirling's (a - 1/2) log a - a + log(2π)/2, for a >= 16."""
    s = 1 / (a * a)
    return (1 / 12 - s * (1 / 360 - s * (1 / 1260 - s * (1 / 1680 - s / 1188)))) / a


def _log_density(a: Tensor, log_z: Tensor) -> Tensor:
    """log(z^a exp(-z) / Γ(a)); for large a by how far z is from a, as the terms themselves would cancel."""
    z = log_z.exp()
    away = log_z - a.log()
    near = -a * (away.expm1() - away) - _log_gamma_error(a.clamp(min=16.0)) + 0.5 * (a.log() - math.log(2 * math.pi))
    return _core.where(a >= 16, near, a * log_z - z - a.lgamma())


class _GammaTails:
    """Integrals of t^(a-1) exp(-t) and of its logarithm's slope in a, over the tail that z cuts off.

    With t = z exp(±w), both tails are integrals over w > 0 of exp(±aw - z (exp(±w) - 1)), which falls from 1 on, times
    1 or w. The lower tail is taken where z <= a, or z < 1, and then that of a + 1, whose integrand has no singularity; the
    recurrence P(a, z) = P(a + 1, z) + z^a exp(-z) / Γ(a + 1) leads back.
    """

    def __init__(self, a: Tensor, log_z: Tensor) -> None:
        self.a, self.log_z = a, log_z
        self.z = z = log_z.exp()
        self.lower = _core.logical_or(z <= a, z < 1)
        self.b = b = _core.where(self.lower, a + 1, a)
        self.sign = sign = _core.where(self.lower, -1.0, 1.0).to(a.dtype)
        away = (b - z).abs()
        # Where the exponents reach -_DEPTH, by bounds of them that are quadratic in w.
        slope = _DEPTH - 2 * away
        down = (slope + (slope * slope + 8 * b * _DEPTH).sqrt()) / (2 * b)
        up = 2 * _DEPTH / (away + (away * away + 2 * z * _DEPTH).sqrt())
        up = _core.minimum(up, (_DEPTH / z + up).log1p())
        width = _core.where(self.lower, down, up)
        sign, b, z = sign.unsqueeze(-1), b.unsqueeze(-1), z.unsqueeze(-1)

        def fall(w: Tensor) -> Tensor:
            return (sign * b * w - z * (sign * w).expm1()).exp()

        self.whole, self.first = _integrals(width, 32, fall, lambda w: fall(w) * w)

    def slope(self) -> Tensor:
        """d log z / d a where the share of the distribution below z is held: -(∂P/∂a) / (z · density)."""
        z, log_z, a, b = self.z, self.log_z, self.a, self.b
        d = self.sign * ((log_z - b.digamma()) * self.whole + self.sign * self.first)
        # For the lower tail d is of a + 1 and z: (z / a) (d z + ψ(a + 1) - log z) is z's slope of a.
        return _core.where(self.lower, (d * z + b.digamma() - log_z) / a, d)

    def shares(self) -> tuple[Tensor, Tensor]:
        """P(a, z) and Q(a, z) = 1 - P(a, z), the smaller without cancellation."""
        density = _log_density(self.a, self.log_z).exp()
        tail = density * _core.where(self.lower, (1 + self.z * self.whole) / self.a, self.whole)
        return _core.where(self.lower, tail, 1 - tail), _core.where(self.lower, 1 - tail, tail)


class LogGammaSlope(Function):
    """log z, for a draw z of the gamma distribution of concentration a, with the gradient of a through it.

    A draw moves so that the share of the distribution below it stays (Figurnov, Mohamed and Mnih 2018).
    """

    @staticmethod
    def forward(ctx, a, log_z):
        ctx.save_for_backward(a, log_z)
        return log_z.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        a, log_z = ctx.saved_tensors
        return grad * _GammaTails(a, log_z).slope(), None


class GammaShare(Function):
    """P(a, x), or Q(a, x) = 1 - P(a, x), with both gradients."""

    @staticmethod
    def forward(ctx, a, x, upper):
        ctx.save_for_backward(a, x)
        ctx.upper = upper
        inside = _core.logical_and(_core.logical_and(x > 0, _core.isfinite(x)), a > 0)
        tails = _GammaTails(_core.where(inside, a, 1.0), _core.where(inside, x, 1.0).log())
        share = tails.shares()[int(upper)]
        low, high = (1.0, 0.0) if upper else (0.0, 1.0)
        known = _core.where(x > 0, high, low).to(a.dtype)  # at the ends
        known = _core.where(
            _core.logical_and(a == 0, x >= 0), _core.where(_core.logical_or(x > 0, upper), high, low), known
        )
        nowhere = _core.logical_or(_core.logical_or(a < 0, x < 0), _core.logical_or(a.isnan(), x.isnan()))
        nowhere = _core.logical_or(nowhere, _core.logical_and(a == 0, x == 0))
        return _core.where(nowhere, math.nan, _core.where(inside, share, known))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        a, x = ctx.saved_tensors
        log_x = x.log()
        density = _log_density(a, log_x).exp()  # times x
        by_x = density / x
        by_a = -density * _GammaTails(a, log_x).slope() if ctx.needs_input_grad[0] else None
        sign = -1.0 if ctx.upper else 1.0
        return None if by_a is None else sign * grad * by_a, sign * grad * by_x, None


def _scaled_bessel(x: Tensor, order: int) -> Tensor:
    """Integrals of exp(|x| (cos θ - 1)) over θ from 0 to π, divided by π; of order 1 by parts, as nothing then cancels.

    Far out, where the width of what is integrated is lost beside π, two terms of Hankel's expansion are exact.
    """
    far = x.abs() > 1e8
    x, out = _core.where(far, 1.0, x), _core.where(far, x, 1.0)
    size, tail = x.abs(), (1.0 + (-0.375 if order else 0.125) / out.abs()) / out.abs().sqrt() / math.sqrt(2 * math.pi)
    width = 2 * (_DEPTH / (2 * size)).sqrt().clamp(max=1.0).asin()
    u = size.unsqueeze(-1)

    def fall(at: Tensor) -> Tensor:
        return (-2 * u * (at / 2).sin() ** 2).exp()

    if order == 0:
        return _core.where(far, tail, _integrals(width, 32, fall)[0] / math.pi)
    near = x * _integrals(width, 32, lambda at: fall(at) * at.sin() ** 2)[0] / math.pi
    return _core.where(far, out.sign() * tail, near)


class Bessel0e(Function):
    """exp(-|x|) I0(x)."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return _scaled_bessel(x, 0)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * (Bessel1e.apply(x) - x.sign() * Bessel0e.apply(x))


class Bessel1e(Function):
    """exp(-|x|) I1(x)."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return _scaled_bessel(x, 1)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        e1, away = Bessel1e.apply(x), x.abs() > 1e-12
        ratio = _core.where(away, e1 / _core.where(away, x, 1.0), 0.5)
        return grad * (Bessel0e.apply(x) - x.sign() * e1 - ratio)
