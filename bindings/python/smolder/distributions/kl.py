"""Kullback and Leibler's divergence of two distributions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from smolder import linalg
from smolder._names import listing as _listing
from smolder.distributions.continuous import Exponential, Laplace, MultivariateNormal, Normal, Uniform
from smolder.distributions.discrete import Bernoulli, Categorical, OneHotCategorical
from smolder.distributions.distribution import Distribution, Independent
from smolder.nn import functional as F

if TYPE_CHECKING:
    from collections.abc import Callable

    from smolder._typing import T, Tensor

__all__ = [
    "kl_divergence",
    "register_kl",
]
__dir__ = _listing(__name__)

_registered = {}


def register_kl(type_p: type[Distribution], type_q: type[Distribution]) -> Callable[[T], T]:
    """Decorates a function of two distributions that says their divergence."""
    for kind in (type_p, type_q):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise TypeError(f"Expected type_p and type_q to be Distribution subclasses but got {kind}")

    def decorate(function):
        _registered[type_p, type_q] = function
        return function

    return decorate


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """The expectation of log(p / q) under p."""
    for kind_p in type(p).__mro__:
        for kind_q in type(q).__mro__:
            if (kind_p, kind_q) in _registered:
                return _registered[kind_p, kind_q](p, q)
    raise NotImplementedError(
        f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
    )


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale) ** 2
    away = ((p.loc - q.loc) / q.scale) ** 2
    return 0.5 * (ratio + away - 1 - ratio.log())


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p, q):
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two Multivariate Normals with different event shapes cannot be computed"
        )
    n = p.event_shape[0]
    shares = linalg.solve_triangular(q.scale_tril, p.scale_tril, upper=False)
    away = linalg.solve_triangular(q.scale_tril, (q.loc - p.loc).unsqueeze(-1), upper=False)
    squares = (shares**2).sum((-2, -1)) + (away**2).sum((-2, -1))
    return q._half_log_det() - p._half_log_det() + 0.5 * (squares - n)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    out = ((q.high - q.low) / (p.high - p.low)).log()
    return out.masked_fill((q.low > p.low).logical_or(q.high < p.high), math.inf)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    one = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    one = one.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    zero = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    zero = zero.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)
    return one + zero


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    parts = p.probs * (p.logits - q.logits)
    parts = parts.masked_fill((q.probs == 0).expand(parts.shape), math.inf)
    return parts.masked_fill((p.probs == 0).expand(parts.shape), 0).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return p._summed(kl_divergence(p.base_dist, q.base_dist))
