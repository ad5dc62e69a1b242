"""Checks that programs borrow from torch: each raises an error of its kind unless its condition holds."""

from smolder import _core
from smolder._warn import warn


def _check_with(error_type, cond, message):
    """Raises error_type unless cond, a bool; message says why, or is a function that does."""
    if not isinstance(cond, bool):
        if isinstance(cond, _core.Tensor):
            raise TypeError(
                "cond must be a bool, but got a Tensor. For tensor conditions, use smolder._check_tensor_all() to assert "
                "that all elements are true."
            )
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if cond:
        return
    if message is None:
        raise error_type("Expected cond to be True, but got False.")
    raise error_type(str(message() if callable(message) else message))


def _check(cond, message=None):
    """Raises RuntimeError unless cond; message says why, or is a function that does."""
    _check_with(RuntimeError, cond, message)


def _check_is_size(i, message=None, *, max=None):
    """Deprecated: _check(i >= 0), and _check(i <= max)."""
    warn("_check_is_size will be removed in a future release. Use _check(i >= 0) instead.", FutureWarning)
    _check(i >= 0, message)
    if max is not None:
        _check(i <= max, message)


def _check_index(cond, message=None):
    """Raises IndexError unless cond; message says why, or is a function that does."""
    _check_with(IndexError, cond, message)


def _check_value(cond, message=None):
    """Raises ValueError unless cond; message says why, or is a function that does."""
    _check_with(ValueError, cond, message)


def _check_type(cond, message=None):
    """Raises TypeError unless cond; message says why, or is a function that does."""
    _check_with(TypeError, cond, message)


def _check_not_implemented(cond, message=None):
    """Raises NotImplementedError unless cond; message says why, or is a function that does."""
    _check_with(NotImplementedError, cond, message)


def _check_tensor_all(cond, message=None):
    """Raises RuntimeError unless all elements of a tensor of bools are true, which it reads."""
    if not isinstance(cond, _core.Tensor):
        raise TypeError(f"cond must be a tensor, but got {type(cond)}")
    if cond.dtype != _core.bool:
        raise TypeError(f"cond tensor must have dtype smolder.bool, but got {cond.dtype}")
    _check(bool(_core.all(cond).item()), message)


def _assert(condition, message):
    """Raises AssertionError(message) unless condition holds; a tensor's is read."""
    if not condition:
        raise AssertionError(message)
