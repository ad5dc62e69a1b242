"""The function of torch.optim.sgd that makes one step on lists of tensors."""

from smolder._names import listing as _listing
from smolder.torch.only.optim._functional import sgd

__all__ = ["sgd"]
__dir__ = _listing(__name__)
