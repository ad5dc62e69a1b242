"""The function of torch.optim.adagrad that makes one step on lists of tensors."""

from smolder._names import listing as _listing
from smolder.torch.only.optim._functional import adagrad

__all__ = ["adagrad"]
__dir__ = _listing(__name__)
