"""x[index] and x[index] = value, as ops of the table: every index that the binding does not take itself (indexing.cpp)."""

import builtins
import operator

import numpy

from smolder import _core

_FLOATS = (_core.float32, _core.float64, _core.float16, _core.bfloat16)


def _is_integer(item):
    if isinstance(item, numpy.ndarray):
        return item.ndim == 0 and item.dtype.kind in "iu"
    return not isinstance(item, builtins.bool | numpy.bool_ | _core.Tensor) and hasattr(item, "__index__")


def _as_index(item):
    """An index tensor or a mask out of a tensor, a list or an array; None for anything else."""
    if isinstance(item, builtins.bool | numpy.bool_):
        return _core.full((), builtins.bool(item), dtype=_core.bool)
    if isinstance(item, _core.Tensor):
        if item.dtype == _core.uint8:  # as torch: a mask, long deprecated
            return item != 0
        if item.dim() == 0 and item.dtype in (_core.int16, _core.int8):  # as torch: a number
            return item.to(_core.int64)
        return item if item.dtype in (_core.int64, _core.int32, _core.bool) else None
    if isinstance(item, list | tuple | numpy.ndarray | range):
        array = numpy.asarray(item, dtype=None if len(item) else numpy.int64)
        if array.dtype.kind in "biu":
            kept = numpy.bool_ if array.dtype.kind == "b" else numpy.int64
            return _core.from_numpy_copy(numpy.ascontiguousarray(array, kept).reshape(array.shape))
    return None


def _beside(tensor, index):
    """The index where the tensor is: one on the CPU may index any tensor."""
    if tensor._on_cpu and not index._on_cpu:
        raise RuntimeError(
            f"indices should be either on cpu or on the same device as the indexed tensor (cpu), got {index.device}"
        )
    return index._to_device(tensor._device) if index._on_cpu and not tensor._on_cpu else index


def _unsupported(index):
    if isinstance(index, _core.Tensor):
        return IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if isinstance(index, str | bytes):
        return TypeError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(index).__name__}): new(): invalid data type '{type(index).__name__}'"
        )
    if isinstance(index, numpy.ndarray | list | tuple | range):
        return IndexError(f"an index of floating-point numbers or of ragged lists is no index: {index!r}")
    return IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {type(index).__name__})"
    )


def _dimensions(item):
    """How many dimensions an item of an index selects from."""
    if item is None or item is Ellipsis:
        return 0
    found = None if isinstance(item, builtins.slice) or _is_integer(item) else _as_index(item)
    return found.dim() if found is not None and found.dtype == _core.bool else 1


def _stands_for_tuple(index):
    """Whether a list is as a tuple of its items, as NumPy once had it and torch has: when one of them is an index."""
    several = list | tuple | range | builtins.slice | numpy.ndarray | _core.Tensor
    return (
        isinstance(index, list)
        and len(index) < 32
        and any(item is None or item is Ellipsis or isinstance(item, several) for item in index)
    )


def _expand(tensor, index):
    """The index as a list with ... replaced by full slices."""
    items = list(index) if isinstance(index, tuple) or _stands_for_tuple(index) else [index]
    used = builtins.sum(_dimensions(item) for item in items)
    ellipses = builtins.sum(item is Ellipsis for item in items)
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > tensor.dim() == 0 and builtins.all(_is_integer(item) for item in items):
        raise IndexError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in C++ to convert a "
            "0-dim tensor to a number"
        )
    if used > tensor.dim():
        raise IndexError(f"too many indices for tensor of dimension {tensor.dim()}")
    if ellipses:
        at = next(i for i, item in enumerate(items) if item is Ellipsis)
        items[at : at + 1] = [builtins.slice(None)] * (tensor.dim() - used)
    return items


def _slice(tensor, axis, item):
    bounds = []
    for bound in (item.start, item.stop, item.step):
        try:
            # Beyond 64 bits is beyond every end, as for lists.
            bounds.append(None if bound is None else min(max(operator.index(bound), -(2**63)), 2**63 - 1))
        except TypeError:
            raise TypeError("slice indices must be integers or None or have an __index__ method") from None
    start, stop, step = bounds
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    if start is None and stop is None and step in (None, 1):
        return tensor
    return tensor.slice(axis, start, stop, 1 if step is None else step)


