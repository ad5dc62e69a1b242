"""Functions that torch has besides its ops: forms of what tensors do, and of other functions, under further names."""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Sequence
from typing import Any

from smolder import _core
from smolder._call_errors import as_int, name_what_is_no_tensor
from smolder._creation import arange, empty
from smolder._device import placed
from smolder._functions import triu_indices
from smolder._out import category
from smolder._pieces import pieces
from smolder._tensor import Tensor
from smolder._typing import Device, DType, Number, T
from smolder._warn import warn

__all__ = [
    "as_strided_scatter", "can_cast", "chain_matmul", "constant_pad_nd", "detach", "diagonal_scatter", "dsplit",
    "empty_permuted", "empty_strided", "fill", "frobenius_norm", "get_device", "i0", "igamma", "igammac",
    "is_same_size", "is_signed", "mvlgamma", "narrow_copy", "nuclear_norm", "pdist", "range", "rsub", "sym_float",
    "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "unravel_index",
]  # fmt: skip


def _method(function: T) -> T:
    setattr(Tensor, function.__name__, function)
    return function


def detach(input: Tensor) -> Tensor:
    """The tensor outside of the graph of gradients; shares its memory."""
    return input.detach()


def get_device(input: Tensor) -> int:
    """The index of the tensor's device; -1 on the CPU."""
    return input.get_device()


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have the same shape."""
    return input.is_same_size(other)


def is_signed(input: Tensor) -> bool:
    """Whether elements may be negative."""
    return input.is_signed()


def rsub(input: Tensor, other: Number | Tensor, *, alpha: Number = 1) -> Tensor:
    """other - alpha * input."""
    if alpha == 1 and not isinstance(alpha, bool):
        return _core.rsub(input, other)
    if isinstance(other, _core.Tensor):
        return _core.sub(other, input, alpha=alpha)
    if isinstance(alpha, bool) and input.dtype != _core.bool:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, float) and not (input.is_floating_point() or input.is_complex()):
        raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    return _core.rsub(input * alpha, other)


def fill(input: Tensor, value: Number | Tensor) -> Tensor:
    """A tensor of the shape and dtype of input, with one value everywhere."""
    return input.clone().fill_(value)


@_method
def i0(input: Tensor) -> Tensor:
    """special.i0."""
    from smolder.special import i0

    return i0(input)


@_method
def igamma(input: Tensor, other: Tensor) -> Tensor:
    """special.gammainc."""
    from smolder.special import gammainc

    return gammainc(input, other)


@_method
def igammac(input: Tensor, other: Tensor) -> Tensor:
    """special.gammaincc."""
    from smolder.special import gammaincc

    return gammaincc(input, other)


@_method
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """special.multigammaln."""
    from smolder.special import multigammaln

    return multigammaln(input, p)


@_method
def polygamma(self: Tensor, n: int) -> Tensor:
    """special.polygamma, with the tensor first."""
    return _core.polygamma(n, self)


def can_cast(from_: DType, to: DType) -> bool:
    """Whether results of one dtype may be written into another: not complex numbers into floats, floats into integers, or
    any of them into bools.
    """
    return category(from_) <= category(to)


def range(
    start: Number,
    end: Number | None = None,
    step: Number = 1,
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from start to end, which is one of them. torch's arange stops before the end, and is meant to be used."""
    warn(
        "torch.range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use torch.arange, which produces values in [start, end).",
        UserWarning,
    )
    start, end = (0, start) if end is None else (start, end)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = math.floor((end - start) / step) + 1
    out = (arange(count, device=device).double() * step + start).to(dtype or _core._default_dtype())
    return out.requires_grad_() if requires_grad else out


@placed
def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor of the strides that are given. Its elements are 0."""
    size, stride = (tuple(as_int("empty_strided", n, i) for i in v) for n, v in (("size", size), ("stride", stride)))
    if len(size) != len(stride):
        raise RuntimeError(
            f"dimensionality of sizes ({len(size)}) must match dimensionality of strides ({len(stride)})"
        )
    used = 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if math.prod(size) else 0
    out = empty(used, dtype=dtype, device=device).as_strided(size, stride)
    return out.requires_grad_() if requires_grad else out


@_method
def new_empty_strided(
    self: Tensor, size: Sequence[int], stride: Sequence[int], *, dtype: DType | None = None, device: Device = None
) -> Tensor:
    """empty_strided, of this tensor's dtype and device."""
    return empty_strided(size, stride, dtype=dtype or self.dtype, device=self.device if device is None else device)


