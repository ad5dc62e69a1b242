"""Functions along a dimension that are made of rows of the op table: scans, differences, what is most frequent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from smolder import _core
from smolder._autocast import listed
from smolder._call_errors import as_int, name_what_is_no_tensor
from smolder._creation import arange, linspace, ones_like, zeros
from smolder._out import takes_out
from smolder._tensor import Tensor
from smolder._typing import Number, T

__all__ = ["cumulative_trapezoid", "gradient", "histogram", "logcumsumexp", "mode", "renorm"]


def _method(function: T) -> T:
    setattr(Tensor, function.__name__, function)
    return function


def _place(dim, ndim):
    rank = max(ndim, 1)
    if not -rank <= dim < rank:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-rank}, {rank - 1}], but got {dim})")
    return dim % rank


@takes_out
@listed("logcumsumexp")
def logcumsumexp(input: Tensor, dim: int) -> Tensor:
    """The logarithms of cumulative sums of exponentials. Sums of ever more elements are made in pairs, none of which
    overflows: a small element keeps its digits however large a later one is.
    """
    at = _place(as_int("logcumsumexp", "dim", dim), input.dim())
    out, step, n = input, 1, input.size(at) if input.dim() else 1
    while step < n:
        both = _core.logaddexp(out.narrow(at, 0, n - step), out.narrow(at, step, n - step))
        out = _core.cat([out.narrow(at, 0, step), both], at)
        step *= 2
    return out.clone() if out is input else out


Tensor.logcumsumexp = logcumsumexp.__wrapped__  # methods have no out=


@takes_out
def mode(input: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent values along a dimension, the smallest of several, and the last places that have them."""
    from smolder.return_types import mode

    _place(as_int("mode", "dim", dim), input.dim())
    if input.dim() == 0:
        return mode(input.clone(), zeros((), dtype=_core.int64, device=input.device))
    at = _place(dim, input.dim())
    if input.size(at) == 0:
        raise IndexError(f"mode(): Expected reduction dim {dim} to have non-zero size.")
    values, indices = input.sort(dim=at, stable=True)
    n = input.size(at)
    place = arange(n, device=input.device).reshape([-1 if i == at else 1 for i in range(input.dim())])
    place = place.expand(input.shape)
    new = values.detach().narrow(at, 1, n - 1) != values.detach().narrow(at, 0, n - 1)
    start = _core.cat([place.narrow(at, 0, 1), _core.where(new, place.narrow(at, 1, n - 1), 0)], at).cummax(at)[0]
    last = (place - start).argmax(at, keepdim=True)
    values, indices = values.gather(at, last), indices.gather(at, last)
    return mode(*((values, indices) if keepdim else (values.squeeze(at), indices.squeeze(at))))


Tensor.mode = mode.__wrapped__


@takes_out
def renorm(input: Tensor, p: Number, dim: int, maxnorm: Number) -> Tensor:
    """Scales each slice along dim whose p-norm is above maxnorm down to it."""
    from smolder.linalg import vector_norm

    dim = as_int("renorm", "dim", dim)
    p, maxnorm = float(p), float(maxnorm)
    if not p > 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if not maxnorm >= 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.dim() < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.dim()} dimensions")
    at = _place(dim, input.dim())
    others = [i for i in range(input.dim()) if i != at]
    norms = vector_norm(input, p, others, True)
    return input * _core.where(norms > maxnorm, maxnorm / (norms + 1e-7), ones_like(norms))


Tensor.renorm = renorm.__wrapped__


@_method
def renorm_(self: Tensor, p: Number, dim: int, maxnorm: Number) -> Tensor:
    """renorm, written into self."""
    return self.copy_(renorm(self, p, dim, maxnorm))


def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Number | None = None, dim: int = -1) -> Tensor:
    """Integrals by trapezoids up to each sample but the first: of samples at x, or dx from each other."""
    if x is not None and dx is not None:
        raise TypeError("cumulative_trapezoid() takes x or dx, not both")
    at = _place(dim, y.dim())
    n = y.size(at)
    pairs = y.narrow(at, 1, n - 1) + y.narrow(at, 0, n - 1)
    if x is None:
        return pairs.cumsum(at) * (0.5 * (1 if dx is None else dx))
    if x.dim() == 1 and y.dim() > 1:
        x = x.reshape([-1 if i == at else 1 for i in range(y.dim())])
    along = at - y.dim()
    width = x.narrow(along, 1, x.size(along) - 1) - x.narrow(along, 0, x.size(along) - 1)
    return (pairs * width).cumsum(at) / 2.0


