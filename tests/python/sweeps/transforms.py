"""Transforms and constraints: values, inverses, log determinants, gradients, shapes, texts, and which fits which."""

D = T.distributions
C = D.constraints
A = lambda *s: arr(*s, dtype="float64")
U = lambda *s: arr(*s, low=0.05, high=0.95, dtype="float64")
positive = lambda *s: arr(*s, low=0.2, high=3, dtype="float64")
MADE = {
    "abs": (lambda: D.AbsTransform(), lambda: A(2, 3)),
    "affine": (lambda: D.AffineTransform(1.0, -2.0), lambda: A(2, 3)),
    "affine of tensors": (lambda: D.AffineTransform(A(3), positive(2, 3)), lambda: A(3)),
    "affine vectors": (lambda: D.AffineTransform(A(3), positive(3), event_dim=1), lambda: A(2, 3)),
    "affine 0": (lambda: D.AffineTransform(1.0, 3), lambda: A(2, 3)),
    "cat": (
        lambda: D.CatTransform([D.ExpTransform(), D.identity_transform, D.TanhTransform()], dim=-1, lengths=[1, 2, 1]),
        lambda: A(3, 4),
    ),
    "cat of vectors": (
        lambda: D.CatTransform([D.AffineTransform(1.0, 2.0, 1), D.AffineTransform(1.0, 3.0, 1)], dim=0),
        lambda: A(2, 4),
    ),
    "compose": (lambda: D.ComposeTransform([D.TanhTransform(), D.AffineTransform(0.0, -3.0)]), lambda: A(2, 3)),
    "compose of vectors": (
        lambda: D.ComposeTransform([D.AffineTransform(0.0, 2.0), D.StickBreakingTransform()]),
        lambda: A(2, 3),
    ),
    "compose to matrices": (
        lambda: D.ComposeTransform([D.ExpTransform().inv, D.CorrCholeskyTransform()]),
        lambda: positive(2, 3),
    ),
    "correlation": (lambda: D.CorrCholeskyTransform(), lambda: A(2, 6)),
    "cumulative": (lambda: D.CumulativeDistributionTransform(D.Normal(0.5, 2.0)), lambda: A(2, 3)),
    "exp": (lambda: D.ExpTransform(), lambda: A(2, 3)),
    "log": (lambda: D.ExpTransform().inv, lambda: positive(2, 3)),
    "identity": (lambda: D.identity_transform, lambda: A(2, 3)),
    "independent": (lambda: D.IndependentTransform(D.ExpTransform(), 1), lambda: A(2, 3)),
    "independent too few": (lambda: D.IndependentTransform(D.ExpTransform(), 1), lambda: A(1)[0]),
    "lower cholesky": (lambda: D.LowerCholeskyTransform(), lambda: A(2, 3, 3)),
    "positive definite": (lambda: D.PositiveDefiniteTransform(), lambda: A(2, 3, 3)),
    "power": (lambda: D.PowerTransform(2.0), lambda: positive(2, 3)),
    "power of tensor": (lambda: D.PowerTransform(-positive(3)), lambda: positive(2, 3)),
    "reshape": (lambda: D.ReshapeTransform((2, 3), (6,)), lambda: A(4, 2, 3)),
    "sigmoid": (lambda: D.SigmoidTransform(), lambda: A(2, 3)),
    "softmax": (lambda: D.SoftmaxTransform(), lambda: A(2, 3)),
    "softplus": (lambda: D.SoftplusTransform(), lambda: A(2, 3)),
    "stack": (lambda: D.StackTransform([D.ExpTransform(), D.SigmoidTransform()], dim=1), lambda: A(3, 2)),
    "stack first": (lambda: D.StackTransform([D.ExpTransform(), D.SigmoidTransform()]), lambda: A(2, 3)),
    "stick breaking": (lambda: D.StickBreakingTransform(), lambda: A(2, 3)),
    "tanh": (lambda: D.TanhTransform(), lambda: A(2, 3)),
}
for name, (make, values) in MADE.items():

    def both(x):
        y = make()(x)
        return y, make().inv(y)

    def caught(x):
        t = make().with_cache()
        y = t(x)
        return [
            t.inv(y) is x,
            t(x) is y,
            t._cache_size,
            make() == make(),
            make() == D.Transform(),
            make().inv == make().inv,
        ]

    case(f"{name}", lambda: with_grads(lambda x: make()(x), values()))
    case(f"{name} both ways", lambda: both(values()))
    case(f"{name} log det", lambda: with_grads(lambda x: make().log_abs_det_jacobian(x, make()(x)), values()))
    if name != "affine of tensors":  # whose parameters are larger than x, which PyTorch does not expand there
        case(f"{name} inverse log det", lambda: make().inv.log_abs_det_jacobian(make()(values()), values()))
    case(f"{name} sign", lambda: make().sign)
    case(f"{name} bijective", lambda: [make().bijective, make().inv.bijective])
    case(f"{name} text", lambda: [repr(make()), repr(make().inv), repr(make().inv.inv)])
    case(f"{name} domain", lambda: [repr(make().domain), repr(make().codomain), repr(make().inv.domain)])
    case(f"{name} event", lambda: [make().domain.event_dim, make().codomain.event_dim])
    case(f"{name} event_dim", lambda: make().event_dim)
    case(f"{name} shapes", lambda: tuple(make().forward_shape(values().shape)))
    case(f"{name} inverse shapes", lambda: tuple(make().inverse_shape(make()(values()).shape)))
    for shape in ((), (4,), (3, 2), (5, 4, 4)):
        case(f"{name} shape {shape}", lambda: tuple(make().forward_shape(shape)))
        case(f"{name} inverse shape {shape}", lambda: tuple(make().inverse_shape(shape)))
    case(f"{name} cache", lambda: caught(values()))
    case(f"{name} check", lambda: [make().domain.check(values()), make().codomain.check(make()(values()))])
    case(f"{name} cache 2", lambda: make().with_cache(2))

