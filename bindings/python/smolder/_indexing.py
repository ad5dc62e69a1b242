"""x[index] and x[index] = value, as ops of the table."""

import builtins
import operator

import numpy

from smolder import _core

_FLOATS = (_core.float32, _core.float64, _core.float16, _core.bfloat16)


def _is_integer(item):
    return not isinstance(item, builtins.bool | numpy.bool_ | numpy.ndarray | _core.Tensor) and hasattr(
        item, "__index__"
    )


def _as_index(item):
    """An index tensor or a mask out of a tensor, a list or an array; None for anything else."""
    if isinstance(item, _core.Tensor):
        return item if item.dtype in (_core.int64, _core.int32, _core.bool) else None
    if isinstance(item, list | numpy.ndarray | range):
        array = numpy.asarray(item, dtype=None if len(item) else numpy.int64)
        if array.dtype.kind in "biu":
            kept = numpy.bool_ if array.dtype.kind == "b" else numpy.int64
            return _core.from_numpy_copy(numpy.ascontiguousarray(array, kept).reshape(array.shape))
    return None


def _unsupported(index):
    if isinstance(index, _core.Tensor):
        if index.dtype in _FLOATS:
            return IndexError("tensors used as indices must be long, int, byte or bool tensors")
    elif not isinstance(index, builtins.bool | list | tuple | range | numpy.ndarray | numpy.bool_):
        return IndexError(
            "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
            f"(got {type(index).__name__})"
        )
    text = repr(index) if not isinstance(index, _core.Tensor) else f"a tensor of {index.dtype}"
    return NotImplementedError(
        f"indexing with {text} is not supported; supported are integers, slices, None, ... and one integer tensor, "
        "array or list, and to be written to one mask. To read at a mask use where, masked_fill or index_select."
    )


def _dimensions(item):
    """How many dimensions an item of an index selects from."""
    if item is None or item is Ellipsis:
        return 0
    found = None if isinstance(item, builtins.slice) or _is_integer(item) else _as_index(item)
    return found.dim() if found is not None and found.dtype == _core.bool else 1


def _expand(tensor, index):
    """The index as a list with ... replaced by full slices."""
    items = list(index) if isinstance(index, tuple) else [index]
    used = builtins.sum(_dimensions(item) for item in items)
    ellipses = builtins.sum(item is Ellipsis for item in items)
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
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
            bounds.append(None if bound is None else operator.index(bound))
        except TypeError:
            raise TypeError("slice indices must be integers or None or have an __index__ method") from None
    start, stop, step = bounds
    if step is not None and step <= 0:
        raise ValueError("step must be greater than zero")
    if start is None and stop is None and step in (None, 1):
        return tensor
    return tensor.slice(axis, start, stop, 1 if step is None else step)


def _integer(tensor, axis, item):
    i, n = operator.index(item), tensor.size(axis)
    if not -n <= i < n:
        raise IndexError(f"index {i} is out of bounds for dimension {axis} with size {n}")
    return tensor.select(axis, i)


def _take(tensor, axis, index):
    """tensor[..., index, ...] on one axis, by an index of any rank; negative ones count from the end."""
    flat = index.reshape(-1) if index.dim() != 1 else index
    flat = _core.where(flat < 0, flat + tensor.size(axis), flat)
    out = _core.index_select(tensor, axis, flat)
    if index.dim() == 1:
        return out
    shape = tuple(tensor.shape)
    return out.reshape(shape[:axis] + tuple(index.shape) + shape[axis + 1 :])


def view(tensor, index):
    """The view that integers, slices, None and ... select, and at most one pending (axis, index or mask)."""
    axis, pending = 0, None
    for item in _expand(tensor, index):
        if item is None:
            tensor = tensor.unsqueeze(axis)
            axis += 1
        elif isinstance(item, builtins.slice):
            tensor = _slice(tensor, axis, item)
            axis += 1
        elif _is_integer(item):
            tensor = _integer(tensor, axis, item)
        else:
            found = _as_index(item)
            if found is None or pending:
                raise _unsupported(item if found is None else index)
            pending = (axis, found)
            axis += found.dim() if found.dtype == _core.bool else 1
    return tensor, pending


def get(tensor, index):
    """tensor[index]"""
    selected, pending = view(tensor, index)
    if pending:
        if pending[1].dtype == _core.bool:
            raise _unsupported(pending[1])
        return _take(selected, *pending)
    return selected.slice(0) if selected is tensor and tensor.dim() else selected


def set(tensor, index, value):
    """tensor[index] = value"""
    selected, pending = view(tensor, index)
    if pending and pending[1].dtype != _core.bool:
        raise _unsupported(index)
    if isinstance(value, numpy.ndarray | list | tuple):
        from smolder._creation import tensor as make

        value = make(value, dtype=tensor.dtype)
    if pending:
        _set_at_mask(selected, *pending, value)
    elif isinstance(value, _core.Tensor):
        selected.copy_(_drop_leading_ones(value, selected.dim()))
    else:
        selected.fill_(value)


def _set_at_mask(selected, axis, mask, value):
    """selected[:, ..., mask] = value, where the mask covers dimensions from axis on."""
    shape, covered = tuple(selected.shape), tuple(mask.shape)
    for i, n in enumerate(covered):
        if shape[axis + i] != n:
            raise IndexError(
                f"The shape of the mask {list(covered)} at index {i} does not match the shape of the indexed tensor "
                f"{list(shape)} at index {axis + i}"
            )
    rest = len(shape) - axis - len(covered)
    if isinstance(value, _core.Tensor):
        # The mask's dimensions are one in selected[mask], of as many elements as it has Trues.
        value = _drop_leading_ones(value, axis + 1 + rest)
        at = value.dim() - rest - 1
        if at >= 0:
            its = tuple(value.shape)
            if its[at] != 1:
                raise NotImplementedError(
                    f"x[mask] = v with a v of shape {list(its)}: writing one element for each True of the mask is not "
                    "supported, since how many there are depends on data; give a v that is the same for all of them, "
                    "or write where(mask, values, x) with values of x's shape."
                )
            value = value.reshape(its[:at] + (1,) * len(covered) + its[at + 1 :])
    else:
        value = _core.full((), value, dtype=selected.dtype)
    if value.dtype != selected.dtype:
        value = value.to(selected.dtype)
    selected.copy_(_core.where(mask.reshape((1,) * axis + covered + (1,) * rest), value, selected))


def _drop_leading_ones(value, rank):
    """torch lets a value have more dimensions than what it is written to, if they are 1."""
    while value.dim() > rank and value.size(0) == 1:
        value = value.select(0, 0)
    return value
