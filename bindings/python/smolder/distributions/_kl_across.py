"""Divergences of distributions of different kinds: the cross entropy, of a few means under p, less p's entropy."""

import math

from smolder import _core
from smolder.distributions.continuous import Gumbel, Laplace, Normal, Uniform
from smolder.distributions.discrete import Bernoulli, Binomial, Poisson
from smolder.distributions.kl import register_kl
from smolder.distributions.positive import Exponential, Gamma
from smolder.distributions.shares import Beta, ContinuousBernoulli
from smolder.distributions.transformed import Pareto
from smolder.distributions.utils import broadcast_all, euler_constant, times_log


def _x_log_x(x):
    return times_log(x, x)


# The mean of log x under p.
_MEAN_LOG = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Pareto: lambda p: p.scale.log() + p.alpha.reciprocal(),
    Uniform: lambda p: (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1,
}
# The mean of exp(-x / s) under p.
_MEAN_EXP = {
    Exponential: lambda p, s: p.rate / (p.rate + s.reciprocal()),
    Gamma: lambda p, s: (1 + 1 / (p.rate * s)).pow(-p.concentration),
    Normal: lambda p, s: (-p.loc / s + 0.5 * (p.scale / s).pow(2)).exp(),
    Uniform: lambda p, s: s * ((-p.low / s).exp() - (-p.high / s).exp()) / (p.high - p.low),
}


def _never(p, q):
    return False


def _each(kinds, other, where=_never):
    """Registers a cross entropy for several kinds of p; `where` says where the divergence is infinite."""

    def register(cross):
        for kind in kinds:

            def divergence(p, q, kind=kind):
                # The terms may be nan where p has values that q does not.
                kl = cross(p, q, kind) - p.entropy()
                outside = where(p, q)
                return kl if outside is False else _core.where(outside, math.inf, kl)

            register_kl(kind, other)(divergence)
        return cross

    return register


def _of_exponential(p, q, kind):
    return q.rate * p.mean - q.rate.log()


def _of_gamma(p, q, kind):
    a = q.concentration
    return a.lgamma() - a * q.rate.log() - (a - 1) * _MEAN_LOG[kind](p) + q.rate * p.mean


def _of_normal(p, q, kind):
    square = p.variance + (p.mean - q.loc).pow(2)
    return 0.5 * (2 * math.pi * q.scale.pow(2)).log() + 0.5 * square / q.scale.pow(2)


def _of_gumbel(p, q, kind):
    mean_exp = (q.loc / q.scale).exp() * _MEAN_EXP[kind](p, q.scale)
    return q.scale.log() + (p.mean - q.loc) / q.scale + mean_exp


def _of_uniform(p, q, kind):
    return (q.high - q.low).log()


def _of_continuous_bernoulli(p, q, kind):
    return -p.mean * q.logits - (-q.probs).log1p() - q._log_constant()


def _has_negative(p, q):
    return p.low < 0


def _has_no_mean(p, q):
    return p.alpha <= 1


def _leaves_unit(p, q):
    return _core.logical_or(p.low < 0, p.high > 1)


def _unit_leaves(p, q):
    return _core.logical_or(q.low > 0, q.high < 1)


_each([Beta, ContinuousBernoulli, Gamma], Exponential)(_of_exponential)
_each([Uniform], Exponential, _has_negative)(_of_exponential)
_each([Pareto], Exponential, _has_no_mean)(_of_exponential)
_each([Beta, Exponential], Gamma)(_of_gamma)
_each([Uniform], Gamma, _has_negative)(_of_gamma)
_each([Pareto], Gamma, _has_no_mean)(_of_gamma)
_each([Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform], Normal)(_of_normal)
_each([Pareto], Normal, lambda p, q: p.alpha <= 2)(_of_normal)
_each([Exponential, Gamma, Normal, Uniform], Gumbel)(_of_gumbel)
_each([Beta, ContinuousBernoulli], Uniform, _unit_leaves)(_of_uniform)
_each([Beta], ContinuousBernoulli)(_of_continuous_bernoulli)
_each([Uniform], ContinuousBernoulli, _leaves_unit)(_of_continuous_bernoulli)


@_each([Bernoulli], Poisson)
def _of_poisson(p, q, kind):
    return q.rate - p.probs * q.rate.log()


@_each([Normal], Laplace)
def _of_laplace(p, q, kind):
    away = p.loc - q.loc
    ratio = away / p.scale
    distance = p.scale * math.sqrt(2 / math.pi) * (-0.5 * ratio.pow(2)).exp() + away * _core.erf(math.sqrt(0.5) * ratio)
    return (2 * q.scale).log() + distance / q.scale


@_each([Uniform], Beta, _leaves_unit)
def _of_beta(p, q, kind):
    a, b, width = q.concentration1, q.concentration0, p.high - p.low
    log_rest = (_x_log_x(1 - p.low) - _x_log_x(1 - p.high)) / width - 1  # the mean of log(1 - x)
    return q._log_normalizer(a, b) - (a - 1) * _MEAN_LOG[Uniform](p) - (b - 1) * log_rest


@_each([Uniform], Pareto, lambda p, q: p.low < q.scale)
def _of_pareto(p, q, kind):
    return (q.alpha + 1) * _MEAN_LOG[Uniform](p) - q.alpha.log() - q.alpha * q.scale.log()


def _infinite(p, q):
    """Some values that p has are impossible under q."""
    shape = broadcast_all(p.mean, q.mean)[0]
    return _core.full_like(shape, math.inf)


_INFINITE = {
    Beta: [Pareto],
    ContinuousBernoulli: [Pareto],
    Exponential: [Beta, ContinuousBernoulli, Pareto, Uniform],
    Gamma: [Beta, ContinuousBernoulli, Pareto, Uniform],
    Gumbel: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Laplace: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Normal: [Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform],
    Pareto: [Beta, ContinuousBernoulli, Uniform],
    Poisson: [Bernoulli, Binomial],
}
for _p, _others in _INFINITE.items():
    for _q in _others:
        register_kl(_p, _q)(_infinite)
