"""Collectives that are differentiated."""

from smolder._names import listing as _listing
from smolder.distributed.nn import functional
from smolder.distributed.nn.functional import (
    ReduceOp,
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    gather,
    reduce,
    reduce_scatter,
    scatter,
)

__all__ = [
    "ReduceOp",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "functional",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]
__dir__ = _listing(__name__)
