"""The function of torch.optim.nadam that makes one step on lists of tensors."""

from smolder._names import listing as _listing
from smolder.torch.only.optim._functional import nadam

__all__ = ["nadam"]
__dir__ = _listing(__name__)
