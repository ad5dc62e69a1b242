"""How a tensor lies on one dimension of a mesh: in parts, whole on each process, or as terms of a sum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from smolder._names import listing as _listing

if TYPE_CHECKING:
    from smolder.distributed.device_mesh import DeviceMesh

__all__ = ["DTensorSpec", "Partial", "Placement", "Replicate", "Shard"]
__dir__ = _listing(__name__)


class Placement:
    """Base of the three."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each process has a part; of the given dimension, if there is one."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each process has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether each process has a term; of the given reduction, if there is one."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Each process has a part of dimension `dim`, as chunk() makes parts: the last ones may be shorter, or empty."""

    dim: int

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """How long the part of a process is, and where it begins."""
        chunk = -(-curr_local_size // num_chunks)
        begin = min(curr_local_size, rank * chunk)
        return min(curr_local_size, begin + chunk) - begin, begin

    def at(self, dim: int) -> Shard:
        """The same of another dimension."""
        return replace(self, dim=dim)

    def __repr__(self) -> str:
        return f"Shard(dim={self.dim})"

    def __str__(self) -> str:
        return f"S({self.dim})"


@dataclass(frozen=True)
class _StridedShard(Shard):
    """A part of a part: a later dimension of the mesh shards the same dimension first, into split_factor parts."""

    split_factor: int = 1

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"


@dataclass(frozen=True)
class Replicate(Placement):
    """Each process has all of it."""

    def __repr__(self) -> str:
        return "Replicate()"

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Partial(Placement):
    """The value is the sum, or what reduce_op says ("avg", "max", "min", "product"), of what the processes have."""

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


@dataclass(frozen=True)
class DTensorSpec:
    """Where a tensor lies, and its shape as a whole."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: tuple[int, ...]

    @property
    def ndim(self) -> int:
        """How many dimensions the tensor has."""
        return len(self.shape)

    def order(self) -> list[int]:
        """The dimensions of the mesh in the order in which they divide the tensor."""
        strided = [d for d, p in enumerate(self.placements) if isinstance(p, _StridedShard)]
        return [d for d in range(len(self.placements)) if d not in strided] + strided

    def parts(self, coordinate: tuple[int, ...]) -> list[tuple[int, int]]:
        """In each dimension, where the part of a process begins and how long it is."""
        out = [(0, n) for n in self.shape]
        for d in self.order():
            p = self.placements[d]
            if isinstance(p, Shard):
                begin, n = out[p.dim]
                size, offset = Shard.local_shard_size_and_offset(n, self.mesh.size(d), coordinate[d])
                out[p.dim] = begin + offset, size
        return out

    def local_shape(self) -> tuple[int, ...]:
        """The shape of this process's part."""
        return tuple(size for _, size in self.parts(self.coordinate()))

    def coordinate(self) -> tuple[int, ...]:
        """This process's place in the mesh."""
        found = self.mesh.get_coordinate()
        if found is None:
            raise NotImplementedError("a DTensor of a mesh that this process is not in is not supported")
        return found

    def size_before(self, d: int) -> list[int]:
        """The shape of this process's part before dimension `d` of the mesh divides it."""
        sizes = list(self.shape)
        for at in self.order():
            p = self.placements[at]
            if at == d:
                return sizes
            if isinstance(p, Shard):
                sizes[p.dim] = Shard.local_shard_size_and_offset(
                    sizes[p.dim], self.mesh.size(at), self.coordinate()[at]
                )[0]
        raise ValueError(f"dimension {d} of a mesh of {len(self.placements)}")
