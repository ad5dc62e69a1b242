"""As smolder.nn.conv, with the base that programs ask isinstance about."""

from smolder._names import listing as _listing
from smolder.nn import conv as _all
from smolder.nn.conv import *  # noqa: F403
from smolder.nn.conv import _ConvNd as _ConvNd
from smolder.nn.conv import _ConvTransposeMixin as _ConvTransposeMixin
from smolder.nn.conv import _ConvTransposeNd as _ConvTransposeNd

__all__ = _all.__all__
__dir__ = _listing(__name__)
