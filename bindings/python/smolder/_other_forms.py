"""Calls that torch takes in another form too: Python's types where a dtype is, `zeros(3, dtype=int)`, and of a few ops, with
a warning, numbers before tensors: `x.add_(-lr, g)`, `addmm(beta, x, alpha, a, b)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder import _core
from smolder._warn import warn

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_DTYPES = {bool: _core.bool, int: _core.int64, float: _core.float64, complex: _core.complex128}
# The number that stands before tensors, by op: what it is named where it stands after them.
_BEFORE = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
_PRODUCTS = {"addmm", "addmv", "addr", "addbmm", "baddbmm"}  # of beta * self + alpha * a @ b
_warned: set[str] = set()


def as_dtype(value: Any) -> Any:
    """The dtype that one of Python's types stands for; anything else as it is."""
    return _DTYPES.get(value, value) if type(value) is type else value


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call in such a form; NotImplemented where it is none."""
    typed, named = [as_dtype(v) for v in args], {k: as_dtype(v) for k, v in kwargs.items()}
    if any(a is not b for a, b in zip((*args, *kwargs.values()), (*typed, *named.values()), strict=True)):
        return function(*typed, **named)
    return _in_order(function, args, kwargs)


def _in_order(function, args, kwargs):
    name = function.__name__.removesuffix("_of")
    op = name.removesuffix("_")
    if kwargs.keys() - {"out"} or not (op in _BEFORE or op in _PRODUCTS):
        return NotImplemented
    found = _first(op, args) if op in _BEFORE else _product(args, type(function).__name__ == "nb_method")
    if found is None:
        return NotImplemented
    tensors, numbers, order = found
    if name not in _warned:
        _warned.add(name)
        warn(
            f"This overload of {name} is deprecated:\n\t{name}({order})\nGive tensors first, and numbers by their names"
        )
    return function(*tensors, **numbers, **kwargs)


def _is_number(value):
    return isinstance(value, int | float | complex) or (
        not isinstance(value, _core.Tensor) and hasattr(value, "__float__")
    )


def _fits(args, kinds):
    """Whether the arguments are numbers where `kinds` has n, and tensors elsewhere."""
    return len(args) == len(kinds) and all(
        _is_number(value) if kind == "n" else isinstance(value, _core.Tensor)
        for value, kind in zip(args, kinds, strict=True)
    )


def _first(op, args):
    named = _BEFORE[op]
    if not _fits(args, "tnt" if named == "alpha" else "tntt"):
        return None
    after = "Tensor other" if named == "alpha" else "Tensor tensor1, Tensor tensor2"
    return (args[0], *args[2:]), {named: args[1]}, f"Number {named}, {after}"


def _product(args, is_method):
    if is_method and _fits(args, "tntt"):
        return (args[0], *args[2:]), {"beta": args[1]}, "Number beta, Tensor, Tensor"
    if is_method and _fits(args, "tnntt"):
        return (args[0], *args[3:]), {"beta": args[1], "alpha": args[2]}, "Number beta, Number alpha, Tensor, Tensor"
    if _fits(args, "nttt"):
        return args[1:], {"beta": args[0]}, "Number beta, Tensor input, Tensor, Tensor"
    if _fits(args, "ntntt"):
        return (
            (args[1], *args[3:]),
            {"beta": args[0], "alpha": args[2]},
            "Number beta, Tensor input, Number alpha, Tensor, Tensor",
        )
    return None
