"""As smolder.nn.conv, with the base that programs ask isinstance about."""

from smolder.nn.conv import *  # noqa: F403
from smolder.nn.conv import _ConvNd as _ConvNd
