"""The function of torch.optim.rmsprop that makes one step on lists of tensors."""

from smolder._names import listing as _listing
from smolder.torch.only.optim._functional import rmsprop

__all__ = ["rmsprop"]
__dir__ = _listing(__name__)
