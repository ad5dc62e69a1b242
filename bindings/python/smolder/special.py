"""Special functions, under the names that torch gives them together."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smolder import _core
from smolder._core import (
    digamma,
    erf,
    erfc,
    erfinv,
    exp2,
    expm1,
    log1p,
    log_softmax,
    logit,
    logsumexp,
    polygamma,
    round,
    sinc,
    softmax,
    xlogy,
)
from smolder._core import lgamma as gammaln
from smolder._core import sigmoid as expit
from smolder._functions import broadcast_tensors
from smolder._integrals import Bessel0e, Bessel1e, GammaShare
from smolder._names import listing as _listing
from smolder._out import takes_out

if TYPE_CHECKING:
    from smolder._typing import Number, Tensor

__all__ = [
    "digamma", "entr", "erf", "erfc", "erfinv", "exp2", "expit", "expm1", "gammainc", "gammaincc", "gammaln", "i0",
    "i0e", "i1", "i1e", "log1p", "log_softmax", "logit", "logsumexp", "multigammaln", "ndtr", "polygamma", "psi",
    "round", "sinc", "softmax", "xlog1py", "xlogy", "zeta",
]  # fmt: skip
__dir__ = _listing(__name__)

psi = digamma


@takes_out
def entr(input: Tensor) -> Tensor:
    """-x log(x): 0 of 0, and -inf of what is negative."""
    return _core.where(input < 0, -math.inf, _core.where(input == 0, 0.0, -xlogy(input, input)))


@takes_out
def ndtr(input: Tensor) -> Tensor:
    """The part of a normal distribution that is below x."""
    return 0.5 * erfc(input * -math.sqrt(0.5))


@takes_out
def xlog1py(input: Tensor, other: Tensor) -> Tensor:
    """x log(1 + y), which is 0 where x is, unless y is nan."""
    return xlogy(input, 1 + other) if not isinstance(other, _core.Tensor) else _xlog1py(input, other)


def _xlog1py(input, other):
    return _core.where(_core.logical_and(input == 0, other == other), 0.0, input * log1p(other))


@takes_out
def multigammaln(input: Tensor, p: float) -> Tensor:
    """The logarithm of the multivariate gamma function of p dimensions."""
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    return sum(gammaln(input - 0.5 * j) for j in range(p)) + p * (p - 1) / 4 * math.log(math.pi)


def _wide(function, *inputs):
    """A function of float64, of other dtypes: integers are the default dtype, as for the functions that are ops."""
    dtype = inputs[0].dtype
    for x in inputs[1:]:
        dtype = _core.promote_types(dtype, x.dtype)
    if not dtype.is_floating_point:
        dtype = _core._default_dtype()
    return function(*(x.to(_core.float64) for x in inputs)).to(dtype)


@takes_out
def gammainc(input: Tensor, other: Tensor) -> Tensor:
    """The regularized lower incomplete gamma function: the integral of t^(input-1) exp(-t) from 0 to other, over Γ(input).

    Args:
        input: The exponents plus 1, not negative; nan where one is.
        other: The upper bounds, not negative; nan where one is.
    """
    return _wide(lambda a, x: GammaShare.apply(*broadcast_tensors(a, x), False), input, other)


@takes_out
def gammaincc(input: Tensor, other: Tensor) -> Tensor:
    """The regularized upper incomplete gamma function: 1 - gammainc(input, other), without the cancellation.

    Args:
        input: The exponents plus 1, not negative; nan where one is.
        other: The lower bounds, not negative; nan where one is.
    """
    return _wide(lambda a, x: GammaShare.apply(*broadcast_tensors(a, x), True), input, other)


@takes_out
def i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind, of order 0: the sum of (x²/4)^k / (k!)²."""
    return _wide(lambda x: x.abs().exp() * Bessel0e.apply(x), input)


@takes_out
def i0e(input: Tensor) -> Tensor:
    """exp(-|x|) times the modified Bessel function of the first kind, of order 0."""
    return _wide(Bessel0e.apply, input)


@takes_out
def i1(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind, of order 1: the derivative of i0."""
    return _wide(lambda x: x.abs().exp() * Bessel1e.apply(x), input)


@takes_out
def i1e(input: Tensor) -> Tensor:
    """exp(-|x|) times the modified Bessel function of the first kind, of order 1."""
    return _wide(Bessel1e.apply, input)


# Bernoulli's numbers B(2j) / (2j)!, of the formula of Euler and Maclaurin.
_BERNOULLI = (1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000, 1 / 74724249600)
_SHIFT = 10  # terms that are summed before the formula holds


def _hurwitz(s, q):
    y = q + _SHIFT
    power = y**-s
    total = sum(((q + i) ** -s for i in range(_SHIFT)), power * (y / (s - 1) + 0.5))
    rising = s
    for j, factor in enumerate(_BERNOULLI):
        power = power / y
        total = total + power * (factor * rising)
        power = power / y
        rising = rising * (s + (2 * j + 1)) * (s + (2 * j + 2))
    poles = _core.logical_or(s == 1, _core.logical_and(q <= 0, q == _core.floor(q)))
    outside = _core.logical_or(s < 1, _core.logical_and(q < 0, poles.logical_not()))
    return _core.where(outside, math.nan, _core.where(poles, math.inf, _core.where(_core.isinf(q), 0.0, total)))


@takes_out
def zeta(input: Tensor | Number, other: Tensor | Number) -> Tensor:
    """Hurwitz's zeta: the sum of (k + other)^-input over k from 0 on.

    Args:
        input: The exponents; inf where one is 1, and nan where one is smaller.
        other: The shifts; inf where one is 0 or a negative integer, and nan where one is another negative number, of which
            torch goes on with the sum.
    """
    tensors = [v for v in (input, other) if isinstance(v, _core.Tensor)]
    if not tensors:
        raise TypeError("zeta() takes a tensor for one of input and other, or for both")

    def of_both(*wide):
        left = iter(wide)
        return _hurwitz(
            *(
                next(left) if isinstance(v, _core.Tensor) else _core.full((), float(v), dtype=_core.float64)
                for v in (input, other)
            )
        )

    return _wide(of_both, *tensors)
