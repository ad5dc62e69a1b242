"""Divergences of two distributions of one kind."""

import math

from smolder import _core, linalg
from smolder.distributions.categorical import Categorical, OneHotCategorical
from smolder.distributions.continuous import Cauchy, Gumbel, Laplace, Normal, Uniform
from smolder.distributions.discrete import Bernoulli, Binomial, Geometric, Poisson
from smolder.distributions.exp_family import ExponentialFamily, bregman
from smolder.distributions.independent import Independent
from smolder.distributions.kl import kl_divergence, register_kl
from smolder.distributions.multivariate_normal import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    squared_lengths,
)
from smolder.distributions.positive import Exponential, Gamma
from smolder.distributions.shares import Beta, ContinuousBernoulli, Dirichlet
from smolder.distributions.transformed import HalfNormal, Pareto
from smolder.distributions.transformed_distribution import TransformedDistribution
from smolder.distributions.utils import _sum_rightmost, euler_constant
from smolder.nn import functional as F


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p, q):
    one = p.probs * (F.softplus(-q.logits) - F.softplus(-p.logits))
    one = _core.where(p.probs == 0, 0.0, _core.where(q.probs == 0, math.inf, one))
    zero = (1 - p.probs) * (F.softplus(q.logits) - F.softplus(p.logits))
    zero = _core.where(p.probs == 1, 0.0, _core.where(q.probs == 1, math.inf, zero))
    return one + zero


@register_kl(Beta, Beta)
def _beta(p, q):
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    constants = q._log_normalizer(c, d) - p._log_normalizer(a, b)
    return constants + (a - c) * a.digamma() + (b - d) * b.digamma() + (c + d - a - b) * (a + b).digamma()


@register_kl(Binomial, Binomial)
def _binomial(p, q):
    if (p.total_count < q.total_count).any().item():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return _core.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _categorical(p, q):
    parts = p.probs * (p.logits - q.logits)
    return _core.where(p.probs == 0, 0.0, _core.where(q.probs == 0, math.inf, parts)).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot(p, q):
    return _categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _cauchy(p, q):
    # Chyzak and Nielsen 2019
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p, q):
    constants = p._log_constant() + (-p.probs).log1p() - q._log_constant() - (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + constants


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p, q):
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    constants = total.lgamma() - b.sum(-1).lgamma() + (b.lgamma() - a.lgamma()).sum(-1)
    return constants + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p, q):
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_families(p, q):
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot be computed using Bregman divergences"
        )
    return bregman(p, q)


@register_kl(Gamma, Gamma)
def _gamma(p, q):
    a, b = p.concentration, q.concentration
    constants = b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma()
    return constants + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p, q):
    ratio, away = p.scale / q.scale, (p.loc - q.loc) / q.scale
    mean_exp = ((1 + ratio).lgamma() - away).exp()  # of -(x - loc) / scale of q
    return -ratio.log() + away + ratio * euler_constant + mean_exp - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p, q):
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p, q):
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p, q):
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * (-away / p.scale).exp() - 1


@register_kl(Normal, Normal)
def _normal(p, q):
    ratio = (p.scale / q.scale).pow(2)
    away = ((p.loc - q.loc) / q.scale).pow(2)
    return 0.5 * (ratio + away - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p, q):
    ratio = q.alpha / p.alpha
    kl = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return _core.where(p.scale < q.scale, math.inf, kl)


@register_kl(Poisson, Poisson)
def _poisson(p, q):
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p, q):
    kl = ((q.high - q.low) / (p.high - p.low)).log()
    return _core.where((q.low > p.low).logical_or(q.high < p.high), math.inf, kl)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p, q):
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Independent, Independent)
def _independent(p, q):
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


def _check_events(p, q, what):
    if p.event_shape != q.event_shape:
        raise ValueError(f"KL-divergence between two {what} with different event shapes cannot be computed")


def _squares(triangle, *factors):
    """tr(M^-1 Σ F F^T), where M = L L^T of lower triangles L."""
    total = 0.0
    for factor in factors:
        batch = max(triangle.dim(), factor.dim())
        wide = [_padded(x, batch) for x in (triangle, factor)]
        shape = [max(a, b) for a, b in zip(*(x.shape[:-2] for x in wide), strict=True)]
        left, right = (x.expand((*shape, *x.shape[-2:])) for x in wide)
        total = total + linalg.solve_triangular(left, right, upper=False).pow(2).sum((-2, -1))
    return total


def _padded(x, dims):
    return x.reshape((*(1 for _ in range(dims - x.dim())), *x.shape))


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p, q):
    _check_events(p, q, "Multivariate Normals")
    squares = _squares(q.scale_tril, p.scale_tril) + squared_lengths(q.scale_tril, q.loc - p.loc)
    return half_log_det(q.scale_tril) - half_log_det(p.scale_tril) + 0.5 * (squares - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _multivariate_to_low_rank(p, q):
    _check_events(p, q, "(Low Rank) Multivariate Normals")
    logs = q._log_det() - 2 * half_log_det(p.scale_tril)
    return 0.5 * (logs + _low_rank_trace(q, p.scale_tril) + q._squared_length(q.loc - p.loc) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_to_multivariate(p, q):
    _check_events(p, q, "(Low Rank) Multivariate Normals")
    logs = 2 * half_log_det(q.scale_tril) - p._log_det()
    squares = _squares(q.scale_tril, p.cov_factor, p.cov_diag.sqrt().diag_embed())
    return 0.5 * (logs + squares + squared_lengths(q.scale_tril, q.loc - p.loc) - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p, q):
    _check_events(p, q, "Low Rank Multivariate Normals")
    logs = q._log_det() - p._log_det()
    trace = _low_rank_trace(q, p.cov_factor) + _low_rank_trace(q, p.cov_diag.sqrt().diag_embed())
    return 0.5 * (logs + trace + q._squared_length(q.loc - p.loc) - p.event_shape[0])


def _low_rank_trace(q, factor):
    """tr(M^-1 F F^T) of the covariance M = W W^T + diag(d) of q, by Woodbury's lemma."""
    by_diag = q.cov_factor.mT / q.cov_diag.unsqueeze(-2)
    whole = (factor.pow(2) / q.cov_diag.unsqueeze(-1)).sum((-2, -1))
    return whole - _squares(q._capacitance_tril, by_diag @ factor)
