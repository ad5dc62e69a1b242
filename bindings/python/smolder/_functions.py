"""Functions of several tensors that are no rows of the op table."""

import builtins

from smolder import _core
from smolder._tensor import Size

__all__ = [
    "allclose",
    "broadcast_shapes",
    "equal",
    "is_tensor",
    "isclose",
    "manual_seed",
    "numel",
    "result_type",
]

_FLOAT = 2  # categories order bool < int < float


def manual_seed(seed):
    """Seeds the default generator and returns it."""
    if seed < 0:  # as torch: -1 is the last seed
        seed += 2**64
    _core.manual_seed(seed)
    return _core.default_generator()


def is_tensor(obj):
    """Whether obj is a tensor."""
    return isinstance(obj, _core.Tensor)


def numel(input):
    """Number of elements."""
    return input.numel()


def equal(input, other):
    """Whether two tensors have the same shape and elements; a Python bool."""
    if input.shape != other.shape:
        return False
    return builtins.bool(_core.all(_core.eq(input, other)).item())


def isclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Elementwise |input - other| <= atol + rtol * |other|."""
    if input.dtype != other.dtype:
        raise RuntimeError(f"{input.dtype} did not match {other.dtype}")
    close = input == other
    if equal_nan and input.dtype.is_floating_point:
        close = close | (_core.isnan(input) & _core.isnan(other))
    near = _core.abs(input - other) <= atol + rtol * _core.abs(other)
    if input.dtype.is_floating_point:
        near = near & _core.isfinite(input - other)
    return close | near


def allclose(input, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    """Whether all elements are close; a Python bool."""
    return builtins.bool(_core.all(isclose(input, other, rtol, atol, equal_nan)).item())


def broadcast_shapes(*shapes):
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


def _category(dtype):
    if dtype.is_floating_point:
        return _FLOAT
    return 0 if dtype == _core.bool else 1


def result_type(a, b):
    """The dtype of an operation on two tensors or numbers: dimensions outrank zero-dim tensors, those numbers."""
    defaults = {builtins.bool: _core.bool, builtins.int: _core.int64, builtins.float: _core.float32}
    ranked = []
    for x in (a, b):
        if isinstance(x, _core.Tensor):
            ranked.append((2 if x.dim() else 1, x.dtype))
        else:
            ranked.append((0, defaults[type(x)]))
    (rank_a, type_a), (rank_b, type_b) = ranked
    if rank_a == rank_b:
        return _core.promote_types(type_a, type_b)
    strong, weak = (type_a, type_b) if rank_a > rank_b else (type_b, type_a)
    if _category(weak) > _category(strong):
        return _core.float32 if _category(weak) == _FLOAT and min(rank_a, rank_b) == 0 else weak
    return strong
