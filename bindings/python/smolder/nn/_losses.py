"""Losses as functions: rows of the op table under torch's names and defaults, reductions of old and new."""

from __future__ import annotations

from smolder import _core
from smolder._autocast import listed
from smolder._core import cosine_similarity, pairwise_distance
from smolder._functions import broadcast_tensors
from smolder._typing import Tensor
from smolder._warn import warn

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cosine_similarity",
    "cross_entropy", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss",
    "margin_ranking_loss", "mse_loss", "nll_loss", "pairwise_distance", "poisson_nll_loss", "smooth_l1_loss",
    "soft_margin_loss", "triplet_margin_loss",
]  # fmt: skip


def checked_reduction(reduction: str) -> str:
    """reduction, if it is one."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    return reduction


def asked_reduction(reduction: str, size_average: bool | None, reduce: bool | None) -> str:
    """The reduction that is asked for, by its name or by the two parameters that torch had before."""
    if size_average is None and reduce is None:
        return reduction
    averaged, reduced = (v is None or bool(v) for v in (size_average, reduce))
    reduction = "none" if not reduced else "mean" if averaged else "sum"
    warn(f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.")
    return reduction


def _chosen(reduction, size_average, reduce):
    return checked_reduction(asked_reduction(reduction, size_average, reduce))


def _of_sizes(input, target):
    """Both, one of no dimensions in the shape of the other, so that it promotes as that does."""
    if input.shape != target.shape:
        warn(
            f"Using a target size ({target.shape}) that is different to the input size ({input.shape}). This will likely "
            "lead to incorrect results due to broadcasting. Please ensure they have the same size."
        )
        if not (input.dim() and target.dim()):
            return broadcast_tensors(input, target)
    return input, target


def _first(result):
    """Ops that keep values for their gradient return those too."""
    return result[0] if isinstance(result, tuple) else result


# -- over classes


def _classes(target):
    """Class indices, which may be bytes."""
    return target.long() if target.dtype == _core.uint8 else target


@listed("cross_entropy")
def cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Negative log-likelihood of class indices, or probabilities, under softmax(input). Classes are dimension 1, or 0 of
    a vector."""
    reduction = _chosen(reduction, size_average, reduce)
    if target.dtype.is_floating_point:
        if ignore_index >= 0:
            raise RuntimeError("ignore_index is not supported for floating point target")
        return _cross_entropy_of_probabilities(input, target, weight, reduction, label_smoothing)
    out = _core.cross_entropy(
        input, _classes(target), weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )
    return _first(out)


def _cross_entropy_of_probabilities(input, target, weight, reduction, label_smoothing):
    if input.shape != target.shape:
        raise RuntimeError(
            f"cross_entropy: a floating point target holds probabilities and must have the shape of input "
            f"{tuple(input.shape)}, got {tuple(target.shape)}"
        )
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    axis = 0 if input.dim() == 1 else 1
    classes = input.size(axis)
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / max(classes, 1)
    terms = _core.log_softmax(input, axis) * target
    if weight is not None:
        if tuple(weight.shape) != (classes,):
            raise RuntimeError(
                f"cross_entropy: weight tensor should be defined either for all {classes} classes or no classes but got "
                f"weight tensor of shape: {list(weight.shape)}"
            )
        terms = terms * weight.reshape([classes if i == axis else 1 for i in range(input.dim())])
    loss = -terms.sum(axis)
    if reduction == "none":
        return loss
    return loss.sum() / loss.numel() if reduction == "mean" else loss.sum()


def nll_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative of the input at each class index. Classes are dimension 1, or 0 of a vector."""
    reduction = _chosen(reduction, size_average, reduce)
    return _first(_core.nll_loss(input, _classes(target), weight, ignore_index=ignore_index, reduction=reduction))


# -- of differences


def _weighted(terms, weight, reduction):
    """A loss whose terms have weights: the mean is over their sum."""
    if weight.shape != terms.shape:
        raise ValueError("Weights and input must have the same size.")
    terms = terms * weight
    if reduction == "none":
        return terms
    return terms.sum() / weight.sum() if reduction == "mean" else terms.sum()


def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Squared differences, or their mean or sum."""
    input, target = _of_sizes(input, target)
    reduction = _chosen(reduction, size_average, reduce)
    if weight is None:
        return _core.mse_loss(input, target, reduction=reduction)
    return _weighted(_core.mse_loss(input, target, reduction="none"), weight, reduction)


