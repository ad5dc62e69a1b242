"""Norms, factors and solutions, and their gradients."""

L = T.linalg


def spd(*shape):
    a = arr(*shape, dtype="float64")
    return (a @ a.transpose(-2, -1) + 2 * T.eye(shape[-1], dtype=T.float64)).detach()


def square(*shape, dtype="float64"):
    return arr(*shape, dtype=dtype) + 3 * T.eye(shape[-1], dtype=getattr(T, dtype))


def signless(out):
    """Columns up to their signs."""
    return out.abs() if isinstance(out, T.Tensor) else [o.abs() for o in out]


for d in ("float32", "float64"):
    for s in ((3, 3), (2, 4, 4), (2, 1, 3, 3), (0, 3, 3), (0, 0)):
        case(f"inv {d} {s}", lambda: with_grads(L.inv, square(*s, dtype=d)))
        case(f"det {d} {s}", lambda: with_grads(L.det, square(*s, dtype=d)))
        case(f"slogdet {d} {s}", lambda: with_grads(L.slogdet, square(*s, dtype=d)))
        case(f"logdet {d} {s}", lambda: with_grads(T.logdet, spd(*s).to(getattr(T, d))))
for s in ((3, 3), (2, 4, 4)):
    case(f"cholesky {s}", lambda: with_grads(L.cholesky, spd(*s)))
    case(f"cholesky upper {s}", lambda: with_grads(lambda a: L.cholesky(a, upper=True), spd(*s)))
    case(f"eigvalsh {s}", lambda: with_grads(L.eigvalsh, spd(*s)))
    case(f"eigh {s}", lambda: signless(with_grads(lambda a: [L.eigh(a)[0], L.eigh(a)[1] ** 2], spd(*s))[0]))
    case(f"eigh grad {s}", lambda: with_grads(lambda a: L.eigh(a)[1] ** 2, spd(*s))[1])
    case(f"eigh U {s}", lambda: L.eigh(T.triu(spd(*s)), UPLO="U")[0])
for s in ((4, 3), (3, 4), (3, 3), (2, 5, 2)):
    case(f"svd {s}", lambda: signless(L.svd(arr(*s, dtype="float64"), full_matrices=False)))
    case(f"svd full {s}", lambda: [list(x.shape) for x in L.svd(arr(*s))])
    case(f"svdvals {s}", lambda: with_grads(L.svdvals, arr(*s, dtype="float64")))
    both = lambda a: [x**2 for x in L.svd(a, full_matrices=False)]
    case(f"svd grad {s}", lambda: with_grads(both, arr(*s, dtype="float64")))
    case(f"old svd {s}", lambda: signless(T.svd(arr(*s, dtype="float64"))))
    case(f"pinv {s}", lambda: with_grads(L.pinv, arr(*s, dtype="float64")))
    case(f"rank {s}", lambda: L.matrix_rank(arr(*s)))
    for mode in ("reduced", "complete", "r"):
        case(f"qr {mode} {s}", lambda: signless(L.qr(arr(*s, dtype="float64"), mode)))
    if s[-2] >= s[-1]:
        case(f"qr grad {s}", lambda: with_grads(lambda a: [x**2 for x in L.qr(a)], arr(*s, dtype="float64")))