def empty_permuted(
    size: Sequence[int],
    physical_layout: Sequence[int],
    *,
    dtype: DType | None = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """A dense tensor whose dimensions lie in memory in the order that is given. Its elements are 0."""
    if sorted(physical_layout) != list(builtins.range(len(size))):
        raise RuntimeError(f"Number of dimensions in size and physical_layout do not match: {list(physical_layout)}")
    out = empty(tuple(size[d] for d in physical_layout), dtype=dtype, device=device)
    out = out.permute([list(physical_layout).index(d) for d in builtins.range(len(size))])
    return out.requires_grad_() if requires_grad else out


@_method
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy of input with src on a diagonal."""
    out = input.clone()
    place = out.diagonal(offset, dim1, dim2)
    if place.shape != src.shape:
        raise RuntimeError(f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
                           f"slice size = {list(place.shape)}")  # fmt: skip
    place.copy_(src)
    return out


@_method
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A contiguous copy of input with src where as_strided sees it."""
    out = input.clone().contiguous()
    out.as_strided(tuple(size), tuple(stride), storage_offset).copy_(src)
    return out


@_method
def dsplit(input: Tensor, indices_or_sections: int | Sequence[int]) -> tuple[Tensor, ...]:
    """Splits along the third dimension: into so many equal parts, or at indices."""
    indices_or_sections = pieces(indices_or_sections)
    if isinstance(indices_or_sections, bool):
        raise TypeError("dsplit(): argument 'indices_or_sections' must be int or tuple of ints, not bool")
    if input.dim() < 3:
        raise RuntimeError(
            f"torch.dsplit requires a tensor with at least 3 dimension, but got a tensor with {input.dim()} dimensions!"
        )
    if isinstance(indices_or_sections, int) and input.size(2) % indices_or_sections:
        raise RuntimeError(
            f"torch.dsplit attempted to split along dimension 2, but the size of the dimension {input.size(2)} is not "
            f"divisible by the split_size {indices_or_sections}!"
        )
    return input.tensor_split(indices_or_sections, 2)


@_method
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """narrow, as a copy."""
    return input.narrow(dim, start, length).clone()


def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    """nn.functional.pad with a constant."""
    return _core.pad(input, list(pad), "constant", value)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices, in the order that costs least. linalg.multi_dot is meant to be used."""
    from smolder.linalg import multi_dot

    warn(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use torch.linalg.multi_dot "
        "instead, which accepts a list of two or more tensors rather than multiple parameters.",
        UserWarning,
    )
    if len(matrices) == 1 and not isinstance(matrices[0], Tensor):
        matrices = tuple(matrices[0])
    return matrices[0] if len(matrices) == 1 else multi_dot(list(matrices))


def frobenius_norm(input: Tensor, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """The root of the sum of squares along dimensions."""
    from smolder.linalg import vector_norm

    dims = [dim] if isinstance(dim, int) else [operator.index(d) for d in dim]
    return vector_norm(input, 2, dims, keepdim)


def nuclear_norm(input: Tensor, dim: Sequence[int] | bool = (-2, -1), keepdim: bool = False) -> Tensor:
    """The sums of singular values of matrices; a bool in the place of dim is keepdim."""
    from smolder.linalg import matrix_norm

    dims, kept = ((-2, -1), dim) if isinstance(dim, bool) else (tuple(dim), keepdim)
    return matrix_norm(input, "nuc", dims, kept)


def pdist(input: Tensor, p: float = 2) -> Tensor:
    """The distances between rows: each pair once, in the order of the upper triangle."""
    from smolder.linalg import vector_norm

    if input.dim() != 2:
        raise RuntimeError(f"pdist only supports 2D tensors, got: {input.dim()}D")
    if not p >= 0:
        raise RuntimeError("pdist only supports non-negative p values")
    first, second = triu_indices(input.size(0), input.size(0), 1, device=input.device)
    apart = input[first] - input[second]
    return vector_norm(apart, p, [1])


def unravel_index(indices: Tensor, shape: int | Sequence[int]) -> tuple[Tensor, ...]:
    """The coordinates, in a tensor of a shape, of indices into its elements."""
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype == _core.bool:
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = [shape] if isinstance(shape, int) else list(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    places, left = [], indices
    for n in reversed(sizes):
        places.append(left % n)
        left = left // n
    return tuple(reversed(places))


def sym_int(a: Any) -> int:
    """A size as an integer: sizes are numbers here."""
    return int(a)


def sym_float(a: Any) -> float:
    """A size as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """The negation of a condition on sizes."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The larger of two sizes."""
    return max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller of two sizes."""
    return min(a, b)


def sym_ite(b: bool, t: T, f: T) -> T:
    """One of two values, as a condition on sizes says."""
    return t if b else f


name_what_is_no_tensor(globals())
