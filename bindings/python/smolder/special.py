"""Special functions, under the names that torch gives them together."""

from __future__ import annotations

import math

from smolder import _bessel, _core, _polynomials
from smolder._call_errors import name_what_is_no_tensor
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
from smolder._functions import broadcast_tensors, result_type
from smolder._integrals import Bessel0e, Bessel1e, GammaShare
from smolder._modes import no_grad
from smolder._names import listing as _listing
from smolder._normal_tails import Erfcx, LogNdtr, Ndtri
from smolder._out import takes_out
from smolder._typing import Number, Tensor

__all__ = [
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "chebyshev_polynomial_t", "chebyshev_polynomial_u",
    "chebyshev_polynomial_v", "chebyshev_polynomial_w", "digamma", "entr", "erf", "erfc", "erfcx", "erfinv", "exp2",
    "expit", "expm1", "gammainc", "gammaincc", "gammaln", "hermite_polynomial_h", "hermite_polynomial_he", "i0",
    "i0e", "i1", "i1e", "laguerre_polynomial_l", "legendre_polynomial_p", "log1p", "log_ndtr", "log_softmax", "logit",
    "logsumexp", "modified_bessel_i0", "modified_bessel_i1", "modified_bessel_k0", "modified_bessel_k1",
    "multigammaln", "ndtr", "ndtri", "polygamma", "psi", "round", "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "sinc", "softmax", "spherical_bessel_j0",
    "xlog1py", "xlogy", "zeta",
]  # fmt: skip
__dir__ = _listing(__name__)

psi = digamma


@takes_out
def entr(input: Tensor) -> Tensor:
    """-x log(x): 0 of 0, and -inf of what is negative. Its derivative is inf at 0, and nan below."""
    value = _core.where(input < 0, -math.inf, _core.where(input == 0, 0.0, -xlogy(input, input)))
    if not input.requires_grad:
        return value
    # Each branch has the other's elements replaced, so that no derivative of it that is not finite reaches them.
    positive = _core.where(input <= 0, 1.0, input)
    at_zero = (_core.where(input == 0, input, 1.0) + 0.0).sqrt()  # of -0 too
    below = _core.log(_core.where(input < 0, input, 1.0) * 0.0)
    return _core.where(input < 0, below, _core.where(input == 0, at_zero, -xlogy(positive, positive)))


@takes_out
def ndtr(input: Tensor) -> Tensor:
    """The part of a normal distribution that is below x."""
    return 0.5 * erfc(input * -math.sqrt(0.5))


@takes_out
def xlog1py(input: Tensor, other: Tensor) -> Tensor:
    """x log(1 + y), which is 0 where x is, unless y is nan."""
    return xlogy(input, 1 + other) if not isinstance(other, _core.Tensor) else _xlog1py(input, other)


def _xlog1py(input, other):
    dtype = result_type(input, other)
    if dtype.is_complex:
        raise NotImplementedError(f'"xlog1py" is not implemented for {dtype}')
    logarithm = log1p(other.to(_floating(dtype)))
    # 0 times what is not finite is 0. What is finite is multiplied there too: the derivative of 0 y is y.
    none = _core.logical_and(_core.logical_and(input == 0, other == other), logarithm.isfinite().logical_not())
    return _core.where(none, 0.0, input * _core.where(none, 0.0, logarithm))


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


def _constant(function, input):
    """A function of float64 without a gradient: torch has none of these, and what they give requires none."""
    with no_grad():
        return _wide(function, input)


def _floating(dtype):
    return dtype if dtype.is_floating_point else _core._default_dtype()


def _of_degree(polynomial, x, n, **limits):
    """An orthogonal polynomial, without a gradient, of x and n of which one may be a number."""
    if not isinstance(x, _core.Tensor) and not isinstance(n, _core.Tensor):
        raise TypeError("an orthogonal polynomial takes a tensor for x, for n, or for both")
    dtype = _floating(result_type(x, n))
    with no_grad():
        x, n = (v.to(_core.float64) if isinstance(v, _core.Tensor) else v for v in (x, n))
        if not isinstance(x, _core.Tensor):
            x = n.new_full((), float(x))
        return polynomial(x, n, **limits).to(dtype)


def _most_hermite(x, n):
    return 512.0 if result_type(x, n) == _core.float64 else 128.0


@takes_out
def erfcx(input: Tensor) -> Tensor:
    """exp(x²) erfc(x), which does not vanish where x is large."""
    return _wide(Erfcx.apply, input)


@takes_out
def log_ndtr(input: Tensor) -> Tensor:
    """The logarithm of ndtr, which keeps its digits where that vanishes."""
    return _wide(LogNdtr.apply, input)


@takes_out
def ndtri(input: Tensor) -> Tensor:
    """The inverse of ndtr: -inf of 0, inf of 1, and nan outside of [0, 1]."""
    return _wide(Ndtri.apply, input)


