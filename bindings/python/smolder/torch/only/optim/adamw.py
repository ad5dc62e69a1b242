"""The function of torch.optim.adamw that makes one step on lists of tensors."""

from smolder._names import listing as _listing
from smolder.torch.only.optim._functional import adamw

__all__ = ["adamw"]
__dir__ = _listing(__name__)
