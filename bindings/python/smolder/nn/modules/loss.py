"""As smolder.nn.loss, with the bases that programs derive theirs from."""

from smolder._names import listing as _listing
from smolder.nn import loss as _all
from smolder.nn.loss import *  # noqa: F403
from smolder.nn.loss import _Loss as _Loss
from smolder.nn.loss import _WeightedLoss as _WeightedLoss

__all__ = _all.__all__
__dir__ = _listing(__name__)
