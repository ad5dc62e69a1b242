"""Samples against distribution functions and moments; gradients through them against quantiles' differences."""

import numpy as np
import pytest
import scipy.stats as st

import smolder
from smolder import distributions as D

N = 20000
f64 = smolder.float64


def t(x):
    return smolder.tensor(x, dtype=f64)


# Distributions of numbers and SciPy's; of integers below.
CONTINUOUS = {
    "Beta": (lambda: D.Beta(t(0.3), t(2.5)), st.beta(0.3, 2.5)),
    "Beta of ones": (lambda: D.Beta(1.0, 1.0), st.uniform()),
    "Cauchy": (lambda: D.Cauchy(t(1.0), t(2.0)), st.cauchy(1, 2)),
    "Chi2": (lambda: D.Chi2(t(3.0)), st.chi2(3)),
    "ContinuousBernoulli": (lambda: D.ContinuousBernoulli(t(0.8)), None),
    "Exponential": (lambda: D.Exponential(t(2.0)), st.expon(0, 0.5)),
    "FisherSnedecor": (lambda: D.FisherSnedecor(t(3.0), t(5.0)), st.f(3, 5)),
    "Gamma of a small concentration": (lambda: D.Gamma(t(0.05), t(2.0)), st.gamma(0.05, 0, 0.5)),
    "Gamma of 1": (lambda: D.Gamma(t(1.0), t(1.0)), st.gamma(1)),
    "Gamma of a large concentration": (lambda: D.Gamma(t(3e5), t(1.0)), st.gamma(3e5)),
    "Gamma of float32": (lambda: D.Gamma(0.7, 2.0), st.gamma(0.7, 0, 0.5)),
    "GeneralizedPareto": (lambda: D.GeneralizedPareto(t(1.0), t(2.0), t(0.3)), st.genpareto(0.3, 1, 2)),
    "GeneralizedPareto below": (lambda: D.GeneralizedPareto(t(0.0), t(2.0), t(-0.5)), st.genpareto(-0.5, 0, 2)),
    "Gumbel": (lambda: D.Gumbel(t(1.0), t(2.0)), st.gumbel_r(1, 2)),
    "HalfCauchy": (lambda: D.HalfCauchy(t(2.0)), st.halfcauchy(0, 2)),
    "HalfNormal": (lambda: D.HalfNormal(t(2.0)), st.halfnorm(0, 2)),
    "InverseGamma": (lambda: D.InverseGamma(t(3.0), t(2.0)), st.invgamma(3, 0, 2)),
    "Kumaraswamy": (lambda: D.Kumaraswamy(t(2.0), t(3.0)), None),
    "Laplace": (lambda: D.Laplace(t(1.0), t(2.0)), st.laplace(1, 2)),
    "LogNormal": (lambda: D.LogNormal(t(0.5), t(0.7)), st.lognorm(0.7, 0, np.exp(0.5))),
    "Mixture": (
        lambda: D.MixtureSameFamily(D.Categorical(t([0.3, 0.7])), D.Normal(t([0.0, 3.0]), t([1.0, 0.5]))),
        None,
    ),
    "Normal": (lambda: D.Normal(t(1.0), t(2.0)), st.norm(1, 2)),
    "Pareto": (lambda: D.Pareto(t(1.5), t(3.0)), st.pareto(3, 0, 1.5)),
    "RelaxedBernoulli": (lambda: D.RelaxedBernoulli(t(0.7), t(0.3)), None),
    "StudentT": (lambda: D.StudentT(t(4.0), t(1.0), t(2.0)), st.t(4, 1, 2)),
    "Uniform": (lambda: D.Uniform(t(-1.0), t(3.0)), st.uniform(-1, 4)),
    "VonMises": (lambda: D.VonMises(t(0.5), t(2.0)), st.vonmises(2.0, 0.5)),
    "VonMises nearly uniform": (lambda: D.VonMises(t(0.0), t(1e-6)), st.uniform(-np.pi, 2 * np.pi)),
    "VonMises concentrated": (lambda: D.VonMises(t(0.0), t(1e4)), st.norm(0, 0.01)),
    "Weibull": (lambda: D.Weibull(t(2.0), t(1.5)), st.weibull_min(1.5, 0, 2)),
}


def below(name, made, known, x):
    """The distribution function at samples: SciPy's, ours, or sums of the density."""
    if known is not None and name != "VonMises":
        return known.cdf(x)
    if name == "VonMises":  # whose angles SciPy counts on, past π
        turned = known.cdf(x) - known.cdf(-np.pi)
        return turned % 1
    if name == "RelaxedBernoulli":
        grid = np.linspace(1e-6, 1 - 1e-6, 200001)
        density = np.exp(made.log_prob(t(grid)).numpy())
        sums = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2 * np.diff(grid))])
        return np.interp(x, grid, sums)
    return made.cdf(t(x)).numpy()


