"""Ways to reduce gradients."""

from smolder._names import listing as _listing
from smolder.distributed.algorithms import ddp_comm_hooks

__all__ = ["ddp_comm_hooks"]
__dir__ = _listing(__name__)
