"""Products of sparse matrices: rows of the other factor, times values, added up in the order of the values.

Each is an index_select, a product and an index_add, which are recorded as any ops: they fuse, and their gradients are
those of the values and of the other factor.
"""

from __future__ import annotations

from smolder import _core
from smolder._creation import arange
from smolder._layouts import sparse_csr
from smolder._sparse import _parts
from smolder._sparse._dispatch import rule
from smolder._sparse._parts import COO, CSR, coalesced, is_sparse, kind, made, missing, scattered, values_of
from smolder._typing import Tensor


def _check(name, a, b):
    for i, x in enumerate((a, b)):
        if x.dim() != 2:
            raise RuntimeError(f"{name}: Expected dim 2 for argument {i + 1}, got {x.dim()}: matrices expected")
        if is_sparse(x) and _parts.values_of(x).dim() != 1:
            raise RuntimeError(f"{name}: expected a sparse matrix without dense dimensions, got {_shapes(x)}")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and {b.shape[0]}x{b.shape[1]})"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(f"{name}: expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}")


def _shapes(x):
    return f"one of shape {list(x.shape)} with values of shape {list(values_of(x).shape)}"


@rule("mm", "spmm")
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices: sparse where both are."""
    _check("mm", input, mat2)
    if is_sparse(input) and is_sparse(mat2):
        return _sparse_product(input, mat2)
    if is_sparse(input):
        rows, columns = _parts.coordinates(input).unbind(0)
        picked = mat2.index_select(0, columns) * values_of(input).unsqueeze(1)
        return scattered(input.shape[0], rows, picked)
    rows, columns = _parts.coordinates(mat2).unbind(0)
    picked = input.t().index_select(0, rows) * values_of(mat2).unsqueeze(1)
    return scattered(mat2.shape[1], columns, picked).t()


def _sparse_product(a, b):
    """Each value of a with each in the row of b that it meets: sparse, and its shape depends on the places."""
    wanted = kind(a)
    if kind(b) != wanted:
        raise RuntimeError(f"mm: expected factors of one layout, got {a.layout!r} and {b.layout!r}")
    a, b = coalesced(_parts.to_coo(a)), _parts.to_compressed(b, CSR)
    rows, middle = a._indices().unbind(0)
    begins, columns = _parts.indices_of(b)
    first = begins.index_select(0, middle)
    met = begins.index_select(0, middle + 1) - first
    ends = met.cumsum(0)
    pairs = int(ends[-1]) if ends.shape[0] else 0
    number = arange(pairs, device=rows.device)
    left = _core.searchsorted(ends, number, right=True)
    right = (first - ends + met).index_select(0, left) + number
    values = values_of(a).index_select(0, left) * values_of(b).index_select(0, right)
    places = _core.stack([rows.index_select(0, left), columns.index_select(0, right)])
    out = coalesced(made(values, [places], (a.shape[0], b.shape[1])))
    return out if wanted == COO else _parts.to_compressed(out, wanted)


@rule()
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """A sparse matrix times a vector."""
    if not is_sparse(input) or is_sparse(vec):
        raise missing("mv", input, vec)
    if input.dim() != 2 or vec.dim() != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {input.dim()}, {vec.dim()}")
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError(f"mv: expected self.size(-1) == vec.size(-1), got {list(input.shape)} and {list(vec.shape)}")
    return mm(input, vec.unsqueeze(1)).squeeze(1)


@rule()
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of matrices, of a sparse batch in coordinates and a strided one."""
    if not is_sparse(input) or is_sparse(mat2) or kind(input) != COO:
        raise missing("bmm", input, mat2)
    if input.dim() != 3 or mat2.dim() != 3 or _parts.sparse_dims(input) != 3:
        raise RuntimeError(f"bmm: expected 3 dimensions, all sparse, got {_shapes(input)} and {list(mat2.shape)}")
    batch, n, m = input.shape
    if mat2.shape[0] != batch or mat2.shape[1] != m:
        raise RuntimeError(f"bmm: shapes {list(input.shape)} and {list(mat2.shape)} do not match")
    which, row, column = input._indices().unbind(0)
    picked = mat2.reshape(batch * m, mat2.shape[2]).index_select(0, which * m + column)
    out = scattered(batch * n, which * n + row, picked * values_of(input).unsqueeze(1))
    return out.reshape(batch, n, mat2.shape[2])


