"""The function of torch.optim.adamax that makes one step on lists of tensors."""

from smolder._names import listing as _listing
from smolder.torch.only.optim._functional import adamax

__all__ = ["adamax"]
__dir__ = _listing(__name__)