CONSTRAINTS = {
    "boolean": C.boolean,
    "cat": C.cat([C.real, C.positive], 0, [1, 2]),
    "corr_cholesky": C.corr_cholesky,
    "greater_than": C.greater_than(0.5),
    "greater_than_eq": C.greater_than_eq(0.5),
    "half_open_interval": C.half_open_interval(-0.5, 0.5),
    "independent": C.independent(C.positive, 1),
    "independent twice": C.independent(C.independent(C.interval(0.0, 1.0), 1), 1),
    "integer_interval": C.integer_interval(0, 2),
    "interval": C.interval(-0.5, 0.5),
    "less_than": C.less_than(0.5),
    "lower_cholesky": C.lower_cholesky,
    "lower_triangular": C.lower_triangular,
    "multinomial": C.multinomial(3),
    "nonnegative": C.nonnegative,
    "nonnegative_integer": C.nonnegative_integer,
    "one_hot": C.one_hot,
    "positive": C.positive,
    "positive_definite": C.positive_definite,
    "positive_integer": C.positive_integer,
    "positive_semidefinite": C.positive_semidefinite,
    "real": C.real,
    "real_vector": C.real_vector,
    "simplex": C.simplex,
    "square": C.square,
    "stack": C.stack([C.real, C.positive, C.unit_interval], -1),
    "symmetric": C.symmetric,
    "unit_interval": C.unit_interval,
    "mixture": C.MixtureSameFamilyConstraint(C.positive),
    "mixture of vectors": C.MixtureSameFamilyConstraint(C.simplex),
    "dependent": C.dependent,
}
VALUES = {
    "numbers": lambda: T.tensor([-1.0, 0.0, 0.3, 0.5, 1.0, 2.0, 3.5, float("nan")]),
    "integers": lambda: T.tensor([-1, 0, 1, 2, 3]),
    "scalar": lambda: T.tensor(0.5),
    "shares": lambda: T.tensor([[0.2, 0.3, 0.5], [0.2, 0.3, 0.6], [0.0, 1.0, 0.0]]),
    "counts": lambda: T.tensor([[1.0, 2.0, 0.0], [1.0, 2.0, 2.0], [-1.0, 2.0, 1.0]]),
    "triangles": lambda: A(2, 3, 3).tril() + 3 * T.eye(3, dtype=T.float64),
    "correlations": lambda: D.CorrCholeskyTransform()(A(2, 3)),
    "matrices": lambda: A(2, 3, 3),
    "symmetric": lambda: (lambda a: T.stack([a @ a.mT + T.eye(3), a + a.mT, a]))(arr(3, 3)),
    "semidefinite": lambda: T.stack([T.ones(2, 2), T.eye(2), -T.eye(2)]),
    "long": lambda: A(2, 2, 3),
}
for name, constraint in CONSTRAINTS.items():
    name = f"constraint {name}"
    case(f"{name} text", lambda: repr(constraint))
    case(f"{name} kind", lambda: [constraint.event_dim, constraint.is_discrete, C.is_dependent(constraint)])
    for kind, values in VALUES.items():
        # PyTorch asks whether matrices are definite only where all of a batch are symmetric, and rounds eigenvalues of 0.
        definite = name in ("constraint positive_definite", "constraint positive_semidefinite")
        if not (definite and kind in ("symmetric", "semidefinite")) and (name, kind) != (
            "constraint mixture of vectors",
            "scalar",
        ):
            case(f"{name} check {kind}", lambda: constraint.check(values()))
    for registry in ("biject_to", "transform_to"):

        def mapped():
            t = getattr(D, registry)(constraint)
            x = A(3, 3) if name != "constraint corr_cholesky" else A(2, 3)
            y = t(x)
            return repr(t), y, t.inv(y), constraint.check(y)

        case(f"{name} {registry}", mapped)
