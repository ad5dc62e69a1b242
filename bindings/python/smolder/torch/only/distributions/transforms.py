"""torch.distributions.transforms: what libraries import of it that is no transform."""

from __future__ import annotations

from typing import TYPE_CHECKING

from smolder._names import listing as _listing
from smolder.distributions.transforms import SigmoidTransform

if TYPE_CHECKING:
    from smolder._typing import Tensor

__all__: list[str] = []
__dir__ = _listing(__name__)


def _clipped_sigmoid(x: Tensor) -> Tensor:
    return SigmoidTransform()._call(x)
