"""Names of torch.nn.functional that libraries import, for products of scaled float8, which Smolder does not have."""

import enum
from collections.abc import Callable
from typing import Any

from smolder._names import listing as _listing
from smolder.cuda._refused import refused

__all__ = ["ScalingType", "SwizzleType", "grouped_mm", "scaled_grouped_mm", "scaled_mm"]
__dir__ = _listing(__name__)


class ScalingType(enum.Enum):
    """Elements that share a scale."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.Enum):
    """How scales lie in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


_NO_SCALES = "float8 is for storage here, and no product takes scales"
grouped_mm: Callable[..., Any] = refused("torch.nn.functional.grouped_mm", "multiply the groups one by one")
scaled_grouped_mm: Callable[..., Any] = refused("torch.nn.functional.scaled_grouped_mm", _NO_SCALES)
scaled_mm: Callable[..., Any] = refused("torch.nn.functional.scaled_mm", _NO_SCALES)
