"""Batches out of samples."""

from __future__ import annotations

import collections.abc
import copy
from collections.abc import Callable
from typing import Any

import numpy

from smolder import _core
from smolder._creation import as_tensor, tensor
from smolder._names import listing as _listing

__all__ = ["default_collate", "default_convert", "rebuilt"]
__dir__ = _listing(__name__)


_NO_BATCH = "default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found {}"


def rebuilt(like: Any, items: Any) -> Any:
    """A container of the kind of `like`, or a plain one where that can't be made."""
    kind = type(like)
    try:
        if isinstance(like, collections.abc.Mapping):
            if isinstance(like, collections.abc.MutableMapping):
                out = copy.copy(like)
                out.update(items)
                return out
            return kind(items)
        if isinstance(like, tuple) and hasattr(like, "_fields"):
            return kind(*items)
        if isinstance(like, collections.abc.MutableSequence):
            out = copy.copy(like)
            for i, item in enumerate(items):
                out[i] = item
            return out
        return kind(items)
    except TypeError:  # a kind with a constructor of its own
        return dict(items) if isinstance(like, collections.abc.Mapping) else list(items)


def _array(array):
    if array.dtype.kind in "SUO":
        raise TypeError(_NO_BATCH.format(array.dtype))
    return as_tensor(array)


def default_convert(data: Any) -> Any:
    """NumPy arrays in data, however nested in lists, tuples and dictionaries, as tensors; all else as it is."""
    if isinstance(data, _core.Tensor):
        return data
    if isinstance(data, numpy.ndarray | numpy.generic):
        return data if data.dtype.kind in "SUO" else as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return rebuilt(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(item) for item in data))
    if isinstance(data, tuple):
        return [default_convert(item) for item in data]
    if isinstance(data, collections.abc.Sequence) and not isinstance(data, str | bytes):
        return rebuilt(data, [default_convert(item) for item in data])
    return data


# How samples of further types are made a batch, by type or types: programs add to it, and it comes before what is below.
default_collate_fn_map: dict[Any, Callable[..., Any]] = {}


def _added(kind: type) -> Callable[..., Any] | None:
    if not default_collate_fn_map:
        return None
    found = default_collate_fn_map.get(kind)
    return found or next((f for of, f in default_collate_fn_map.items() if issubclass(kind, of)), None)


def default_collate(batch: Any) -> Any:
    """Samples as a batch: tensors, arrays and numbers stacked, within lists, tuples and dictionaries of one form."""
    first = batch[0]
    added = _added(type(first))
    if added is not None:
        return added(batch, collate_fn_map=default_collate_fn_map)
    if isinstance(first, _core.Tensor):
        return _core.stack(list(batch), 0)
    if isinstance(first, numpy.ndarray):
        return _core.stack([_array(a) for a in batch], 0)
    if isinstance(first, numpy.bool_ | numpy.number):
        return as_tensor(numpy.array(batch))
    if isinstance(first, float):
        return tensor(batch, dtype=_core.float64)
    if isinstance(first, int):
        return tensor(batch)
    if isinstance(first, str | bytes):
        return batch
    if isinstance(first, collections.abc.Mapping):
        return rebuilt(first, {key: default_collate([d[key] for d in batch]) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(default_collate(column) for column in zip(*batch, strict=True)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [default_collate(column) for column in zip(*batch, strict=True)]
        return columns if isinstance(first, tuple) else rebuilt(first, columns)
    raise TypeError(_NO_BATCH.format(type(first)))
