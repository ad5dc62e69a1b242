"""The function of torch.optim.radam that makes one step on lists of tensors."""

from smolder._names import listing as _listing
from smolder.torch.only.optim._functional import radam

__all__ = ["radam"]
__dir__ = _listing(__name__)