@takes_out
def airy_ai(x: Tensor) -> Tensor:
    """Airy's function Ai. It has no gradient, as torch's; nor have the functions below."""
    return _constant(_bessel.airy_ai, x)


@takes_out
def bessel_j0(input: Tensor) -> Tensor:
    """Bessel's function of the first kind, of order 0."""
    return _constant(_bessel.j0, input)


@takes_out
def bessel_j1(input: Tensor) -> Tensor:
    """Bessel's function of the first kind, of order 1."""
    return _constant(_bessel.j1, input)


@takes_out
def bessel_y0(input: Tensor) -> Tensor:
    """Bessel's function of the second kind, of order 0: -inf at 0, and nan below."""
    return _constant(_bessel.y0, input)


@takes_out
def bessel_y1(input: Tensor) -> Tensor:
    """Bessel's function of the second kind, of order 1: -inf at 0, and nan below."""
    return _constant(_bessel.y1, input)


@takes_out
def modified_bessel_i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind, of order 0: as i0, without a gradient."""
    return _constant(_bessel.modified_i0, input)


@takes_out
def modified_bessel_i1(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind, of order 1: as i1, without a gradient."""
    return _constant(_bessel.modified_i1, input)


@takes_out
def modified_bessel_k0(input: Tensor) -> Tensor:
    """The modified Bessel function of the second kind, of order 0: inf at 0, and nan below."""
    return _constant(lambda x: _bessel.modified_k0(x, False), input)


@takes_out
def modified_bessel_k1(input: Tensor) -> Tensor:
    """The modified Bessel function of the second kind, of order 1: inf at 0, and nan below."""
    return _constant(lambda x: _bessel.modified_k1(x, False), input)


@takes_out
def scaled_modified_bessel_k0(x: Tensor) -> Tensor:
    """exp(x) modified_bessel_k0(x), which does not vanish where x is large."""
    return _constant(lambda x: _bessel.modified_k0(x, True), x)


@takes_out
def scaled_modified_bessel_k1(x: Tensor) -> Tensor:
    """exp(x) modified_bessel_k1(x), which does not vanish where x is large."""
    return _constant(lambda x: _bessel.modified_k1(x, True), x)


@takes_out
def spherical_bessel_j0(x: Tensor) -> Tensor:
    """The spherical Bessel function of the first kind, of order 0: sin(x) / x."""
    return _constant(_bessel.spherical_j0, x)


@takes_out
def chebyshev_polynomial_t(x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Chebyshev's polynomial of the first kind, of degree n."""
    return _of_degree(_polynomials.chebyshev_t, x, n)


@takes_out
def chebyshev_polynomial_u(x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Chebyshev's polynomial of the second kind, of degree n."""
    return _of_degree(_polynomials.chebyshev_u, x, n)


@takes_out
def chebyshev_polynomial_v(x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Chebyshev's polynomial of the third kind, of degree n."""
    return _of_degree(_polynomials.chebyshev_v, x, n)


@takes_out
def chebyshev_polynomial_w(x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Chebyshev's polynomial of the fourth kind, of degree n."""
    return _of_degree(_polynomials.chebyshev_w, x, n)


@takes_out
def shifted_chebyshev_polynomial_t(x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Chebyshev's polynomial of the first kind, for x in [0, 1], of degree n."""
    return _of_degree(_polynomials.shifted_t, x, n)


@takes_out
def shifted_chebyshev_polynomial_u(x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Chebyshev's polynomial of the second kind, for x in [0, 1], of degree n."""
    return _of_degree(_polynomials.shifted_u, x, n)


@takes_out
def shifted_chebyshev_polynomial_v(x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Chebyshev's polynomial of the third kind, for x in [0, 1], of degree n."""
    return _of_degree(_polynomials.shifted_v, x, n)


@takes_out
def shifted_chebyshev_polynomial_w(x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Chebyshev's polynomial of the fourth kind, for x in [0, 1], of degree n."""
    return _of_degree(_polynomials.shifted_w, x, n)


@takes_out
def hermite_polynomial_h(x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """The physicist's polynomial of Hermite of degree n.

    Nan where n is above 512, or 128 if the result is not float64.
    """
    return _of_degree(_polynomials.hermite_h, x, n, most=_most_hermite(x, n))


@takes_out
def hermite_polynomial_he(x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """The statistician's polynomial of Hermite of degree n.

    Nan where n is above 512, or 128 if the result is not float64.
    """
    return _of_degree(_polynomials.hermite_he, x, n, most=_most_hermite(x, n))


@takes_out
def laguerre_polynomial_l(x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Laguerre's polynomial of degree n."""
    return _of_degree(_polynomials.laguerre, x, n)


@takes_out
def legendre_polynomial_p(x: Tensor | Number, n: Tensor | Number) -> Tensor:
    """Legendre's polynomial of degree n."""
    return _of_degree(_polynomials.legendre, x, n)


name_what_is_no_tensor(globals())
