"""The base of linear algebra: factors and solutions, by cuSOLVER and cuBLAS where matrices are on CUDA, by loops of our own
where they are small, else by LAPACK, which NumPy brings. Reading the matrices ends the step; whether a device found factors
is waited for."""

import numpy

from smolder import _blas_threads, _core
from smolder._batches import with_leading_batches
from smolder._creation import arange, eye, zeros
from smolder._substitution import solve_triangle


class LinAlgError(RuntimeError):
    """A matrix that has no such factors."""


LinAlgError.__module__ = "smolder.linalg"


def _by_solver(a):
    """Whether cuSOLVER takes the matrices. Those without elements it does not know."""
    if not a.is_cuda or a.numel() == 0:
        return False
    if a.dtype.is_complex:
        _core.tell_fallback("smolder.linalg on CUDA", "complex matrices go through the host")
        return False
    missing = _core._cusolver_missing()
    if missing:
        _core.tell_fallback("smolder.linalg on CUDA", f"it goes through the host, as there is no cuSOLVER: {missing}")
    return not missing


def _arrays(function, *operands):
    """Tensors with what a function of NumPy makes of arrays. Elements are copied both ways, which takes less time than
    to share memory with arrays of NumPy's: a matrix has few elements for the work that is done with it."""
    out = _blas_threads.call(function, [a._to_numpy() for a in operands])
    made = [_core.from_numpy_copy(numpy.asarray(x, order="C")) for x in (out if isinstance(out, tuple) else (out,))]
    return made if operands[0]._on_cpu else [x.to(operands[0].device) for x in made]


def _small(function, a, *arguments):
    """The result of a function of the binding for small matrices on the CPU; None where LAPACK is to be asked."""
    return function(a, *arguments) if a._on_cpu else None


def _t(a):
    return a.transpose(-2, -1)


def _check(info, a, name, text):
    """Raises where `info` of a matrix is not 0: `text` of it, after the name and the matrix's number."""
    codes = info.cpu().numpy()
    if not codes.any():
        return
    first = int(numpy.flatnonzero(codes)[0])
    which = f"(Batch element {first}): " if a.dim() > 2 else ""
    raise LinAlgError(f"{name}: {which}{text(int(codes[first]))}")


_SINGULAR = (
    "The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular."
)
_NOT_POSITIVE = (
    "The factorization could not be completed because the input is not positive-definite (the leading minor of order {} "
    "is not positive-definite)."
)


def _host(name, text, function, *operands, fault=None):
    try:
        return _arrays(function, *operands)
    except numpy.linalg.LinAlgError:
        which, place = _first_fault(operands[0], fault) if fault else ("", "?")
        raise LinAlgError(f"{name}: {which}{text.format(place)}") from None


def _first_fault(a, fault):
    """The first of the matrices that has a fault, in words, and where in it."""
    matrices = a.detach()._to_numpy().reshape((-1, *a.shape[-2:]))
    for number, matrix in enumerate(matrices):
        place = fault(matrix)
        if place:
            return f"(Batch element {number}): " if a.dim() > 2 else "", place
    return "", "?"


def _zero_pivot(matrix):
    """The number, from 1 on, of the first zero in the diagonal of U; 0 for none."""
    u = numpy.array(matrix)
    for k in range(len(u)):
        best = k + numpy.abs(u[k:, k]).argmax()
        if u[best, k] == 0:
            return k + 1
        u[[k, best]] = u[[best, k]]
        u[k + 1 :] -= numpy.outer(u[k + 1 :, k] / u[k, k], u[k])
    return 0


def _minor_not_positive(matrix):
    """The order of the first leading minor that has no Cholesky factor; 0 for none."""
    for order in range(1, len(matrix) + 1):
        try:
            numpy.linalg.cholesky(matrix[:order, :order])
        except numpy.linalg.LinAlgError:
            return order
    return 0