def _integer(tensor, axis, item, place):
    """The tensor at an integer of a dimension, which is the index's item at `place`."""
    i, n = operator.index(item), tensor.size(axis)
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for dimension {place} with size {n}")
    return tensor.select(axis, i)


def view(tensor, index):
    """The view that integers, slices, None and ... select, and (axis, index or mask) of what is left of the index."""
    whole, axis, pending = tensor, 0, []
    for place, item in enumerate(_expand(tensor, index)):
        if item is None:
            tensor = tensor.unsqueeze(axis)
            axis += 1
        elif isinstance(item, builtins.slice):
            tensor = _slice(tensor, axis, item)
            axis += 1
        elif _is_integer(item):
            tensor = _integer(tensor, axis, item, place)
        else:
            found = _as_index(item)
            if found is None:
                raise _unsupported(item)
            if found.dim() == 0 and found.dtype == _core.bool:  # a dimension of one element, or none
                tensor = tensor.unsqueeze(axis)
                found = found.reshape(1)
            elif found.dim() == 0:  # a view, as in torch, where the number is there to be read
                known = found._known_number()
                if known is not None:
                    tensor = _integer(tensor, axis, known, place)
                    continue
            pending.append((axis, _beside(tensor, found)))
            axis += found.dim() if found.dtype == _core.bool else 1
    if _numbers_count(pending):  # as in torch, where such an index is a number: it does not put dimensions first
        numbers = [int(i) if isinstance(i, _core.Tensor) and _is_number(i) else i for i in _expand(whole, index)]
        return view(whole, tuple(numbers))
    return tensor, pending


def _is_number(index):
    return index.dim() == 0 and index.dtype != _core.bool


def _numbers_count(pending):
    """Whether indices of dimensions that are apart have a number among them that is not known yet."""
    ends = [axis + (found.dim() if found.dtype == _core.bool else 1) for axis, found in pending]
    apart = builtins.any(end != axis for end, (axis, _) in zip(ends, pending[1:], strict=False))
    return apart and builtins.any(_is_number(found) for _, found in pending)


def _check_mask(tensor, axis, mask):
    for i, n in enumerate(mask.shape):
        if tensor.size(axis + i) != n:
            raise IndexError(
                f"The shape of the mask {list(mask.shape)} at index {i} does not match the shape of the indexed tensor "
                f"{list(tensor.shape)} at index {axis + i}"
            )


def _positions(tensor, pending):
    """{axis: index} with masks as the positions of their Trues, which reads how many there are."""
    out = {}
    for axis, found in pending:
        if found.dtype == _core.bool:
            _check_mask(tensor, axis, found)
            for i, column in enumerate(_core._nonzero(found).unbind(1)):
                out[axis + i] = column
        else:
            out[axis] = found
    return out


def _together(tensor, pending):
    """The tensor with the indexed dimensions side by side, the first of them, and their indices.

    Dimensions that are apart come first, as torch puts what they select; the second result is then their order.
    """
    indices = _positions(tensor, pending)
    axes = list(indices)
    if axes == list(range(axes[0], axes[0] + len(axes))):
        return tensor, None, axes[0], list(indices.values())
    order = axes + [a for a in range(tensor.dim()) if a not in indices]
    return tensor.permute(order), order, 0, list(indices.values())


def get(tensor, index):
    """tensor[index]"""
    selected, pending = view(tensor, index)
    if pending:
        moved, _, axis, indices = _together(selected, pending)
        return moved._pick(axis, indices)
    return selected.reshape(selected.shape) if selected is tensor else selected


