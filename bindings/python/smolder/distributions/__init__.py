"""Distributions: samples, gradients through them where they have some, log probabilities, entropies, divergences.

Also sets of values (`constraints`), functions that map onto them (`transforms`) and which maps onto which
(`biject_to`, `transform_to`).
"""

from smolder._names import listing as _listing
from smolder.distributions import (
    categorical,
    constraints,
    continuous,
    matrices,
    positive,
    shares,
    transformed,
    transforms,
)
from smolder.distributions.categorical import (
    Categorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from smolder.distributions.constraint_registry import biject_to, transform_to
from smolder.distributions.continuous import Cauchy, Gumbel, Laplace, Normal, StudentT, Uniform
from smolder.distributions.directions import VonMises
from smolder.distributions.discrete import Bernoulli, Binomial, Geometric, NegativeBinomial, Poisson
from smolder.distributions.distribution import Distribution
from smolder.distributions.exp_family import ExponentialFamily
from smolder.distributions.independent import Independent
from smolder.distributions.kl import kl_divergence, register_kl
from smolder.distributions.matrices import LKJCholesky, Wishart
from smolder.distributions.mixture_same_family import MixtureSameFamily
from smolder.distributions.multivariate_normal import LowRankMultivariateNormal, MultivariateNormal
from smolder.distributions.positive import Chi2, Exponential, FisherSnedecor, Gamma, GeneralizedPareto
from smolder.distributions.relaxed import RelaxedBernoulli, RelaxedOneHotCategorical
from smolder.distributions.shares import Beta, ContinuousBernoulli, Dirichlet
from smolder.distributions.transformed import (
    HalfCauchy,
    HalfNormal,
    InverseGamma,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from smolder.distributions.transformed_distribution import TransformedDistribution
from smolder.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = ["Bernoulli", "Binomial", "Distribution", "ExponentialFamily", "Geometric", "Independent"]
__all__ += ["LowRankMultivariateNormal", "MixtureSameFamily", "MultivariateNormal", "NegativeBinomial", "Poisson"]
__all__ += ["RelaxedBernoulli", "RelaxedOneHotCategorical", "TransformedDistribution", "VonMises", "biject_to"]
__all__ += ["constraints", "kl_divergence", "register_kl", "transform_to", "transforms"]
__all__ += categorical.__all__
__all__ += continuous.__all__
__all__ += matrices.__all__
__all__ += positive.__all__
__all__ += shares.__all__
__all__ += transformed.__all__
__all__ += transforms.__all__
__dir__ = _listing(__name__)
