"""Modules called with parameters that are not their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._typing import Tensor

if TYPE_CHECKING:
    from smolder._typing import Module


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Mapping[str, Tensor] | Sequence[Mapping[str, Tensor]],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Calls a module with other tensors in the place of its parameters and buffers, which are named by paths.

    With tie_weights a tensor also replaces a parameter that is the same under another name; with strict all have to be
    given, and no others.
    """
    given = parameter_and_buffer_dicts
    if not isinstance(given, dict):
        if not isinstance(given, Sequence):
            raise ValueError(
                f"Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got {type(given)}"
            )
        if not all(isinstance(d, dict) for d in given):
            raise ValueError("Expected all elements of parameter_and_buffer_dicts to be dictionaries")
        repeated = [key for key, n in Counter(k for d in given for k in d).items() if n > 1]
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        given = {k: v for d in given for k, v in d.items()}
    places = _places(module)
    _check_names(given, places, strict)
    replaced = _tied(given, places) if tie_weights else dict(given)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    before = [(*places[name], places[name][0][places[name][1]]) for name in replaced]
    try:
        for name, value in replaced.items():
            members, key = places[name]
            members[key] = value
        return module(*args, **(kwargs or {}))
    finally:
        for members, key, value in before:
            members[key] = value


def _places(module):
    """Where each parameter and buffer is: a dictionary of a module, and its name there."""
    found = {}
    for path, child in module.named_modules(remove_duplicate=False):
        for members in (child._parameters, child._buffers):
            for key in members:
                found[f"{path}.{key}" if path else key] = members, key
    return found


def _check_names(given, places, strict):
    unknown = [name for name in given if name not in places]
    missing = [name for name, (members, key) in places.items() if members[key] is not None and name not in given]
    if strict and (unknown or missing):
        text = "Error(s) in loading state: "
        text += f"unexpected key(s) {', '.join(map(repr, unknown))}; " if unknown else ""
        text += f"missing key(s) {', '.join(map(repr, missing))}" if missing else ""
        raise RuntimeError(text.rstrip("; "))
    if unknown:
        raise AttributeError(f"functional_call: the module has no parameter or buffer named {unknown[0]!r}")
    for name, value in given.items():
        if value is not None and not isinstance(value, _core.Tensor):
            raise TypeError(f"functional_call: {name!r} should be a tensor, got {type(value).__name__}")


def _tied(given, places):
    """The same, with the other names of tensors that have several."""
    groups = {}
    for name, (members, key) in places.items():
        if members[key] is not None:
            groups.setdefault(id(members[key]), []).append(name)
    out = dict(given)
    for names in groups.values():
        values = [given[name] for name in names if name in given]
        if len({id(v) for v in values}) > 1:
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(n for n in names if n in given)}, which are tied. "
                "Consider using tie_weights=False"
            )
        if values:
            out.update(dict.fromkeys(names, values[0]))
    return out


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Parameters and buffers of models that are alike, stacked: two dictionaries."""
    if len(models) == 0:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if len({type(m) for m in models}) > 1:
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    return tuple(
        {k: _stacked([dict(getattr(m, kind)())[k] for m in models], k) for k in dict(getattr(models[0], kind)())}
        for kind in ("named_parameters", "named_buffers")
    )


def _stacked(tensors, name):
    wanted = {t.requires_grad for t in tensors}
    if len(wanted) > 1:
        raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad")
    return _core.stack([t.detach() for t in tensors]).requires_grad_(wanted.pop())
