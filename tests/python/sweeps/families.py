"""All families of distributions: shapes, moments, densities, their gradients, entropies, texts, and divergences."""

D = T.distributions
A = lambda *s: arr(*s, dtype="float64")
P = lambda *s: arr(*s, low=0.3, high=2.5, dtype="float64")
U = lambda *s: arr(*s, low=0.05, high=0.95, dtype="float64")
N = lambda *s: T.floor(arr(*s, low=0, high=4.999, dtype="float64"))


def spd(n, *batch):
    a = A(*batch, n, n)
    return a @ a.mT + T.eye(n, dtype=T.float64)


def shares(*s):
    x = P(*s)
    return x / x.sum(-1, keepdim=True)


def factor(n):
    return D.CorrCholeskyTransform()(A(n * (n - 1) // 2))


MIXED = lambda: D.Categorical(P(2, 3))
# Each family: how it is made, values that it has, and which of cdf, icdf and the like it has.
MADE = {
    "Beta": (lambda: D.Beta(P(2, 3), P(3)), lambda: U(2, 3)),
    "Beta of numbers": (lambda: D.Beta(2.0, 0.5), lambda: U(2, 3)),
    "Binomial": (lambda: D.Binomial(5, U(2, 3)), lambda: N(2, 3)),
    "Binomial logits": (lambda: D.Binomial(T.tensor([5, 6, 7]), logits=A(3)), lambda: N(2, 3)),
    "Cauchy": (lambda: D.Cauchy(A(3), P(2, 3)), lambda: A(2, 3)),
    "Chi2": (lambda: D.Chi2(P(2, 3)), lambda: P(2, 3)),
    "ContinuousBernoulli": (lambda: D.ContinuousBernoulli(U(2, 3)), lambda: U(2, 3)),
    "ContinuousBernoulli middle": (
        lambda: D.ContinuousBernoulli(T.tensor([0.4995, 0.5, 0.7], dtype=T.float64)),
        lambda: U(2, 3),
    ),
    "ContinuousBernoulli logits": (lambda: D.ContinuousBernoulli(logits=A(2, 3)), lambda: U(2, 3)),
    "Dirichlet": (lambda: D.Dirichlet(P(2, 3)), lambda: shares(2, 3)),
    "FisherSnedecor": (lambda: D.FisherSnedecor(P(3), 3 * P(2, 3)), lambda: P(2, 3)),
    "Gamma": (lambda: D.Gamma(P(3), P(2, 3)), lambda: P(2, 3)),
    # PyTorch's takes no float64.
    "GeneralizedPareto": (
        lambda: D.GeneralizedPareto(arr(3) - 3, 2.0, T.tensor([0.0, 0.3, 0.7])),
        lambda: P(2, 3).float(),
    ),
    "GeneralizedPareto below": (lambda: D.GeneralizedPareto(0.0, 5.0, -P(2, 3).float() / 3), lambda: P(2, 3).float()),
    "Geometric": (lambda: D.Geometric(U(2, 3)), lambda: N(2, 3)),
    "Geometric logits": (lambda: D.Geometric(logits=A(2, 3)), lambda: N(2, 3)),
    "Gumbel": (lambda: D.Gumbel(A(3), P(2, 3)), lambda: A(2, 3)),
    "HalfCauchy": (lambda: D.HalfCauchy(P(2, 3)), lambda: P(2, 3)),
    "HalfNormal": (lambda: D.HalfNormal(P(2, 3)), lambda: P(2, 3)),
    "InverseGamma": (lambda: D.InverseGamma(P(3), P(2, 3)), lambda: P(2, 3)),
    "Kumaraswamy": (lambda: D.Kumaraswamy(P(3), P(2, 3)), lambda: U(2, 3)),
    "LKJCholesky": (lambda: D.LKJCholesky(3, P(2)), lambda: factor(3)),
    "LogNormal": (lambda: D.LogNormal(A(3), P(2, 3)), lambda: P(2, 3)),
    "LogisticNormal": (lambda: D.LogisticNormal(A(2, 2), P(2)), lambda: shares(2, 3)),
    "LowRank": (lambda: D.LowRankMultivariateNormal(A(2, 3), A(3, 2), P(3)), lambda: A(2, 3)),
    "Mixture": (lambda: D.MixtureSameFamily(MIXED(), D.Normal(A(2, 3), P(3))), lambda: A(4, 2)),
    "Mixture of vectors": (
        lambda: D.MixtureSameFamily(MIXED(), D.Independent(D.Normal(A(2, 3, 2), P(2)), 1)),
        lambda: A(4, 2, 2),
    ),
    "Multinomial": (lambda: D.Multinomial(4, P(2, 3)), lambda: T.tensor([1.0, 2.0, 1.0], dtype=T.float64)),
    "Multinomial logits": (lambda: D.Multinomial(4, logits=A(2, 3)), lambda: T.tensor([1.0, 0.0, 3.0])),
    "Multivariate batch": (lambda: D.MultivariateNormal(A(2, 3), spd(3, 2)), lambda: A(4, 2, 3)),
    "Multivariate of many": (lambda: D.MultivariateNormal(A(2, 3), precision_matrix=spd(3)), lambda: A(4, 2, 3)),
    "NegativeBinomial": (lambda: D.NegativeBinomial(P(3), U(2, 3)), lambda: N(2, 3)),
    "NegativeBinomial logits": (lambda: D.NegativeBinomial(3, logits=A(2, 3)), lambda: N(2, 3)),
    "StraightThrough": (lambda: D.OneHotCategoricalStraightThrough(P(2, 3)), lambda: T.eye(3)[1]),
    "Pareto": (lambda: D.Pareto(P(3) / 3, P(2, 3)), lambda: P(2, 3) + 1),
    "Poisson": (lambda: D.Poisson(P(2, 3)), lambda: N(2, 3)),
    "RelaxedBernoulli": (lambda: D.RelaxedBernoulli(P(1), U(2, 3)), lambda: U(2, 3)),
    "RelaxedBernoulli logits": (lambda: D.RelaxedBernoulli(T.tensor(0.7), logits=A(2, 3)), lambda: U(2, 3)),
    "RelaxedOneHot": (lambda: D.RelaxedOneHotCategorical(T.tensor(0.7), P(2, 3)), lambda: shares(2, 3)),
    "StudentT": (lambda: D.StudentT(2 * P(2, 3), A(3), P(3)), lambda: A(2, 3)),
    "StudentT of a number": (lambda: D.StudentT(3.0), lambda: A(2, 3)),
    "Transformed": (
        lambda: D.TransformedDistribution(D.Normal(A(2, 3), P(3)), [D.TanhTransform(), D.AffineTransform(1.0, -2.0)]),
        lambda: 1.2 * U(2, 3),
    ),
    "Transformed to shares": (
        lambda: D.TransformedDistribution(D.Normal(A(2, 2), P(2)), D.StickBreakingTransform()),
        lambda: shares(2, 3),
    ),
    "VonMises": (lambda: D.VonMises(arr(3), P(2, 3).float()), lambda: arr(2, 3)),  # PyTorch's has seven digits
    "Weibull": (lambda: D.Weibull(P(3), P(2, 3)), lambda: P(2, 3)),
    "Wishart": (lambda: D.Wishart(4 + P(2), spd(3)), lambda: spd(3)),
    "Wishart triangle": (lambda: D.Wishart(4 + P(2), scale_tril=T.linalg.cholesky(spd(3))), lambda: spd(3)),
    "Wishart precision": (lambda: D.Wishart(5, precision_matrix=spd(3)), lambda: spd(3)),
}


def wide(d):
    return tuple(d.expand((4, *d.batch_shape)).batch_shape)


for name, (make, values) in MADE.items():
    case(f"{name} shapes", lambda: repr((tuple(make().batch_shape), tuple(make().event_shape), make().has_rsample)))
    case(f"{name} repr", lambda: repr(make()))
    case(f"{name} enumerates", lambda: [make().has_enumerate_support, make().enumerate_support()])
    case(f"{name} enumerates at once", lambda: make().enumerate_support(expand=False))
    case(f"{name} constraints", lambda: repr(list(make().arg_constraints)))
    case(f"{name} kind of support", lambda: type(make().support).__name__)
    case(f"{name} dims of support", lambda: [make().support.event_dim, make().support.is_discrete])
    for what in ("mean", "variance", "stddev", "mode"):
        # PyTorch takes the logarithm of 1 - b for log(b - 1) in the mode of Kumaraswamy's, which is nan.
        if (name, what) != ("Kumaraswamy", "mode"):
            case(f"{name} {what}", lambda: getattr(make(), what))
    # PyTorch's entropy of Multinomial has seven digits.
    single = (lambda x: x.float()) if name.startswith("Multinomial") else (lambda x: x)
    case(f"{name} entropy", lambda: single(make().entropy()))
    case(f"{name} perplexity", lambda: single(make().perplexity()))
    case(f"{name} log_prob", lambda: with_grads(make().log_prob, values()))
    case(f"{name} log_prob wide", lambda: make().expand((4, *make().batch_shape)).log_prob(values()))
    case(f"{name} cdf", lambda: make().cdf(values()))
    single = (lambda x: x.float()) if name.startswith("GeneralizedPareto") else (lambda x: x)
    case(f"{name} icdf", lambda: make().icdf(single(U(2, 3))))
    for shape in ((), (5,), (2, 3)):
        case(f"{name} sample {shape}", lambda: repr((tuple(make().sample(shape).shape), make().sample(shape).dtype)))
        case(f"{name} rsample {shape}", lambda: tuple(make().rsample(shape).shape))
    case(f"{name} inside", lambda: bool(make().support.check(make().sample((50,))).all()))
    case(f"{name} expand", lambda: repr((wide(make()), wide(make().expand((4, *make().batch_shape))))))
    case(f"{name} expand repr", lambda: repr(make().expand((4, *make().batch_shape))))
    case(f"{name} expand shape", lambda: tuple(make().expand((4, *make().batch_shape)).sample((2,)).shape))
    if name not in ("Chi2", "Gamma"):  # whose values are made tensors first, and text is a TypeError there
        case(f"{name} text", lambda: make().log_prob("a"))
    case(f"{name} wrong shape", lambda: make().log_prob(A(7, 5)))
    case(f"{name} wrong value", lambda: make().log_prob(T.full((3, 3), float("nan"), dtype=T.float64)))

PARAMETERS = {
    "Beta": lambda p, q: D.Beta(p, q),
    "Cauchy": lambda p, q: D.Cauchy(p, q),
    "ContinuousBernoulli": lambda p, q: D.ContinuousBernoulli(logits=p - q),
    "Dirichlet": lambda p, q: D.Dirichlet(p * q),
    "FisherSnedecor": lambda p, q: D.FisherSnedecor(p, q),
    "Gamma": lambda p, q: D.Gamma(p, q),
    "GeneralizedPareto": lambda p, q: D.GeneralizedPareto(0.0, p, q),
    "Gumbel": lambda p, q: D.Gumbel(p, q),
    "InverseGamma": lambda p, q: D.InverseGamma(p, q),
    "Kumaraswamy": lambda p, q: D.Kumaraswamy(p, q),
    "LogNormal": lambda p, q: D.LogNormal(p, q),
    "LowRank": lambda p, q: D.LowRankMultivariateNormal(p[0], q.T, p[1]),
    "Multivariate": lambda p, q: D.MultivariateNormal(p, q[0].diag() + 1),
    "Pareto": lambda p, q: D.Pareto(p / 10, q),
    "StudentT": lambda p, q: D.StudentT(p, q, p),
    "VonMises": lambda p, q: D.VonMises(p, q),
    "Weibull": lambda p, q: D.Weibull(p, q),
}
for name, make in PARAMETERS.items():
    value = lambda: shares(2, 3) if name == "Dirichlet" else U(2, 3) + (0 if name in ("Beta", "Kumaraswamy") else 0.01)
    single = (lambda x: x.float()) if name in ("GeneralizedPareto", "VonMises") else (lambda x: x)
    given = lambda: (single(P(2, 3)), single(P(2, 3)))
    case(f"{name} gradients", lambda: with_grads(lambda p, q: make(p, q).log_prob(single(value())), *given()))
    if name != "VonMises":
        case(f"{name} entropy gradients", lambda: with_grads(lambda p, q: make(p, q).entropy(), *given()))
for name in ("Cauchy", "Gumbel", "HalfNormal", "HalfCauchy", "LogNormal", "Weibull", "ContinuousBernoulli", "Gamma"):
    case(f"{name} cdf gradient", lambda: with_grads(lambda x: MADE[name][0]().cdf(x), U(2, 3)))

ONE = {
    "Bernoulli": lambda: D.Bernoulli(U(2, 3)),
    "Beta": lambda: D.Beta(P(3), P(2, 3)),
    "Binomial": lambda: D.Binomial(4, U(2, 3)),
    "Binomial of more": lambda: D.Binomial(6, U(2, 3)),
    "Categorical": lambda: D.Categorical(P(2, 3)),
    "Cauchy": lambda: D.Cauchy(A(3), P(2, 3)),
    "Chi2": lambda: D.Chi2(P(2, 3)),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(U(2, 3)),
    "Dirichlet": lambda: D.Dirichlet(P(2, 3)),
    "Exponential": lambda: D.Exponential(P(2, 3)),
    "Gamma": lambda: D.Gamma(P(3), P(2, 3)),
    "Geometric": lambda: D.Geometric(U(2, 3)),
    "Gumbel": lambda: D.Gumbel(A(3), P(2, 3)),
    "HalfNormal": lambda: D.HalfNormal(P(2, 3)),
    "Laplace": lambda: D.Laplace(A(3), P(2, 3)),
    "LogNormal": lambda: D.LogNormal(A(3), P(2, 3)),
    "LowRank": lambda: D.LowRankMultivariateNormal(A(2, 3), A(3, 2), P(3)),
    "LowRank batch": lambda: D.LowRankMultivariateNormal(A(3), A(2, 3, 1), P(2, 3)),
    "Multivariate": lambda: D.MultivariateNormal(A(3), spd(3)),
    "Multivariate batch": lambda: D.MultivariateNormal(A(2, 3), spd(3, 2)),
    "Normal": lambda: D.Normal(A(3), P(2, 3)),
    "OneHot": lambda: D.OneHotCategorical(P(2, 3)),
    "Pareto": lambda: D.Pareto(P(3), P(2, 3)),
    "Pareto with moments": lambda: D.Pareto(P(3), P(2, 3) + 2),
    "Poisson": lambda: D.Poisson(P(2, 3)),
    "Uniform": lambda: D.Uniform(-P(3), P(2, 3)),
    "Uniform above": lambda: D.Uniform(P(2, 3), P(3) + 3),
    "Uniform within": lambda: D.Uniform(U(2, 3) / 3, 0.5 + U(3) / 3),
    "Uniform around": lambda: D.Uniform(-P(2, 3), 1 + P(3)),
    "Independent": lambda: D.Independent(D.Gamma(P(3), P(2, 3)), 1),
    "Transformed": lambda: D.TransformedDistribution(D.Gamma(P(3), P(2, 3)), [D.ExpTransform()]),
}
for name in ONE:
    for other in ONE:
        # Where there is no divergence the shape of inf is that of one of them in PyTorch; here, of both.
        case(f"kl {name} {other}", lambda: D.kl_divergence(ONE[name](), ONE[other]()))
KL_GRADS = {
    "Beta": (lambda p, q: D.Beta(p, q), lambda p, q: D.Beta(q, p)),
    "Dirichlet": (lambda p, q: D.Dirichlet(p), lambda p, q: D.Dirichlet(q)),
    "Gamma": (lambda p, q: D.Gamma(p, q), lambda p, q: D.Gamma(q, p)),
    "LowRank": (
        lambda p, q: D.LowRankMultivariateNormal(p[0], q.T, p[1]),
        lambda p, q: D.LowRankMultivariateNormal(q[0], p.T, q[1]),
    ),
    "Multivariate": (
        lambda p, q: D.MultivariateNormal(p[0], q[1].diag() + 1),
        lambda p, q: D.MultivariateNormal(q[0], p[1].diag() + 1),
    ),
    "Normal to Gumbel": (lambda p, q: D.Normal(p, q), lambda p, q: D.Gumbel(q, p)),
    "Beta to Normal": (lambda p, q: D.Beta(p, q), lambda p, q: D.Normal(q, p)),
}
for name, (p_of, q_of) in KL_GRADS.items():
    case(
        f"kl gradients {name}",
        lambda: with_grads(lambda p, q: D.kl_divergence(p_of(p, q), q_of(p, q)), P(2, 3), P(2, 3)),
    )

WRONG = {
    "Beta": lambda: D.Beta(T.tensor(-1.0), 2.0),
    "Beta text": lambda: D.Beta("x", 2.0),
    "Binomial": lambda: D.Binomial(3),
    "Binomial count": lambda: D.Binomial(T.tensor(1.5), T.tensor(0.5)),
    "Binomial support": lambda: D.Binomial(T.tensor([3, 4]), T.tensor([0.5, 0.2])).enumerate_support(),
    "Binomial entropy": lambda: D.Binomial(T.tensor([3, 4]), T.tensor([0.5, 0.2])).entropy(),
    "ContinuousBernoulli": lambda: D.ContinuousBernoulli(1.5),
    "ContinuousBernoulli none": lambda: D.ContinuousBernoulli(),
    "Dirichlet": lambda: D.Dirichlet(T.tensor(1.0)),
    "Dirichlet value": lambda: D.Dirichlet(T.tensor([1.0, 0.0])),
    "Geometric": lambda: D.Geometric(T.tensor([0.0, 1.0])),
    "LKJ": lambda: D.LKJCholesky(1),
    "LogNormal": lambda: D.LogNormal(0.0, -1.0),
    "LowRank": lambda: D.LowRankMultivariateNormal(T.zeros(2), T.ones(2), T.ones(3)),
    "LowRank rows": lambda: D.LowRankMultivariateNormal(T.zeros(2), T.ones(3, 1), T.ones(2)),
    "LowRank diagonal": lambda: D.LowRankMultivariateNormal(T.zeros(2), T.ones(2, 1), T.ones(3)),
    "Mixture": lambda: D.MixtureSameFamily(1, 2),
    "Mixture component": lambda: D.MixtureSameFamily(D.Categorical(T.ones(2)), 2),
    "Mixture sizes": lambda: D.MixtureSameFamily(D.Categorical(T.ones(2)), D.Normal(T.zeros(3), 1.0)),
    "Mixture batches": lambda: D.MixtureSameFamily(D.Categorical(T.ones(2, 2)), D.Normal(T.zeros(3, 2), 1.0)),
    "Multinomial": lambda: D.Multinomial(T.tensor(3), T.ones(3)),
    "Poisson": lambda: D.Poisson(T.tensor(-1.0)),
    "Transformed": lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), "x"),
    "Transformed dims": lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()),
    "Uniform": lambda: D.Uniform(1.0, 0.0),
    "Wishart": lambda: D.Wishart(T.tensor(1.0), T.eye(3)),
    "Wishart two": lambda: D.Wishart(T.tensor(5.0), T.eye(3), T.eye(3)),
    "Wishart dims": lambda: D.Wishart(5.0, T.ones(3)),
}
for name, make in WRONG.items():

    def text():
        try:
            return repr(make())
        except Exception as error:
            return f"{type(error).__name__}: {error}".partition("\n")[0]

    case(f"wrong {name}", text)


