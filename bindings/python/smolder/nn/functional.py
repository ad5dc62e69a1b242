"""Functions that layers are made of: rows of the op table under torch's names and defaults."""

import warnings

from smolder import _core
from smolder._core import (
    elu as _elu,
)
from smolder._core import (
    gelu,
    linear,
    scaled_dot_product_attention,
    sigmoid,
    softplus,
    tanh,
)
from smolder._core import (
    l1_loss as _l1_loss,
)
from smolder._core import (
    layer_norm as _layer_norm,
)
from smolder._core import (
    leaky_relu as _leaky_relu,
)
from smolder._core import (
    mse_loss as _mse_loss,
)
from smolder._core import (
    nll_loss as _nll_loss,
)
from smolder._core import (
    one_hot as _one_hot,
)
from smolder._core import (
    pad as _pad,
)
from smolder._core import (
    relu as _relu,
)
from smolder._core import (
    silu as _silu,
)

__all__ = [
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "dropout",
    "elu",
    "embedding",
    "gelu",
    "l1_loss",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "one_hot",
    "pad",
    "relu",
    "scaled_dot_product_attention",
    "sigmoid",
    "silu",
    "softmax",
    "softplus",
    "tanh",
]


def _axis(dim, input):
    if dim is None:  # torch's rule for calls without dim
        return 0 if input.dim() in (0, 1, 3) else 1
    return dim


def relu(input, inplace=False):
    """max(x, 0)."""
    return input.relu_() if inplace else _relu(input)


def _result(input, out, inplace):
    """out; or input, into which it was written."""
    if not inplace or out is input:
        return out
    _core.assign(input, out)
    return input


def silu(input, inplace=False):
    """x * sigmoid(x)."""
    return _result(input, _silu(input), inplace)


def elu(input, alpha=1.0, inplace=False):
    """x where positive, else alpha * (exp(x) - 1)."""
    return _result(input, _elu(input, alpha), inplace)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x where positive, else negative_slope * x."""
    return _result(input, _leaky_relu(input, negative_slope), inplace)


def softmax(input, dim=None, _stacklevel=3, dtype=None):
    """exp(x) / sum(exp(x)) along dim."""
    return _core.softmax(input, _axis(dim, input), dtype=dtype)


def log_softmax(input, dim=None, _stacklevel=3, dtype=None):
    """log(softmax(x)) along dim."""
    return _core.log_softmax(input, _axis(dim, input), dtype=dtype)


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


def cross_entropy(
    input,
    target,
    weight=None,
    size_average=None,
    ignore_index=-100,
    reduce=None,
    reduction="mean",
    label_smoothing=0.0,
):
    """Negative log-likelihood of class indices under softmax(input). Classes are dimension 1, or 0 of a vector."""
    reduction = _asked(reduction, size_average, reduce)
    if target.dtype.is_floating_point:
        return _cross_entropy_of_probabilities(input, target, weight, reduction, label_smoothing)
    out = _core.cross_entropy(
        input,
        target,
        weight,
        ignore_index=ignore_index,
        reduction=_reduction(reduction),
        label_smoothing=label_smoothing,
    )
    return _first(out)


def _cross_entropy_of_probabilities(input, target, weight, reduction, label_smoothing):
    if tuple(input.shape) != tuple(target.shape):
        raise RuntimeError(
            f"cross_entropy: a floating point target holds probabilities and must have the shape of input "
            f"{tuple(input.shape)}, got {tuple(target.shape)}"
        )
    axis = 0 if input.dim() == 1 else 1
    classes = input.size(axis)
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / classes
    terms = _core.log_softmax(input, axis) * target
    if weight is not None:
        terms = terms * weight.reshape([classes if i == axis else 1 for i in range(input.dim())])
    loss = -terms.sum(axis)
    if _reduction(reduction) == "none":
        return loss
    return loss.sum() / max(loss.numel(), 1) if reduction == "mean" else loss.sum()


def _reduction(reduction):
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def _asked(reduction, size_average, reduce):
    """The reduction that is asked for, by its name or by the two parameters that torch had before."""
    if size_average is None and reduce is None:
        return reduction
    averaged, reduced = size_average in (None, True), reduce in (None, True)
    reduction = "none" if not reduced else "mean" if averaged else "sum"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.", stacklevel=3
    )
    return reduction


def _weighted(terms, weight, reduction):
    """A loss whose terms have weights: the mean is over their sum."""
    if weight.shape != terms.shape:
        raise ValueError("Weights and input must have the same size.")
    terms = terms * weight
    if _reduction(reduction) == "none":
        return terms
    return terms.sum() / weight.sum() if reduction == "mean" else terms.sum()


def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Squared differences, or their mean or sum."""
    reduction = _asked(reduction, size_average, reduce)
    if weight is None:
        return _mse_loss(input, target, reduction=_reduction(reduction))
    return _weighted(_mse_loss(input, target, reduction="none"), weight, reduction)


def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Absolute differences, or their mean or sum."""
    reduction = _asked(reduction, size_average, reduce)
    if weight is None:
        return _l1_loss(input, target, reduction=_reduction(reduction))
    return _weighted(_l1_loss(input, target, reduction="none"), weight, reduction)


def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
    """Negative of the input at each class index. Classes are dimension 1, or 0 of a vector."""
    reduction = _asked(reduction, size_average, reduce)
    return _first(_nll_loss(input, target, weight, ignore_index=ignore_index, reduction=_reduction(reduction)))


def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """Binary cross-entropy of sigmoid(input) against probabilities, safe for large inputs."""
    reduction = _asked(reduction, size_average, reduce)
    return _core.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction=_reduction(reduction))


def one_hot(tensor, num_classes=-1):
    """1 at each index, 0 elsewhere."""
    return _one_hot(tensor, num_classes)


def pad(input, pad, mode="constant", value=None):
    """Adds elements around the last dimensions: (left, right, top, bottom, ...)."""
    if mode != "constant":
        raise NotImplementedError(f"pad: mode {mode!r} is not supported; supported is 'constant'")
    return _pad(input, tuple(pad), mode, 0.0 if value is None else value)
