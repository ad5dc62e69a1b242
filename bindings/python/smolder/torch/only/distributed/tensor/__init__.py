"""How tensors are laid out over processes in torch.distributed.tensor: values that libraries name and compare.

Nothing is laid out so: the functions and tensors that take them are refused.
"""

from smolder._names import listing as _listing
from smolder.torch.only.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
__dir__ = _listing(__name__)