@rule()
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """mm, mv or bmm, by the dimensions."""
    dims = input.dim(), other.dim()
    if dims == (2, 2):
        return mm(input, other)
    if dims == (2, 1):
        return mv(input, other)
    if dims == (1, 2) and not is_sparse(input):
        return mm(input.unsqueeze(0), other).squeeze(0)
    if dims == (3, 3):
        return bmm(input, other)
    if max(dims) > 2:
        raise RuntimeError(f"matmul: expand is unsupported for Sparse tensors, got {dims[0]} and {dims[1]} dimensions")
    raise missing("matmul", input, other)


@rule()
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2)."""
    product = mm(mat1, mat2)
    product = product if alpha == 1 else product * alpha
    if is_sparse(input) and not is_sparse(product):
        raise RuntimeError("expand is unsupported for Sparse tensors")
    if beta == 0:
        return product if is_sparse(product) else product.expand(product.shape)
    return (input if beta == 1 else input * beta) + product


@rule()
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat @ vec)."""
    product = mv(mat, vec)
    product = product if alpha == 1 else product * alpha
    return product if beta == 0 else (input if beta == 1 else input * beta) + product


@rule()
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """input @ weight.T + bias, of matrices."""
    if input.dim() != 2 or weight.dim() != 2 or (bias is not None and is_sparse(bias)):
        raise missing("linear", input, weight, bias)
    out = mm(input, weight.t())
    if bias is None:
        return out
    if is_sparse(out):
        raise missing("linear", input, weight)
    return out + bias


_REDUCED = {"sum": "sum", "mean": "mean", "amax": "amax", "amin": "amin"}


def reduced_product(a: Tensor, b: Tensor, reduce: str) -> Tensor:
    """As mm of a CSR matrix and a strided one; sums of a row's products are means or extremes of them instead."""
    if reduce not in _REDUCED:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if not is_sparse(a) or a.layout is not sparse_csr or is_sparse(b):
        raise missing("_sparse_mm_reduce_impl", a, b)
    _check("sparse.mm", a, b)
    rows, columns = _parts.coordinates(a).unbind(0)
    picked = b.index_select(0, columns) * values_of(a).unsqueeze(1)
    if reduce == "sum":
        return scattered(a.shape[0], rows, picked)
    out = picked.new_zeros((a.shape[0], b.shape[1]))
    if reduce == "mean":
        begins = _parts.indices_of(a)[0]
        counts = (begins[1:] - begins[:-1]).clamp(min=1).unsqueeze(1)
        return out.index_add(0, rows, picked) / counts.to(out.dtype)
    return out.scatter_reduce(0, rows.unsqueeze(1).expand(picked.shape), picked, reduce, include_self=False)


def sampled_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2) at the places of a CSR matrix: each is one product of a row and a column."""
    if not is_sparse(input) or input.layout is not sparse_csr:
        raise RuntimeError(f"sampled_addmm: Expected self to be Sparse CSR tensor, but got {input.layout!r}")
    for name, x in (("mat1", mat1), ("mat2", mat2)):
        if is_sparse(x):
            raise RuntimeError(f"sampled_addmm: Expected {name} to have Strided layout, but got {x.layout!r}")
    _check("sampled_addmm", mat1, mat2)
    if (mat1.shape[0], mat2.shape[1]) != tuple(input.shape):
        raise RuntimeError(
            f"sampled_addmm: self and the product have shapes {list(input.shape)} and "
            f"{[mat1.shape[0], mat2.shape[1]]}, which must be the same"
        )
    rows, columns = _parts.coordinates(input).unbind(0)
    products = (mat1.index_select(0, rows) * mat2.t().index_select(0, columns)).sum(1)
    values = products if alpha == 1 else products * alpha
    return _parts.like(input, values if beta == 0 else values + values_of(input) * beta)
