"""A sampler of one part of a data set, as each of several processes reads one."""

import math

from smolder import _core
from smolder.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler):
    """Every num_replicas-th sample from `rank` on, in an order that depends on seed and epoch alone.

    So that all parts are as long, the first samples come twice where they have to, or with drop_last the last not at all.
    """

    def __init__(self, dataset, num_replicas=None, rank=None, shuffle=True, seed=0, drop_last=False):
        if num_replicas is None or rank is None:  # which a group of processes would say
            raise RuntimeError("Requires distributed package to be available")
        if rank >= num_replicas or rank < 0:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.epoch, self.drop_last, self.shuffle, self.seed = 0, drop_last, shuffle, seed
        n = len(dataset)
        left_out = num_replicas if drop_last and n % num_replicas else 0
        self.num_samples = math.ceil((n - left_out) / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self):
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

    def __len__(self):
        return self.num_samples

    def set_epoch(self, epoch):
        """Says which epoch comes next: with shuffle each has an order of its own."""
        self.epoch = epoch
