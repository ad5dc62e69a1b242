"""Densities, entropies, divergences and moments, and mistakes with parameters and values."""

D = T.distributions
A = lambda *s: arr(*s, dtype="float64")
P = lambda *s: arr(*s, low=0.2, high=2, dtype="float64")


def spd(n):
    a = A(n, n)
    return a @ a.T + T.eye(n, dtype=T.float64)


MADE = {
    "Normal": lambda: D.Normal(A(3), P(2, 3)),
    "Normal of numbers": lambda: D.Normal(0.5, 2.0),
    "Uniform": lambda: D.Uniform(-P(3), P(2, 3)),
    "Exponential": lambda: D.Exponential(P(3)),
    "Laplace": lambda: D.Laplace(A(3), P(3)),
    "Bernoulli": lambda: D.Bernoulli(P(3) / 2),
    "Bernoulli logits": lambda: D.Bernoulli(logits=A(2, 3)),
    "Bernoulli of a number": lambda: D.Bernoulli(0.3),
    "Categorical": lambda: D.Categorical(P(4)),
    "Categorical logits": lambda: D.Categorical(logits=A(2, 4)),
    "OneHot": lambda: D.OneHotCategorical(P(2, 4)),
    "OneHot logits": lambda: D.OneHotCategorical(logits=A(4)),
    "Independent": lambda: D.Independent(D.Normal(A(2, 3), P(2, 3)), 1),
    "Independent all": lambda: D.Independent(D.Bernoulli(logits=A(2, 3)), 2),
    "Multivariate": lambda: D.MultivariateNormal(A(2, 3), spd(3)),
    "Multivariate triangle": lambda: D.MultivariateNormal(A(3), scale_tril=T.linalg.cholesky(spd(3))),
    "Multivariate precision": lambda: D.MultivariateNormal(A(3), precision_matrix=spd(3)),
}
for name, make in MADE.items():
    case(f"{name} shapes", lambda: repr((tuple(make().batch_shape), tuple(make().event_shape), make().has_rsample)))
    case(f"{name} repr", lambda: repr(make()))
    for what in ("mean", "variance", "stddev", "mode"):
        case(f"{name} {what}", lambda: getattr(make(), what))
    case(f"{name} entropy", lambda: make().entropy())
    case(f"{name} perplexity", lambda: make().perplexity())
    for shape in ((), (5,), (2, 3)):
        case(
            f"{name} sample {shape}",
            lambda: repr((tuple(make().sample(shape).shape), make().sample(shape).requires_grad)),
        )
        case(f"{name} rsample {shape}", lambda: tuple(make().rsample(shape).shape))
    case(f"{name} expand", lambda: repr((make().expand((4, 2, 3)).batch_shape, type(make()).__name__)))
    case(f"{name} support", lambda: repr(make().enumerate_support()))
    case(f"{name} text", lambda: make().log_prob("a"))
    case(f"{name} wrong shape", lambda: make().log_prob(A(7, 5)))
NUMBERS = ("Normal", "Normal of numbers", "Laplace", "Multivariate", "Multivariate triangle", "Independent")
for name in NUMBERS:
    f = lambda x: MADE[name]().log_prob(x)
    case(f"{name} log_prob", lambda: with_grads(f, A(2, 3)))
for name in ("Normal", "Laplace", "Exponential", "Uniform"):
    case(f"{name} cdf", lambda: MADE[name]().cdf(P(2, 3) / 20))
    case(f"{name} icdf", lambda: MADE[name]().icdf(P(2, 3) / 3))
case("Exponential log_prob", lambda: MADE["Exponential"]().log_prob(P(2, 3)))
case("Uniform log_prob", lambda: MADE["Uniform"]().log_prob(P(2, 3) / 20))
case("Uniform outside", lambda: D.Uniform(0.0, 1.0).log_prob(T.tensor(2.0)))
case("Uniform unchecked", lambda: D.Uniform(0.0, 1.0, validate_args=False).log_prob(T.tensor([0.5, 2.0])))
for name in ("Bernoulli", "Bernoulli logits"):
    case(f"{name} log_prob", lambda: MADE[name]().log_prob(T.tensor([0.0, 1.0, 1.0], dtype=T.float64)))
for name in ("Categorical", "Categorical logits"):
    case(f"{name} log_prob", lambda: MADE[name]().log_prob(T.tensor([[3], [0]])))
    case(f"{name} grads", lambda: with_grads(lambda p: D.Categorical(p).log_prob(T.tensor([1, 2])), P(2, 4)))
    case(f"{name} outside", lambda: MADE[name]().log_prob(T.tensor(4)))
for name in ("OneHot", "OneHot logits"):
    case(f"{name} log_prob", lambda: MADE[name]().log_prob(T.eye(4, dtype=T.float64)[1]))
    case(f"{name} outside", lambda: MADE[name]().log_prob(T.ones(4)))
PAIRS = [(name, name) for name in MADE] + [
    ("Normal", "Normal of numbers"),
    ("Categorical", "Categorical logits"),
    ("OneHot", "OneHot logits"),
    ("Multivariate", "Multivariate triangle"),
    ("Categorical", "OneHot"),
    ("Independent", "Independent all"),
    ("Normal", "Bernoulli"),
]
for name, other in PAIRS:
    case(f"kl {name} {other}", lambda: D.kl_divergence(MADE[name](), MADE[other]()))
case("kl gradients", lambda: with_grads(lambda a, s: D.kl_divergence(D.Normal(a, s), D.Normal(0.0, 1.0)), A(3), P(3)))
WRONG = {
    "scale": lambda: D.Normal(0.0, -1.0),
    "nan": lambda: D.Normal(float("nan"), 1.0),
    "bounds": lambda: D.Uniform(1.0, 0.0),
    "rate": lambda: D.Exponential(T.tensor([1.0, 0.0])),
    "probability": lambda: D.Bernoulli(1.5),
    "simplex": lambda: D.Categorical(T.tensor([-1.0, 2.0])),
    "both": lambda: D.Categorical(T.ones(2), T.ones(2)),
    "none": lambda: D.Bernoulli(),
    "no dimension": lambda: D.Categorical(T.tensor(1.0)),
    "too many dimensions": lambda: D.Independent(D.Normal(0.0, 1.0), 1),
    "covariance": lambda: D.MultivariateNormal(T.zeros(2), -T.eye(2)),
    "two matrices": lambda: D.MultivariateNormal(T.zeros(2), T.eye(2), T.eye(2)),
    "default": lambda: D.Distribution.set_default_validate_args(3),
}
for name, make in WRONG.items():
    case(f"wrong {name}", make)
case("unchecked", lambda: D.Normal(0.0, -1.0, validate_args=False).scale)