@with_leading_batches
def inverse(a):
    """Inverses of matrices."""
    if (found := _small(_core._small_inverse, a)) is not None:
        return found
    if not _by_solver(a):
        return _host("linalg.inv", _SINGULAR, numpy.linalg.inv, a, fault=_zero_pivot)[0]
    # Rows of the identity are solved for with the transposed matrices: rows of the inverse.
    rows = eye(a.size(-1), dtype=a.dtype, device=a.device).expand(a.shape)
    out, info = _core._cuda_solve(a, rows, True)
    _check(info, a, "linalg.inv", _SINGULAR.format)
    return out


@with_leading_batches
def solution(a, b):
    """X with A X = B, of the same leading dimensions."""
    if (found := _small(_core._small_solution, a, b)) is not None:
        return found
    text = "The solver failed because the input matrix is singular."
    if not _by_solver(a) or b.numel() == 0:
        return _host("linalg.solve", text, numpy.linalg.solve, a, b)[0]
    rows, info = _core._cuda_solve(a, _t(b), False)
    _check(info, a, "linalg.solve", lambda _: text)
    return _t(rows)


@with_leading_batches
def triangular_solution(a, b, upper, left, ones):
    """X with A X = B, or X A = B without left, where A is a triangle of the matrices; `ones`: its diagonal."""
    if (found := _small(_core._small_triangular_solution, a, b, upper, left, ones)) is not None:
        return found
    if _by_solver(a) and b.numel():
        return _core._cuda_solve_triangular(a, b, upper, left, ones)
    return _arrays(lambda a, b: solve_triangle(a, b, upper, left, ones), a, b)[0]


@with_leading_batches
def log_determinant(a):
    """Signs, and logarithms of magnitudes, of determinants."""
    if not _by_solver(a):
        return _arrays(_without_warnings(lambda m: tuple(numpy.linalg.slogdet(m))), a)
    diagonal, sign = _lu_diagonal(a)
    return sign * diagonal.sign().prod(-1), diagonal.abs().log().sum(-1)


def _without_warnings(function):
    """The function of NumPy without warnings of results that are not finite: others give none."""

    def call(m):
        with numpy.errstate(all="ignore"):
            return function(m)

    return call


def _lu_diagonal(a):
    """The diagonal of U, and the sign of the permutation."""
    factors, pivots = _core._cuda_lu(a)
    exchanged = pivots != arange(1, a.size(-1) + 1, dtype=pivots.dtype, device=a.device)
    return _core.diagonal(factors, 0, -2, -1), 1 - 2 * (exchanged.sum(-1) % 2).to(a.dtype)


@with_leading_batches
def determinant(a):
    """Determinants of matrices."""
    if not _by_solver(a):
        return _arrays(_without_warnings(numpy.linalg.det), a)[0]
    diagonal, sign = _lu_diagonal(a)
    return sign * diagonal.prod(-1)


@with_leading_batches
def cholesky(a):
    """Lower triangles L with A = L L^T."""
    if (found := _small(_core._small_cholesky, a)) is not None:
        return found
    if not _by_solver(a):
        return _host("linalg.cholesky", _NOT_POSITIVE, numpy.linalg.cholesky, a, fault=_minor_not_positive)[0]
    factors, info = _core._cuda_cholesky(_t(a))
    _check(info, a, "linalg.cholesky", _NOT_POSITIVE.format)
    return _core.tril(_t(factors))


@with_leading_batches
def qr(a, mode):
    """Q and R; R alone where the mode is r."""
    if not _by_solver(a):
        return _arrays(lambda m: numpy.linalg.qr(m, mode) if mode == "r" else tuple(numpy.linalg.qr(m, mode)), a)
    rows, columns = a.shape[-2:]
    factors, tau = _core._cuda_qr(_t(a))
    count = rows if mode == "complete" else min(rows, columns)
    r = _core.triu(_t(factors).narrow(-2, 0, min(rows, columns)))
    if count > columns:
        r = _core.cat([r, zeros((*a.shape[:-2], count - columns, columns), dtype=a.dtype, device=a.device)], -2)
    if mode == "r":
        return (r,)
    if a.dim() == 2:
        return _t(_core._cuda_orthogonal_rows(factors, tau, count)), r
    return _product_of_reflectors(factors, tau, count), r  # the library would make one Q after the other


