"""How a tensor would be laid out over processes: copied, divided along a dimension, or as parts of a sum."""

from __future__ import annotations

import dataclasses

from smolder._names import listing as _listing

__all__ = ["Partial", "Placement", "Replicate", "Shard"]
__dir__ = _listing(__name__)


class Placement:
    """Layout of a DTensor."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether it divides the tensor, along `dim` where that is given."""
        return isinstance(self, Shard) and (dim is None or self.dim == dim)

    def is_replicate(self) -> bool:
        """Whether each process has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether what processes have is still to be reduced."""
        return isinstance(self, Partial) and (reduce_op is None or self.reduce_op == reduce_op)


@dataclasses.dataclass(frozen=True)
class Replicate(Placement):
    """Each process has all of it."""

    def __str__(self) -> str:
        return "R"


@dataclasses.dataclass(frozen=True)
class Shard(Placement):
    """Each process has a piece along a dimension."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclasses.dataclass(frozen=True)
class _StridedShard(Shard):
    """The same, of a piece that was divided before."""

    split_factor: int = dataclasses.field(kw_only=True)


@dataclasses.dataclass(frozen=True)
class Partial(Placement):
    """Each process has an operand of what they reduce to."""

    reduce_op: str = "sum"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"
