"""Functions of several tensors that are no rows of the op table."""

from __future__ import annotations

import builtins
import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy

from smolder import _core
from smolder._autocast import listed
from smolder._call_errors import as_int, name_what_is_no_tensor
from smolder._device import placed
from smolder._out import category, takes_out
from smolder._tensor import Size
from smolder._typing import Device, DType, Number, Tensor

if TYPE_CHECKING:
    from typing_extensions import TypeIs

__all__ = [
    "allclose", "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
    "cartesian_prod", "combinations", "e", "einsum", "equal", "index_put", "index_reduce", "inf", "is_complex", "is_conj", "is_neg",
    "is_nonzero", "is_tensor", "meshgrid", "nan", "newaxis", "nonzero", "numel", "pi", "resolve_conj", "resolve_neg",
    "result_type", "scalar_tensor", "tensordot", "tril_indices", "triu_indices", "unique", "unique_consecutive",
]  # fmt: skip

e: float = math.e
inf: float = math.inf
nan: float = math.nan
pi: float = math.pi
newaxis: None = None

_FLOAT, _COMPLEX = 2, 3  # categories order bool < int < float < complex


def is_tensor(obj: object) -> TypeIs[Tensor]:
    """Whether obj is a tensor."""
    return isinstance(obj, _core.Tensor)


def numel(input: Tensor) -> int:
    """Number of elements."""
    return input.numel()


