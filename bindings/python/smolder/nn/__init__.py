"""Layers, losses and what models are built from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from smolder._names import listing as _listing
from smolder.nn import (
    activation,
    adaptive,
    attention,
    conv,
    functional,
    grad,
    hooks,
    init,
    layers,
    loss,
    normalization,
    padding,
    pooling,
    recurrent,
    resampling,
    transformer_stack,
    utils,
)
from smolder.nn.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmax2d,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from smolder.nn.adaptive import AdaptiveLogSoftmaxWithLoss
from smolder.nn.container import ModuleDict, ModuleList, ParameterList, Sequential
from smolder.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from smolder.nn.layers import (
    AlphaDropout,
    Bilinear,
    Dropout,
    Embedding,
    EmbeddingBag,
    FeatureAlphaDropout,
    Flatten,
    Identity,
    Linear,
    Unflatten,
)
from smolder.nn.loss import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CosineSimilarity,
    CrossEntropyLoss,
    CTCLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    NLLLoss,
    PairwiseDistance,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
    TripletMarginWithDistanceLoss,
)
from smolder.nn.module import Module
from smolder.nn.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    CrossMapLRN2d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
    LayerNorm,
    LocalResponseNorm,
    RMSNorm,
    SyncBatchNorm,
)
from smolder.nn.padding import (
    CircularPad1d,
    CircularPad2d,
    CircularPad3d,
    ConstantPad1d,
    ConstantPad2d,
    ConstantPad3d,
    ReflectionPad1d,
    ReflectionPad2d,
    ReflectionPad3d,
    ReplicationPad1d,
    ReplicationPad2d,
    ReplicationPad3d,
    ZeroPad1d,
    ZeroPad2d,
    ZeroPad3d,
)
from smolder.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
from smolder.nn.parameter_dict import ParameterDict
from smolder.nn.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FractionalMaxPool2d,
    FractionalMaxPool3d,
    LPPool1d,
    LPPool2d,
    LPPool3d,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    MaxUnpool1d,
    MaxUnpool2d,
    MaxUnpool3d,
)
from smolder.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase
from smolder.nn.resampling import (
    ChannelShuffle,
    Fold,
    PixelShuffle,
    PixelUnshuffle,
    Unfold,
    Upsample,
    UpsamplingBilinear2d,
    UpsamplingNearest2d,
)
from smolder.nn.transformer import MultiheadAttention, TransformerEncoderLayer
from smolder.nn.transformer_stack import Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder

from smolder.nn import modules  # isort: skip - made of the others

if TYPE_CHECKING:
    from smolder.nn import parallel as parallel
    from smolder.nn.lazy import *  # noqa: F403
    from smolder.nn.parallel import DataParallel as DataParallel

__all__ = ["Buffer", "DataParallel", "Module", "ModuleDict", "ModuleList", "MultiheadAttention", "Parameter"]
__all__ += ["ParameterDict", "ParameterList", "Sequential", "TransformerEncoderLayer"]
__all__ += ["UninitializedBuffer", "UninitializedParameter"]
__all__ += ["attention", "functional", "hooks", "init", "modules", "parallel", "utils"]
__all__ += activation.__all__
__all__ += adaptive.__all__
__all__ += conv.__all__
__all__ += layers.__all__
__all__ += loss.__all__
__all__ += normalization.__all__
__all__ += padding.__all__
__all__ += pooling.__all__
__all__ += recurrent.__all__
__all__ += resampling.__all__
__all__ += transformer_stack.__all__
__dir__ = _listing(__name__)


def __getattr__(name: str) -> Any:
    """Imports rarely used names when they are asked for."""
    if name in ("parallel", "DataParallel"):
        import smolder.nn.parallel as parallel

        return parallel if name == "parallel" else parallel.DataParallel
    if name.startswith("Lazy"):
        from smolder.nn import lazy

        if name in lazy.__all__:
            return getattr(lazy, name)
    from smolder._missing import missing

    raise missing(__name__, name)
