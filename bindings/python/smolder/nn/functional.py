"""Functions that layers are made of: rows of the op table under torch's names and defaults."""

from smolder import _core
from smolder._core import gelu, linear, scaled_dot_product_attention, sigmoid, softplus, tanh
from smolder._core import layer_norm as _layer_norm
from smolder._core import one_hot as _one_hot
from smolder._core import pad as _pad
from smolder.nn import _activations, _losses, _resample, _spatial
from smolder.nn._activations import *  # noqa: F403
from smolder.nn._activations import written as _result
from smolder.nn._losses import *  # noqa: F403
from smolder.nn._resample import *  # noqa: F403
from smolder.nn._spatial import *  # noqa: F403

__all__ = [
    "dropout",
    "embedding",
    "gelu",
    "layer_norm",
    "linear",
    "normalize",
    "one_hot",
    "pad",
    "scaled_dot_product_attention",
    "sigmoid",
    "softplus",
    "tanh",
]
__all__ += _activations.__all__ + _losses.__all__ + _resample.__all__ + _spatial.__all__


def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes elements with probability p and scales the rest by 1 / (1 - p)."""
    if p < 0.0 or p > 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    return _result(input, _core.dropout(input, p, training), inplace)


def _first(result):
    """Ops that keep values for their gradient return those too."""
    return result[0] if isinstance(result, tuple) else result


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Normalises over the last dimensions to mean 0 and variance 1, then scales and shifts."""
    return _first(_layer_norm(input, tuple(normalized_shape), weight, bias, eps))


def check_embedding(max_norm, scale_grad_by_freq, sparse):
    """Raises NotImplementedError for what torch's embeddings do and these don't."""
    for name, given in (("max_norm", max_norm), ("scale_grad_by_freq", scale_grad_by_freq), ("sparse", sparse)):
        if given not in (None, False):
            raise NotImplementedError(f"embedding: {name} is not supported")


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of weight, by number. Row padding_idx gets no gradient. norm_type goes with max_norm, which is not supported."""
    check_embedding(max_norm, scale_grad_by_freq, sparse)
    if padding_idx is not None:
        rows = weight.size(0)
        if not -rows <= padding_idx < rows:
            raise AssertionError("Padding_idx must be within num_embeddings")
        padding_idx %= rows
    return _core.embedding(weight, input, -1 if padding_idx is None else padding_idx)


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Vectors along dim over their p-norms, which count as eps at least."""
    if out is not None:
        raise NotImplementedError("normalize: out is not supported")
    return _core.normalize(input, p, dim, eps)


def one_hot(tensor, num_classes=-1):
    """1 at each index, 0 elsewhere."""
    return _one_hot(tensor, num_classes)


def pad(input, pad, mode="constant", value=None):
    """Adds elements around the last dimensions: (left, right, top, bottom, ...); of a number, or of the input."""
    if mode not in ("constant", "reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    return _pad(input, tuple(pad), mode, 0.0 if value is None else value)