class Own(D.Normal):
    def __init__(self):
        super().__init__(0.0, 1.0)


class Other(D.Normal):
    """Without an __init__ of its own."""


class Whole(D.Normal):
    def __init__(self, loc):
        super().__init__(loc, 1.0)

    def expand(self, batch_shape, _instance=None):
        return super().expand(batch_shape, self._get_checked_instance(Whole, _instance))


case("subclass of its own", lambda: Own().expand((2,)))
case("subclass", lambda: repr(Other(0.0, 1.0).expand((2,))))
case("subclass with expand", lambda: repr(Whole(0.0).expand((2,))))
case("subclass of it", lambda: repr(type("Most", (Whole,), {})(T.zeros(3)).expand((2, 3))))
case("nothing said", lambda: repr(D.Distribution().batch_shape))
case("family", lambda: D.ExponentialFamily.entropy(D.Gamma(P(2, 3), P(3))))
case("family of shares", lambda: D.ExponentialFamily.entropy(D.Dirichlet(P(2, 3))))
case("family of Wishart", lambda: D.ExponentialFamily.entropy(D.Wishart(5.0, spd(3))))
case("samples n", lambda: tuple(D.Normal(0.0, 1.0).sample_n(3).shape))


def refused(make):
    """The text of a distribution in an error: parameters that were not made when the value was checked are not in it."""
    try:
        return repr(make().log_prob(T.full(tuple(make().event_shape), float("nan"), dtype=T.float64)))
    except ValueError as error:
        return str(error).partition("of the distribution ")[2].partition(" to satisfy")[0].partition("found invalid")[0]


for name, (make, _) in MADE.items():
    case(f"{name} refuses", lambda: refused(make))