def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """Absolute differences, or their mean or sum."""
    input, target = _of_sizes(input, target)
    reduction = _chosen(reduction, size_average, reduce)
    if weight is None:
        return _core.l1_loss(input, target, reduction=reduction)
    return _weighted(_core.l1_loss(input, target, reduction="none"), weight, reduction)


def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """Differences, squared where they are below beta and else absolute, or their mean or sum."""
    input, target = _of_sizes(input, target)
    return _core.smooth_l1_loss(input, target, reduction=_chosen(reduction, size_average, reduce), beta=beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Half the squared differences where they are below delta and else delta times the absolute, or mean or sum."""
    input, target = _of_sizes(input, target)
    checked_reduction(reduction)
    if weight is None:
        return _core.huber_loss(input, target, reduction=reduction, delta=delta)
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    terms = _core.huber_loss(input, target, reduction="none", delta=delta) * weight
    return terms if reduction == "none" else terms.sum() if reduction == "sum" else terms.mean()


# -- of probabilities


def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross-entropy of probabilities. What lies outside [0, 1] is not found out: that would end the step."""
    return _core.binary_cross_entropy(input, target, weight, reduction=_chosen(reduction, size_average, reduce))


def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """Binary cross-entropy of sigmoid(input) against probabilities, safe for large inputs."""
    reduction = _chosen(reduction, size_average, reduce)
    return _core.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction=reduction)


def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """Kullback-Leibler divergence of the distribution whose logarithms input holds from target."""
    if size_average is not None or reduce is not None:
        reduction = asked_reduction(reduction, size_average, reduce)
    elif reduction == "mean":
        warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size.'batchmean' divides "
            "only by the batch size, and aligns with the KL div math definition.'mean' will be changed to behave the "
            "same as 'batchmean' in the next major release."
        )
    if reduction != "batchmean":
        checked_reduction(reduction)
    return _core.kl_div(input, target, reduction=reduction, log_target=log_target)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Negative log-likelihood of targets under normal distributions.

    A negative var raises: ValueError of a float, and of a tensor RuntimeError when the step runs that the loss is of, for
    looking at its elements before would end that step.
    """
    if isinstance(var, float):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = _core.full_like(input.detach(), var)
    elif var.is_floating_point():
        var = _core.checked_deviations(var)
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    return _core.gaussian_nll_loss(input, target, var, full, eps=eps, reduction=reduction)


def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Negative log-likelihood of counts under Poisson distributions with the input, or its exponential, for means."""
    reduction = _chosen(reduction, size_average, reduce)
    return _core.poisson_nll_loss(input, target, log_input, full, eps=eps, reduction=reduction)


# -- of pairs and margins


def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Input where target is 1; where it is -1, how much it is below margin."""
    reduction = _chosen(reduction, size_average, reduce)
    return _core.hinge_embedding_loss(input, target, margin=margin, reduction=reduction)


def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """How much the larger input by target (1: the first, -1: the second) fails to be larger by margin."""
    reduction = _chosen(reduction, size_average, reduce)
    return _core.margin_ranking_loss(input1, input2, target, margin=margin, reduction=reduction)


def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """1 - cosine where target is 1; where it is -1, how much the cosine is above margin."""
    reduction = _chosen(reduction, size_average, reduce)
    return _core.cosine_embedding_loss(input1, input2, target, margin=margin, reduction=reduction)


def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """How much the anchor's distance from positive fails to be below that from negative by margin."""
    reduction = _chosen(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    return _core.triplet_margin_loss(
        anchor, positive, negative, margin=margin, p=float(p), eps=eps, swap=swap, reduction=reduction
    )


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """log(1 + exp(-target * input)), for targets 1 and -1, or the mean or sum."""
    return _core.soft_margin_loss(input, target, reduction=_chosen(reduction, size_average, reduce))
