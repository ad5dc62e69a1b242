"""Transforms there and back, their log determinants against autograd, the registries, and divergences by sampling."""

import copy
import itertools
import pickle

import pytest

import smolder
from smolder import distributions as D
from smolder.autograd.functional import jacobian
from smolder.distributions import biject_to, constraints, kl_divergence, transform_to

f64 = smolder.float64


def t(x):
    return smolder.tensor(x, dtype=f64)


BIJECTIVE = {
    "affine": (D.AffineTransform(1.0, -2.0), 3),
    "affine of vectors": (D.AffineTransform(t([1.0, 2.0, 3.0]), t([0.5, -1.0, 2.0]), event_dim=1), 3),
    "cat": (D.CatTransform([D.ExpTransform(), D.TanhTransform()], lengths=[1, 2]), 3),
    "compose": (D.ComposeTransform([D.AffineTransform(0.0, 0.5), D.StickBreakingTransform()]), 3),
    "correlation": (D.CorrCholeskyTransform(), 6),
    "cumulative": (D.CumulativeDistributionTransform(D.Gumbel(t(0.0), t(2.0))), 3),
    "exp": (D.ExpTransform(), 3),
    "exp of vectors": (D.IndependentTransform(D.ExpTransform(), 1), 3),
    "power": (D.ComposeTransform([D.ExpTransform(), D.PowerTransform(t(1.7))]), 3),
    "reshape": (D.ReshapeTransform((6,), (2, 3)), 6),
    "sigmoid": (D.SigmoidTransform(), 3),
    "softplus": (D.SoftplusTransform(), 3),
    "stack": (D.StackTransform([D.ExpTransform(), D.SigmoidTransform(), D.AffineTransform(0.0, 3.0)]), 3),
    "stick breaking": (D.StickBreakingTransform(), 4),
    "tanh": (D.TanhTransform(), 3),
}


def free(name, y):
    """The elements of y that the others do not determine."""
    if name == "correlation":
        return D.utils.tril_matrix_to_vec(y, diag=-1)
    return y[..., :-1] if name in ("stick breaking", "compose") else y.reshape(-1)


@pytest.mark.parametrize("name", sorted(BIJECTIVE))
def test_there_and_back_and_the_change_of_volume(name):
    smolder.manual_seed(0)
    transform, n = BIJECTIVE[name]
    x = smolder.randn(n, dtype=f64)
    y = transform(x)
    assert transform.codomain.check(y).all().item() and transform.domain.check(x).all().item()
    assert (transform.inv(y) - x).abs().max().item() < 1e-10
    assert transform.forward_shape(x.shape) == y.shape and transform.inverse_shape(y.shape) == x.shape
    matrix = jacobian(lambda x: free(name, transform(x)), x)
    known = smolder.linalg.slogdet(matrix)[1]
    log_det = transform.log_abs_det_jacobian(x, y)
    assert abs(log_det.sum().item() - known.item()) < 1e-9
    assert (transform.inv.log_abs_det_jacobian(y, x) + log_det).abs().max().item() < 1e-12


CONSTRAINTS = {
    "cat": constraints.cat([constraints.real, constraints.positive], -1, [1, 2]),
    "corr_cholesky": constraints.corr_cholesky,
    "greater_than": constraints.greater_than(2.0),
    "greater_than_eq": constraints.greater_than_eq(-2.0),
    "half_open_interval": constraints.half_open_interval(-1.0, 2.0),
    "independent": constraints.independent(constraints.positive, 1),
    "interval": constraints.interval(t(-1.0), t(2.0)),
    "less_than": constraints.less_than(2.0),
    "lower_cholesky": constraints.lower_cholesky,
    "nonnegative": constraints.nonnegative,
    "positive": constraints.positive,
    "positive_definite": constraints.positive_definite,
    "positive_semidefinite": constraints.positive_semidefinite,
    "real": constraints.real,
    "real_vector": constraints.real_vector,
    "simplex": constraints.simplex,
    "stack": constraints.stack([constraints.real, constraints.positive, constraints.unit_interval], -1),
    "unit_interval": constraints.unit_interval,
}
ONE_WAY = ("lower_cholesky", "positive_definite", "positive_semidefinite")


