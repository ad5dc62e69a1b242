"""Losses of several classes, and of triplets under any distance, as functions that are made of other ops."""

from __future__ import annotations

from collections.abc import Callable

from smolder import _core
from smolder._autocast import listed
from smolder._creation import zeros
from smolder._typing import Tensor
from smolder.nn._losses import asked_reduction, checked_reduction

__all__ = [
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
    "triplet_margin_with_distance_loss",
]  # fmt: skip


def _reduced(loss, reduction, size_average=None, reduce=None):
    reduction = checked_reduction(asked_reduction(reduction, size_average, reduce))
    return loss.mean() if reduction == "mean" else loss.sum() if reduction == "sum" else loss


@listed("multi_margin_loss")
def multi_margin_loss(
    input: Tensor,
    target: Tensor,
    p: int = 1,
    margin: float = 1.0,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """By how much scores of other classes fail to be margin below that of the target: powers 1 or 2, over classes."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    scores, of = (input, target) if input.dim() > 1 else (input.unsqueeze(0), target.reshape(1))
    if of.shape != scores.shape[:1]:
        raise RuntimeError(f"inconsistent target size, expected {scores.size(0)} but got {list(of.shape)}")
    at = of.unsqueeze(1)
    over = (margin - scores.gather(1, at) + scores).clamp(min=0.0).pow(p)
    if weight is not None:
        over = over * weight[of].unsqueeze(1)
    loss = over.scatter(1, at, 0.0).sum(1) / scores.size(1)
    return _reduced(loss if input.dim() > 1 else loss.squeeze(0), reduction, size_average, reduce)


@listed("multilabel_margin_loss")
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """By how much scores of other classes fail to be 1 below those of the targets: classes up to the first -1."""
    if input.shape != target.shape:
        raise RuntimeError(f"inconsistent target size: {list(target.shape)} for input of size: {list(input.shape)}")
    scores, of = (input, target) if input.dim() > 1 else (input.unsqueeze(0), target.unsqueeze(0))
    valid = (of < 0).long().cumsum(1) == 0
    at = _core.where(valid, of, 0)
    is_target = zeros(tuple(scores.shape), dtype=_core.int64, device=scores.device)
    is_target = is_target.scatter_add(1, at, valid.long()) > 0
    over = (1.0 - scores.gather(1, at).unsqueeze(2) + scores.unsqueeze(1)).clamp(min=0.0)
    counted = valid.unsqueeze(2) & ~is_target.unsqueeze(1)
    loss = _core.where(counted, over, 0.0).sum([1, 2]) / scores.size(1)
    return _reduced(loss if input.dim() > 1 else loss.squeeze(0), reduction, size_average, reduce)


def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Binary cross entropies of scores of classes, averaged over these."""
    loss = -(target * _core.logsigmoid(input) + (1 - target) * _core.logsigmoid(-input))
    if weight is not None:
        loss = loss * weight
    return _reduced(loss.sum(-1) / input.size(-1), reduction, size_average, reduce)


def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """triplet_margin_loss with a distance that is given."""
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError(
            f"The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {anchor.dim()}D, positive {positive.dim()}D, and negative {negative.dim()}D inputs"
        )
    distance = distance_function or _core.pairwise_distance
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _core.minimum(far, distance(positive, negative))
    return _reduced((near - far + margin).clamp(min=0.0), reduction)