def gradient(input: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Estimates of derivatives along dimensions: central differences of second order, one-sided ones at the ends.

    Arguments:
        input (Tensor): samples
        spacing: a number between samples, of all dimensions or of each; or a tensor of coordinates for each
        dim (int or tuple): which dimensions; all, where it is None
        edge_order (int): 1 or 2, the order of the differences at the ends
    """
    dims = list(range(input.dim())) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    dims = [_place(d, input.dim()) for d in dims]
    if input.dtype == _core.uint8:
        raise RuntimeError("torch.gradient does not support uint8 input.")
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if isinstance(spacing, (list, tuple)):
        spacings = list(spacing)
        if len(spacings) != len(dims):
            raise RuntimeError(
                f"torch.gradient expected spacing to be unspecified, a scalar or it's spacing and dim arguments to have the "
                f"same length, but got a spacing argument of length {len(spacings)} and a dim argument of length {len(dims)}."
            )
    else:
        spacings = [1 if spacing is None else spacing] * len(dims)
    for d in dims:
        if input.size(d) < edge_order + 1:
            raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    return tuple(_slope(input, d, step, edge_order) for d, step in zip(dims, spacings, strict=True))


def _slope(f, dim, spacing, edge_order):
    n = f.size(dim)

    def at(i, length=1):
        return f.narrow(dim, i, length)

    if not (isinstance(spacing, Tensor) and spacing.dim()):
        return _even_slope(at, n, dim, spacing if isinstance(spacing, Tensor) else float(spacing), edge_order)
    width = spacing.narrow(0, 1, n - 1) - spacing.narrow(0, 0, n - 1)
    width = width.reshape([-1 if i == dim else 1 for i in range(f.dim())])

    def h(i, length=1):
        return width.narrow(dim, i, length)

    parts = []
    if n > 2:
        left, right = h(0, n - 2), h(1, n - 2)
        middle = -right / (left * (left + right)) * at(0, n - 2) + (right - left) / (left * right) * at(1, n - 2)
        parts.append(middle + left / (right * (left + right)) * at(2, n - 2))
    if edge_order == 1:
        first, last = (at(1) - at(0)) / h(0), (at(n - 1) - at(n - 2)) / h(n - 2)
    else:
        a, b = h(0), h(1)
        first = -(2 * a + b) / (a * (a + b)) * at(0) + (a + b) / (a * b) * at(1) - a / (b * (a + b)) * at(2)
        a, b = h(n - 3), h(n - 2)
        last = b / (a * (a + b)) * at(n - 3) - (a + b) / (a * b) * at(n - 2)
        last = last + (2 * b + a) / (b * (a + b)) * at(n - 1)
    return _core.cat([first, *parts, last], dim)


def _even_slope(at, n, dim, step, edge_order):
    """The gradient of samples that lie `step` apart: takes differences first, which are exact for integers."""
    parts = [(at(2, n - 2) - at(0, n - 2)) / (2 * step)] if n > 2 else []
    if edge_order == 1:
        first, last = (at(1) - at(0)) / step, (at(n - 1) - at(n - 2)) / step
    else:
        first = (2 * at(1) - 1.5 * at(0) - 0.5 * at(2)) / step
        last = (1.5 * at(n - 1) - 2 * at(n - 2) + 0.5 * at(n - 3)) / step
    return _core.cat([first, *parts, last], dim)


@_method
def histogram(
    input: Tensor,
    bins: int | Tensor = 100,
    *,
    range: Sequence[float] | None = None,
    weight: Tensor | None = None,
    density: bool = False,
) -> tuple[Tensor, Tensor]:
    """How many elements are in each bin, and the edges of the bins; the last one includes its right edge.

    Arguments:
        input (Tensor): floating-point elements
        bins (int or Tensor): how many bins of one width, or increasing edges
        range: the outermost edges, where bins is a number; those of the elements where it is None, or 0 and 1 of none
        weight (Tensor): what each element counts; of the shape of input
        density (bool): whether to return densities, whose integral over the bins is 1
    """
    from smolder.return_types import histogram

    if not input.dtype.is_floating_point:
        raise RuntimeError(f'"histogram_cpu" not implemented for {input.dtype}')
    flat = input.detach().reshape(-1)
    edges = bins if isinstance(bins, Tensor) else _edges(flat, bins, range)
    if weight is not None and weight.shape != input.shape:
        raise RuntimeError(
            f"torch.histogram(): if weight tensor is provided it should have the same shape as the input tensor, but got "
            f"input {input.shape} and weight {weight.shape}"
        )
    count = edges.numel() - 1
    place = (_core.searchsorted(edges, flat, right=True) - 1).clamp(max=count - 1)
    inside = (flat >= edges[0]) & (flat <= edges[-1])
    what = ones_like(flat) if weight is None else weight.reshape(-1).to(flat.dtype)
    what = _core.where(inside, what, 0.0)
    hist = zeros((count,), dtype=flat.dtype, device=flat.device).index_add(0, place.clamp(min=0), what)
    if density:
        hist = hist / (hist.sum() * (edges[1:] - edges[:-1]))
    return histogram(hist, edges)


def _edges(flat, bins, span):
    if bins <= 0:
        raise RuntimeError(f"torch.histogram(): bins must be > 0, but got {bins}")
    if span is None:
        low, high = (float(flat.min()), float(flat.max())) if flat.numel() else (0.0, 1.0)
    else:
        low, high = span
        if low > high:
            raise RuntimeError(f"torch.histogram(): max must be larger than min, but got [{low}, {high}]")
    if low == high:
        low, high = low - 0.5, high + 0.5
    return linspace(low, high, bins + 1, dtype=flat.dtype, device=flat.device)


name_what_is_no_tensor(globals())
