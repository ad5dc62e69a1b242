"""The function of torch.optim.adadelta that makes one step on lists of tensors."""

from smolder._names import listing as _listing
from smolder.torch.only.optim._functional import adadelta

__all__ = ["adadelta"]
__dir__ = _listing(__name__)
