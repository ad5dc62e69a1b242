"""Distributions of exponential families."""

from __future__ import annotations

from smolder import _core
from smolder._modes import enable_grad
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.autograd import grad
from smolder.distributions.distribution import Distribution
from smolder.distributions.utils import _sum_rightmost

__all__ = ["ExponentialFamily"]
__dir__ = _listing(__name__)


class ExponentialFamily(Distribution):
    r"""Distributions whose density is exp(<t(x), θ> - F(θ) + k(x)).

    θ are the natural parameters, t(x) the sufficient statistics, F the log normalizer and k the carrier measure. A family
    says `_natural_params`, `_log_normalizer(*θ)` and `_mean_carrier_measure`, the mean of k(x); its entropy then is
    F(θ) - <θ, ∇F(θ)> - mean of k(x), with the gradient by differentiation (Nielsen and Nock 2010).
    """

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float:
        raise NotImplementedError

    def _with_slopes(self) -> tuple[list[Tensor], Tensor, list[Tensor]]:
        """θ, F(θ) and its gradient, through all of which gradients reach the parameters that want one."""
        given = self._natural_params
        wanted = _core.is_grad_enabled() and any(p.requires_grad for p in given)
        with enable_grad():
            at = [p if p.requires_grad else p.detach().requires_grad_() for p in given]
            normalizer = self._log_normalizer(*at)
            slopes = list(grad(normalizer.sum(), at, create_graph=True))
        if wanted:
            return at, normalizer, slopes
        return list(given), normalizer.detach(), [s.detach() for s in slopes]

    def entropy(self) -> Tensor:
        carrier = self._mean_carrier_measure
        at, normalizer, slopes = self._with_slopes()
        result = normalizer - carrier
        for parameter, slope in zip(at, slopes, strict=True):
            inner = parameter * slope
            result = result - _sum_rightmost(inner, inner.dim() - len(self._batch_shape))
        return result


def bregman(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    """The divergence of two distributions of one family: of F, from θ of p to θ of q (Nielsen and Nock 2010)."""
    at, normalizer, slopes = p._with_slopes()
    to = q._natural_params
    result = q._log_normalizer(*to) - normalizer
    batch = result.dim()
    for own, other, slope in zip(at, to, slopes, strict=True):
        inner = (other - own) * slope
        result = result - _sum_rightmost(inner, inner.dim() - batch)
    return result
