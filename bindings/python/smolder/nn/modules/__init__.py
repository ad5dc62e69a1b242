"""The modules under the name of torch's package of them, for programs that import from there."""

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
