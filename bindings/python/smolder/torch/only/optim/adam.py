"""The function of torch.optim.adam that makes one step on lists of tensors."""

from smolder._names import listing as _listing
from smolder.torch.only.optim._functional import adam

__all__ = ["adam"]
__dir__ = _listing(__name__)
