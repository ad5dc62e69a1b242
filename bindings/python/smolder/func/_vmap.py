"""Calls of a function for each element of a batch."""

import functools

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


class _Random:
    """What calls may draw: nothing, the same each, or on and on."""

    def __init__(self, randomness):
        self.randomness = randomness
        self.state = None if randomness == "different" else _states()

    def after(self, last):
        """To be called when a call is done."""
        if self.randomness == "same" and not last:
            for generator, state in zip(_generators(), self.state, strict=True):
                generator.set_state(state)
        elif self.randomness == "error" and any(
            not bool((a == b).all()) for a, b in zip(_states(), self.state, strict=True)
        ):
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' "
                "randomness flags on vmap or perform the randomness operation out of vmap"
            )


def _generators():
    return (_core.default_generator,)


def _states():
    return [generator.get_state() for generator in _generators()]


def vmap(func, in_dims=0, out_dims=0, randomness="error", *, chunk_size=None):
    """The function of a batch that calls func for each element, along dimensions in_dims of its arguments.

    Results are stacked along out_dims. The calls are one after the other; chunk_size has nothing to say then.
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def call(*args, **kwargs):
        leaves, dims, spec, size = _batched(args, in_dims, func)
        if size == 0:
            raise NotImplementedError("vmap: a batch of no elements is not supported: nothing says what func gives")
        random, results = _Random(randomness), []
        for i in range(size):
            parts = [x if d is None else x.select(d, i) for x, d in zip(leaves, dims, strict=True)]
            results.append(tree_flatten(func(*tree_unflatten(parts, spec), **kwargs)))
            random.after(i + 1 == size)
        return _stacked(results, out_dims, func)

    return call


def _stacked(results, out_dims, func):
    leaves, spec = results[0]
    whole = tree_unflatten(leaves, spec)
    given = out_dims[0] if isinstance(whole, _core.Tensor) and isinstance(out_dims, tuple) else out_dims
    dims = _spread(given, whole)
    if dims is None:
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        )
    out = []
    for column, dim in zip(zip(*(found for found, _ in results), strict=True), dims, strict=True):
        if dim is None:  # what is the same for all
            out.append(column[0])
            continue
        if not isinstance(column[0], _core.Tensor):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(column[0])}. Did you "
                "mean to set out_dims= to None for output?"
            )
        out.append(_core.stack(list(column), dim))
    return tree_unflatten(out, spec)
