"""torch.distributions.transforms: what libraries import of it that is no transform."""

from __future__ import annotations

from smolder._names import listing as _listing
from smolder._typing import Tensor
from smolder.distributions.transforms import SigmoidTransform

__all__: list[str] = []
__dir__ = _listing(__name__)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    return SigmoidTransform()._call(x)
