"""Views with given strides, by slices and reshapes."""

import math


def view_of(flat, offset, size, stride):
    """The view of a vector that torch.as_strided is."""
    if not math.prod(size):
        return flat[:0].reshape(size)
    # Dimensions that go anywhere, the largest step first: each is rows of what the next ones see.
    moving = sorted((i for i, n in enumerate(size) if n > 1 and stride[i]), key=lambda i: -stride[i])
    view, inner = flat, sum((size[i] - 1) * stride[i] for i in moving)
    for i in moving:
        inner -= (size[i] - 1) * stride[i]
        view, offset = _rows(view, offset, size[i], stride[i], inner)
    view = view[..., offset].permute([moving.index(i) for i in range(len(size)) if i in moving])
    for i in range(len(size)):
        if i not in moving:
            view = view.unsqueeze(i)
    return view.expand(size)


def _rows(view, offset, n, step, inner):
    """The last dimension as n rows, `step` apart, that hold elements from offset to offset + inner of the first; and
    where those begin in a row."""
    length = view.size(-1)
    for width in _divisors(step):  # of the memory seen as a matrix; what comes after the last row may be missing
        rows = (n - 1) * (step // width) + 1
        start = min(offset, length - rows * width)
        if start >= 0 and offset - start + inner < width:
            matrix = view[..., start : start + rows * width].unflatten(-1, (rows, width))
            return matrix[..., :: step // width, :], offset - start
    end = offset + (n - 1) * step + inner + 1
    return view[..., offset:end].unfold(-1, inner + 1, step), 0  # rows overlap


def _divisors(n):
    small = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return sorted({*small, *(n // d for d in small)}, reverse=True)