@pytest.mark.parametrize("name", sorted(CONTINUOUS))
def test_samples_are_distributed_so(name):
    smolder.manual_seed(1)
    make, known = CONTINUOUS[name]
    made = make()
    x = made.sample((N,)).double().numpy()
    assert st.kstest(below(name, made, known, x), "uniform").pvalue > 1e-3
    if known is not None and not name.startswith("VonMises"):
        points = known.ppf([0.01, 0.3, 0.6, 0.99])
        float32 = made.sample().dtype == smolder.float32
        np.testing.assert_allclose(
            made.log_prob(smolder.tensor(points, dtype=made.sample().dtype)).double().numpy(),
            known.logpdf(points),
            rtol=1e-4 if float32 else 1e-9,
            atol=1e-5 if float32 else 1e-9,
        )
        np.testing.assert_allclose(
            made.mean.item(), known.mean() if name not in ("Cauchy", "HalfCauchy") else made.mean.item()
        )


@pytest.mark.parametrize("kappa", [0.5, 3.0, 50.0])
def test_von_mises_is_scipys(kappa):
    made, known, x = D.VonMises(t(0.3), t(kappa)), st.vonmises(kappa, 0.3), np.linspace(-3, 3, 9)
    np.testing.assert_allclose(made.log_prob(t(x)).numpy(), known.logpdf(x), rtol=1e-10, atol=1e-10)
    angles = np.linspace(-np.pi, np.pi, 20001)
    variance = 1 - np.trapezoid(np.cos(angles - 0.3) * known.pdf(angles), angles)
    assert abs(made.variance.item() - variance) < 1e-7


DISCRETE = {
    "Bernoulli": (lambda: D.Bernoulli(t(0.3)), st.bernoulli(0.3)),
    "Binomial of few": (lambda: D.Binomial(12, t(0.2)), st.binom(12, 0.2)),
    "Binomial of many": (lambda: D.Binomial(200, t(0.3)), st.binom(200, 0.3)),
    "Binomial turned": (lambda: D.Binomial(50, t(0.9)), st.binom(50, 0.9)),
    "Binomial just many": (lambda: D.Binomial(20, t(0.5)), st.binom(20, 0.5)),
    "Geometric": (lambda: D.Geometric(t(0.3)), st.geom(0.3, -1)),
    "NegativeBinomial": (lambda: D.NegativeBinomial(t(3.5), t(0.4)), st.nbinom(3.5, 0.6)),
    "Poisson of few": (lambda: D.Poisson(t(0.7)), st.poisson(0.7)),
    "Poisson just few": (lambda: D.Poisson(t(9.9)), st.poisson(9.9)),
    "Poisson just many": (lambda: D.Poisson(t(10.0)), st.poisson(10.0)),
    "Poisson of many": (lambda: D.Poisson(t(300.0)), st.poisson(300.0)),
}


@pytest.mark.parametrize("name", sorted(DISCRETE))
def test_counts_come_as_often_as_they_should(name):
    smolder.manual_seed(2)
    make, known = DISCRETE[name]
    made = make()
    x = made.sample((N,)).numpy()
    assert (x == np.floor(x)).all() and (x >= 0).all()
    values = np.arange(int(known.ppf(1e-9)), int(known.ppf(1 - 1e-9)) + 1)
    expected = known.pmf(values) * N
    seen = np.array([(x == v).sum() for v in values])
    kept = expected >= 5
    rest = max(N - expected[kept].sum(), 1e-9)
    statistic = ((seen - expected)[kept] ** 2 / expected[kept]).sum()
    statistic += (N - seen[kept].sum() - rest) ** 2 / rest if rest > 5 else 0
    assert st.chi2.sf(statistic, max(kept.sum() - 1, 1)) > 1e-3
    np.testing.assert_allclose(made.log_prob(t(values[kept])).numpy(), known.logpmf(values[kept]), rtol=1e-8)
    np.testing.assert_allclose([made.mean.item(), made.variance.item()], [known.mean(), known.var()], rtol=1e-9)


def test_multinomial_is_scipys():
    p = np.array([0.2, 0.5, 0.3])
    made, known = D.Multinomial(6, t(p)), st.multinomial(6, p)
    x = made.sample((N,))
    assert (x.sum(-1) == 6).all().item()
    assert (x.mean(0) - made.mean).abs().max().item() < 0.05
    assert (x.var(0) - made.variance).abs().max().item() < 0.06
    np.testing.assert_allclose(made.log_prob(t([1.0, 2.0, 3.0])).item(), known.logpmf([1, 2, 3]))
    np.testing.assert_allclose(made.entropy().item(), known.entropy())


