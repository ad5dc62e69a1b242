"""The names of types that libraries import from torch.utils.data.dataloader for their annotations."""

from collections.abc import Callable
from typing import Any

_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]
