"""Softmax over many classes, of which most are rare."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from smolder import _core
from smolder._names import listing as _listing
from smolder._typing import DType, Tensor
from smolder.nn import functional as F
from smolder.nn.container import ModuleList, Sequential
from smolder.nn.layers import Linear
from smolder.nn.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]
__dir__ = _listing(__name__)


class _ASMoutput(NamedTuple):
    """The result of AdaptiveLogSoftmaxWithLoss: the log-probability of each target, and minus their mean."""

    output: _core.Tensor
    loss: _core.Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Log-probabilities of targets among classes that are sorted by how frequent they are (Grave and others 2017).

    The classes below the first cutoff are the head's; those from each cutoff to the next are a cluster, which the head has
    as one class more, and whose own layer is the narrower the rarer they are. A cluster's layer sees the rows whose target
    is in it, so targets are read: that ends the step.

    Args:
        in_features: The size of a row.
        n_classes: How many classes there are.
        cutoffs: Where clusters begin, ascending, from 1 to n_classes - 1.
        div_value: By how much each cluster's layer is narrower than the last.
        head_bias: Whether the head has a bias.
    """

    in_features: int
    n_classes: int
    cutoffs: list[int]
    div_value: float
    head_bias: bool
    shortlist_size: int
    n_clusters: int
    head_size: int
    head: Linear
    tail: ModuleList

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: Any = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        ascending = all(a < b for a, b in itertools.pairwise(cutoffs)) and all(int(c) == c for c in cutoffs)
        if not ascending or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing order, where each value "
                "is between 1 and n_classes-1"
            )
        self.in_features, self.n_classes, self.div_value, self.head_bias = in_features, n_classes, div_value, head_bias
        self.cutoffs = [*cutoffs, n_classes]
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, bias=head_bias, device=device, dtype=dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(itertools.pairwise(self.cutoffs)):
            width = int(in_features // (div_value ** (i + 1)))
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, device=device, dtype=dtype),
                    Linear(width, high - low, bias=False, device=device, dtype=dtype),
                )
            )

    def reset_parameters(self) -> None:
        """Draws all weights anew."""
        self.head.reset_parameters()
        for i2h, h2o in self.tail:
            i2h.reset_parameters()
            h2o.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        """input_: [N, in_features] or [in_features]; target_: [N] or [], classes as integers."""
        _check(input_, target_)
        single = target_.dim() == 0
        input, target = (input_.unsqueeze(0), target_.unsqueeze(0)) if single else (input_, target_)
        output, place, used = input.new_zeros(target.size(0)), target, 0
        for i, (low, high) in enumerate(itertools.pairwise([0, *self.cutoffs])):
            rows = _core.logical_and(target >= low, target < high).nonzero().squeeze(1)
            used += rows.numel()
            if i == 0 or not rows.numel():
                continue
            within = F.log_softmax(self.tail[i - 1](input.index_select(0, rows)), dim=1)
            of_target = within.gather(1, (target.index_select(0, rows) - low).unsqueeze(1)).squeeze(1)
            output = output.index_copy(0, rows, of_target)
            place = place.index_fill(0, rows, self.shortlist_size + i - 1)
        if used != target.size(0):
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{target.min().item()}, {target.max().item()}] were found. "
            )
        output = output + F.log_softmax(self.head(input), dim=1).gather(1, place.unsqueeze(1)).squeeze(1)
        return _ASMoutput(output.squeeze(0) if single else output, (-output).mean())

    def _get_full_log_prob(self, input: Tensor, head_output: Tensor) -> Tensor:
        """The log-probabilities of all classes, from what `head` gives."""
        head = F.log_softmax(head_output, dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, layer in enumerate(self.tail):
            parts.append(F.log_softmax(layer(input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return _core.cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes: [N, n_classes] of [N, in_features]."""
        return self._get_full_log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """The most likely class of each row: [N] of [N, in_features]. Clusters are computed where the head says one."""
        head_output = self.head(input)
        output = head_output.argmax(dim=1)
        rows = (output >= self.shortlist_size).nonzero().squeeze(1)
        if not rows.numel():
            return output
        full = self._get_full_log_prob(input.index_select(0, rows), head_output.index_select(0, rows))
        return output.index_copy(0, rows, full.argmax(dim=1))


def _check(input: Tensor, target: Tensor) -> None:
    if target.dim() == 1:
        if input.size(0) != target.size(0):
            raise RuntimeError("Input and target should have the same size in the batch dimension.")
        if input.dim() != 2:
            raise RuntimeError("1D target tensor expects 2D input tensors, but found inputs with size", input.size())
    elif target.dim() == 0:
        if input.dim() != 1:
            raise RuntimeError("0D target tensor expects 1D input tensors, but found inputs with size", input.size())
    else:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
