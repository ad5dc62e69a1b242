"""The names of types that libraries import from torch.utils.data.dataloader for their annotations."""

from collections.abc import Callable
from typing import Any

from smolder._names import listing as _listing

__all__: list[str] = []
__dir__ = _listing(__name__)

_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]
