"""As smolder.nn.loss, with the bases that programs derive theirs from."""

from smolder.nn.loss import *  # noqa: F403
from smolder.nn.loss import _Loss as _Loss
from smolder.nn.loss import _WeightedLoss as _WeightedLoss
