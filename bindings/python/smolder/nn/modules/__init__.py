"""The modules under the name of torch's package of them, for programs that import from there."""

from smolder._names import listing as _listing
from smolder.nn import activation as _activation
from smolder.nn import container as _container
from smolder.nn import conv as _conv
from smolder.nn import layers as _layers
from smolder.nn import loss as _loss
from smolder.nn import normalization as _normalization
from smolder.nn import pooling as _pooling
from smolder.nn.activation import *  # noqa: F403
from smolder.nn.container import *  # noqa: F403
from smolder.nn.conv import *  # noqa: F403
from smolder.nn.layers import *  # noqa: F403
from smolder.nn.loss import *  # noqa: F403
from smolder.nn.module import Module as Module
from smolder.nn.modules import batchnorm as batchnorm
from smolder.nn.modules import conv as conv
from smolder.nn.modules import instancenorm as instancenorm
from smolder.nn.modules import loss as loss
from smolder.nn.modules import utils as utils
from smolder.nn.normalization import *  # noqa: F403
from smolder.nn.pooling import *  # noqa: F403

__all__ = ["Module"]
__all__ += _activation.__all__ + _container.__all__ + _conv.__all__ + _layers.__all__ + _loss.__all__
__all__ += _normalization.__all__ + _pooling.__all__
__dir__ = _listing(__name__)
