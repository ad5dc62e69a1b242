"""As smolder.nn.normalization, with the base that programs ask isinstance about."""

from smolder._names import listing as _listing
from smolder.nn.normalization import BatchNorm1d as BatchNorm1d
from smolder.nn.normalization import BatchNorm2d as BatchNorm2d
from smolder.nn.normalization import BatchNorm3d as BatchNorm3d
from smolder.nn.normalization import SyncBatchNorm as SyncBatchNorm
from smolder.nn.normalization import _BatchNorm as _BatchNorm
from smolder.nn.normalization import _NormBase as _NormBase

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"]
__dir__ = _listing(__name__)