@pytest.mark.parametrize("name", sorted(CONSTRAINTS))
@pytest.mark.parametrize("registry", [biject_to, transform_to], ids=["biject_to", "transform_to"])
def test_what_is_registered_leads_into_the_constraint(registry, name):
    smolder.manual_seed(1)
    constraint = CONSTRAINTS[name]
    if registry is biject_to and name in ONE_WAY:
        with pytest.raises(NotImplementedError, match=f"Cannot transform {type(constraint).__name__} constraints"):
            registry(constraint)
        return
    transform = registry(constraint)
    assert transform.bijective or registry is transform_to
    x = smolder.randn(2, 3, dtype=f64) if name == "corr_cholesky" else smolder.randn(2, 3, 3, dtype=f64)
    y = transform(x)
    assert constraint.check(y).all().item()
    assert (transform(transform.inv(y)) - y).abs().max().item() < 1e-10


def test_constraints_of_ones_own_are_registered():
    class Even(constraints.Constraint):
        pass

    registry = copy.copy(biject_to)
    registry._registry = dict(biject_to._registry)

    @registry.register(Even)
    def of_even(constraint):
        return D.AffineTransform(0.0, 2.0)

    assert registry(Even()).scale == 2.0 and Even not in biject_to._registry
    with pytest.raises(TypeError, match="Expected constraint to be either a Constraint subclass or instance"):
        registry.register(3, of_even)


def test_a_cache_gives_the_same_tensor_back():
    transform = D.ComposeTransform([D.TanhTransform(), D.AffineTransform(0.0, 2.0)]).with_cache()
    x = t([30.0, -40.0])  # where tanh rounds to 1
    assert transform.inv(transform(x)) is x
    assert not D.TanhTransform().inv(D.TanhTransform()(x)).isfinite().any().item()


def test_transforms_and_distributions_are_pickled():
    made = D.TransformedDistribution(
        D.Gamma(t([1.0, 2.0]), t(3.0)), [D.ExpTransform(cache_size=1), D.AffineTransform(0.0, 2.0).inv]
    )
    value = made.sample()
    assert made.transforms[0].inv is made.transforms[0].inv
    again = pickle.loads(pickle.dumps(made))
    assert again.log_prob(value).tolist() == made.log_prob(value).tolist()
    assert copy.deepcopy(made).transforms[1].inv.scale == 2.0


def test_copies_of_another_shape_keep_what_was_made():
    normal = D.MultivariateNormal(t([0.0, 1.0]), t([[2.0, 0.5], [0.5, 1.0]]))
    before = normal.log_prob(t([0.3, 0.4])).item()
    wide = normal.expand((3, 2))
    assert wide.scale_tril.shape == (3, 2, 2, 2) and abs(wide.log_prob(t([0.3, 0.4]))[2, 1].item() - before) < 1e-12
    wide = D.Wishart(t(4.0), t([[2.0, 0.5], [0.5, 1.0]])).expand((3,))
    assert wide.sample((5,)).shape == (5, 3, 2, 2)


def test_nothing_that_is_made_later_is_checked_early():
    made = D.Bernoulli(t([0.2, 0.8]))
    assert "logits" not in made.__dict__ and made.logits is made.logits and "logits" in made.__dict__


