"""Functions of one element called for all elements of a batch at once."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from smolder import _core
from smolder.utils._pytree import tree_flatten, tree_unflatten


def _name(func):
    if hasattr(func, "__name__"):
        return func.__name__
    return f"functools.partial({_name(func.func)}, ...)" if isinstance(func, functools.partial) else repr(func)


def _spread(dims, tree):
    """One of dims for each leaf of a tree; None where they do not fit it."""
    if dims is None or isinstance(dims, int):
        return [dims] * len(tree_flatten(tree)[0])
    if type(dims) is not type(tree) and not (isinstance(dims, tuple | list) and isinstance(tree, tuple | list)):
        return None
    if isinstance(tree, dict):
        pairs = [(dims[k], tree[k]) for k in tree] if dims.keys() == tree.keys() else None
    elif isinstance(tree, tuple | list):
        pairs = list(zip(dims, tree, strict=True)) if len(dims) == len(tree) else None
    else:
        pairs = None
    if pairs is None:
        return None
    parts = [_spread(d, t) for d, t in pairs]
    return None if None in parts else [d for part in parts for d in part]


def _batched(args, in_dims, func):
    """The leaves of arguments, the dimension of each that is gone through, their form, and how many elements there are."""
    name = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, int | tuple):
        raise ValueError(
            f"{name}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: "
            f"{type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over "
            "a function with no inputs. The latter is unsupported."
        )
    leaves, spec = tree_flatten(args)
    dims = _spread(in_dims, args)
    if dims is None:
        raise ValueError(
            f"{name}: in_dims is not compatible with the structure of `inputs`. in_dims has structure "
            f"{tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        )
    for leaf, dim in zip(leaves, dims, strict=True):
        if dim is None:
            continue
        if not isinstance(leaf, _core.Tensor):
            raise ValueError(
                f"{name}: Got in_dim={dim} for an input but the input is of type {type(leaf)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        rank = leaf.dim()
        if not -rank <= dim < rank:
            raise ValueError(
                f"{name}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {rank} so expected "
                f"in_dim to satisfy -{rank} <= in_dim < {rank}."
            )
    sizes = [leaf.size(dim) for leaf, dim in zip(leaves, dims, strict=True) if dim is not None]
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return leaves, dims, spec, sizes[0]


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
) -> Callable[..., Any]:
    """The function of a batch that is func of each element, along dimensions in_dims of its arguments.

    Within func tensors have the shape of one element; ops run on all of them at once, and results have the batch along
    out_dims. randomness says what random ops do: raise ("error"), draw the same for all elements ("same") or other
    numbers for each ("different"). chunk_size is how many elements are computed at once, all by default.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def call(*args, **kwargs):
        leaves, dims, spec, size = _batched(args, in_dims, func)

        def run(leaves, size):
            return _run(func, leaves, dims, spec, size, out_dims, randomness, kwargs)

        if chunk_size is None or chunk_size >= size:
            return tree_unflatten(*run(leaves, size)[:2])
        return _in_chunks(run, leaves, dims, size, chunk_size, randomness)

    return call


def _run(func, leaves, dims, spec, size, out_dims, randomness, kwargs):
    """Results' leaves, their form, and where each has the batch: None for what is the same for all."""
    _core._vmap_begin(size, randomness)
    try:
        parts = [x if d is None else _core._vmap_spread(x, d) for x, d in zip(leaves, dims, strict=True)]
        result = func(*tree_unflatten(parts, spec), **kwargs)
        found, form = tree_flatten(result)
        single = isinstance(result, _core.Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1
        given = out_dims[0] if single else out_dims
        places = _spread(given, result)
        if places is None:
            raise ValueError(
                f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the "
                f"structure of `outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure "
                f"{form}."
            )
        return [_outside(x, at, func) for x, at in zip(found, places, strict=True)], form, places
    finally:
        _core._vmap_end()


def _outside(x, at, func):
    """A result as it is outside of the level."""
    if not isinstance(x, _core.Tensor):
        if at is None:
            return x
        raise ValueError(
            f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(x)}. Did you mean to set "
            "out_dims= to None for output?"
        )
    if at is not None:
        return _core._vmap_gathered(x, at)
    elements, spread = _core._vmap_elements(x)
    if spread:
        raise ValueError(
            f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
        )
    return elements


def _in_chunks(run, leaves, dims, size, chunk_size, randomness):
    """The results of so many elements at a time, joined. What is drawn is the same in each where it is within one."""
    state, chunks = _core.default_generator.get_state() if randomness == "same" else None, []
    for start in range(0, size, chunk_size):
        if state is not None:
            _core.default_generator.set_state(state)
        n = min(chunk_size, size - start)
        parts = [x if d is None else x.narrow(d, start, n) for x, d in zip(leaves, dims, strict=True)]
        chunks.append(run(parts, n))
    _, form, places = chunks[0]
    columns = zip(*(found for found, _, _ in chunks), strict=True)
    joined = [c[0] if at is None else _core.cat(list(c), at) for c, at in zip(columns, places, strict=True)]
    return tree_unflatten(joined, form)
