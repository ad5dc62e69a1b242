"""Distributions: samples, gradients through them where they have some, log probabilities, entropies, divergences."""

from smolder._names import listing as _listing
from smolder.distributions import constraints
from smolder.distributions.continuous import Exponential, Laplace, MultivariateNormal, Normal, Uniform
from smolder.distributions.discrete import Bernoulli, Categorical, OneHotCategorical
from smolder.distributions.distribution import Distribution, Independent
from smolder.distributions.kl import kl_divergence, register_kl

__all__ = [
    "Bernoulli",
    "Categorical",
    "Distribution",
    "Exponential",
    "Independent",
    "Laplace",
    "MultivariateNormal",
    "Normal",
    "OneHotCategorical",
    "Uniform",
    "constraints",
    "kl_divergence",
    "register_kl",
]
__dir__ = _listing(__name__)