P = {
    "Bernoulli": lambda: D.Bernoulli(t(0.3)),
    "Beta": lambda: D.Beta(t(1.5), t(2.5)),
    "Binomial": lambda: D.Binomial(4, t(0.3)),
    "Categorical": lambda: D.Categorical(t([0.2, 0.3, 0.5])),
    "Cauchy": lambda: D.Cauchy(t(0.5), t(1.0)),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(t(0.8)),
    "Dirichlet": lambda: D.Dirichlet(t([1.5, 2.0, 3.0])),
    "Exponential": lambda: D.Exponential(t(1.5)),
    "Gamma": lambda: D.Gamma(t(2.5), t(1.5)),
    "Geometric": lambda: D.Geometric(t(0.4)),
    "Gumbel": lambda: D.Gumbel(t(0.5), t(0.7)),
    "HalfNormal": lambda: D.HalfNormal(t(0.8)),
    "Laplace": lambda: D.Laplace(t(0.5), t(0.8)),
    "LowRank": lambda: D.LowRankMultivariateNormal(t([0.5, 1.0]), t([[0.5], [1.0]]), t([0.7, 1.2])),
    "Multivariate": lambda: D.MultivariateNormal(t([0.5, 1.0]), t([[2.0, 0.5], [0.5, 1.0]])),
    "Normal": lambda: D.Normal(t(0.5), t(0.8)),
    "Pareto": lambda: D.Pareto(t(1.2), t(7.0)),
    "Poisson": lambda: D.Poisson(t(1.5)),
    "Uniform": lambda: D.Uniform(t(0.2), t(0.7)),
    "Wishart": lambda: D.Wishart(t(4.0), t([[1.0, 0.2], [0.2, 0.5]])),
}
Q = {
    **P,
    "Bernoulli": lambda: D.Bernoulli(t(0.6)),
    "Beta": lambda: D.Beta(t(2.0), t(1.2)),
    "Binomial": lambda: D.Binomial(4, t(0.5)),
    "Categorical": lambda: D.Categorical(t([0.4, 0.3, 0.3])),
    "Cauchy": lambda: D.Cauchy(t(0.0), t(2.0)),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(t(0.4)),
    "Dirichlet": lambda: D.Dirichlet(t([2.0, 1.0, 2.0])),
    "Exponential": lambda: D.Exponential(t(0.8)),
    "Gamma": lambda: D.Gamma(t(1.8), t(0.8)),
    "Geometric": lambda: D.Geometric(t(0.6)),
    "Gumbel": lambda: D.Gumbel(t(0.0), t(1.5)),
    "HalfNormal": lambda: D.HalfNormal(t(1.5)),
    "Laplace": lambda: D.Laplace(t(0.0), t(1.5)),
    "LowRank": lambda: D.LowRankMultivariateNormal(t([0.0, 0.5]), t([[1.0], [0.2]]), t([1.5, 1.0])),
    "Multivariate": lambda: D.MultivariateNormal(t([0.0, 0.0]), t([[1.5, -0.3], [-0.3, 2.0]])),
    "Normal": lambda: D.Normal(t(0.0), t(1.5)),
    "Pareto": lambda: D.Pareto(t(1.0), t(5.0)),
    "Pareto below": lambda: D.Pareto(t(0.1), t(1.5)),
    "Poisson": lambda: D.Poisson(t(2.5)),
    "Uniform": lambda: D.Uniform(t(-0.5), t(1.5)),
    "Wishart": lambda: D.Wishart(t(5.0), t([[0.8, 0.1], [0.1, 0.5]])),
}


def known(pair):
    try:
        return kl_divergence(P[pair[0]](), Q[pair[1]]()) is not None
    except NotImplementedError:
        return False


PAIRS = [pair for pair in itertools.product(P, Q) if known(pair)]


def test_the_pairs_are_those_of_torch():
    assert len(PAIRS) >= 85
    with pytest.raises(NotImplementedError, match="No KL"):
        kl_divergence(D.Cauchy(0.0, 1.0), D.Normal(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="different exponential families"):
        kl_divergence(D.Poisson(1.0), D.Normal(0.0, 1.0))


@pytest.mark.parametrize("pair", PAIRS, ids=lambda p: "-".join(p).replace(" ", "_"))
def test_divergences_are_means_of_log_ratios(pair):
    smolder.manual_seed(2)
    p, q = P[pair[0]](), Q[pair[1]]()
    kl = kl_divergence(p, q).item()
    x = p.sample((20000,))
    inside = q.support.check(x)
    if kl == float("inf"):
        assert not inside.all().item()
        return
    assert inside.all().item()
    ratio = p.log_prob(x) - q.log_prob(x)
    assert abs(ratio.mean().item() - kl) < 5 * ratio.std().item() / 20000**0.5 + 1e-9


def test_what_is_registered_for_more_special_classes_is_taken():
    class Mine(D.Normal):
        pass

    table = D.kl._KL_REGISTRY
    before = dict(table)
    try:
        D.register_kl(Mine, D.Normal)(lambda p, q: "mine first")
        assert kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)) == "mine first"
        D.register_kl(D.Normal, Mine)(lambda p, q: "mine second")
        with pytest.warns(RuntimeWarning, match="Ambiguous kl_divergence"):
            assert kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)) == "mine first"
    finally:
        table.clear()
        table.update(before)
    with pytest.raises(TypeError, match="Distribution subclasses"):
        D.register_kl("Normal", D.Normal)