def test_counts_at_the_ends():
    zero, one = t(0.0), t(1.0)
    assert D.Poisson(zero).sample((5,)).tolist() == [0.0] * 5
    assert D.Binomial(7, one).sample((3,)).tolist() == [7.0] * 3
    assert D.Binomial(7, zero).sample((3,)).tolist() == [0.0] * 3
    assert D.Binomial(0, t(0.4)).sample((3,)).tolist() == [0.0] * 3
    for rate in (-1.0, float("nan")):
        with pytest.raises(RuntimeError, match="invalid Poisson rate, expected rate to be non-negative"):
            smolder.poisson(t([1.0, rate]))
    assert smolder.poisson(smolder.empty(0)).shape == (0,) and smolder.binomial(
        smolder.ones(0), smolder.ones(0)
    ).shape == (0,)
    with pytest.raises(NotImplementedError):
        smolder.poisson(smolder.tensor([1]))
    with pytest.raises(ValueError, match="floating-point dtypes for count"):
        smolder.binomial(smolder.tensor([1]), smolder.tensor([0.5]))


def test_a_generator_of_its_own_repeats():
    draws = [smolder.poisson(smolder.full((50,), 20.0), generator=smolder.Generator().manual_seed(3)) for _ in range(2)]
    assert draws[0].tolist() == draws[1].tolist()
    counts = smolder.full((50,), 90.0), smolder.full((50,), 0.4)
    draws = [smolder.binomial(*counts, generator=smolder.Generator().manual_seed(3)) for _ in range(2)]
    assert draws[0].tolist() == draws[1].tolist()


UNCHECKED = {
    "Beta": lambda x: D.Beta(x, x, validate_args=False),
    "Binomial": lambda x: D.Binomial(30, x / 4, validate_args=False),
    "Chi2": lambda x: D.Chi2(x, validate_args=False),
    "Dirichlet": lambda x: D.Dirichlet(x, validate_args=False),
    "FisherSnedecor": lambda x: D.FisherSnedecor(x, x, validate_args=False),
    "Gumbel": lambda x: D.Gumbel(x, x, validate_args=False),
    "InverseGamma": lambda x: D.InverseGamma(x, x, validate_args=False),
    "Kumaraswamy": lambda x: D.Kumaraswamy(x, x, validate_args=False),
    "LKJCholesky": lambda x: D.LKJCholesky(3, x, validate_args=False),
    "LogNormal": lambda x: D.LogNormal(x, x, validate_args=False),
    "LogisticNormal": lambda x: D.LogisticNormal(x, x, validate_args=False),
    "Multinomial": lambda x: D.Multinomial(5, x, validate_args=False),
    "OneHot": lambda x: D.OneHotCategorical(x, validate_args=False),
    "Poisson": lambda x: D.Poisson(10 * x, validate_args=False),
    "RelaxedBernoulli": lambda x: D.RelaxedBernoulli(x[0], logits=x, validate_args=False),
    "RelaxedOneHot": lambda x: D.RelaxedOneHotCategorical(x[0], x, validate_args=False),
    "StudentT": lambda x: D.StudentT(x, x, x, validate_args=False),
    "VonMises": lambda x: D.VonMises(x, x, validate_args=False),
    "Weibull": lambda x: D.Weibull(x, x, validate_args=False),
}


@pytest.mark.parametrize("name", sorted(UNCHECKED))
def test_nothing_is_read_where_nothing_is_checked(name):
    x = smolder.linspace(0.5, 2.5, 3)
    smolder.mark_step()
    before = smolder.metrics()["counters"].get("syncs", 0)
    made = UNCHECKED[name](x)
    value = made.sample((2,))
    assert made.log_prob(value).dim() > 0
    assert smolder.metrics()["counters"].get("syncs", 0) == before


@pytest.mark.parametrize("concentration", [0.02, 0.3, 1.0, 2.5, 40.0, 2e4])
def test_gradients_of_gamma_samples_keep_the_share_below(concentration):
    smolder.manual_seed(4)
    a = smolder.full((200,), concentration, dtype=f64, requires_grad=True)
    x = D.Gamma(a, t(1.0)).rsample()
    x.sum().backward()
    a, x, slope = concentration, x.detach().numpy(), a.grad.numpy()
    known = st.gamma(a)
    # Where SciPy's quantiles resolve a difference.
    kept = (known.cdf(x) > 1e-5) & (known.cdf(x) < 1 - 1e-5) & (x > 1e-290)
    assert kept.sum() > 40
    h = 2e-5 * a
    upper = known.sf(x) < known.cdf(x)
    moved = [np.where(upper, st.gamma(b).isf(known.sf(x)), st.gamma(b).ppf(known.cdf(x))) for b in (a - h, a + h)]
    np.testing.assert_allclose(slope[kept], ((moved[1] - moved[0]) / (2 * h))[kept], rtol=2e-5)


