"""Sequences of different lengths in one tensor: padded, or packed time by time, the longest first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

from smolder import _core
from smolder._creation import arange, as_tensor, tensor
from smolder._names import listing as _listing
from smolder._typing import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip
__dir__ = _listing(__name__)


class _Fields(NamedTuple):
    data: _core.Tensor
    batch_sizes: _core.Tensor
    sorted_indices: _core.Tensor | None
    unsorted_indices: _core.Tensor | None


class PackedSequence(_Fields):
    """Rows of sequences time by time: batch_sizes[t] of them at time t, in the order that sorted_indices says."""

    __slots__ = ()

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> Self:
        if batch_sizes is None:
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on CUDA."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Whether the data is in memory that is pinned."""
        return self.data.is_pinned()

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """The data with another dtype, or all on another device, as Tensor.to."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        orders = (None if x is None else x.to(data.device) for x in (self.sorted_indices, self.unsorted_indices))
        return type(self)(data, self.batch_sizes, *orders)

    def float(self) -> Self:
        """The data in float32."""
        return self.to(_core.float32)

    def double(self) -> Self:
        """The data in float64."""
        return self.to(_core.float64)

    def half(self) -> Self:
        """The data in float16."""
        return self.to(_core.float16)

    def cpu(self) -> Self:
        """The sequences on the CPU."""
        return self.to("cpu")

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """The sequences on CUDA, as Tensor.cuda."""
        return self if self.is_cuda else self.to(self.data.cuda(*args, **kwargs).device)

    def pin_memory(self) -> Self:
        """The sequences with their data in pinned memory."""
        return type(self)(self.data.pin_memory(), *self[1:])


def invert_permutation(permutation: Tensor | None) -> Any:
    """Where each number of a permutation is; None of None."""
    if permutation is None:
        return None
    return _core.zeros_like(permutation).scatter(0, permutation, arange(permutation.numel(), device=permutation.device))


def _lengths(lengths):
    return [int(n) for n in (lengths.tolist() if isinstance(lengths, _core.Tensor) else lengths)]


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Packs sequences [T, B, ...] (or [B, T, ...]) of lengths; without enforce_sorted it sorts them, the longest first."""
    if not isinstance(lengths, _core.Tensor):
        lengths = tensor(list(lengths), dtype=_core.int64)
    if lengths.dim() != 1:
        raise RuntimeError(f"lengths should be 1D, but got {lengths.dim()}D tensor")
    given = _lengths(lengths)
    order = None
    if not enforce_sorted:
        ranks = sorted(range(len(given)), key=lambda i: -given[i])
        order = tensor(ranks, dtype=_core.int64, device=input.device)
        input = input.index_select(0 if batch_first else 1, order)
        given = [given[i] for i in ranks]
    batch = input.size(0 if batch_first else 1)
    if len(given) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(given)} (batch_size={batch})"
        )
    if not given:
        raise RuntimeError("Cannot pack empty tensors.")
    if given[-1] <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(a < b for a, b in itertools.pairwise(given)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do "
            "not need ONNX exportability."
        )
    times = input.transpose(0, 1) if batch_first else input
    if given[0] > times.size(0):
        raise RuntimeError(
            f"Expected sequences of length {given[0]} at least, but got an input of {times.size(0)} steps"
        )
    sizes = [sum(n > t for n in given) for t in range(given[0])]
    rows = times.reshape((-1, *times.shape[2:]))
    at = tensor([t * batch + b for t, n in enumerate(sizes) for b in range(n)], dtype=_core.int64, device=input.device)
    return PackedSequence(rows.index_select(0, at), tensor(sizes, dtype=_core.int64), order)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The inverse: sequences [T, B, ...] (or [B, T, ...]) with padding_value beyond their ends, and their lengths."""
    sizes = _lengths(sequence.batch_sizes)
    steps, batch, data = len(sizes), sizes[0], sequence.data
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length "
                "of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
        steps = total_length
    padding = data.new_full((1, *data.shape[1:]), padding_value)
    nothing, at, begin = data.size(0), [], 0
    for t in range(steps):
        n = sizes[t] if t < len(sizes) else 0
        at += [*range(begin, begin + n), *[nothing] * (batch - n)]
        begin += n
    rows = _core.cat([data, padding], 0).index_select(0, tensor(at, dtype=_core.int64, device=data.device))
    out = rows.reshape((steps, batch, *data.shape[1:]))
    out = out.transpose(0, 1) if batch_first else out
    lengths = tensor([sum(n > b for n in sizes) for b in range(batch)], dtype=_core.int64)
    if sequence.unsorted_indices is not None:
        out = out.index_select(0 if batch_first else 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu()]
    return out, lengths


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Sequences [T_i, ...] stacked, with padding_value at the end of shorter ones, or at their beginning."""
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"padding_side should be one of 'left', 'right', but got {padding_side!r}")
    if not isinstance(sequences, _core.Tensor) and not hasattr(sequences, "__iter__"):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    parts = list(sequences)
    if not parts:
        raise RuntimeError("received an empty list of sequences")
    longest = max(p.size(0) for p in parts)
    padded = []
    for p in parts:
        if p.shape[1:] != parts[0].shape[1:]:
            raise RuntimeError(
                f"pad_sequence: expected sequences that differ in their first dimension alone, got shapes "
                f"{tuple(parts[0].shape)} and {tuple(p.shape)}"
            )
        p = p.to(parts[0].dtype)
        missing = longest - p.size(0)
        low, high = [0] * p.dim(), [0] * p.dim()
        (low if padding_side == "left" else high)[0] = missing
        padded.append(_core.constant_pad(p, low, high, padding_value) if missing else p)
    return _core.stack(padded, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False
) -> list[Tensor]:
    """The sequences that pad_sequence stacked."""
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    return [row[:n] for row, n in zip(rows.unbind(0), _lengths(as_tensor(lengths)), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Packs sequences [T_i, ...]."""
    lengths = [v.size(0) for v in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences that pack_sequence packed."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