case("rank deficient", lambda: L.matrix_rank(T.ones(3, 3)))
case("rank hermitian", lambda: L.matrix_rank(T.ones(3, 3), hermitian=True))
case("pinv hermitian", lambda: L.pinv(spd(3, 3), hermitian=True))
for a, b in (((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (2, 3)), ((2, 3, 3), (3, 2)), ((2, 1, 3, 3), (4, 3, 2))):
    case(f"solve {a} {b}", lambda: with_grads(L.solve, square(*a), arr(*b, dtype="float64")))
case(
    "solve right", lambda: with_grads(lambda a, b: L.solve(a, b, left=False), square(3, 3), arr(2, 3, dtype="float64"))
)
for upper in (False, True):
    for left in (False, True):
        for unit in (False, True):
            f = lambda a, b: L.solve_triangular(a, b, upper=upper, left=left, unitriangular=unit)
            shape = (3, 2) if left else (2, 3)
            case(f"triangular {upper} {left} {unit}", lambda: with_grads(f, square(3, 3), arr(*shape, dtype="float64")))
for n in (-2, -1, 1, 2, 3, 5):
    case(f"power {n}", lambda: with_grads(lambda a: L.matrix_power(a, n), square(3, 3)))
inf = float("inf")
for p in (0, 1, 2, 3, -1, inf, -inf, 0.5):
    for dim in (None, 0, (0, 1), (-1,), (0, 2)):
        for keep in (False, True):
            f = lambda x: L.vector_norm(x, p, dim, keep)
            case(f"vector_norm {p} {dim} {keep}", lambda: with_grads(f, arr(2, 3, 4)) if p else f(arr(2, 3, 4)))
for p in ("fro", "nuc", 1, -1, 2, -2, inf, -inf, 3, "x"):
    for dim in ((-2, -1), (0, 2), (2, 0)):
        for keep in (False, True):
            f = lambda x: L.matrix_norm(x, p, dim, keep)
            case(f"matrix_norm {p} {dim} {keep}", lambda: with_grads(f, arr(2, 3, 4, dtype="float64")))
for p in (None, 2, 1, inf, "fro", "nuc"):
    for s in ((4,), (3, 4), (2, 3, 4)):
        for dim in (None, 0, (0, 1), -1):
            case(f"norm {p} {s} {dim}", lambda: L.norm(arr(*s), p, dim))
case("power 0", lambda: L.matrix_power(square(3, 3), 0))
case("norm dtype", lambda: L.norm(arr(4), dtype=T.float64))
case("norm int", lambda: L.norm(T.arange(4)))
case("vecdot", lambda: L.vecdot(arr(2, 3), arr(2, 3), dim=0))
case("diagonal", lambda: L.diagonal(arr(2, 3, 4), offset=1))
case("methods", lambda: [f(square(3, 3)) for f in (T.Tensor.inverse, T.Tensor.det, T.Tensor.pinverse)])
case("old", lambda: [T.inverse(square(2, 2)), T.det(square(2, 2)), T.matrix_power(square(2, 2), 2)])
for name in ("inv", "det", "slogdet", "cholesky", "eigh", "svd", "qr", "pinv"):
    f = getattr(L, name)
    case(f"{name} vector", lambda: f(arr(3)))
    if name != "pinv":
        case(f"{name} int", lambda: f(T.ones(2, 2, dtype=T.int64)))
        case(f"{name} half", lambda: f(T.ones(2, 2, dtype=T.float16)))
    if name not in ("svd", "qr", "pinv"):
        case(f"{name} tall", lambda: f(arr(3, 2)))
for name, f in (("inv", L.inv), ("solve", lambda a: L.solve(a, T.ones(2, 1))), ("cholesky", lambda a: L.cholesky(-a))):
    try:
        f(T.ones(2, 2))
    except RuntimeError:
        case(f"{name} singular", lambda: isinstance(error, RuntimeError))
case("solve dtypes", lambda: L.solve(square(2, 2), T.ones(2)))
case("solve shapes", lambda: L.solve(square(2, 2), arr(3, 2, dtype="float64")))
case("triangular vector", lambda: L.solve_triangular(square(3, 3), arr(3, dtype="float64"), upper=True))
case("triangular tall", lambda: L.solve_triangular(arr(3, 2), arr(2, 2), upper=True))
for left in (False, True):
    f = lambda a, b: L.solve_triangular(a, b, upper=True, left=left)
    case(f"triangular shapes {left}", lambda: f(square(3, 3), arr(2, 2, dtype="float64")))
    for s in ((2, 3, 3), (2, 1, 3, 3), (0, 3, 3), (2, 0, 0)):
        b = (*s[:-1], 2) if left else (2, s[-1])
        case(f"triangular {left} {s}", lambda: with_grads(f, square(*s), arr(*b, dtype="float64")))
for s in ((2, 0, 3), (2, 0, 0)):
    case(f"rank {s}", lambda: L.matrix_rank(T.ones(*s)))
    case(f"pinv {s}", lambda: L.pinv(T.ones(*s)))
