"""Schemas of functions, made of their annotations."""

from __future__ import annotations

import collections.abc
import inspect
import types
import typing
from collections.abc import Callable, Iterable
from typing import Any

from smolder import _core

_PLAIN = {
    _core.Tensor: "Tensor",
    int: "SymInt",
    float: "float",
    bool: "bool",
    str: "str",
    int | float | bool: "Scalar",
    _core.dtype: "ScalarType",
}
_IN_LISTS = {_core.Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool"}


def _refuse(what, given):
    known = ", ".join(sorted({*_PLAIN.values(), *(f"{v}[]" for v in _IN_LISTS.values())}))
    raise ValueError(f"infer_schema(func): {what} has unsupported type {given}. The valid types are: {known}")


def _type_of(annotation, what, given=None):
    given = annotation if given is None else given
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        rest = [a for a in args if a is not type(None)]
        if len(rest) == 1 and len(args) == 2:
            return _type_of(rest[0], what, given) + "?"
        if set(rest) == {int, float, bool}:
            return "Scalar" if len(args) == 3 else "Scalar?"
    listed = origin in (list, collections.abc.Sequence) or (origin is tuple and args[1:] == (...,))
    if listed and args[0] in _IN_LISTS:
        return _IN_LISTS[args[0]] + "[]"
    _refuse(what, given)


def _result_of(annotation):
    if annotation is None or annotation is type(None):
        return "()"
    if annotation is _core.Tensor:
        return "Tensor"
    if typing.get_origin(annotation) is tuple:
        parts = typing.get_args(annotation)
        if all(p is _core.Tensor for p in parts):
            return "(" + ", ".join(["Tensor"] * len(parts)) + ")"
    raise ValueError(f"infer_schema(func): Return has unsupported type {annotation}. The valid types are: Tensor, "
                     "tuple[Tensor, ...] with its length spelled out, None")  # fmt: skip


def _default(value):
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, _core.dtype):
        return str(value).rpartition(".")[2]
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_default(v) for v in value) + "]"
    return repr(value)


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str], op_name: str | None = None
) -> str:
    """The schema that a function's annotations say; `mutates_args` names the arguments that it writes to."""
    signature = inspect.signature(prototype_function)
    try:
        hints = typing.get_type_hints(prototype_function)
    except NameError as e:
        raise ValueError(f"infer_schema(func): an annotation can't be read: {e}") from None
    if mutates_args == "unknown":
        raise NotImplementedError('mutates_args="unknown" is not supported: name the arguments that are written to')
    written = {mutates_args} if isinstance(mutates_args, str) else set(mutates_args)
    parts, starred, letter = [], False, 0
    for name, p in signature.parameters.items():
        if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD):
            raise ValueError(
                f"infer_schema(func): We do not support positional-only, varargs, or varkwargs: {name} in {signature}"
            )
        if p.annotation is p.empty:
            raise ValueError(
                f"infer_schema(func): Parameter {name} must have a type annotation. Got func with signature {signature})"
            )
        if p.kind is p.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        kind = _type_of(hints[name], f"Parameter {name}")
        if name in written:
            if not kind.startswith("Tensor") or kind.endswith("]"):
                raise ValueError(
                    f"infer_schema(func): Parameter {name} is in mutates_args but only Tensors can be mutated"
                )
            kind = kind.replace("Tensor", f"Tensor(a{letter}!)")
            letter += 1
        default = "" if p.default is p.empty else f"={_default(p.default)}"
        parts.append(f"{kind} {name}{default}")
    unknown = written - set(signature.parameters)
    if unknown:
        raise ValueError(
            f"infer_schema(func): {unknown} in mutates_args were not found in the custom op's signature. "
            f"mutates_args should contain the names of all args that the custom op mutates"
        )
    if signature.return_annotation is signature.empty:
        raise ValueError(
            f"infer_schema(func): No return type annotation was provided. Please add one. Got func with signature {signature})"
        )
    return f"{op_name or ''}({', '.join(parts)}) -> {_result_of(hints['return'])}"
