"""Cross-entropy of logits whose classes are divided: no process has all of a row."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from smolder import _core
from smolder._names import listing as _listing
from smolder.distributed.tensor import _redistribute as moves
from smolder.distributed.tensor._api import DTensor, plain
from smolder.distributed.tensor._dispatch import mesh_of, moved, placed
from smolder.distributed.tensor.placement_types import Partial, Replicate, Shard

__all__ = ["loss_parallel"]
__dir__ = _listing(__name__)

_within = 0


@contextlib.contextmanager
def loss_parallel() -> Iterator[None]:
    """Within it, cross_entropy takes logits whose classes are divided as they are. The backward pass belongs there too.

    Elsewhere it brings the classes together first.
    """
    global _within
    _within += 1
    try:
        yield
    finally:
        _within -= 1


def cross_entropy(func: Any, args: Any, kwargs: Any) -> Any:
    """The rule of cross_entropy: as it is of the whole, or of divided classes."""
    names = ("input", "target", "weight")
    given = dict(zip(names, args, strict=False)) | kwargs
    x, target = given["input"], given["target"]
    mesh = mesh_of(args)
    axis = 0 if x.dim() == 1 else 1
    divided = [d for d, p in enumerate(x._spec.placements) if p == Shard(axis)]
    whole = [Replicate()] * mesh.ndim
    labels = plain(moved(target, whole)) if isinstance(target, DTensor) else target
    if not _within or len(divided) != 1:
        logits = plain(moved(x, whole))
        weight = given.get("weight")
        rest = {k: v for k, v in given.items() if k not in names}
        out = func(logits, labels, plain(weight), **rest)
        first = out[0] if isinstance(out, tuple) else out
        return placed(first, mesh, whole, first.shape)
    if given.get("weight") is not None or given.get("label_smoothing", 0.0):
        raise NotImplementedError("loss_parallel: cross_entropy with weight or label_smoothing is not supported")
    d = divided[0]
    x = moved(x, [p if e == d else Replicate() for e, p in enumerate(x._spec.placements)])
    begin, size = x._spec.parts(x._spec.coordinate())[axis]
    losses, counted = _of_divided(
        plain(x), labels, axis, begin, size, mesh.get_group(d), given.get("ignore_index", -100)
    )
    reduction = given.get("reduction", "mean")
    out = losses if reduction == "none" else losses.sum()
    if reduction == "mean":
        out = out / counted.to(out.dtype).sum()
    return placed(out, mesh, whole, out.shape)


def _of_divided(logits, target, axis, begin, size, group, ignored):
    """Each row's loss, on all processes. The largest logit, the sum of exponentials and the logit of the label are each
    one reduction of a number a row."""
    counted = target != ignored
    x = logits if logits.dtype == _core.float64 else logits.float()
    if size:
        largest = x.detach().amax(axis, True)
    else:
        largest = _core.full([*x.shape[:axis], 1, *x.shape[axis + 1 :]], -float("inf"), dtype=x.dtype)
    largest = moves.all_reduced(largest, group, "max")
    shifted = x - largest
    total = moves.changed(shifted.exp().sum(axis), Partial(), Replicate(), 0, group)
    inside = (target >= begin) & (target < begin + size) & counted
    if size:
        at = (target - begin).clamp(0, size - 1).unsqueeze(axis)
        own = shifted.gather(axis, at).squeeze(axis).masked_fill(~inside, 0.0)
    else:
        own = shifted.sum(axis)
    label = moves.changed(own, Partial(), Replicate(), 0, group)
    losses = (total.log() - label).masked_fill(~counted, 0.0)
    return losses.to(logits.dtype), counted
