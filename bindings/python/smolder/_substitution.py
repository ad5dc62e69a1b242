"""Solutions with triangles of matrices by NumPy, which has products of matrices but no such solver."""

import numpy

_BLOCK = 32
_FEW = 96  # rows, which LAPACK has factored in less time than Python takes to go through them


def solve_triangle(a, b, upper, left, ones):
    """X with A X = B, or X A = B without left, where A is a triangle of the matrices.

    Args:
        a: (..., n, n), of a floating type; what is on the other side of the diagonal is not read.
        b: (..., n, m) with left, else (..., m, n), of the same leading dimensions and type.
        upper: which triangle A is.
        ones: its diagonal is all ones, and that of a is not read.

    A zero in the diagonal gives infinities and NaN, as BLAS's trsm does, and no error.
    """
    if not left:
        return solve_triangle(a.swapaxes(-2, -1), b.swapaxes(-2, -1), not upper, True, ones).swapaxes(-2, -1)
    n = a.shape[-1]
    if 0 < n <= _FEW and (found := _by_factors(a, b, upper, ones)) is not None:
        return found
    x = numpy.array(b, order="C")
    starts = range(0, n, _BLOCK)
    with numpy.errstate(all="ignore"):
        inverses = _inverses(a, upper, ones) if n > _BLOCK else None
        for start in reversed(starts) if upper else starts:
            here, known = slice(start, start + _BLOCK), slice(start + _BLOCK, n) if upper else slice(0, start)
            rows = x[..., here, :]
            rows -= a[..., here, known] @ x[..., known, :]
            if inverses is None:
                _substitute(a[..., here, here], rows, upper, ones)
            else:
                size = rows.shape[-2]
                rows[...] = inverses[..., start // _BLOCK, :size, :size] @ rows
    return x


def _by_factors(a, b, upper, ones):
    """X by LAPACK's solver of any systems: the factors of an upper triangle are the identity, whatever row is looked for
    as a pivot, and the triangle, so that what it does is substitution. A lower one is upper when it is read backwards.
    None where there is no pivot, or what is not finite would spread."""
    if not upper:
        a, b = a[..., ::-1, ::-1], b[..., ::-1, :]
    triangle = numpy.triu(a)
    if ones:
        diagonal = range(a.shape[-1])
        triangle[..., diagonal, diagonal] = 1
    if not numpy.isfinite(triangle).all():
        return None
    try:
        found = numpy.linalg.solve(triangle, b)
    except numpy.linalg.LinAlgError:
        return None
    return found if upper else found[..., ::-1, :]


def _substitute(a, x, upper, ones):
    """Solves in x, row by row."""
    n = a.shape[-1]
    for k in reversed(range(n)) if upper else range(n):
        known = slice(k + 1, n) if upper else slice(0, k)
        x[..., k, :] -= (a[..., k : k + 1, known] @ x[..., known, :])[..., 0, :]
        if not ones:
            x[..., k, :] /= a[..., k, k, None]


def _inverses(a, upper, ones):
    """(..., blocks, _BLOCK, _BLOCK), the inverses of the blocks of the diagonal, the last one filled up with ones; None
    where they are not finite, so that what they are multiplied with would not be substitution's."""
    n = a.shape[-1]
    blocks = -(-n // _BLOCK)
    diagonal = numpy.zeros((*a.shape[:-2], blocks, _BLOCK, _BLOCK), a.dtype)
    diagonal[...] = numpy.eye(_BLOCK, dtype=a.dtype)
    inverses = diagonal.copy()
    for number in range(blocks):
        block = slice(number * _BLOCK, min(n, (number + 1) * _BLOCK))
        size = block.stop - block.start
        diagonal[..., number, :size, :size] = a[..., block, block]
    _substitute(diagonal, inverses, upper, ones)
    return inverses if numpy.isfinite(inverses).all() else None
