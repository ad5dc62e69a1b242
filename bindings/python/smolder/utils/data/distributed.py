"""A sampler of one part of a data set, as each of several processes reads one."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from smolder import _core
from smolder._names import listing as _listing
from smolder.utils.data.sampler import Sampler

if TYPE_CHECKING:
    from smolder._typing import Dataset

__all__ = ["DistributedSampler"]
__dir__ = _listing(__name__)


class DistributedSampler(Sampler[int]):
    """Every num_replicas-th sample from `rank` on, in an order that depends on seed and epoch alone.

    Both are those of the default group, unless given. So that all parts are as long, the first samples come twice where they have to, or with drop_last the last not at all.
    """

    dataset: Dataset[Any]
    num_replicas: int
    rank: int
    epoch: int
    drop_last: bool
    shuffle: bool
    seed: int
    num_samples: int
    total_size: int

    def __init__(
        self,
        dataset: Dataset[Any],
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from smolder import distributed

            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.drop_last, self.shuffle, self.seed = 0, drop_last, shuffle, seed
        n = len(dataset)
        left_out = num_replicas if drop_last and n % num_replicas else 0
        self.num_samples = math.ceil((n - left_out) / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        n = len(self.dataset)
        if self.shuffle:
            generator = _core.Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = _core.randperm(n, generator=generator).tolist()
        else:
            order = list(range(n))
        if self.total_size > n:
            order = (order * math.ceil(self.total_size / n))[: self.total_size]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Says which epoch comes next: with shuffle each has an order of its own."""
        self.epoch = epoch
