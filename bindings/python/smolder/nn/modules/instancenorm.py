"""As smolder.nn.normalization, for programs that import from there."""

from smolder._names import listing as _listing
from smolder.nn.normalization import InstanceNorm1d as InstanceNorm1d
from smolder.nn.normalization import InstanceNorm2d as InstanceNorm2d
from smolder.nn.normalization import InstanceNorm3d as InstanceNorm3d

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]
__dir__ = _listing(__name__)
