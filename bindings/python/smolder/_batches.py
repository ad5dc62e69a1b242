"""Levels of vmap, as Python code sees them that computes on all elements of a batch itself."""

import functools
from contextlib import contextmanager

from smolder import _core


@contextmanager
def at_level(level):
    """Code that runs at a level of vmap, whichever the caller is at."""
    before = _core._vmap_go(level)
    try:
        yield
    finally:
        _core._vmap_go(before)


def level_of(tensors):
    """The innermost level that any of these is of; 0 for none."""
    return max((_core._vmap_level(t) for t in tensors if isinstance(t, _core.Tensor)), default=0)


def whole(x):
    """All elements of all batches that x is an element of; x itself where it is of none."""
    while level := _core._vmap_level(x):
        with at_level(level):
            x, _ = _core._vmap_elements(x)
    return x


def has_history(x):
    """Whether a gradient may come through x, at its level of vmap or outside."""
    while not x.requires_grad and (level := _core._vmap_level(x)):
        with at_level(level):
            x, _ = _core._vmap_elements(x)
    return x.requires_grad


def with_leading_batches(function):
    """Decorates a function of tensors with any leading dimensions, of which a batch is one more."""

    @functools.wraps(function)
    def call(*args, **options):
        level = _core._vmap_depth() and level_of(args)
        if not level:
            return function(*args, **options)
        with at_level(level):
            found = [_core._vmap_elements(a) if isinstance(a, _core.Tensor) else (a, False) for a in args]
            if not any(spread for _, spread in found):
                # The same for all: what the function makes is so, too.
                return function(*(a for a, _ in found), **options)
            given = [_core._vmap_gathered(a, 0) if isinstance(a, _core.Tensor) else a for a in args]
        with at_level(level - 1):
            results = call(*given, **options)
        several = isinstance(results, tuple | list)
        with at_level(level):
            out = [None if r is None else _core._vmap_spread(r, 0) for r in (results if several else (results,))]
        return tuple(out) if several else out[0]

    return call
