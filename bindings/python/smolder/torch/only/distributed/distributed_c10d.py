"""torch.distributed.distributed_c10d: names that libraries import, which have newer ones."""

from smolder._names import listing as _listing
from smolder.distributed import get_global_rank as _get_global_rank  # noqa: F401

__all__: list[str] = []
__dir__ = _listing(__name__)
