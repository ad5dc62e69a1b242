"""Functions of the normal distribution that keep their digits in its tails; of float64 tensors, with gradients."""

from __future__ import annotations

import math
from typing import Any

from smolder import _core
from smolder._bessel import polynomial
from smolder._typing import Tensor
from smolder.autograd.function import Function

# erfcx by W. J. Cody's rational functions ("Rational Chebyshev approximations for the error function", 1969).
_NEAR_N = (
    1.85777706184603153e-1,
    3.16112374387056560,
    1.13864154151050156e2,
    3.77485237685302021e2,
    3.20937758913846947e3,
)
_NEAR_D = (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3)
_MIDDLE_N = (
    2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1, 2.98635138197400131e2,
    8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3,
)  # fmt: skip
_MIDDLE_D = (
    1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
    3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3,
)  # fmt: skip
_FAR_N = (
    1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
    1.60837851487422766e-2, 6.58749161529837803e-4,
)  # fmt: skip
_FAR_D = (
    1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2, 2.33520497626869185e-3,
)  # fmt: skip
# The inverse by Cephes's: near one half, and by the root of -2 log y up to 8 and beyond.
_P0 = (-59.96335010141079, 98.00107541859997, -56.67628574690703, 13.931260938727968, -1.2391658386738125)
_Q0 = (
    1.0, 1.9544885833814176, 4.676279128988815, 86.36024213908905, -225.46268785411937, 200.26021238006066,
    -82.03722561683334, 15.90562251262117, -1.1833162112133,
)  # fmt: skip
_P1 = (
    4.0554489230596245, 31.525109459989388, 57.16281922464213, 44.08050738932008, 14.684956192885803,
    2.1866330685079025, -0.1402560791713545, -0.03504246268278482, -0.0008574567851546854,
)  # fmt: skip
_Q1 = (
    1.0, 15.779988325646675, 45.39076351288792, 41.3172038254672, 15.04253856929075, 2.504649462083094,
    -0.14218292285478779, -0.03808064076915783, -0.0009332594808954574,
)  # fmt: skip
_P2 = (
    3.2377489177694603, 6.915228890689842, 3.9388102529247444, 1.3330346081580755, 0.20148538954917908,
    0.012371663481782003, 0.00030158155350823543, 2.6580697468673755e-06, 6.239745391849833e-09,
)  # fmt: skip
_Q2 = (
    1.0, 6.02427039364742, 3.6798356385616087, 1.3770209948908132, 0.21623699359449663, 0.013420400608854318,
    0.00032801446468212774, 2.8924786474538068e-06, 6.790194080099813e-09,
)  # fmt: skip

_INVERSE_ROOT_PI = 1 / math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)
_TAIL = math.exp(-2)  # from here to 1/2 ndtri has one rational function


def _erfcx_of_positive(x: Tensor) -> Tensor:
    z = x * x
    near = (1.0 - x * polynomial(z, _NEAR_N) / polynomial(z, _NEAR_D)) * z.exp()
    middle = polynomial(x, _MIDDLE_N) / polynomial(x, _MIDDLE_D)
    w = (1.0 / x) * (1.0 / x)
    far = (_INVERSE_ROOT_PI - w * polynomial(w, _FAR_N) / polynomial(w, _FAR_D)) / x
    return _core.where(x <= 0.46875, near, _core.where(x <= 4.0, middle, far))


def _erfcx(x: Tensor) -> Tensor:
    of_size = _erfcx_of_positive(x.abs())
    return _core.where(x < 0, 2.0 * (x * x).exp() - of_size, of_size)


class Erfcx(Function):
    """exp(x²) erfc(x)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return _erfcx(x)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * (2.0 * x * Erfcx.apply(x) - 2.0 * _INVERSE_ROOT_PI)


class LogNdtr(Function):
    """The logarithm of the part of a normal distribution that is below x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        t = x * math.sqrt(0.5)
        return _core.where(x < -1.0, (_erfcx(-t) / 2.0).log() - t * t, (-_core.erfc(t) / 2.0).log1p())

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * (math.sqrt(2 / math.pi) / Erfcx.apply(x * -math.sqrt(0.5)))


class Ndtri(Function):
    """Below which x the part y of a normal distribution is."""

    @staticmethod
    def forward(ctx: Any, y: Tensor) -> Tensor:
        upper = y > 1.0 - _TAIL
        tail = _core.where(upper, 1.0 - y, y)
        away = tail - 0.5
        z = away * away
        inner = (away + away * (z * polynomial(z, _P0) / polynomial(z, _Q0))) * _ROOT_TWO_PI
        x = (-2.0 * tail.log()).sqrt()
        w = 1.0 / x
        less = _core.where(x < 8.0, polynomial(w, _P1) / polynomial(w, _Q1), polynomial(w, _P2) / polynomial(w, _Q2))
        outer = x - x.log() / x - w * less
        out = _core.where(tail > _TAIL, inner, _core.where(upper, outer, -outer))
        out = _core.where(y == 0, -math.inf, _core.where(y == 1, math.inf, out))
        out = _core.where(_core.logical_or(y < 0, y > 1), math.nan, out)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grad * (_ROOT_TWO_PI * (x * x / 2.0).exp())
