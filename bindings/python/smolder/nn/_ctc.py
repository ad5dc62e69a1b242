"""The loss of connectionist temporal classification: over all ways to spread a target over time."""

from __future__ import annotations

from smolder import _core
from smolder._autocast import listed
from smolder._creation import arange
from smolder._typing import Tensor

__all__ = ["ctc_loss"]

_NEVER = -1e30  # the logarithm of what can't be: finite, so that differences of two are no nan


def _numbers(given, name, batch):
    out = [int(n) for n in (given.tolist() if isinstance(given, _core.Tensor) else given)]
    if len(out) != batch:
        raise RuntimeError(f"{name} must be of size batch_size")
    return out


def _padded(targets, lengths):
    """Targets as rows [N, S], out of rows, or out of all of them end to end."""
    longest = max(lengths, default=0)
    if targets.dim() == 2:
        if targets.size(1) < longest:
            raise RuntimeError(
                f"Expected tensor to have size at least {longest} at dimension 1, but got size {tuple(targets.shape)}"
            )
        return targets[:, :longest].long()
    if targets.size(0) != sum(lengths):
        raise RuntimeError(
            f"Expected targets of {sum(lengths)} elements, the sum of target_lengths, got {targets.size(0)}"
        )
    begins = [sum(lengths[:i]) for i in range(len(lengths))]
    at = [[b + i if i < n else 0 for i in range(longest)] for b, n in zip(begins, lengths, strict=True)]
    return targets.long()[targets.new_tensor(at, dtype=_core.int64).reshape((len(lengths), longest))]


def _shifted(alpha, by):
    return _core.constant_pad(alpha[:, : alpha.size(1) - by], [0, by], [0, 0], _NEVER)


def _losses(log_probs, targets, input_lengths, target_lengths, blank):
    steps, batch, _ = log_probs.shape
    labels = _padded(targets, target_lengths)
    states = 2 * labels.size(1) + 1
    # A blank before each label, and one after the last.
    blanks = labels.new_full((batch, labels.size(1)), blank)
    extended = _core.stack([blanks, labels], 2).reshape((batch, states - 1))
    extended = _core.cat([extended, labels.new_full((batch, 1), blank)], 1)
    emitted = log_probs.gather(2, extended.unsqueeze(0).expand((steps, batch, states)))
    emitted = emitted.clamp(min=_NEVER)
    # A blank may be left out between two labels that differ.
    before = _core.constant_pad(extended[:, : max(states - 2, 0)], [0, min(2, states)], [0, 0], blank)[:, :states]
    skips = _core.logical_and(extended != blank, extended != before)
    place = arange(states, device=labels.device).unsqueeze(0)
    alpha = emitted[0].masked_fill(place > 1, _NEVER)
    ends = labels.new_tensor(input_lengths).unsqueeze(1)
    for t in range(1, steps):
        ways = [alpha, _shifted(alpha, 1)] if states > 1 else [alpha]
        if states > 2:
            ways.append(_shifted(alpha, 2).masked_fill(_core.logical_not(skips), _NEVER))
        after = (_core.stack(ways, 0).logsumexp(0) + emitted[t]).clamp(min=_NEVER)
        alpha = _core.where(ends > t, after, alpha)
    last = labels.new_tensor(target_lengths).unsqueeze(1) * 2
    on_blank = alpha.gather(1, last).squeeze(1)
    on_label = alpha.gather(1, (last - 1).clamp(min=0)).squeeze(1)
    on_label = on_label.masked_fill(last.squeeze(1) == 0, _NEVER)
    return -_core.stack([on_blank, on_label], 0).logsumexp(0)


@listed("ctc_loss")
def ctc_loss(
    log_probs: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Loss of log probabilities [T, N, C] with targets [N, S], or one after the other, of so many steps and labels each.

    Lengths are read; tensors of them that are computed end the step. Targets that no steps suffice for have an infinite
    loss, or none with zero_infinity.
    """
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not a valid value for reduction")
    batched = log_probs.dim() == 3
    if not batched:
        log_probs, targets = log_probs.unsqueeze(1), targets.unsqueeze(0) if targets.dim() == 1 else targets
        input_lengths, target_lengths = _listed(input_lengths), _listed(target_lengths)
    steps, batch, classes = log_probs.shape
    if log_probs.numel() == 0:
        raise RuntimeError("log_probs tensor must not be empty")
    if not 0 <= blank < classes:
        raise RuntimeError("blank must be in label range")
    inputs = _numbers(input_lengths, "input_lengths", batch)
    wanted = _numbers(target_lengths, "target_lengths", batch)
    if any(not 0 <= n <= steps for n in inputs):
        raise RuntimeError(f"Expected input_lengths to have value at most {steps}, but got {max(inputs)}")
    losses = _losses(log_probs, targets, inputs, wanted, blank)
    never = losses > -_NEVER / 2
    losses = losses.masked_fill(never, 0.0 if zero_infinity else float("inf"))
    if reduction == "sum":
        return losses.sum()
    if reduction == "mean":
        return (losses / losses.new_tensor([max(n, 1) for n in wanted])).mean()
    return losses if batched else losses.squeeze(0)


def _listed(given):
    """A length of one sequence, as a list."""
    if isinstance(given, _core.Tensor):
        return given.reshape(-1).tolist()
    return [given] if isinstance(given, int) else list(given)
