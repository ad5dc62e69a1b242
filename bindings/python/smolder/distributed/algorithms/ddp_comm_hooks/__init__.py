"""Hooks for DistributedDataParallel.register_comm_hook."""

from smolder._names import listing as _listing
from smolder.distributed.algorithms.ddp_comm_hooks import default_hooks

__all__ = ["default_hooks"]
__dir__ = _listing(__name__)
