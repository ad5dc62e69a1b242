"""Arguments of calls by the signatures of what is called."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing

if TYPE_CHECKING:
    from smolder._typing import Module

__all__ = ["ArgsKwargsPair", "get_signature_for_torch_op", "normalize_function", "normalize_module"]
__dir__ = _listing(__name__)


class ArgsKwargsPair(typing.NamedTuple):
    """Arguments: positional and named."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def get_signature_for_torch_op(op: Callable[..., Any], return_schemas: bool = False) -> Any:
    """The signatures that a function in C has, from what its binding says of itself; None of one that has none."""
    from smolder import _call_errors

    texts = getattr(op, "__nb_signature__", None)
    if not texts:
        return (None, None) if return_schemas else None
    found = []
    for entry in texts:
        signature = _call_errors._Signature(entry[0], False)
        defaults = iter(entry[2] or ()) if len(entry) > 2 else iter(())
        found.append(_as_python(signature, defaults))
    return (found, None) if return_schemas else found


def _as_python(signature, defaults):
    parameters, empty = [], inspect.Parameter.empty
    for a in signature.arguments:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        if not a.positional:
            kind = inspect.Parameter.KEYWORD_ONLY
        elif not a.keyword:
            kind = inspect.Parameter.POSITIONAL_ONLY
        parameters.append(inspect.Parameter(a.name, kind, default=empty if a.required else next(defaults, None)))
    return inspect.Signature(parameters)


def _bound(signature, args, kwargs, only_kwargs):
    """The arguments by a signature, with defaults; None where they do not fit, or it takes any number of them."""
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    out_args, out_kwargs = [], {}
    for i, p in enumerate(signature.parameters.values()):
        if p.kind not in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
            return None
        if p.kind is p.KEYWORD_ONLY or only_kwargs or i >= len(args):
            out_kwargs[p.name] = bound.arguments[p.name]
        else:
            out_args.append(bound.arguments[p.name])
    return ArgsKwargsPair(tuple(out_args), out_kwargs)


def normalize_function(
    target: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    arg_types: tuple[Any, ...] | None = None,
    kwarg_types: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a function by its signature, with its defaults; None where more than one fits, or none."""
    kwargs = kwargs or {}
    try:
        signatures = [inspect.signature(inspect.unwrap(target))]
    except (TypeError, ValueError):
        signatures = get_signature_for_torch_op(target) or []
    found = [b for s in signatures if (b := _bound(s, args, kwargs, normalize_to_only_use_kwargs)) is not None]
    return found[0] if len(found) == 1 else None


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """The arguments of a call of a module by the signature of its forward, with its defaults."""
    try:
        module = root.get_submodule(target)
    except AttributeError:
        raise RuntimeError(
            f"Tried to normalize arguments for module target {target} but root did not have that target!"
        ) from None
    signature = inspect.signature(inspect.unwrap(module.forward))
    return _bound(signature, args, kwargs or {}, normalize_to_only_use_kwargs)
