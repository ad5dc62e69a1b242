"""Tensors that several processes hold together: DTensor, its placements, and modules made of them."""

from smolder._names import listing as _listing
from smolder.distributed.tensor import parallel, placement_types
from smolder.distributed.tensor._api import (
    DTensor,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from smolder.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "parallel",
    "placement_types",
    "rand",
    "randn",
    "zeros",
]
__dir__ = _listing(__name__)