case("register", lambda: D.biject_to.register(int, lambda c: c))
case("abstract", lambda: C.Constraint().check(1))
case("wrong base", lambda: C.independent("x", 1))
case("wrong parts", lambda: C.cat(["x"]))
case("wrong lengths", lambda: C.cat([C.real], 0, [1, 2]))


class _Halves(C.Constraint):
    event_dim = 1

    def check(self, value):
        return (value * 2 % 1 == 0).all(-1)


class Holder:
    @C.dependent_property(is_discrete=False, event_dim=1)
    def support(self):
        return _Halves()

    @C.dependent_property
    def other(self):
        return C.real


case("own constraint", lambda: [repr(_Halves()), _Halves().check(T.tensor([[0.5, 1.0], [0.3, 1.0]]))])
case(
    "property",
    lambda: [repr(Holder.support), Holder.support.event_dim, Holder.support.is_discrete, repr(Holder().support)],
)
case("property unknown", lambda: [repr(Holder.other), Holder.other.event_dim])
case("property of class", lambda: [C.is_dependent(D.Uniform.support), D.Uniform.support.event_dim])
case("triangles of vectors", lambda: D.utils.vec_to_tril_matrix(A(2, 6)))
case("triangles of vectors below", lambda: D.utils.vec_to_tril_matrix(A(2, 6), -1))
case("vectors of triangles", lambda: D.utils.tril_matrix_to_vec(A(2, 3, 3)))
case("vectors of triangles below", lambda: D.utils.tril_matrix_to_vec(A(2, 3, 3), -1))
case("vectors of triangles above", lambda: D.utils.tril_matrix_to_vec(A(2, 3, 3), 1))
case("vectors of no triangles", lambda: D.utils.tril_matrix_to_vec(A(2, 3, 3), 3))
case("no triangle", lambda: D.utils.vec_to_tril_matrix(A(2, 4)))
for name in ("clamp_probs", "probs_to_logits", "logits_to_probs"):
    case(name, lambda: getattr(D.utils, name)(T.tensor([0.0, 0.3, 1.0])))
for name in ("probs_to_logits", "logits_to_probs"):
    case(f"{name} binary", lambda: getattr(D.utils, name)(T.tensor([0.0, 0.3, 1.0]), is_binary=True))
case("broadcast", lambda: D.utils.broadcast_all(1.0, T.zeros(2, 1, dtype=T.float64), T.ones(3)))
case("broadcast numbers", lambda: D.utils.broadcast_all(1.0, 2))
case("broadcast text", lambda: D.utils.broadcast_all("a"))