def equal(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape and elements; a Python bool."""
    for place, (name, given) in enumerate((("input", input), ("other", other)), 1):
        if not isinstance(given, _core.Tensor):
            raise TypeError(f"equal(): argument '{name}' (position {place}) must be Tensor, not {type(given).__name__}")
    if input.shape != other.shape:
        return False
    return builtins.bool(_core.all(_core.eq(input, other)).item())


def allclose(input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close; a Python bool."""
    return builtins.bool(_core.all(_core.isclose(input, other, rtol, atol, equal_nan)).item())


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """The shape that shapes broadcast to."""
    shapes = [(s,) if isinstance(s, builtins.int) else tuple(s) for s in shapes]
    rank = builtins.max((len(s) for s in shapes), default=0)
    out = [1] * rank
    for s in shapes:
        for i, n in enumerate(s, rank - len(s)):
            if n != 1 and out[i] not in (1, n):
                raise RuntimeError(
                    "Shape mismatch: objects cannot be broadcast to a single shape: " + ", ".join(map(str, shapes))
                )
            out[i] = n if out[i] == 1 else out[i]
    return Size(out)


def result_type(tensor: Tensor | Number, other: Tensor | Number) -> DType:
    """The dtype of an operation on two tensors or numbers: dimensions outrank zero-dim tensors, those numbers."""
    from smolder._creation import of_numbers

    defaults = of_numbers()
    ranked = []
    for x in (tensor, other):
        if isinstance(x, _core.Tensor):
            ranked.append((2 if x.dim() else 1, x.dtype))
        else:
            plain = x.item() if isinstance(x, numpy.generic) else x
            if type(plain) not in defaults:
                raise TypeError(
                    f"result_type(): argument 'tensor' must be Tensor or Number, not {type(x).__name__}: it takes two "
                    "tensors or numbers"
                )
            ranked.append((0, defaults[type(plain)]))
    (rank_a, type_a), (rank_b, type_b) = ranked
    if rank_a == rank_b:
        return _core.promote_types(type_a, type_b)
    strong, weak = (type_a, type_b) if rank_a > rank_b else (type_b, type_a)
    if category(weak) == _COMPLEX > category(strong):
        return strong.to_complex() if strong.is_floating_point else weak
    if category(weak) > category(strong):
        return weak
    return strong


def is_complex(input: Tensor) -> bool:
    """Whether a tensor's dtype is complex."""
    return input.dtype.is_complex


def is_conj(input: Tensor) -> bool:
    """False: conj() computes."""
    return False


def is_neg(input: Tensor) -> bool:
    """False: elements are as they are stored."""
    return False


def resolve_conj(input: Tensor) -> Tensor:
    """The tensor itself, which is_conj() never."""
    return input


def resolve_neg(input: Tensor) -> Tensor:
    """The tensor itself, which is_neg() never."""
    return input


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is nonzero."""
    return input.is_nonzero()


@placed
def scalar_tensor(s: Number, *, dtype: DType | None = None, device: Device = None) -> Tensor:
    """A number as a tensor without dimensions."""
    return _core.full((), s, dtype=dtype or _core._default_dtype())


# -- joining and spreading


def _given(tensors):
    """f(a, b) and f([a, b]) alike."""
    return list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], list | tuple) else list(tensors)


def broadcast_tensors(*tensors: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Tensors expanded to the shape that they broadcast to."""
    given = _given(tensors)
    shape = broadcast_shapes(*(t.shape for t in given))
    return tuple(t if t.shape == shape else t.expand(shape) for t in given)


def meshgrid(*tensors: Tensor | Sequence[Tensor], indexing: str | None = None) -> tuple[Tensor, ...]:
    """Grids of coordinates of vectors: grid k has tensor k along dimension k; with indexing "xy" 0 and 1 swap."""
    given = _given(tensors)
    if not given:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for t in given:
        if t.dim() > 1:
            raise RuntimeError(f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {t.dim()}D")
        if t.dtype != given[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
    shape = [t.numel() for t in given]
    grids = [t.reshape([-1 if j == i else 1 for j in range(len(given))]).expand(shape) for i, t in enumerate(given)]
    return tuple(g.transpose(0, 1) for g in grids) if indexing == "xy" and len(given) > 1 else tuple(grids)


def block_diag(*tensors: Tensor) -> Tensor:
    """A matrix with matrices along its diagonal; vectors are rows."""
    parts = [_core.atleast_2d(t) for t in tensors] or [_core.zeros((1, 0))]
    for i, t in enumerate(parts):
        if t.dim() > 2:
            raise RuntimeError(
                f"torch.block_diag: Input tensors must have 2 or fewer dimensions. Input {i} has {t.dim()} dimensions"
            )
    dtype = parts[0].dtype
    for t in parts[1:]:
        dtype = _core.promote_types(dtype, t.dtype)
    columns, at, rows = builtins.sum(t.size(1) for t in parts), 0, []
    for t in parts:
        low, high = (0, at), (0, columns - at - t.size(1))
        rows.append(_core.constant_pad(t.to(dtype), low, high))
        at += t.size(1)
    return _core.cat(rows, 0)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All tuples of elements of vectors, a row each, the last changing fastest."""
    for t in tensors:
        if not isinstance(t, _core.Tensor):
            raise TypeError(f"cartesian_prod(): argument 'tensors' must be tuple of Tensors, not {type(t).__name__}")
        if t.dim() != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(t.shape)}")
    if len(tensors) == 1:
        return tensors[0]
    return _core.stack([g.reshape(-1) for g in meshgrid(*tensors, indexing="ij")], 1)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Subsets of r elements of a vector, a row each, in the order of positions."""
    r = as_int("combinations", "r", r)
    if input.dim() != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    from smolder._creation import tensor

    rows = list(choose(range(input.numel()), r))
    if not rows or r == 0:
        return input.new_zeros((0, r)) if r else input.new_zeros(0)
    return input[tensor(rows, dtype=_core.int64)]


def _triangle(function, row, col, offset, upper, dtype):
    row, col, offset = (as_int(function, n, v) for n, v in (("row", row), ("col", col), ("offset", offset)))
    if row < 0 or col < 0:
        raise RuntimeError(f"{'row' if row < 0 else 'col'} must be non-negative, got {row if row < 0 else col}")
    # Row i has its first i + before columns in the lower triangle, or out of the upper one.
    before = offset if upper else offset + 1
    begin, end = (builtins.min(builtins.max(n, 0), row) for n in (-before, col - before))
    total = (begin + end - 1 + 2 * before) * (end - begin) // 2 + (row - end) * col
    total = row * col - total if upper else total
    place = _core.arange(builtins.min(total, 2**62))  # which says that there are too many
    ends = (_core.arange(row) + before).clamp(0, col)
    lengths = col - ends if upper else ends
    rows = _core.arange(row).repeat_interleave(lengths, output_size=total)
    starts = lengths.cumsum(0) - lengths - (ends if upper else 0)
    return _core.stack([rows, place - starts[rows]]).to(dtype or _core.int64)


@placed
def tril_indices(row: int, col: int, offset: int = 0, *, dtype: DType | None = None, device: Device = None) -> Tensor:
    """Positions of a lower triangle: a row of rows and one of columns."""
    return _triangle("tril_indices", row, col, offset, False, dtype)


@placed
def triu_indices(row: int, col: int, offset: int = 0, *, dtype: DType | None = None, device: Device = None) -> Tensor:
    """Positions of an upper triangle: a row of rows and one of columns."""
    return _triangle("triu_indices", row, col, offset, True, dtype)


# -- products


def einsum(equation: str, *operands: Tensor | Sequence[Tensor]) -> Tensor:
    """Sums of products as an equation says, such as "bij,bjk->bik"; or einsum(a, [0, 1], b, [1, 2], [0, 2])."""
    if isinstance(equation, _core.Tensor):
        return _einsum_of_lists((equation, *operands))
    given = _given(operands)
    if len(given) == 2 and given[0].dtype != given[1].dtype and _contracts_nothing(equation, given):
        dtype = _core.promote_types(given[0].dtype, given[1].dtype)
        given = [t.to(dtype) for t in given]
    return _core.einsum_of(equation, given)


def _contracts_nothing(equation, operands):
    """Whether no subscript that is summed is longer than 1 in both of two operands: torch multiplies these elementwise."""
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "..." in equation or not arrow or [len(t) for t in terms] != [t.dim() for t in operands]:
        return False
    long = [{s for s, n in zip(term, t.shape, strict=True) if n > 1} for term, t in zip(terms, operands, strict=True)]
    return not (long[0] & long[1]) - set(output)


def _einsum_of_lists(given):
    def text(labels):
        for at in labels:
            if at is not Ellipsis and not 0 <= at < 52:
                raise RuntimeError(f"einsum(): expected subscripts in [0, 52), got {at}")
        letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
        # Numbers order as upper case does before lower.
        letters = letters[26:] + letters[:26]
        return "".join("..." if at is Ellipsis else letters[at] for at in labels)

    pairs = len(given) // 2
    equation = ",".join(text(given[2 * i + 1]) for i in range(pairs))
    if len(given) % 2:
        equation += "->" + text(given[-1])
    return _core.einsum_of(equation, [given[2 * i] for i in range(pairs)])


@takes_out
def tensordot(a: Tensor, b: Tensor, dims: int | Sequence[Sequence[int]] = 2) -> Tensor:
    """Sums of products over the last dims dimensions of a and the first of b, or over two lists of them."""
    if isinstance(dims, _core.Tensor):
        dims = dims.tolist()
    if isinstance(dims, builtins.int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > builtins.min(a.dim(), b.dim()):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        dims = (range(a.dim() - dims, a.dim()), range(dims))
    of_a, of_b = ([d] if isinstance(d, builtins.int) else list(d) for d in dims)
    for i, j in zip(of_a, of_b, strict=False):  # a dimension of size 1 is as one of equal elements
        if -a.dim() <= i < a.dim() and -b.dim() <= j < b.dim() and a.size(i) != b.size(j):
            a = a.sum(i, True, dtype=a.dtype) if b.size(j) == 1 else a
            b = b.sum(j, True, dtype=b.dtype) if a.size(i) == 1 else b
    return _core.tensordot_dims(a, b, of_a, of_b)


def _each(function, tensors):
    """A tensor, or a tuple of several, which may come as one list."""
    if len(tensors) == 1 and is_tensor(tensors[0]):
        return function(tensors[0])
    listed_ = tensors[0] if len(tensors) == 1 else tensors
    return tuple(function(x) for x in listed_)


def atleast_1d(*tensors: Tensor) -> Any:
    """Tensors, with one dimension where they have none."""
    return _each(_core.atleast_1d, tensors)


def atleast_2d(*tensors: Tensor) -> Any:
    """Tensors with two dimensions at least; a vector is a row."""
    return _each(_core.atleast_2d, tensors)


def atleast_3d(*tensors: Tensor) -> Any:
    """Tensors with three dimensions at least."""
    return _each(_core.atleast_3d, tensors)


# -- what depends on data


@takes_out
def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Positions of elements that are not zero: a row each, or a vector for each dimension."""
    if not as_tuple:
        return _core._nonzero(input)
    return _core._nonzero(input.reshape(1) if input.dim() == 0 else input).unbind(1)


def _unique(input, in_order, return_inverse, return_counts, dim):
    out, inverse, counts = _core.unique_of(input, in_order) if dim is None else _core.unique_rows(input, dim, in_order)
    chosen = (out, *([inverse] if return_inverse else []), *([counts] if return_counts else []))
    return chosen if len(chosen) > 1 else out


def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """Different elements, in order always, or slices along dim; which of them each is, and how often they occur."""
    return _unique(input, True, return_inverse, return_counts, dim)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """Elements without those that equal the one before."""
    return _unique(input, False, return_inverse, return_counts, dim)


# -- writes at indices


@listed("index_put")
def index_put(input: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of input with values at a tuple of index tensors, or added there."""
    return input.clone().index_put_(indices, values, accumulate)


def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """Slices of source reduced (prod, mean, amax or amin) into those of dim of input that the vector index names,
    these counted or not."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}.")
    if index.dtype not in (_core.int32, _core.int64):
        raise RuntimeError(f"index_reduce_(): Expected dtype int32/int64 for index but got: {index.dtype}")
    if index.dim() > 1:
        raise RuntimeError(f"index_reduce_(): Index should have dimension 1 or 0 (got {index.dim()})")
    if source.dtype != input.dtype:
        raise RuntimeError(
            f"index_reduce_(): self and source expected to have the same dtype, but got (self) {input.dtype} and (source) "
            f"{source.dtype}"
        )
    rank = builtins.max(source.dim(), 1)
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    if index.numel() != (source.size(dim) if source.dim() else 1):
        raise RuntimeError(
            f"index_reduce_(): Number of indices ({index.numel()}) should be equal to source.size(dim) "
            f"({source.size(dim) if source.dim() else 1}), for dim: {dim}"
        )
    along = [1] * source.dim()
    if along:
        along[dim] = -1
    where = index.reshape(along).expand(source.shape)
    return input.scatter_reduce(dim, where, source, reduce, include_self=include_self)


name_what_is_no_tensor(globals())