def test_gradients_through_beta_and_dirichlet_samples_are_those_of_means():
    smolder.manual_seed(5)
    a = t([0.4, 1.5, 3.0]).requires_grad_()
    made = D.Dirichlet(a)
    x = made.rsample((N,))
    weights = t([1.0, -2.0, 0.5])
    (by_samples,) = smolder.autograd.grad((x.pow(2) * weights).sum(-1).mean(), a)
    second = made.variance + made.mean.pow(2)
    (exact,) = smolder.autograd.grad((second * weights).sum(), a)
    assert (by_samples - exact).abs().max().item() < 0.02
    b = t([0.05, 2.0]).requires_grad_()
    made = D.Beta(b[0], b[1])
    (by_samples,) = smolder.autograd.grad(made.rsample((N,)).mean(), b)
    (exact,) = smolder.autograd.grad(made.mean, b)
    assert (by_samples - exact).abs().max().item() < 0.03


def test_small_concentrations_give_corners_not_nan():
    smolder.manual_seed(6)
    a = smolder.full((500, 3), 1e-4, requires_grad=True)
    x = D.Dirichlet(a).rsample()
    x.pow(2).sum().backward()
    assert (x.sum(-1) - 1).abs().max().item() < 1e-5 and a.grad.isfinite().all().item()
    assert (x.mean(0) - 1 / 3).abs().max().item() < 0.1
    share = D.Beta(a[:, 0], 1e-4).sample()
    assert (share > 0).all().item() and (share < 1).all().item()


def test_matrices_have_their_means():
    smolder.manual_seed(7)
    covariance = t([[2.0, 0.5], [0.5, 1.0]])
    made = D.Wishart(t(5.0), covariance)
    x = made.sample((N,))
    assert ((x.mean(0) - made.mean).abs() / made.stddev).max().item() < 0.03
    assert (x.var(0) / made.variance - 1).abs().max().item() < 0.06
    known = st.wishart(5, covariance.numpy())
    np.testing.assert_allclose(made.log_prob(x[:5]).numpy(), [known.logpdf(m) for m in x[:5].numpy()])
    np.testing.assert_allclose(made.entropy().item(), known.entropy())


def test_correlations_of_lkj_have_beta_margins():
    smolder.manual_seed(8)
    n, eta = 4, 1.5
    factor = D.LKJCholesky(n, t(eta)).sample((N // 2,))
    assert D.constraints.corr_cholesky.check(factor).all().item()
    correlation = (factor @ factor.mT).numpy()
    b = eta - 1 + n / 2
    for i in range(n):
        for j in range(i):
            assert st.kstest((correlation[:, i, j] + 1) / 2, st.beta(b, b).cdf).pvalue > 1e-3


def test_vectors_have_their_covariance():
    smolder.manual_seed(9)
    made = D.LowRankMultivariateNormal(t([1.0, -1.0, 0.0]), t([[1.0], [0.5], [-1.0]]), t([0.3, 0.5, 1.0]))
    x = made.sample((N,))
    away = x - made.mean
    assert (away.mT @ away / N - made.covariance_matrix).abs().max().item() < 0.08
    assert (made.precision_matrix @ made.covariance_matrix - smolder.eye(3, dtype=f64)).abs().max().item() < 1e-12
    shares = D.LogisticNormal(t([0.0, 0.0]), t([1.0, 1.0])).sample((N,))
    assert (shares.sum(-1) - 1).abs().max().item() < 1e-9


def test_mixtures_and_relaxations_have_their_means():
    smolder.manual_seed(10)
    made = D.MixtureSameFamily(
        D.Categorical(t([[0.3, 0.7], [0.9, 0.1]])),
        D.Independent(D.Normal(t([[[0.0, 1.0], [4.0, 2.0]], [[1.0, 0.0], [0.0, 3.0]]]), t([1.0, 0.5])), 1),
    )
    x = made.sample((N,))
    assert x.shape == (N, 2, 2)
    assert (x.mean(0) - made.mean).abs().max().item() < 0.05 and (
        x.var(0) / made.variance - 1
    ).abs().max().item() < 0.05
    corner = D.RelaxedOneHotCategorical(t(0.01), t([0.2, 0.3, 0.5])).sample((N,))
    assert (corner.mean(0) - t([0.2, 0.3, 0.5])).abs().max().item() < 0.02
    logits = t([0.3, -1.0]).requires_grad_()
    made = D.OneHotCategoricalStraightThrough(logits=logits)
    made.rsample()[0].backward()
    assert logits.grad.abs().sum().item() > 0