def _product_of_reflectors(factors, tau, count):
    """The first columns of Q = I - V T V^T, where V has the reflectors, and T is the inverse of the upper triangle of
    V^T V with 1 / tau, half of what is there, in the diagonal. A reflector whose tau is 0 is none."""
    k, rows = tau.size(-1), factors.size(-1)
    like = {"dtype": tau.dtype, "device": tau.device}
    is_one = (tau != 0).unsqueeze(-1)
    reflectors = (_core.triu(factors.narrow(-2, 0, k), 1) + eye(k, rows, **like)) * is_one
    inner = _core._cuda_product(reflectors, False, reflectors, True)
    diagonal = _core.where(is_one, 1 / _core.where(is_one, tau.unsqueeze(-1), 1.0), 1.0)
    inner = _core.where(eye(k, **like) == 1, diagonal, inner)
    right = _core._cuda_solve_triangular(inner, reflectors.narrow(-1, 0, count), True, True, False)
    return eye(rows, count, **like) - _core._cuda_product(reflectors, True, right, False)


@with_leading_batches
def eig(a, vectors=True):
    """Eigenvalues and eigenvectors, which are complex, on the host."""
    if not a._on_cpu:
        _core.tell_fallback(
            "smolder.linalg on CUDA", "eigenvalues of matrices that are not symmetric are found on the host"
        )
    kind = numpy.complex128 if a.dtype.to_real() == _core.float64 else numpy.complex64

    def found(m):
        if not numpy.isfinite(m).all():
            raise LinAlgError("linalg.eig: input tensor should not contain infs or NaNs.")
        made = numpy.linalg.eig(m) if vectors else (numpy.linalg.eigvals(m),)
        return tuple(x.astype(kind) for x in made)

    out = _arrays(found, a)
    return tuple(out) if vectors else (*out, None)


def _not_converged(what):
    return (
        "The algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
        f"{what}values (error code: {{}})."
    ).format


@with_leading_batches
def eigh(a, lower, vectors=True):
    """Eigenvalues, ascending, and eigenvectors of symmetric matrices, of which one triangle is read."""
    if not _by_solver(a):
        triangle = "L" if lower else "U"
        if not vectors:
            return *_arrays(lambda m: numpy.linalg.eigvalsh(m, triangle), a), None
        return _arrays(lambda m: tuple(numpy.linalg.eigh(m, triangle)), a)
    values, rows, info = _core._cuda_eigh(a, lower, vectors)
    _check(info, a, "linalg.eigh", _not_converged("eigen"))
    return values, _t(rows) if vectors else None


@with_leading_batches
def svd(a, full, driver=None, vectors=True):
    """U, S and V^T. `driver`: gesvd or gesvdj; None: the latter, and the former where that does not converge."""
    if not _by_solver(a):
        if not vectors:
            return None, *_arrays(lambda m: numpy.linalg.svd(m, compute_uv=False), a), None
        return _arrays(lambda m: tuple(numpy.linalg.svd(m, full)), a)
    u, s, vh, info = (_svd_by_qr if driver == "gesvd" else _svd_by_jacobi)(a, full, vectors)
    if driver is None and info.any().item():
        u, s, vh, info = _svd_by_qr(a, full, vectors)
    _check(info, a, "linalg.svd", _not_converged("singular "))
    if not vectors:
        return None, s, None
    if not full:
        u, vh = u.narrow(-1, 0, s.size(-1)), vh.narrow(-2, 0, s.size(-1))
    return u, s, vh


def _svd_by_jacobi(a, full, vectors):
    left, s, right, info = _core._cuda_svd(a, full, vectors, True)
    return _t(left), s, right, info


def _svd_by_qr(a, full, vectors):
    wide = a.size(-2) <= a.size(-1)
    left, s, right, info = _core._cuda_svd(a if wide else _t(a), full, vectors, False)
    return (left, s, right, info) if wide else (_t(right), s, _t(left), info)
