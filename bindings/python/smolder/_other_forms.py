"""Calls that torch takes in another form too: Python's types where a dtype is, `zeros(3, dtype=int)`, arguments by another name,
`split(tensor=x, split_size_or_sections=2)`, and of a few ops, with a warning, numbers before tensors: `x.add_(-lr, g)`,
`addmm(beta, x, alpha, a, b)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from smolder import _core
from smolder._warn import warn

_DTYPES = {bool: _core.bool, int: _core.int64, float: _core.float64, complex: _core.complex128}
# The number that stands before tensors, by op: what it is named where it stands after them.
_BEFORE = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
_PRODUCTS = {"addmm", "addmv", "addr", "addbmm", "baddbmm"}  # of beta * self + alpha * a @ b
_warned: set[str] = set()
# Arguments that torch's forms of an op name otherwise, by op: a list or a tuple is the second name's where there are two.
_OTHERWISE = {
    "split": {"tensor": ("input",), "split_size_or_sections": ("split_size", "split_sizes")},
    "tensor_split": dict.fromkeys(("indices_or_sections", "tensor_indices_or_sections"), ("sections", "indices")),
    "dropout": {"train": ("training",)},
}
_EITHER = {"split": ("split_size", "split_sizes")}  # torch has one name for both in methods
# Arguments that choose among torch's ways to the same values, with what of them is taken.
_UNREAD: dict[str, dict[str, tuple[Any, ...]]] = {
    "gather": {"sparse_grad": (False,)},
    "embedding": {"sparse": (False,), "scale_grad_by_freq": (False,)},
    "batch_norm": {"cudnn_enabled": (False, True)},
    "instance_norm": {"cudnn_enabled": (False, True)},
    "group_norm": {"cudnn_enabled": (False, True)},
    "layer_norm": {"cudnn_enable": (False, True)},
    "expand": {"implicit": (False, True)},
}


def as_dtype(value: Any) -> Any:
    """The dtype that one of Python's types stands for; anything else as it is."""
    return _DTYPES.get(value, value) if type(value) is type else value


def call(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of a call in such a form; NotImplemented where it is none."""
    typed, named = [as_dtype(v) for v in args], {k: as_dtype(v) for k, v in kwargs.items()}
    if any(a is not b for a, b in zip((*args, *kwargs.values()), (*typed, *named.values()), strict=True)):
        return function(*typed, **named)
    if kwargs:
        renamed = _renamed(function, kwargs)
        if renamed is not None:
            return function(*args, **renamed)
        if "dtype" in kwargs and _name(function) == "norm" and args:
            dtype = kwargs.pop("dtype")
            return function(args[0] if dtype is None else args[0].to(dtype), *args[1:], **kwargs)
    return _in_order(function, args, kwargs)


def factor_named(name: str) -> str | None:
    """The name of the number by which an op in place multiplies its operand, where it has one."""
    return _BEFORE.get(name.removesuffix("_"))


def multiplied(args: tuple[Any, ...], kwargs: dict[str, Any], name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`x.add_(y, alpha=t)` with `y * t` in place of both where t is a tensor: as a number it would end the step."""
    factor = kwargs.get(name)
    if not isinstance(factor, _core.Tensor) or factor.dim() != 0 or factor.requires_grad or not args:
        return args, kwargs
    return (args[0] * factor, *args[1:]), {key: value for key, value in kwargs.items() if key != name}


def _name(function):
    return function.__name__.removesuffix("_of")


def _renamed(function, kwargs):
    """The arguments as the function names them, where some are named as torch names them; None where none is."""
    name = _name(function)
    otherwise, unread, either = _OTHERWISE.get(name, {}), _UNREAD.get(name, {}), _EITHER.get(name)
    out, changed = {}, False
    for key, value in kwargs.items():
        names = otherwise.get(key)
        if names is None and either and key == either[0] and isinstance(value, list | tuple):
            names = either
        if key in unread and value in unread[key]:
            changed = True
            continue
        if names is not None:
            key, changed = names[-1 if isinstance(value, list | tuple) else 0], True
        out[key] = value
    return out if changed else None


def _in_order(function, args, kwargs):
    name = _name(function)
    op = name.removesuffix("_")
    if kwargs.keys() - {"out"} or not (op in _BEFORE or op in _PRODUCTS):
        return NotImplemented
    found = _first(op, args) if op in _BEFORE else _product(args, type(function).__name__ == "nb_method")
    if found is None:
        return NotImplemented
    tensors, numbers, order = found
    numbers = {key: value.item() if isinstance(value, _core.Tensor) else value for key, value in numbers.items()}
    if name not in _warned:
        _warned.add(name)
        warn(
            f"This overload of {name} is deprecated:\n\t{name}({order})\nGive tensors first, and numbers by their names"
        )
    return function(*tensors, **numbers, **kwargs)


def _is_number(value):
    if isinstance(value, _core.Tensor):  # of one element it is a number, where a tensor does not fit
        return value.dim() == 0 and not value.requires_grad
    return isinstance(value, int | float | complex) or hasattr(value, "__float__")


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
