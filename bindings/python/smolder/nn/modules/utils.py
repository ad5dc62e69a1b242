"""One number for each dimension, out of one for all."""

from collections.abc import Iterable, MutableMapping
from typing import Any

from smolder._names import listing as _listing

__all__ = ["consume_prefix_in_state_dict_if_present"]
__dir__ = _listing(__name__)


def _ntuple(n, name="parse"):
    def parse(x):
        return tuple(x) if isinstance(x, Iterable) else (x,) * n

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t, n):
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size, defaults):
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    given = zip(out_size, defaults[-len(out_size) :], strict=True)
    return [d if size is None else size for size, d in given]


def consume_prefix_in_state_dict_if_present(state_dict: MutableMapping[str, Any], prefix: str) -> None:
    """Takes a prefix, as "module." of wrapped models, from the names in a state dict, in place."""
    metadata = getattr(state_dict, "_metadata", {})
    for key in [k for k in state_dict if k.startswith(prefix)]:
        state_dict[key[len(prefix) :]] = state_dict.pop(key)
    for key in [k for k in metadata if k and (k == prefix.replace(".", "") or k.startswith(prefix))]:
        metadata[key[len(prefix) :]] = metadata.pop(key)
