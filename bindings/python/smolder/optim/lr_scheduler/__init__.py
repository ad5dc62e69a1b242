"""Learning-rate schedules: they set `lr` of each group, a run-time number, so nothing is compiled.

Rates follow from the ones before by torch's formulas, in torch's order of operations, so they are the same numbers.
"""

from smolder._names import listing as _listing
from smolder.optim.lr_scheduler._base import LRScheduler, _LRScheduler
from smolder.optim.lr_scheduler._formulas import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from smolder.optim.lr_scheduler._plateau import ReduceLROnPlateau
from smolder.optim.lr_scheduler._several import ChainedScheduler, SequentialLR
from smolder.optim.lr_scheduler._waves import CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR

__all__ = ["ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR"]
__all__ += ["ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR"]
__all__ += ["PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR"]
__dir__ = _listing(__name__)

for _kind in (_LRScheduler, *(globals()[_name] for _name in __all__)):
    _kind.__module__ = __name__  # as torch's, by which a pickle finds them
