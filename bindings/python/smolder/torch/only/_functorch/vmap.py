"""torch._functorch.vmap: parts of vmap that libraries put together themselves."""

from __future__ import annotations

from typing import Any

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.func._vmap import _name as _get_name  # noqa: F401 - libraries import it
from smolder.func._vmap import _outside, vmap
from smolder.utils._pytree import broadcast_to_and_flatten as _broadcast_to_and_flatten  # noqa: F401
from smolder.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["Tensor", "tree_flatten", "tree_unflatten", "vmap"]
__dir__ = _listing(__name__)


def __getattr__(name: str) -> Any:
    if name == "Tensor":
        return _core.Tensor
    raise AttributeError(name)


def _add_batch_dim(tensor: Tensor, in_dim: int, vmap_level: int) -> Tensor:
    """An element of a batch along a dimension, at the level that runs."""
    return _core._vmap_spread(tensor, in_dim)


def _maybe_remove_batch_dim(
    name: str, batched_output: Any, vmap_level: int, batch_size: int, out_dim: int | None
) -> Any:
    """A result as it is outside of the level, with the batch along a dimension."""

    def of() -> None: ...

    of.__name__ = name
    return _outside(batched_output, out_dim, of)