def set(tensor, index, value):
    """tensor[index] = value"""
    selected, pending = view(tensor, index)
    if _has_class(tensor) and not _has_class(selected):
        raise NotImplementedError(
            f"{type(tensor).__name__}[...] = value is not supported: its __torch_dispatch__ answered to the index with a "
            f"{type(selected).__name__}, and a write to that is none to the tensor"
        )
    if isinstance(value, numpy.ndarray | list | tuple | complex):
        from smolder._creation import tensor as make

        if isinstance(value, complex) and not tensor.dtype.is_complex:
            if value.imag:
                raise RuntimeError(f"value cannot be converted to type {tensor.dtype} without overflow")
            value = value.real
        value = make(value, dtype=tensor.dtype, device=tensor.device)
    if pending:
        _set_at(selected, pending, value)
    elif isinstance(value, _core.Tensor):
        selected.copy_(_drop_leading_ones(value, selected.dim()))
    elif _has_repeats(selected):
        selected.copy_(selected.new_full((), value))  # which is refused
    else:
        selected.fill_(value)


def _has_class(tensor):
    if type(tensor) is _core.Tensor:
        return False
    from smolder import _wrappers

    return _wrappers.has_class(tensor)


def _has_repeats(tensor):
    """Whether several elements are in one place, as an expanded tensor's are."""
    return tensor.numel() > 0 and any(n > 1 and not s for n, s in zip(tensor.shape, tensor.stride(), strict=True))


def _without_repeats(tensor):
    """The memory that a tensor sees as one row, and where in it each element of the tensor is."""
    strides, places = tensor.stride(), _core.full((), 0, dtype=_core.int64)
    for n, stride in zip(tensor.shape, strides, strict=True):
        places = places.unsqueeze(-1) + _core.arange(0, n, 1, dtype=_core.int64) * stride
    last = builtins.sum((n - 1) * s for n, s in zip(tensor.shape, strides, strict=True))
    return tensor.as_strided((last + 1,), (1,)), places


def _set_at(selected, pending, value):
    if not isinstance(value, _core.Tensor):
        value = selected.new_tensor(value) if _has_class(selected) else selected.new_full((), value)
    if value.dtype != selected.dtype:
        value = value.to(selected.dtype)
    if len(pending) == 1 and pending[0][1].dtype == _core.bool and not _has_repeats(selected):  # which reads nothing
        axis, mask = pending[0]
        _check_mask(selected, axis, mask)
        selected.copy_(_core.masked_put(selected, mask, axis, value))
        return
    put(selected, pending, value, False)


def put(selected, pending, value, accumulate):
    """selected[pending] = value, or += value."""
    if _has_repeats(selected):  # torch lets indices write there: the last counts, and all are added
        row, places = _without_repeats(selected)
        moved, _, axis, indices = _together(_beside(selected, places), pending)
        at = _core.index_at(moved, axis, indices)
        value = _drop_leading_ones(value, at.dim()).expand(at.shape)
        return put(row, [(0, at.reshape(-1))], value.reshape(-1), accumulate)
    moved, order, axis, indices = _together(selected, pending)
    rank = moved.dim() - len(indices) + builtins.max(i.dim() for i in indices)
    out = _core.index_put_at(moved, axis, _drop_leading_ones(value, rank), accumulate, indices)
    if order is not None:
        back = [order.index(a) for a in range(len(order))]
        out = out.permute(back)
    selected.copy_(out)


def pending_of(tensor, indices):
    """Parses index_put's tuple of tensors (or None for a whole dimension), as `view` parses an index."""
    pending, axis = [], 0
    for item in indices:
        if item is None:
            axis += 1
            continue
        found = _as_index(item)
        if found is None:
            raise _unsupported(item)
        pending.append((axis, _beside(tensor, found)))
        axis += found.dim() if found.dtype == _core.bool else 1
    if axis > tensor.dim():
        raise IndexError(f"too many indices for tensor of dimension {tensor.dim()} (got {axis})")
    if not pending:
        raise IndexError("index_put: expected an index tensor")
    return pending


def _drop_leading_ones(value, rank):
    """torch lets a value have more dimensions than what it is written to, if they are 1."""
    while value.dim() > rank and value.size(0) == 1:
        value = value.select(0, 0)
    return value
